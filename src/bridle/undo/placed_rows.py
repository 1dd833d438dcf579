"""The rows of one folder in the undo store of a session: its own, or a worktree in which an agent of it works.

Each folder has a record of its own in the one store: what is taken back in one neither looks at the other nor touches
it. `place` is empty for the folder of the session.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from bridle.engine.store_ports import UndoStore
from bridle.engine.undo_records import ActionRow, CallRow


class CallNumbers:
    """Numbers the calls of a session in the order they begin, whichever folder they change."""

    def __init__(self) -> None:
        self._next = 0

    async def begin(self, store: UndoStore) -> None:
        """Continue behind the stored numbers."""
        number = await store.next_number()
        self._next = self._next or number

    def take(self) -> int:
        self._next += 1
        return self._next - 1


def rows_in(rows: Iterable[CallRow], place: str) -> list[CallRow]:
    """Those of one folder."""
    wanted = os.fsencode(place)
    return [row for row in rows if row.kept.place == wanted]


async def actions_in(store: UndoStore, place: str) -> list[ActionRow]:
    """The undos and redos of one folder."""
    actions = await store.actions()
    if not actions:  # of most sessions nothing was taken back, and their rows may be long
        return []
    calls = {row.call_id for row in rows_in(await store.calls(), place)}
    return [action for action in actions if not calls.isdisjoint(action.calls)]


def places_of(rows: Iterable[CallRow]) -> list[str]:
    """The folders of these rows beside the session's own."""
    return list(dict.fromkeys(os.fsdecode(row.kept.place) for row in rows if row.kept.place))
