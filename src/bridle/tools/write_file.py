"""`write_file`: a whole file, new or replaced."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from bridle.base.fs.files import open_beneath, read_limited
from bridle.base.text.line_diff import Diff, diff_of
from bridle.engine.known_files import KnownFiles
from bridle.engine.tools import Tool, ToolCall, ToolContext, ToolOutput
from bridle.protocol.display_values import EditedFile, ShownEdit
from bridle.protocol.events import FileChange
from bridle.tools.names import failed, failed_path, relative_path, writes_path
from bridle.tools.patches.atomic_writes import replace_beneath
from bridle.tools.patches.foreseen_changes import bounded, file_change
from bridle.tools.patches.text_files import (
    WRITES_MASK,
    NotEditable,
    is_storable,
    read_text,
    would_lose_secret,
)

MAX_COMPARED_BYTES = 1 << 20
MAX_SHOWN_LINES = 60
MAX_LINE = 300
"""Of what somebody else changed, so many lines are shown, and so much of each."""


class WouldLoseSecret(Exception):
    """The new content has a mask where the file has the secret that was masked when it was read."""


class NotSeen(Exception):
    """The file holds what the model does not know, `now`; `known` is what it held when the model saw it, if kept."""

    def __init__(self, reason: str, now: bytes, known: bytes | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.now = now
        self.known = known


class WriteArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="File, relative to the workspace.")]
    content: Annotated[str, Meta(description="The whole new content.")]


async def write_file(args: WriteArgs, context: ToolContext) -> ToolOutput:
    resolved = context.call.resolved(args.path)
    path = relative_path(resolved, context.cwd)
    known, asked = context.known, context.call.asked
    diff = await asyncio.to_thread(_planned, args, resolved, path, known, asked=asked)
    if isinstance(diff, ToolOutput):
        return diff
    try:
        created = replace_beneath(resolved, data := args.content.encode())
    except OSError as problem:
        return failed_path("FileUnwritable", path, problem)
    lines = args.content.count("\n") + (not args.content.endswith("\n") and bool(args.content))
    verb = "Created" if created else "Replaced"
    change = f" (+{diff.added} -{diff.removed})" if diff is not None and not created else ""
    file = EditedFile(
        path=path,
        kind="create" if created else "change",
        diff=diff.text if diff is not None else "",
        added=diff.added if diff is not None else lines,
        removed=diff.removed if diff is not None else None,
    )
    return ToolOutput(
        content=f"{verb} {path}: {lines} line{'s' if lines != 1 else ''}, {len(data)} bytes{change}.",
        shown=ShownEdit(files=(file,)),
        metadata=context.known.saw(resolved, data),
    )


def _changes(
    args: WriteArgs, call: ToolCall, cwd: str, known: KnownFiles
) -> tuple[FileChange, ...] | ToolOutput:
    """What a write would make of the file; nothing where what is there is no text of a size worth comparing."""
    resolved = call.resolved(args.path)
    path = relative_path(resolved, cwd)
    planned = _planned(args, resolved, path, known, asked=True)
    if isinstance(planned, ToolOutput):
        return planned
    try:
        old = read_text(resolved).text
    except FileNotFoundError:
        old = None
    except (OSError, NotEditable):
        return ()
    digest = next(subject.content for subject in call.subjects if subject.resolved == resolved)
    return bounded((file_change(path, old, args.content, sha256=digest),))


def _planned(
    args: WriteArgs, resolved: str, path: str, known: KnownFiles, *, asked: bool
) -> Diff | ToolOutput | None:
    """The change this write makes, or the output of one that cannot be made. `asked`: a person sees what goes."""
    if not is_storable(args.content):
        return failed("FileUnwritable", path=path, problem="the content has characters that cannot be stored")
    try:
        return _compare(resolved, path, args.content, known, asked=asked)
    except OSError as problem:
        return failed_path("FileUnwritable", path, problem)
    except NotSeen as unseen:
        return _not_seen(path, unseen, known.saw(resolved, unseen.now))
    except WouldLoseSecret:
        return failed("FileUnwritable", path=path, problem=WRITES_MASK)


def _compare(resolved: str, path: str, new: str, known: KnownFiles, *, asked: bool) -> Diff | None:
    """The change this write makes; None when the old content is no text of a size worth comparing."""
    try:
        fd = open_beneath(resolved, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return diff_of(path, None, new)
    except PermissionError:
        return None
    try:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            problem = "it is a folder" if stat.S_ISDIR(mode) else "it is not a regular file"
            raise OSError(errno.EINVAL, problem, resolved)
        contents = read_limited(fd, MAX_COMPARED_BYTES)
    finally:
        os.close(fd)
    old = contents.data
    _check_seen(resolved, old, new, known, asked=asked)
    if contents.truncated or len(new) > MAX_COMPARED_BYTES or b"\0" in old:
        return None
    try:
        text = old.decode()
    except UnicodeDecodeError:
        return None
    if would_lose_secret(text, new):
        raise WouldLoseSecret
    return diff_of(path, text, new)


def _check_seen(resolved: str, old: bytes, new: str, known: KnownFiles, *, asked: bool) -> None:
    """Raises `NotSeen` where the file holds what somebody else put there and nobody was asked about losing it.

    The refusal makes it known, so a second call writes, unless the file has changed once more.
    """
    if not old or old == new.encode() or known.knows(resolved, old):
        return
    if known.digest(resolved) is not None:
        raise NotSeen("ChangedSinceRead", old, known.content(resolved))
    if not asked:
        raise NotSeen("NeverRead", old)


def _not_seen(path: str, unseen: NotSeen, metadata: dict[str, Any]) -> ToolOutput:
    change = "Read it again to see what it holds."
    if unseen.known is not None:
        before, now = (data.decode("utf-8", "replace") for data in (unseen.known, unseen.now))
        change = f"What changed:\n{_short(diff_of(path, before, now).text)}"
    return msgspec.structs.replace(failed(unseen.reason, path=path, change=change), metadata=metadata)


def _short(diff: str) -> str:
    lines = diff.splitlines(keepends=True)
    more = len(lines) - MAX_SHOWN_LINES
    shown = "".join(
        line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…\n" for line in lines[:MAX_SHOWN_LINES]
    )
    return f"{shown}… {more} more lines\n" if more > 0 else shown


WRITE_FILE = Tool(
    name="write_file",
    description="Create a file, or replace one as a whole. Missing folders are made; its mode is kept.",
    input=WriteArgs,
    risk="write",
    run=write_file,
    concurrency="exclusive",
    subjects=writes_path,
    side_effect="workspace",
    safety_notes=("replaces the whole file",),
    changes=_changes,
)
