"""`read_file`: the lines of a text file, numbered, a page at a time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Generator, Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from bridle.base.fs.files import open_beneath, read_limited
from bridle.base.secrets.redact import stored_marker
from bridle.engine.tools import Subject, Tool, ToolContext, ToolOutput, never_mutating
from bridle.protocol.display_values import ShownRead
from bridle.tools.names import failed, failed_path, reads_path
from bridle.tools.patches.text_files import secret_lines

MAX_LINES = 2000
MAX_BYTES = 1 << 20
SPILL_PREFIX = "output:"

_BINARY_PROBE = 8192


class ReadArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="File, relative to the workspace, or output:CALL_ID.")]
    offset: Annotated[int, Meta(ge=0, description="First line to read, counted from 1.")] = 1
    limit: Annotated[int, Meta(ge=1, description="How many lines, at most 2000.")] = MAX_LINES


class Unreadable(Exception):
    """The file cannot be shown. `problem` reads as the end of a sentence."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class Page(msgspec.Struct, frozen=True):
    """Consecutive lines of a file, without their line ends.

    `cut`: the last one is only its beginning. `more`: the file goes on. `seen` counts the lines from the
    start of the file up to the end of this page, or up to the end of the file if the page is empty.
    """

    first: int
    lines: tuple[bytes, ...]
    cut: bool
    more: bool
    seen: int


async def read_file(args: ReadArgs, context: ToolContext) -> ToolOutput:
    offset, limit = max(args.offset, 1), min(args.limit, MAX_LINES)
    spilled = _spilled_call(args.path)
    try:
        if spilled is None:
            resolved = context.call.resolved(args.path)
            data, page = await asyncio.to_thread(_read, resolved, offset, limit)
            seen = context.known.saw(resolved, data)
        elif (kept := context.spilled(spilled)) is not None:
            page, seen = await asyncio.to_thread(_page_of_spill, kept, offset, limit), {}
        else:
            return failed(
                "FileUnreadable", path=args.path, problem="this session keeps no such output (any more)"
            )
    except Unreadable as refused:
        return failed("FileUnreadable", path=args.path, problem=refused.problem)
    except OSError as problem:
        return failed_path("FileUnreadable", args.path, problem)
    if not page.lines and page.seen:
        return _past_end(args.path, offset, page.seen)
    return _output(page, seen)


def _page_of_spill(kept: Generator[bytes], offset: int, limit: int) -> Page:
    with contextlib.closing(kept):
        try:
            return page_of(kept, offset, limit)
        except ValueError as damaged:
            raise Unreadable(str(damaged)) from None


def _read(path: str, offset: int, limit: int) -> tuple[bytes, Page]:
    """The file, which has at most 1 MB, and one page of it."""
    fd = open_beneath(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            raise Unreadable("it is a folder")
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("it is not a regular file")
        _check_content(fd, status.st_size)
        data = read_limited(fd, MAX_BYTES).data
    finally:
        os.close(fd)
    page = page_of(iter((data,)), offset, limit)
    return data, page if offset == 1 else _without_secrets(data, page)


def _without_secrets(data: bytes, page: Page) -> Page:
    """A page without lines in the middle of a secret: what tells it may stand on the page before."""
    hidden, mark = secret_lines(data), stored_marker("secret").encode()
    lines = tuple(mark if line.removesuffix(b"\r") in hidden else line for line in page.lines)
    return msgspec.structs.replace(page, lines=lines)


def _check_content(fd: int, size: int) -> None:
    if size > MAX_BYTES:
        shown = f"it has {size / MAX_BYTES:.1f} MB and the limit is 1 MB"
        raise Unreadable(f"{shown}; use bash with sed -n, head or grep to see a part of it")
    if b"\0" in os.pread(fd, _BINARY_PROBE, 0):
        raise Unreadable("it is a binary file")


def page_of(chunks: Iterator[bytes], offset: int, limit: int) -> Page:
    """The lines `offset` to `offset + limit - 1`, at most 1 MB of them. Pure but for the reading."""
    lines: list[bytes] = []
    line = bytearray()
    room = MAX_BYTES
    number = 1  # of the line that `line` is the beginning of
    open_line = False
    for chunk in chunks:
        start = 0
        if number < offset and number + chunk.count(b"\n") < offset:  # nothing of it is on the page
            number += chunk.count(b"\n")
            open_line = not chunk.endswith(b"\n")
            continue
        while start < len(chunk):
            end = chunk.find(b"\n", start)
            piece = chunk[start : end if end >= 0 else len(chunk)]
            if number >= offset:
                if len(lines) == limit:
                    return Page(offset, tuple(lines), cut=False, more=True, seen=number - 1)
                if len(piece) > room:
                    line += piece[:room]
                    return Page(offset, (*lines, bytes(line)), cut=True, more=True, seen=number)
                line += piece
                room -= len(piece) + 1
            open_line = end < 0
            if end < 0:
                break
            if number >= offset:
                lines.append(bytes(line))
                line.clear()
            number += 1
            start = end + 1
    if open_line and number >= offset:
        lines.append(bytes(line))
    seen = number if open_line else number - 1
    return Page(offset, tuple(lines), cut=False, more=False, seen=seen)


def _output(page: Page, seen: dict[str, Any]) -> ToolOutput:
    if not page.lines:
        return ToolOutput(content="[the file is empty]\n", shown=ShownRead(), metadata=seen)
    shown = ShownRead(first_line=page.first, last_line=page.first + len(page.lines) - 1)
    has_crlf = any(line.endswith(b"\r") for line in page.lines)
    raw = b"\n".join(line.removesuffix(b"\r") for line in page.lines)
    text = raw.decode("utf-8", "replace")
    numbered = [f"{page.first + index}\t{line}\n" for index, line in enumerate(text.split("\n"))]
    notes: list[str] = []
    if page.cut:
        notes.append(f"line {shown.last_line} is longer than what is shown")
    elif page.more:
        notes.append(f"more lines follow: offset={page.seen + 1}")
    if not _is_utf8(raw) and not page.cut:
        notes.append("not valid UTF-8; what could not be read is shown as \N{REPLACEMENT CHARACTER}")
    if has_crlf:
        notes.append("lines end with CRLF")
    content = "".join((*numbered, *(f"[{note}]\n" for note in notes)))
    return ToolOutput(content=content, shown=shown, metadata=seen)


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _past_end(path: str, offset: int, lines: int) -> ToolOutput:
    problem = f"offset {offset} is past the end of {path}, which has {lines} line{'s' if lines != 1 else ''}"
    return failed("InvalidInput", tool="read_file", problem=problem)


def _spilled_call(path: str) -> str | None:
    return path.removeprefix(SPILL_PREFIX) if path.startswith(SPILL_PREFIX) else None


def _subjects(args: ReadArgs) -> tuple[Subject, ...]:
    if _spilled_call(args.path) is not None:  # our own file, found by its call and never by a path
        return ()
    return reads_path(args)


READ_FILE = Tool(
    name="read_file",
    description=(
        "Read a text file. Lines come numbered, at most 2000 per call; page with offset and limit. Files "
        "over 1 MB and binary files are refused. path output:CALL_ID reads an earlier result that was too "
        "long to show whole."
    ),
    input=ReadArgs,
    risk="read",
    run=read_file,
    concurrency="parallel_safe",
    mutating=never_mutating,
    subjects=_subjects,
    side_effect="none",
    safety_notes=("reads one file",),
)
