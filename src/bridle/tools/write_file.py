"""`write_file`: a whole file, new or replaced."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import Annotated

import msgspec
from msgspec import Meta

from bridle.base.files import open_beneath, read_limited
from bridle.base.stand_ins import is_stand_in, may_be_stand_in
from bridle.engine.tools import Subject, Tool, ToolContext, ToolOutput
from bridle.protocol.errors import sentence
from bridle.tools.diffs import Diff, diff_of
from bridle.tools.names import relative_path
from bridle.tools.replacing import replace_beneath
from bridle.tools.text_files import would_lose_secret

MAX_COMPARED_BYTES = 1 << 20


class WouldLoseSecret(Exception):
    """The new content has a mask where the file has the secret that was masked when it was read."""


class WriteArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="File, relative to the workspace.")]
    content: Annotated[str, Meta(description="The whole new content.")]


async def write_file(args: WriteArgs, context: ToolContext) -> ToolOutput:
    resolved = context.call.resolved(args.path)
    path = relative_path(resolved, context.cwd)
    try:
        data = args.content.encode()
    except UnicodeEncodeError:
        return _failed(path, "the content has characters that cannot be stored")
    try:
        diff = await asyncio.to_thread(_compare, resolved, path, args.content)
        created = replace_beneath(resolved, data)
    except OSError as problem:
        return _failed(path, problem.strerror or str(problem))
    except WouldLoseSecret:
        return _failed(
            path,
            "it holds a secret that you see masked; writing the mask would lose it; use bash",
        )
    lines = args.content.count("\n") + (not args.content.endswith("\n") and bool(args.content))
    verb = "Created" if created else "Replaced"
    change = f" (+{diff.added} -{diff.removed})" if diff is not None and not created else ""
    return ToolOutput(
        content=f"{verb} {path}: {lines} line{'s' if lines != 1 else ''}, {len(data)} bytes{change}.",
        metadata={
            "path": path,
            "created": created,
            "diff": diff.text if diff is not None else "",
            "added": diff.added if diff is not None else lines,
            "removed": diff.removed if diff is not None else None,
        },
    )


def _compare(resolved: str, path: str, new: str) -> Diff | None:
    """The change this write makes; None when the old content is no text of a size worth comparing."""
    try:
        fd = open_beneath(resolved, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return diff_of(path, None, new)
    except PermissionError:
        return None
    try:
        mode = os.fstat(fd).st_mode
        if may_be_stand_in(mode) and is_stand_in(resolved):
            return diff_of(path, None, new)
        if not stat.S_ISREG(mode):
            return None
        old, truncated = read_limited(fd, MAX_COMPARED_BYTES)
    finally:
        os.close(fd)
    if truncated or len(new) > MAX_COMPARED_BYTES or b"\0" in old:
        return None
    try:
        text = old.decode()
    except UnicodeDecodeError:
        return None
    if would_lose_secret(text, new):
        raise WouldLoseSecret
    return diff_of(path, text, new)


def _failed(path: str, problem: str) -> ToolOutput:
    data = {"path": path, "problem": problem}
    return ToolOutput(outcome="error", reason="FileUnwritable", content=sentence("FileUnwritable", data))


def _subjects(args: WriteArgs) -> tuple[Subject, ...]:
    return (Subject(kind="path", access="write", value=args.path),)


WRITE_FILE = Tool(
    name="write_file",
    description="Create a file, or replace one as a whole. Missing folders are made; its mode is kept.",
    args=WriteArgs,
    risk="write",
    run=write_file,
    concurrency="exclusive",
    subjects=_subjects,
    side_effect="workspace",
    safety_notes=("replaces the whole file",),
)
