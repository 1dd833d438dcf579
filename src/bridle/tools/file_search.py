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
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import msgspec

from bridle.base.path_patterns import PathPattern, anywhere
from bridle.engine.ports import Process, Spawn, SpawnPolicy, TakeOutput
from bridle.tools.folder_walk import (
    ALWAYS_SKIPPED,
    BUILD_OUTPUT,
    MAX_DEPTH,
    IgnoreRules,
    walk,
    walk_in_batches,
)
from bridle.tools.search_output import (
    MAX_FILE_BYTES,
    CollectedMatches,
    ListedNames,
    Search,
    SearchAnswer,
    SearchedFiles,
    sorted_by_path,
)

MAX_LOOKED_AT = 2000
"""Of so many files it is found out here which may not be seen; where there are more, by a program."""
HEAD_START_S = 0.1
"""So long a search runs alone: it may find more than it shows, and then nobody asks what was left out."""
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
    listed = ListedNames(wanted)
    argv = [rg, *RG_OPTIONS, *_only(wanted.glob), "--files", "--null"]
    if suspects is not None:  # what `.gitignore` files say counts more, as for the files that are searched
        argv.append("--ignore-file=/dev/stdin")
    stdin = "\n".join(suspects).encode() if suspects is not None else None
    await _run(start, [*argv, "--", "./"], wanted.folder, stdin, listed)
    return await asyncio.to_thread(listed.left_out)


def _left_out_of_few(wanted: Search) -> tuple[str, ...] | None:
    """The same, looked for here; None where there are many files."""
    searched = SearchedFiles(wanted)
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
    return sorted_by_path(filter(searched.has, hidden))


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
        collected = CollectedMatches(wanted, by_path=by_path, more=more)
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
    collected = CollectedMatches(wanted)
    await _run(start, [sys.executable, "-I", "-S", _OUR_PROGRAM], wanted.folder, stdin, collected)
    answer = collected.answer()
    return answer if answer.more else answer._replace(left_out=sorted_by_path(files.left_out))


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


async def _run(
    start: Start, argv: list[str], folder: str, stdin: bytes | None, collected: CollectedMatches | ListedNames
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
