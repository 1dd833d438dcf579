"""`glob`: files by name, those changed last first."""

from __future__ import annotations

import asyncio
import heapq
import os
import threading
from collections.abc import Iterator

import msgspec

from bridle.base.fs.path_patterns import PathPattern, anywhere
from bridle.engine.tools import Sight, ToolContext, ToolOutput
from bridle.protocol.display_values import ShownSearch
from bridle.protocol.errors import sentence
from bridle.tools.names import left_out_note, relative_path, shown_path
from bridle.tools.search.folder_walk import ALWAYS_SKIPPED, walk
from bridle.tools.search.search_arguments import GlobArgs

MAX_PATHS = 1000


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
