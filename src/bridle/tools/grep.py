"""`grep` and `glob`: search files by content and by name."""

from __future__ import annotations

import asyncio
import functools
import heapq
import os
import stat
import threading
from collections.abc import Iterable, Iterator

import msgspec

from bridle.base.fs.files import open_beneath, read_limited
from bridle.base.fs.path_patterns import PathPattern, anywhere
from bridle.base.process.processes import CannotStart
from bridle.base.secrets.redact import stored_marker
from bridle.engine.tools import EVERYTHING, Sight, ToolContext, ToolOutput
from bridle.protocol.display_values import ShownSearch
from bridle.tools.names import failed, failed_path, left_out_note, relative_path, shown_path
from bridle.tools.patches.text_files import secret_lines
from bridle.tools.search.file_search import (
    MAX_FILE_BYTES,
    Match,
    Search,
    SearchAnswer,
    Unsearchable,
    find_ripgrep,
    program_start,
    search,
)
from bridle.tools.search.folder_walk import ALWAYS_SKIPPED, walk
from bridle.tools.search.search_arguments import MAX_MATCHES, GlobArgs, GrepArgs
from bridle.tools.search.search_patterns import search_pattern

MAX_PATHS = 1000


class _Files(msgspec.Struct, frozen=True):
    paths: tuple[str, ...]
    total: int
    left_out: int


async def glob(args: GlobArgs, context: ToolContext) -> ToolOutput:
    folder = context.call.resolved(args.path)
    stop = threading.Event()
    try:
        found = await asyncio.to_thread(_newest, folder, args.pattern, context.sight, stop)
    except OSError as problem:
        return failed_path("FileUnreadable", args.path, problem)
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


def _newest(folder: str, pattern: str, sight: Sight, stop: threading.Event) -> _Files:
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


MAX_LINE_CHARACTERS = 300
_BEFORE_MATCH = 100


async def grep(args: GrepArgs, context: ToolContext) -> ToolOutput:
    try:
        wanted = await asyncio.to_thread(_wanted, args, context)
        start = program_start(context.spawn, env=context.env, policy=context.policy, call_id=context.call.id)
        answer = await search(wanted, start, find_ripgrep(context.env, context.cwd))
        _look_again(wanted.folder)
        if args.output_mode == "content":
            answer = answer._replace(
                matches=await asyncio.to_thread(_without_secrets, answer.matches, wanted)
            )
    except Unsearchable as refused:
        return failed("FileUnreadable", path=args.path, problem=refused.problem)
    except OSError as problem:
        return failed_path("FileUnreadable", args.path, problem)
    except CannotStart as problem:
        return failed("CannotStart", problem=problem.reason)
    return _shown(answer, args, wanted, context)


def _without_secrets(matches: Iterable[Match], wanted: Search) -> tuple[Match, ...]:
    """The matches without lines in the middle of a secret: nothing beside them would tell what they are."""

    @functools.cache
    def hidden(path: str) -> frozenset[bytes]:
        try:
            fd = open_beneath(wanted.absolute(path), os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return frozenset()
        try:
            return secret_lines(read_limited(fd, MAX_FILE_BYTES).data)
        finally:
            os.close(fd)

    mark = stored_marker("secret").encode()
    return tuple(
        match._replace(line=mark, start=0) if match.line.rstrip(b"\r\n") in hidden(match.path) else match
        for match in matches
    )


def _wanted(args: GrepArgs, context: ToolContext) -> Search:
    resolved = context.call.resolved(args.path)
    is_folder = _check(resolved)
    folder, name = (resolved, None) if is_folder else os.path.split(resolved)
    workspace = os.path.realpath(context.cwd)
    return Search(
        pattern=search_pattern(args.pattern, ignore_case=args.ignore_case),
        folder=folder,
        file=name,
        top=workspace if f"{folder}/".startswith(f"{workspace.rstrip('/')}/") else folder,
        glob=args.glob.removeprefix("./") if args.glob is not None else None,
        only_files=args.output_mode != "content",
        limit=min(args.head_limit, MAX_MATCHES),
        shows_content=context.sight.shows_content if context.sight is not EVERYTHING else None,
    )


def _check(resolved: str) -> bool:
    """Whether it is a folder. A file that was asked for by name must be one that can be searched."""
    fd = open_beneath(resolved, os.O_RDONLY | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            return True
        if not stat.S_ISREG(status.st_mode):
            raise Unsearchable("it is not a regular file")
        contents = read_limited(fd, MAX_FILE_BYTES)
    finally:
        os.close(fd)
    if contents.truncated:
        raise Unsearchable(f"it has more than {MAX_FILE_BYTES >> 20} MB; use bash with grep")
    if b"\0" in contents.data:
        raise Unsearchable("it is a binary file")
    return False


def _look_again(folder: str) -> None:
    """A program is given a folder by name. If a link stands there by now, it has searched somewhere else (OSError)."""
    os.close(open_beneath(folder, os.O_RDONLY | os.O_DIRECTORY))


def _shown(answer: SearchAnswer, args: GrepArgs, wanted: Search, context: ToolContext) -> ToolOutput:
    where = relative_path(wanted.folder, context.cwd)
    prefix = "" if where == "." else f"{where}/"
    lines = [_line(match, args, prefix) for match in answer.matches]
    if answer.more:
        what = "matching lines" if args.output_mode == "content" else "files"
        lines.append(f"[there are more than these {len(lines)} {what}; narrow pattern, path or glob]")
    lines = lines or ["[no matches]"]
    if answer.left_out:
        names = [path for path in answer.left_out if context.sight.shows_name(wanted.absolute(path))]
        lines.append(left_out_note(len(answer.left_out), [prefix + name for name in names]))
    files = len({match.path for match in answer.matches})
    shown = ShownSearch(found=len(answer.matches), files=files, more=answer.more)
    return ToolOutput(content="".join(f"{line}\n" for line in lines), shown=shown)


def _line(match: Match, args: GrepArgs, prefix: str) -> str:
    path = shown_path(prefix + match.path)
    match args.output_mode:
        case "files_with_matches":
            return path
        case "count":
            return f"{path}:{match.number}"
        case "content":
            return f"{path}:{match.number}:{_cut(match.line, match.start)}"


def _cut(line: bytes, start: int) -> str:
    """The line, or of a long one the part around the match."""
    text = line.decode("utf-8", "replace")
    if len(text) <= MAX_LINE_CHARACTERS:
        return text
    first = max(len(line[:start].decode("utf-8", "replace")) - _BEFORE_MATCH, 0)
    last = first + MAX_LINE_CHARACTERS
    return f"{'…' if first else ''}{text[first:last]}{'…' if last < len(text) else ''}"
