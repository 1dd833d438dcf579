"""Searching files with ripgrep, or with our own small program where there is none: the same answers from both.

Which files are searched is decided by the same rules: not what `.gitignore` names, not version control, packages and
build output, not links, not binary files, nothing over 10 MB. Answers come by path, then by line.

Some files nobody may see into. Which of them were left out is said for all there are and not only for those that
match: otherwise the note would tell, guess by guess, what they hold.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import chain, groupby, islice
from typing import NamedTuple

import msgspec

from bridle.base.path_patterns import PathPattern, anywhere
from bridle.engine.ports import Process, Spawn, SpawnPolicy, TakeOutput
from bridle.engine.tools import SearchSight
from bridle.tools.folder_walk import (
    ALWAYS_SKIPPED,
    BUILD_OUTPUT,
    MAX_DEPTH,
    IgnoreRules,
    walk,
    walk_in_batches,
)
from bridle.tools.search_patterns import SearchPattern

MAX_FILE_BYTES = 10 << 20
MAX_UNSEEN_BYTES = 4 << 20
"""So much of the names of files waits until they are looked at."""
MAX_LOOKED_AT = 2000
"""Of so many files it is found out here which may not be seen; where there are more, by a program."""
HEAD_START_S = 0.1
"""So long a search runs alone: it may find more than it shows, and then nobody asks what was left out."""
GATHER_S, SMALL_BYTES, MAX_SMALL_PIECES = 0.003, 4096, 32
"""Output of which more pieces are small trickles, and is left to gather for so long."""
MAX_UNSORTED = 2000
MAX_UNSORTED_BYTES = 8 << 20
"""So many answers are taken as they come, from all cores, and sorted here; a quarter where they do not trickle. Where
there are more, a search that goes by path, on one core, comes to the first of them sooner."""
SKIPPED = ALWAYS_SKIPPED | BUILD_OUTPUT
_OUR_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "search_program.py")

# fmt: off
RG_OPTIONS = (
    "--no-config", "--no-messages", "--color=never", "--hidden", "--no-require-git",
    "--no-ignore-parent", "--no-ignore-dot", "--no-ignore-exclude", "--no-ignore-global", "--no-follow",
    "--encoding=none", "--no-mmap", "--no-crlf", "--no-multiline", "--engine=default", "--case-sensitive",
    f"--max-depth={MAX_DEPTH}", *(f"--glob=!**/{name}/" for name in sorted(SKIPPED)),
)
# fmt: on

_PLAIN_GLOB = re.compile(r"[\w.*-]*(?:\{[\w.*,-]+\})?[\w.*-]*", re.ASCII)

Start = Callable[[list[str], str, bytes | None, TakeOutput], Awaitable[Process]]
"""Starts a program with arguments, folder, stdin and a callback for its output."""


def program_start(spawn: Spawn, *, env: Mapping[str, str], policy: SpawnPolicy, call_id: str) -> Start:
    """Starts programs of ours as commands are. What they complain about, such as files they may not read, is no
    answer."""

    async def start(argv: list[str], cwd: str, stdin: bytes | None, on_output: TakeOutput) -> Process:
        return await spawn(
            argv,
            cwd=cwd,
            env=env,
            policy=policy,
            call_id=call_id,
            on_output=on_output,
            on_error=lambda _data: None,
            stdin=stdin,
        )

    return start


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for, and where.

    `folder` is resolved; `file` is one name in it, or None for all that is below. `top` contains `folder`; its
    `.gitignore` counts. Of the answers at most `limit` are kept: matching lines, or files if only they count. `sight`
    says what may be seen; None: everything. A file asked for by name was allowed.
    """

    pattern: SearchPattern
    folder: str
    top: str
    file: str | None = None
    glob: str | None = None
    only_files: bool = False
    limit: int
    sight: SearchSight | None = None

    def shows(self, path: str) -> bool:
        return self.sight is None or self.file is not None or self.sight.shows(self.absolute(path))

    def absolute(self, path: str) -> str:
        return f"{self.folder.rstrip('/')}/{path}"


class Match(NamedTuple):
    """A matching line and where in it, in bytes, the match begins; for files only their number of lines."""

    path: str
    number: int
    line: bytes = b""
    start: int = 0


class SearchAnswer(NamedTuple):
    """`more`: there are others behind the last. `left_out`: files that may not be seen; not said if there is more."""

    matches: tuple[Match, ...]
    more: bool
    left_out: tuple[str, ...] = ()


async def search(wanted: Search, start: Start, rg: str | None) -> SearchAnswer:
    """Runs `rg` if there is one and it does its work, and our own program otherwise.

    Raises what `start` raises, and OSError when the folder cannot be read.
    """
    if rg is not None:
        answer = await _ripgrep(wanted, start, rg)
        if answer is not None:
            return answer
    return await _our_program(wanted, start)


async def _ripgrep(wanted: Search, start: Start, rg: str) -> SearchAnswer | None:
    """None when this rg cannot do it, being too old or broken."""
    more = asyncio.Event()
    matching = asyncio.ensure_future(_matching(wanted, start, rg, more))
    left_out = asyncio.ensure_future(_left_out(wanted, start, rg, matching, more))
    try:
        answer = await matching
        return answer if answer is None or answer.more else answer._replace(left_out=await left_out)
    finally:
        matching.cancel()
        left_out.cancel()
        await asyncio.gather(matching, left_out, return_exceptions=True)


async def _left_out(
    wanted: Search, start: Start, rg: str, matching: asyncio.Future[SearchAnswer | None], more: asyncio.Event
) -> tuple[str, ...]:
    """The files ripgrep would search and nobody may see into. Nobody asks if there is more than `matching` shows.

    Where nothing is hidden but by its name, a sandbox hides nothing either, so that we see what ripgrep sees: few
    files are looked at here, and of many only those are listed whose names could be such.
    """
    if wanted.sight is None or wanted.file is not None:
        return ()
    suspects = wanted.sight.suspects
    if suspects is not None:
        few = await asyncio.to_thread(_left_out_of_few, wanted)
        if few is not None:
            return few
        await asyncio.wait((matching,), timeout=HEAD_START_S)
        if more.is_set() and ((answer := await asyncio.shield(matching)) is None or answer.more):
            return ()
    listed = _Listed(wanted)
    argv = [rg, *RG_OPTIONS, *_only(wanted.glob), "--files", "--null"]
    if suspects is not None:  # what `.gitignore` files say counts more, as for the files that are searched
        argv.append("--ignore-file=/dev/stdin")
    stdin = "\n".join(suspects).encode() if suspects is not None else None
    await _run(start, [*argv, "--", "./"], wanted.folder, stdin, listed)
    return await asyncio.to_thread(listed.left_out)


def _left_out_of_few(wanted: Search) -> tuple[str, ...] | None:
    """The same, looked for here; None where there are many files."""
    searched = _Searched(wanted)
    hidden: list[str] = []
    left = MAX_LOOKED_AT
    for above, entries in walk_in_batches(wanted.folder, skipped=SKIPPED, rules=searched.rules):
        left -= 1 + len(entries)
        if left < 0:
            return None
        hidden += [
            path
            for entry in entries
            if not wanted.shows(path := above + entry.name) and entry.is_file(follow_symlinks=False)
        ]
    return _by_path(filter(searched.has, hidden))


async def _matching(wanted: Search, start: Start, rg: str, more: asyncio.Event) -> SearchAnswer | None:
    """What ripgrep finds. `more` is set once it looks like more than is wanted."""
    argv = [
        rg,
        *RG_OPTIONS,
        *_only(wanted.glob if wanted.file is None else None),
        f"--max-filesize={MAX_FILE_BYTES}",
        *(("--count", "--null", "--with-filename") if wanted.only_files else ("--json",)),
    ]
    if wanted.pattern.ignore_case:
        argv.append("--ignore-case")
    pattern = (f"--regexp={wanted.pattern.rust}", "--", f"./{wanted.file or ''}")
    for by_path in (False, True):
        collected = _Collected(wanted, by_path=by_path, more=more)
        order = "--sort=path" if by_path else "--sort=none"
        exit_code = await _run(start, [*argv, order, *pattern], wanted.folder, None, collected)
        if exit_code not in {0, 1, None} and not collected.anything:
            return None
        if by_path or not collected.enough.is_set():
            return await asyncio.to_thread(collected.answer)
    raise AssertionError("a search by path is the last")


def _only(glob: str | None) -> tuple[str, ...]:
    """Options for nothing but the files whose names fit a plain glob. Any other is applied to what was found.

    As a kind of files: with `--glob` ripgrep would also search what `.gitignore` names.
    """
    if glob is None or _PLAIN_GLOB.fullmatch(glob) is None:
        return ()
    return (f"--type-add=wanted:{glob}", "--type=wanted")


async def _our_program(wanted: Search, start: Start) -> SearchAnswer:
    stop = threading.Event()
    try:
        files = _Files([wanted.file], []) if wanted.file else await asyncio.to_thread(_files, wanted, stop)
    finally:
        stop.set()  # a thread cannot be cancelled; it notices
    request = {
        "pattern": wanted.pattern.python,
        "ignore_case": wanted.pattern.ignore_case,
        "count": wanted.only_files,
        "max_file_bytes": MAX_FILE_BYTES,
    }
    stdin = msgspec.json.encode(request) + b"\n" + b"".join(os.fsencode(path) + b"\0" for path in files.seen)
    collected = _Collected(wanted)
    await _run(start, [sys.executable, "-I", "-S", _OUR_PROGRAM], wanted.folder, stdin, collected)
    answer = collected.answer()
    return answer if answer.more else answer._replace(left_out=_by_path(files.left_out))


class _Files(NamedTuple):
    seen: list[str]
    left_out: list[str]


def _files(wanted: Search, stop: threading.Event) -> _Files:
    rules = IgnoreRules(wanted.folder, wanted.top)
    glob = PathPattern(anywhere(wanted.glob)) if wanted.glob is not None else None
    found = walk(wanted.folder, skipped=SKIPPED, pattern=glob, rules=rules, should_stop=stop.is_set)
    files = _Files([], [])
    for path, entry in found:
        if entry.is_file(follow_symlinks=False):
            (files.seen if wanted.shows(path) else files.left_out).append(path)
    return files


def _by_path(paths: Iterable[str]) -> tuple[str, ...]:
    """Folder by folder, as the answers come."""
    return tuple(sorted(paths, key=_parts))


def _parts(path: str) -> list[bytes]:
    return os.fsencode(path).split(b"/")


async def _run(
    start: Start, argv: list[str], folder: str, stdin: bytes | None, collected: _Collected | _Listed
) -> int | None:
    """The exit code; None when it was stopped because we know enough."""
    process = await start(argv, folder, stdin, collected.feed)
    ended = asyncio.ensure_future(process.wait())
    enough = asyncio.ensure_future(collected.enough.wait())
    try:
        await asyncio.wait((ended, enough), return_when=asyncio.FIRST_COMPLETED)
        return None if enough.done() else ended.result()
    finally:
        enough.cancel()
        ended.cancel()
        await process.stop()


class _Text(msgspec.Struct):
    """Text, or bytes that are none, as ripgrep writes them."""

    text: str | None = None
    bytes: str | None = None

    @property
    def raw(self) -> bytes:
        if self.text is not None:
            return self.text.encode()
        import base64  # only needed for what is not UTF-8

        return base64.b64decode(self.bytes or "")


class _Submatch(msgspec.Struct):
    start: int


class _Data(msgspec.Struct):
    path: _Text | None = None
    lines: _Text | None = None
    line_number: int | None = None
    submatches: list[_Submatch] = []
    binary_offset: int | None = None


class _Message(msgspec.Struct):
    type: str
    data: _Data


class _Listed:
    """Reads the names of files, and keeps those of files nobody may see into.

    Names are looked at when somebody wants to know, for a search that finds more than it shows does not.
    """

    def __init__(self, wanted: Search) -> None:
        self.enough = asyncio.Event()
        self._wanted = wanted
        self._unseen = bytearray()
        self._hidden: list[str] = []

    def feed(self, chunk: bytes) -> None:
        self._unseen += chunk
        if len(self._unseen) > MAX_UNSEEN_BYTES:
            self._look()

    def left_out(self) -> tuple[str, ...]:
        self._look()
        searched = _Searched(self._wanted)
        return _by_path(path for path in self._hidden if searched.has(path))

    def _look(self) -> None:
        names, _, rest = bytes(self._unseen).rpartition(b"\0")
        self._unseen[:] = rest
        for name in os.fsdecode(names).split("\0") if names else ():
            path = name.removeprefix("./")
            if not self._wanted.shows(path):
                self._hidden.append(path)


class _Searched:
    """What ripgrep is not told: rules above the folder, and the glob, which for it would undo the rules."""

    def __init__(self, wanted: Search) -> None:
        self._wanted = wanted
        self.rules = IgnoreRules(wanted.folder, wanted.top)
        self._glob = PathPattern(anywhere(wanted.glob)) if wanted.glob is not None else None

    def has(self, path: str) -> bool:
        if self._wanted.file is not None:
            return True
        parts = path.split("/")
        return not self.rules.leaves_out(parts) and (self._glob is None or self._glob.matches(parts))

    def shows(self, path: str) -> bool:
        """Whether it is searched and may be seen."""
        return self.has(path) and self._wanted.shows(path)


class _Collected:
    """Reads what a search writes, until there is enough. `by_path`: in that order; it is brought into it otherwise,
    and only of the first of all it is asked whether they may be shown."""

    def __init__(self, wanted: Search, *, by_path: bool = True, more: asyncio.Event | None = None) -> None:
        self.enough = asyncio.Event()
        self._more = more or asyncio.Event()
        self._by_path = by_path
        self.anything = False
        self._small_pieces = 0
        self._wanted = wanted
        self._searched = _Searched(wanted)
        self._decode = msgspec.json.Decoder(_Message).decode
        self._buffer = bytearray()
        self._kept: list[Match] = []
        self._open: list[Match] = []  # of a file that may turn out to be binary
        self._bytes = 0
        self._passed_over = ""

    def feed(self, chunk: bytes) -> asyncio.Future[None] | None:
        """What comes in many small pieces is left to gather for a moment, which gives its time to the search."""
        self.anything = True
        self._take(chunk)
        if len(chunk) > SMALL_BYTES:
            return None
        self._small_pieces += 1
        if not self._trickles():
            return None
        loop = asyncio.get_running_loop()
        gathered: asyncio.Future[None] = loop.create_future()
        loop.call_later(GATHER_S, gathered.set_result, None)
        return gathered

    def _trickles(self) -> bool:
        return self._small_pieces > MAX_SMALL_PIECES

    def _take(self, chunk: bytes) -> None:
        self._buffer += chunk
        while not self.enough.is_set() and (end := self._buffer.find(b"\n", self._name_end())) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            if self._wanted.only_files:
                self._count(line)
            else:
                self._message(line)

    def answer(self) -> SearchAnswer:
        matches = [*self._kept, *self._open]
        if not self._by_path:
            matches.sort(key=lambda match: _parts(match.path))
            of_files = groupby(matches, key=lambda match: match.path)
            shown = chain.from_iterable(of_file for path, of_file in of_files if self._searched.shows(path))
            matches = list(islice(shown, self._wanted.limit + 1))
        return SearchAnswer(tuple(matches[: self._wanted.limit]), len(matches) > self._wanted.limit)

    def _name_end(self) -> int:
        """Where to look for the end of the line: behind the name, which may have line ends itself."""
        return max(self._buffer.find(b"\0"), 0) if self._wanted.only_files else 0

    def _count(self, line: bytes) -> None:
        name, _, count = line.rpartition(b"\0")
        path = os.fsdecode(name.removeprefix(b"./"))
        if not self._by_path or self._searched.shows(path):
            self._kept.append(Match(path, int(count)))
            self._stop_when_enough()

    def _message(self, line: bytes) -> None:
        if line.startswith(b'{"type":"begin"'):
            return
        message = self._decode(line)
        data = message.data
        if message.type == "end":
            if data.binary_offset is None:
                self._kept += self._open
            self._open = []
        elif message.type == "match" and data.path is not None and data.lines is not None:
            path = os.fsdecode(data.path.raw.removeprefix(b"./"))
            if path == self._passed_over:
                return
            if self._by_path and not self._open and not self._searched.shows(path):
                self._passed_over = path
                return
            start = data.submatches[0].start if data.submatches else 0
            text = data.lines.raw.rstrip(b"\r\n")
            self._bytes += len(text)
            self._open.append(Match(path, data.line_number or 0, text, start))
            self._stop_when_enough()

    def _stop_when_enough(self) -> None:
        found = len(self._kept) + len(self._open)
        if not self._by_path:
            if len(self._kept) > self._wanted.limit // 2:
                self._more.set()
            most = MAX_UNSORTED if self._trickles() else MAX_UNSORTED // 4
            if found > most or self._bytes > MAX_UNSORTED_BYTES:
                self.enough.set()
            return
        if found <= self._wanted.limit:
            return
        if self._open and self._is_binary(self._open[0].path):  # it would have been dropped at its end
            self._passed_over = self._open[0].path
            self._open = []
            return
        self.enough.set()

    def _is_binary(self, path: str) -> bool:
        try:
            with open(os.path.join(self._wanted.folder, path), "rb") as file:
                return b"\0" in file.read(MAX_FILE_BYTES)
        except OSError:
            return False


def find_ripgrep(env: Mapping[str, str], workspace: str) -> str | None:
    """The `rg` installed beside us, else the first on the path that the workspace has not brought along."""
    ours = os.path.join(os.path.dirname(sys.executable), "rg")
    if _is_program(ours):
        return ours
    for folder in env.get("PATH", "").split(":"):
        program = os.path.join(folder, "rg")
        inside = os.path.realpath(program).startswith(os.path.realpath(workspace).rstrip("/") + "/")
        if os.path.isabs(folder) and not inside and _is_program(program):
            return program
    return None


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
