"""Preview what a call would change in a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from bridle.base.secrets.redact import lines_within_secrets, stored_marker
from bridle.base.text.line_diff import DiffLine, folded, line_diff, lines_of
from bridle.protocol.events import FileChange

MAX_WHOLE_CHARACTERS: Final = 16 * 1024
"""A file up to this length is told with all lines that stay."""
MAX_SHOWN_CHARACTERS: Final = 128 * 1024
"""Of all changes of a call together; what is beyond is counted."""


def file_change(
    path: str,
    old: str | None,
    new: str | None,
    *,
    kind: Literal["create", "change", "delete", "move"] | None = None,
    moved_from: str | None = None,
    sha256: str = "",
) -> FileChange:
    """The change from `old` to `new`; None: there is no file before, or after."""
    before, after = lines_of(old or ""), lines_of(new or "")
    diff = line_diff(before, after, whole=len(new or "") <= MAX_WHOLE_CHARACTERS)
    if kind is None:
        kind = "create" if old is None else "delete" if new is None else "change"
    return FileChange(
        path=path,
        kind=kind,
        moved_from=moved_from,
        lines=_without_secrets(diff.lines, old or ""),
        added=diff.added,
        removed=diff.removed,
        only_ends=kind == "change" and not diff.lines and old != new,
        sha256=sha256,
    )


def _without_secrets(lines: tuple[DiffLine, ...], old: str) -> tuple[DiffLine, ...]:
    """The lines without those of the file that are in the middle of a secret. What comes is told as the call has it."""
    hidden = lines_within_secrets(lines_of(old))
    return tuple(
        msgspec.structs.replace(line, text=stored_marker("secret"))
        if line.mark in "- " and line.text in hidden
        else line
        for line in lines
    )


def bounded(changes: Sequence[FileChange]) -> tuple[FileChange, ...]:
    """The changes with as many lines as there is room for; first the lines that stay give way, then the last ones."""
    room = MAX_SHOWN_CHARACTERS
    kept: list[FileChange] = []
    for change in changes:
        lines = change.lines if _size(change.lines) <= room else folded(change.lines)
        if _size(lines) > room:
            lines = folded(lines, around=0)
        fitting = _fitting(lines, room)
        room -= _size(fitting)
        kept.append(msgspec.structs.replace(change, lines=fitting, cut=len(lines) - len(fitting)))
    return tuple(kept)


def _size(lines: Sequence[DiffLine]) -> int:
    return sum(len(line.text) + 8 for line in lines)


def _fitting(lines: Sequence[DiffLine], room: int) -> tuple[DiffLine, ...]:
    for at, line in enumerate(lines):
        room -= len(line.text) + 8
        if room < 0:
            return tuple(lines[:at])
    return tuple(lines)
