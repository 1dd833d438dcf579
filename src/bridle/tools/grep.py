"""`grep`: lines of files that match a regular expression."""

from __future__ import annotations

import asyncio
import functools
import os
import stat
from collections.abc import Iterable

from bridle.base.fs.files import open_beneath, read_limited
from bridle.base.process.processes import CannotStart
from bridle.base.secrets.redact import stored_marker
from bridle.engine.tools import EVERYTHING, ToolContext, ToolOutput
from bridle.protocol.display_values import ShownSearch
from bridle.protocol.errors import sentence
from bridle.tools.names import left_out_note, relative_path, shown_path
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
from bridle.tools.search.search_arguments import MAX_MATCHES, GrepArgs
from bridle.tools.search.search_patterns import search_pattern

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
        return _failed(args.path, refused.problem)
    except OSError as problem:
        return _failed(args.path, problem.strerror or str(problem))
    except CannotStart as problem:
        content = sentence("CannotStart", {"problem": problem.reason})
        return ToolOutput(outcome="error", reason="CannotStart", content=content)
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


def _failed(path: str, problem: str) -> ToolOutput:
    data = {"path": path, "problem": problem}
    return ToolOutput(outcome="error", reason="FileUnreadable", content=sentence("FileUnreadable", data))
