"""`ls`: what is in one folder."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import Annotated

import msgspec
from msgspec import Meta

from bridle.base.fs.files import open_beneath
from bridle.engine.tools import Sight, Tool, ToolContext, ToolOutput, never_mutating
from bridle.protocol.display_values import ShownSearch
from bridle.tools.names import failed_path, left_out_note, reads_path, shown_path

MAX_ENTRIES = 500


class LsArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="Folder, relative to the workspace.")] = "."


class _Listing(msgspec.Struct, frozen=True):
    lines: tuple[str, ...]
    total: int
    left_out: int


async def ls(args: LsArgs, context: ToolContext) -> ToolOutput:
    try:
        listing = await asyncio.to_thread(_list, context.call.resolved(args.path), context.sight)
    except OSError as problem:
        return failed_path("FileUnreadable", args.path, problem)
    rest = listing.total - len(listing.lines)
    note = [f"[{rest} more]"] if rest else []
    if listing.left_out:
        note.append(left_out_note(listing.left_out, what="entry"))
    elif not listing.lines:
        note.append("[the folder is empty]")
    return ToolOutput(
        content="".join(f"{line}\n" for line in (*listing.lines, *note)),
        shown=ShownSearch(found=listing.total, more=bool(rest)),
    )


def _list(folder: str, sight: Sight) -> _Listing:
    fd = open_beneath(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        all_names = os.listdir(fd)
        names = sorted(name for name in all_names if sight.shows_name(f"{folder.rstrip('/')}/{name}"))
        lines = tuple(_line(name, fd) for name in names[:MAX_ENTRIES])
        return _Listing(lines, len(names), len(all_names) - len(names))
    finally:
        os.close(fd)


def _line(name: str, fd: int) -> str:
    """A folder with its slash, a link with its target, anything else with what there is to say about it."""
    shown = shown_path(name)
    try:
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            return f"{shown}/"
        if stat.S_ISLNK(status.st_mode):
            return f"{shown} -> {shown_path(os.readlink(name, dir_fd=fd))}"
    except OSError:
        return f"{shown}\tunreadable"
    if not stat.S_ISREG(status.st_mode):
        return f"{shown}\tnot a regular file"
    return f"{shown}\t{status.st_size} bytes"


LS = Tool(
    name="ls",
    description="List a folder: names, sizes, / after folders, hidden ones too; at most 500.",
    input=LsArgs,
    risk="read",
    run=ls,
    concurrency="parallel_safe",
    mutating=never_mutating,
    subjects=reads_path,
    side_effect="none",
    safety_notes=("lists one folder",),
)
