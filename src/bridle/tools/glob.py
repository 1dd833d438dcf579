"""`glob`: files by name, those changed last first.

What does the work is imported when a call comes: most sessions begin without one.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
from typing import Annotated

import msgspec
from msgspec import Meta

from bridle.engine.tools import Sight, Subject, Tool, ToolContext, ToolOutput, never_mutating
from bridle.protocol.errors import sentence
from bridle.tools.names import left_out_note, relative_path, shown_path

MAX_PATHS = 1000


class GlobArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[str, Meta(min_length=1, description="Such as *.py or src/**/*.{ts,tsx}.")]
    path: Annotated[str, Meta(description="Folder to look in.")] = "."

    def __post_init__(self) -> None:
        check_path_pattern(self.pattern, "pattern")


def check_path_pattern(pattern: str, name: str) -> None:
    """Raises ValueError for what is no pattern of paths below a folder."""
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise ValueError(f"{name} is relative to path and stays below it")
    from bridle.base.path_patterns import PathPattern, anywhere

    try:
        PathPattern(anywhere(pattern))
    except ValueError as problem:
        raise ValueError(f"{name} is no pattern for paths: {problem}") from None


class _Files(msgspec.Struct, frozen=True):
    paths: tuple[str, ...]
    total: int
    left_out: int


async def glob(args: GlobArgs, context: ToolContext) -> ToolOutput:
    from bridle.protocol.display_values import ShownSearch

    folder = context.call.resolved(args.path)
    stop = threading.Event()
    try:
        found = await asyncio.to_thread(_search, folder, args.pattern, context.sight, stop)
    except OSError as problem:
        data = {"path": args.path, "problem": problem.strerror or str(problem)}
        return ToolOutput(outcome="error", reason="FileUnreadable", content=sentence("FileUnreadable", data))
    finally:
        stop.set()  # a thread cannot be cancelled; it notices
    where = relative_path(folder, context.cwd)
    lines = [shown_path(path if where == "." else os.path.join(where, path)) for path in found.paths]
    if found.total > len(lines):
        lines.append(f"[the {len(lines)} changed last of {found.total} are shown]")
    lines = lines or ["[no files]"]
    if found.left_out:
        lines.append(left_out_note(found.left_out))
    shown = ShownSearch(found=found.total, more=found.total > len(found.paths))
    return ToolOutput(content="".join(f"{line}\n" for line in lines), shown=shown)


def _search(folder: str, pattern: str, sight: Sight, stop: threading.Event) -> _Files:
    """Of all files that match only the newest are kept, so memory is bounded."""
    from bridle.base.path_patterns import PathPattern, anywhere
    from bridle.tools.folder_walk import ALWAYS_SKIPPED, walk_in_batches

    wanted = PathPattern(anywhere(pattern.removeprefix("./")))
    top, hides_names = folder.rstrip("/"), sight.hides_names(folder)
    # by time backwards, then by path: of files changed at once the first stays
    newest: list[tuple[int, str]] = []
    enough_ns: float = -math.inf
    total = left_out = 0
    for above, found in walk_in_batches(
        folder, skipped=ALWAYS_SKIPPED, pattern=wanted, should_stop=stop.is_set
    ):
        shown = found
        if hides_names:
            shown = [entry for entry in found if sight.shows_name(f"{top}/{above}{entry.name}")]
            left_out += len(found) - len(shown)
        there, changed = _changed_since(enough_ns, shown)
        total += there
        newest += [(-changed_ns, above + name) for changed_ns, name in changed]
        if len(newest) > 2 * MAX_PATHS:
            newest.sort()
            del newest[MAX_PATHS:]
            enough_ns = -newest[-1][0]
    return _Files(tuple(path for _, path in sorted(newest)[:MAX_PATHS]), total, left_out)


def _changed_since(oldest_ns: float, entries: list[os.DirEntry[str]]) -> tuple[int, list[tuple[int, str]]]:
    """How many are still there, and of those not older when they were changed."""
    try:
        return len(entries), [
            (changed_ns, entry.name)
            for entry in entries
            if (changed_ns := entry.stat(follow_symlinks=False).st_mtime_ns) >= oldest_ns
        ]
    except OSError:  # an entry remembers what it was told, so none is asked twice
        return _changed_since(oldest_ns, [entry for entry in entries if _is_there(entry)])


def _is_there(entry: os.DirEntry[str]) -> bool:
    try:
        entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return True


def _subjects(args: GlobArgs) -> tuple[Subject, ...]:
    return (Subject(kind="path", access="read", value=args.path),)


GLOB = Tool(
    name="glob",
    description=(
        "Find files by name, changed last first, at most 1000. A pattern without / matches at any depth. "
        ".git and node_modules are left out."
    ),
    input=GlobArgs,
    risk="read",
    run=glob,
    concurrency="parallel_safe",
    mutating=never_mutating,
    subjects=_subjects,
    side_effect="none",
    safety_notes=("lists names of files",),
)
