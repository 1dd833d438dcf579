"""`edit_file`: one text in a file replaced by another.

What does the work is imported when a call comes: most sessions begin without one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from bridle.base.text.unified_diff import diff_of
from bridle.engine.tools import Subject, Tool, ToolCall, ToolContext, ToolOutput
from bridle.protocol.display_values import EditedFile, ShownEdit
from bridle.protocol.errors import sentence
from bridle.protocol.events import FileChange
from bridle.tools.names import relative_path
from bridle.tools.patches.atomic_writes import replace_beneath
from bridle.tools.patches.foreseen_changes import bounded, file_change
from bridle.tools.patches.text_files import NotEditable, is_storable, read_text, would_lose_secret

if TYPE_CHECKING:
    from bridle.engine.known_files import KnownFiles
    from bridle.tools.patches.edits import Edited, NoSuchEdit
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
        return _failed("FileUnwritable", path, problem.strerror or str(problem))
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
    from bridle.tools.patches.edits import NoSuchEdit, edited

    try:
        file = read_text(resolved)
        edit = edited(file.text, args.old_string, args.new_string, replace_all=args.replace_all)
    except NotEditable as refused:
        return _failed("FileUnreadable", path, refused.problem)
    except OSError as problem:
        return _failed("FileUnreadable", path, problem.strerror or str(problem))
    except NoSuchEdit as refused:
        return _not_applied(path, refused)
    if would_lose_secret(file.text, edit.text):
        problem = "it holds a secret that you see masked; writing the mask would lose it; use bash"
        return _failed("FileUnwritable", path, problem)
    return file, edit


def _failed(reason: str, path: str, problem: str) -> ToolOutput:
    data = {"path": path, "problem": problem}
    return ToolOutput(outcome="error", reason=reason, content=sentence(reason, data))


def _not_applied(path: str, refused: NoSuchEdit) -> ToolOutput:
    content = sentence("TextNotFound", {"path": path, "problem": refused.problem}) + refused.excerpt
    return ToolOutput(outcome="error", reason="TextNotFound", content=content)


def _subjects(args: EditArgs) -> tuple[Subject, ...]:
    return (Subject(kind="path", access="write", value=args.path),)


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
    subjects=_subjects,
    side_effect="workspace",
    safety_notes=("changes one file",),
    changes=_changes,
)
