"""`edit_file`: one text in a file replaced by another.

What is looked for must be there exactly; only the way lines end may differ, and then the file keeps its own.
A text that is not there is answered with the place it was probably meant for.
"""

from __future__ import annotations

import asyncio
import re
from typing import Annotated

import msgspec
from msgspec import Meta

from bridle.engine.tools import Subject, Tool, ToolCall, ToolContext, ToolOutput
from bridle.protocol.errors import sentence
from bridle.protocol.events import FileChange
from bridle.tools.names import relative_path
from bridle.tools.text_files import (
    MASK,
    NotEditable,
    TextFile,
    is_all_crlf,
    is_storable,
    newline_of,
    read_text,
    would_lose_secret,
)

MAX_NAMED_LINES = 20


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


class NoSuchEdit(Exception):
    """The text cannot be changed as asked: why, and the place that was probably meant."""

    def __init__(self, problem: str, excerpt: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.excerpt = excerpt


class Edited(msgspec.Struct, frozen=True):
    """`adapted`: lines end differently in the file and in what was sent; the file's way was kept."""

    text: str
    replacements: int
    adapted: bool


async def edit_file(args: EditArgs, context: ToolContext) -> ToolOutput:
    from bridle.base.unified_diff import diff_of  # when the first file is edited
    from bridle.protocol.display_values import EditedFile, ShownEdit
    from bridle.tools.replace_file import replace_beneath

    resolved = context.call.resolved(args.path)
    path = relative_path(resolved, context.cwd)
    try:
        file, edit = await asyncio.to_thread(_edited_file, resolved, args)
    except NotEditable as refused:
        return _failed("FileUnreadable", path, refused.problem)
    except OSError as problem:
        return _failed("FileUnreadable", path, problem.strerror or str(problem))
    except NoSuchEdit as refused:
        return _not_applied(path, refused)
    if would_lose_secret(file.text, edit.text):
        problem = "it holds a secret that you see masked; writing the mask would lose it; use bash"
        return _failed("FileUnwritable", path, problem)
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


def _changes(args: EditArgs, call: ToolCall, cwd: str) -> tuple[FileChange, ...]:
    """What the edit would make of the file; nothing where it would fail."""
    from bridle.tools.foreseen_changes import bounded, file_change  # only when somebody is asked

    resolved = call.resolved(args.path)
    try:
        file, edit = _edited_file(resolved, args)
    except (OSError, NotEditable, NoSuchEdit):
        return ()
    digest = next(subject.content for subject in call.subjects if subject.resolved == resolved)
    path = relative_path(resolved, cwd)
    return bounded((file_change(path, file.text, edit.text, sha256=digest),))


def _edited_file(resolved: str, args: EditArgs) -> tuple[TextFile, Edited]:
    file = read_text(resolved)
    return file, edited(file.text, args.old_string, args.new_string, replace_all=args.replace_all)


def edited(text: str, old: str, new: str, *, replace_all: bool = False) -> Edited:
    """The text after the edit; raises `NoSuchEdit` when it is not clear what is meant. Pure."""
    cuts_line_ends = "\n" in old and "\r" not in old and is_all_crlf(text)  # it would begin inside of one
    places = [] if cuts_line_ends else _places(re.escape(old), text)
    exact = bool(places)
    places = places or _places(_any_line_end(old), text)
    if not places:
        raise _not_found(text, old)
    if len(places) > 1 and not replace_all:
        raise NoSuchEdit(_not_unique(text, places))
    pieces: list[str] = []
    done, adapted = 0, not exact
    for start, end in places:
        fitting = _fitting(new, old, text, text[start:end], exact=exact)
        adapted = adapted or fitting != new
        pieces += text[done:start], fitting
        done = end
    result = "".join((*pieces, text[done:]))
    if result == text:
        raise NoSuchEdit("nothing would change: old_string and new_string differ only in line ends")
    return Edited(result, len(places), adapted)


def _places(pattern: str, text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(pattern, text)]


def _any_line_end(old: str) -> str:
    """A pattern for the same lines however they end; the last one may be the last of the file."""
    *lines, last = (re.escape(line) for line in old.replace("\r\n", "\n").split("\n"))
    if any(lines) and not last:
        return r"\r?\n".join(lines) + r"(?:\r?\n|(?<!\n)\Z)"
    return r"\r?\n".join((*lines, last))


def _fitting(new: str, old: str, text: str, found: str, *, exact: bool) -> str:
    """`new` with line ends as the file has them there.

    What was found exactly is taken at its word, unless it had no line end to show that the file uses CRLF.
    """
    if exact:
        return new.replace("\n", "\r\n") if is_all_crlf(text) and "\r" not in old + new else new
    plain = new.replace("\r\n", "\n")
    if old.endswith("\n") and not found.endswith("\n"):  # the last line of a file that does not end it
        plain = plain.removesuffix("\n")
    return plain.replace("\n", newline_of(found) if "\n" in found else newline_of(text))


def _not_unique(text: str, places: list[tuple[int, int]]) -> str:
    lines = [str(text.count("\n", 0, start) + 1) for start, _ in places[:MAX_NAMED_LINES]]
    more = ", …" if len(places) > MAX_NAMED_LINES else ""
    where = f"{len(places)} times, in lines {', '.join(lines)}{more}"
    return f"old_string is there {where}; add lines around it, or set replace_all"


def _not_found(text: str, old: str) -> NoSuchEdit:
    from bridle.tools.nearest import help_with  # only for a text that is not there

    if MASK in old:
        return NoSuchEdit(
            "old_string shows a secret as its mask; the file has the secret itself, so leave it out"
        )
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    wanted = old.replace("\r\n", "\n").removesuffix("\n").split("\n")
    near = help_with(lines, wanted, name="old_string")
    return NoSuchEdit(f"old_string is not there: {near.problem}", near.excerpt)


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
