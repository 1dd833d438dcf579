"""The files that calls changed, whatever tool did it, as undo saw it."""

from __future__ import annotations

from collections.abc import Iterable

from bridle.engine.undo_records import CallRow
from bridle.undo.file_states import is_own_file
from bridle.undo.file_tree import shown_below


def changed_files(calls: Iterable[CallRow], cwd: str) -> dict[str, tuple[str, ...]]:
    """By the id of the call. What belongs to a repository itself is not among them."""
    return {
        call.call_id: tuple(
            shown_below(change.name, (cwd,)) for change in call.kept.changes if is_own_file(change)
        )
        for call in calls
    }
