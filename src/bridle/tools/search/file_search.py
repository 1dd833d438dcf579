"""Search files with ripgrep and parse its output.

Not searched is what `.gitignore` names, version control, packages and build output, links, binary files, and anything
over 10 MB. Answers come by path, then by line.

Some files may not be seen. Which of them were left out is said for all there are and not only for those that match:
otherwise the note would tell, guess by guess, what they hold.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import msgspec

from bridle.base.fs.path_patterns import PathPattern, anywhere
from bridle.engine.ports import Process, Spawn, SpawnPolicy, TakeOutput
from bridle.tools.search.folder_walk import ALWAYS_SKIPPED, BUILD_OUTPUT, MAX_DEPTH, IgnoreRules, walk
from bridle.tools.search.search_patterns import SearchPattern

MAX_FILE_BYTES = 10 << 20
SKIPPED = ALWAYS_SKIPPED | BUILD_OUTPUT

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


class Unsearchable(Exception):
    """`problem` reads as the end of a sentence."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for, and where.

    `folder` is resolved; `file` is one name in it, or None for all that is below. `top` contains `folder`; its
    `.gitignore` counts. Of the answers at most `limit` are kept: matching lines, or files if only they count.
    `shows_content` says which absolute paths may be seen; None: everything. A file asked for by name was allowed.
    """

    pattern: SearchPattern
    folder: str
    top: str
    file: str | None = None
    glob: str | None = None
    only_files: bool = False
    limit: int
    shows_content: Callable[[str], bool] | None = None

    def shows(self, path: str) -> bool:
        return self.shows_content is None or self.file is not None or self.shows_content(self.absolute(path))

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


async def search(wanted: Search, start: Start, rg: str) -> SearchAnswer:
    """What ripgrep finds. Raises what `start` raises, `Unsearchable`, and OSError when the folder cannot be read."""
    stop = threading.Event()
    left_out = asyncio.ensure_future(asyncio.to_thread(_left_out, wanted, stop))
    try:
        answer = await _matching(wanted, start, rg)
        return answer if answer.more else answer._replace(left_out=await left_out)
    finally:
        stop.set()  # a thread cannot be cancelled; it notices
        left_out.cancel()
        await asyncio.gather(left_out, return_exceptions=True)


def _left_out(wanted: Search, stop: threading.Event) -> tuple[str, ...]:
    """The files that would be searched and may not be seen."""
    if wanted.shows_content is None or wanted.file is not None:
        return ()
    searched = _SearchedFiles(wanted)
    found = walk(wanted.folder, skipped=SKIPPED, rules=searched.rules, should_stop=stop.is_set)
    return tuple(
        path
        for path, entry in found
        if not wanted.shows(path) and entry.is_file(follow_symlinks=False) and searched.has(path)
    )


async def _matching(wanted: Search, start: Start, rg: str) -> SearchAnswer:
    argv = [
        rg,
        *RG_OPTIONS,
        *_only(wanted.glob if wanted.file is None else None),
        f"--max-filesize={MAX_FILE_BYTES}",
        "--sort=path",
        *(("--count", "--null", "--with-filename") if wanted.only_files else ("--json",)),
        *(("--ignore-case",) if wanted.pattern.ignore_case else ()),
        f"--regexp={wanted.pattern.text}",
        "--",
        f"./{wanted.file or ''}",
    ]
    collected = _CollectedMatches(wanted)
    process = await start(argv, wanted.folder, None, collected.feed)
    ended = asyncio.ensure_future(process.wait())
    enough = asyncio.ensure_future(collected.enough.wait())
    try:
        await asyncio.wait((ended, enough), return_when=asyncio.FIRST_COMPLETED)
        exit_code = 0 if enough.done() else ended.result()
    finally:
        enough.cancel()
        ended.cancel()
        await process.stop()
    if exit_code not in {0, 1} and not collected.anything:
        raise Unsearchable(f"ripgrep failed (exit code {exit_code}); the pattern may be too large")
    return collected.answer()


def _only(glob: str | None) -> tuple[str, ...]:
    """Options for nothing but the files whose names fit a plain glob. Any other is applied to what was found.

    As a kind of files: with `--glob` ripgrep would also search what `.gitignore` names.
    """
    if glob is None or _PLAIN_GLOB.fullmatch(glob) is None:
        return ()
    return (f"--type-add=wanted:{glob}", "--type=wanted")


class _SearchedFiles:
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


class _Text(msgspec.Struct):
    """Text, or bytes that are none, as ripgrep writes them."""

    text: str | None = None
    bytes: str | None = None

    @property
    def raw(self) -> bytes:
        return self.text.encode() if self.text is not None else base64.b64decode(self.bytes or "")


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


class _CollectedMatches:
    """Reads what ripgrep writes, until there is enough."""

    def __init__(self, wanted: Search) -> None:
        self.enough = asyncio.Event()
        self.anything = False
        self._wanted = wanted
        self._searched = _SearchedFiles(wanted)
        self._decode = msgspec.json.Decoder(_Message).decode
        self._buffer = bytearray()
        self._kept: list[Match] = []
        self._open: list[Match] = []  # of a file that may turn out to be binary
        self._passed_over = ""

    def feed(self, chunk: bytes) -> None:
        self.anything = True
        self._buffer += chunk
        while not self.enough.is_set() and (end := self._buffer.find(b"\n", self._name_end())) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            if self._wanted.only_files:
                self._count(line)
            else:
                self._message(line)

    def answer(self) -> SearchAnswer:
        matches = (*self._kept, *self._open)
        return SearchAnswer(matches[: self._wanted.limit], len(matches) > self._wanted.limit)

    def _name_end(self) -> int:
        """Where to look for the end of the line: behind the name, which may have line ends itself."""
        return max(self._buffer.find(b"\0"), 0) if self._wanted.only_files else 0

    def _count(self, line: bytes) -> None:
        name, _, count = line.rpartition(b"\0")
        path = os.fsdecode(name.removeprefix(b"./"))
        if self._searched.shows(path):
            self._kept.append(Match(path, int(count)))
            self._stop_when_enough()

    def _message(self, line: bytes) -> None:
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
            if not self._open and not self._searched.shows(path):
                self._passed_over = path
                return
            start = data.submatches[0].start if data.submatches else 0
            text = data.lines.raw.rstrip(b"\r\n")
            self._open.append(Match(path, data.line_number or 0, text, start))
            self._stop_when_enough()

    def _stop_when_enough(self) -> None:
        if len(self._kept) + len(self._open) <= self._wanted.limit:
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


def find_ripgrep(env: Mapping[str, str], workspace: str) -> str:
    """The `rg` installed beside us, else the first on the path that the workspace has not brought along. Raises
    `Unsearchable`."""
    ours = os.path.join(os.path.dirname(sys.executable), "rg")
    if _is_program(ours):
        return ours
    for folder in env.get("PATH", "").split(":"):
        program = os.path.join(folder, "rg")
        inside = os.path.realpath(program).startswith(os.path.realpath(workspace).rstrip("/") + "/")
        if os.path.isabs(folder) and not inside and _is_program(program):
            return program
    raise Unsearchable("ripgrep (rg) is not installed; install it, or use bash with grep")


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
