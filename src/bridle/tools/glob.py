"""`glob`: files by name, those changed last first."""

from __future__ import annotations

import asyncio
import heapq
import os
import threading
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from bridle.base.path_patterns import PathPattern, anywhere
from bridle.engine.tools import Sight, Subject, Tool, ToolContext, ToolOutput, never_mutating
from bridle.protocol.display_values import ShownSearch
from bridle.protocol.errors import sentence
from bridle.tools.folder_walk import ALWAYS_SKIPPED, walk
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
    try:
        PathPattern(anywhere(pattern))
    except ValueError as problem:
        raise ValueError(f"{name} is no pattern for paths: {problem}") from None


class _Files(msgspec.Struct, frozen=True):
    paths: tuple[str, ...]
    total: int
    left_out: int


async def glob(args: GlobArgs, context: ToolContext) -> ToolOutput:
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
    wanted = PathPattern(anywhere(pattern.removeprefix("./")))
    total = left_out = 0

    def by_time() -> Iterator[tuple[int, str]]:
        """By time backwards, then by path: of files changed at once the first stays."""
        nonlocal total, left_out
        for path, entry in walk(folder, skipped=ALWAYS_SKIPPED, pattern=wanted, should_stop=stop.is_set):
            if not sight.shows_name(f"{folder.rstrip('/')}/{path}"):
                left_out += 1
                continue
            try:
                changed_ns = entry.stat(follow_symlinks=False).st_mtime_ns
            except OSError:
                continue  # it went away
            total += 1
            yield -changed_ns, path

    newest = heapq.nsmallest(MAX_PATHS, by_time())
    return _Files(tuple(path for _, path in newest), total, left_out)


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
