"""What a turn or a session changed, file by file with its diff: for people to look at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from bridle.base.text.line_diff import diff_of
from bridle.engine.undo_records import Change
from bridle.protocol.display_values import EditedFile
from bridle.protocol.queries import SessionChanges
from bridle.undo.undo_preview import is_text
from bridle.undo.undo_service import Undo
from bridle.undo.undo_words import masked

MAX_FILES: Final = 200
MAX_CHARACTERS: Final = 400_000
"""The diffs share so many; a file whose diff has no room says so."""


async def list_changes(work: Undo, what: str, *, hides: Callable[[str], bool]) -> SessionChanges:
    """What an undo of `what` would take back. Of a file that `hides` names nothing is shown, of others no secrets."""
    deeds = await work.deeds(what)
    if deeds is None:
        return SessionChanges()
    room = MAX_CHARACTERS
    files: list[EditedFile] = []
    hidden: list[str] = []
    for change in deeds.changes[:MAX_FILES]:
        path = work.shown(change.name)
        if hides(change.name):
            hidden.append(path)
            continue
        file = await asyncio.to_thread(_file, change, path, *await work.held(change))
        room -= len(file.diff)
        files.append(file if room >= 0 else msgspec.structs.replace(file, diff="", cut=True))
    return SessionChanges(
        turn=deeds.turn,
        title=deeds.title,
        files=tuple(files),
        hidden=tuple(hidden),
        more_files=max(0, len(deeds.changes) - MAX_FILES),
    )


def _file(change: Change, path: str, before: bytes | None, after: bytes | None) -> EditedFile:
    kind: Literal["create", "change", "delete"] = (
        "create" if change.before is None else "delete" if change.after is None else "change"
    )
    if not (is_text(before) and is_text(after)) or (before is None and after is None):
        return EditedFile(path=path, kind=kind, removed=None)
    old, new = (None if data is None else _text(data) for data in (masked(before), masked(after)))
    diff = diff_of(path, old, new or "")
    return EditedFile(path=path, kind=kind, diff=diff.text, added=diff.added, removed=diff.removed)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
