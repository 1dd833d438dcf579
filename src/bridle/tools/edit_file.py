"""`edit_file`: one text in a file replaced by another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from bridle.base.text.line_diff import diff_of
from bridle.engine.tools import Tool, ToolCall, ToolContext, ToolOutput
from bridle.protocol.display_values import EditedFile, ShownEdit
from bridle.protocol.events import FileChange
from bridle.tools.names import failed, failed_path, relative_path, writes_path
from bridle.tools.patches.atomic_writes import replace_beneath
from bridle.tools.patches.edits import NoSuchEdit, edited
from bridle.tools.patches.foreseen_changes import bounded, file_change
from bridle.tools.patches.text_files import (
    WRITES_MASK,
    NotEditable,
    is_storable,
    read_text,
    would_lose_secret,
)

if TYPE_CHECKING:
    from bridle.engine.known_files import KnownFiles
    from bridle.tools.patches.edits import Edited
    from bridle.tools.patches.text_files import TextFile


class EditArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="File, relative to the workspace.")]
    old_string: Annotated[str, Meta(description="Exact text to replace, without line numbers.")]
    new_string: str
    replace_all: Annotated[bool, Meta(description="Replace every occurrence.")] = False

    def __post_init__(self) -> None:
        if not self.old_string:
            raise ValueError("old_string is empty; use write_file to create or replace a file")
        if self.old_string == self.new_string:
            raise ValueError("old_string and new_string are the same, so nothing would change")
        if not is_storable(self.new_string):
            raise ValueError("new_string has characters that cannot be stored")


async def edit_file(args: EditArgs, context: ToolContext) -> ToolOutput:
    resolved = context.call.resolved(args.path)
    path = relative_path(resolved, context.cwd)
    planned = await asyncio.to_thread(_planned, args, resolved, path)
    if isinstance(planned, ToolOutput):
        return planned
    file, edit = planned
    diff = await asyncio.to_thread(diff_of, path, file.text, edit.text)
    try:
        replace_beneath(resolved, data := file.encoded(edit.text))
    except OSError as problem:
        return failed_path("FileUnwritable", path, problem)
    times = f"{edit.replacements} replacement{'s' if edit.replacements != 1 else ''}"
    note = " Its line ends were kept." if edit.adapted else ""
    return ToolOutput(
        content=f"Edited {path}: {times} (+{diff.added} -{diff.removed}).{note}",
        shown=ShownEdit(
            files=(EditedFile(path=path, diff=diff.text, added=diff.added, removed=diff.removed),)
        ),
        metadata=context.known.saw(resolved, data),
    )


def _changes(
    args: EditArgs, call: ToolCall, cwd: str, _known: KnownFiles
) -> tuple[FileChange, ...] | ToolOutput:
    """What the edit would make of the file, or how it fails."""
    resolved = call.resolved(args.path)
    path = relative_path(resolved, cwd)
    planned = _planned(args, resolved, path)
    if isinstance(planned, ToolOutput):
        return planned
    file, edit = planned
    digest = next(subject.content for subject in call.subjects if subject.resolved == resolved)
    return bounded((file_change(path, file.text, edit.text, sha256=digest),))


def _planned(args: EditArgs, resolved: str, path: str) -> tuple[TextFile, Edited] | ToolOutput:
    """The file as it is and as it shall be, or the output of an edit that cannot be made."""
    try:
        file = read_text(resolved)
        edit = edited(file.text, args.old_string, args.new_string, replace_all=args.replace_all)
    except NotEditable as refused:
        return failed("FileUnreadable", path=path, problem=refused.problem)
    except OSError as problem:
        return failed_path("FileUnreadable", path, problem)
    except NoSuchEdit as refused:
        output = failed("TextNotFound", path=path, problem=refused.problem)
        return msgspec.structs.replace(output, content=output.content + refused.excerpt)
    if would_lose_secret(file.text, edit.text):
        return failed("FileUnwritable", path=path, problem=WRITES_MASK)
    return file, edit


EDIT_FILE = Tool(
    name="edit_file",
    description=(
        "Replace a text in a file. old_string must occur exactly once, or set replace_all. Line ends and "
        "mode are kept."
    ),
    input=EditArgs,
    risk="write",
    run=edit_file,
    concurrency="exclusive",
    subjects=writes_path,
    side_effect="workspace",
    safety_notes=("changes one file",),
    changes=_changes,
)
