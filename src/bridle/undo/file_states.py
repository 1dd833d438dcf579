"""Files as they were at several moments, and the rows of the undo store that tell it.

Each folder in which an agent of a session works has a record of its own; `place` is empty for the session's folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from bridle.engine.store_ports import UndoStore
from bridle.engine.undo_records import NEVER_THE_SAME, ActionRow, CallRow, Change, Seen, State
from bridle.undo.file_tree import shown_below


def same(one: State | None, other: State | None) -> bool:
    """Whether both are certainly the same thing; what is not known is never the same as anything."""
    if one is None or other is None:
        return one is other
    return one == other and one.known


def tree_of(rows: Sequence[CallRow]) -> dict[str, Seen]:
    """The tree as it was when the last of these calls began, or when it had ended if it has."""
    tree: dict[str, Seen] = {}
    for row in rows:
        if row.kept.whole:
            tree = {}
        for seen in row.kept.seen:
            put(tree, seen)
        for change in row.kept.changes:
            put(tree, Seen(change.path, change.signature, change.after))
    return tree


def put(tree: dict[str, Seen], seen: Seen) -> None:
    path = os.fsdecode(seen.path)
    if seen.state is None:
        tree.pop(path, None)
    else:
        tree[path] = seen


def is_own_file(change: Change) -> bool:
    """Whether it is a file or a link that changed, and none of a repository's own."""
    states = (change.before, change.after)
    return ".git" not in change.name.split("/") and any(
        state is not None and state.kind != "folder" for state in states
    )


def merged(rows: Iterable[CallRow]) -> tuple[dict[str, Change], set[str]]:
    """What several calls did together, in order, and the paths that somebody else changed between two of them."""
    changes: dict[str, Change] = {}
    between: set[str] = set()
    for row in rows:
        for change in row.kept.changes:
            path = change.name
            earlier = changes.get(path)
            if earlier is None:
                changes[path] = change
                continue
            if not same(earlier.after, change.before):
                between.add(path)
            changes[path] = Change(change.path, earlier.before, change.after, change.signature)
    kept = {path: change for path, change in changes.items() if not same(change.before, change.after)}
    return kept, between & kept.keys()


def differences(before: Mapping[str, Seen], after: Mapping[str, Seen], paths: Iterable[str]) -> list[Change]:
    """What is no longer the same at any of `paths`, in their order."""
    changes: list[Change] = []
    for path in sorted(paths):
        old, new = before.get(path), after.get(path)
        if old is not None and new is not None and old.signature == new.signature != NEVER_THE_SAME:
            continue
        was = old.state if old is not None else None
        now = new.state if new is not None else None
        if not same(was, now):
            signature = new.signature if new is not None else NEVER_THE_SAME
            changes.append(Change(os.fsencode(path), was, now, signature))
    return changes


def changed_files(calls: Iterable[CallRow], cwd: str) -> dict[str, tuple[str, ...]]:
    """By the id of the call. What belongs to a repository itself is not among them."""
    return {
        call.call_id: tuple(
            shown_below(change.name, (cwd,)) for change in call.kept.changes if is_own_file(change)
        )
        for call in calls
    }


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
    wanted = os.fsencode(place)
    return [row for row in rows if row.kept.place == wanted]


async def actions_in(store: UndoStore, place: str) -> list[ActionRow]:
    actions = await store.actions()
    if not actions:  # of most sessions nothing was taken back, and their rows may be long
        return []
    calls = {row.call_id for row in rows_in(await store.calls(), place)}
    return [action for action in actions if not calls.isdisjoint(action.calls)]


def places_of(rows: Iterable[CallRow]) -> list[str]:
    return list(dict.fromkeys(os.fsdecode(row.kept.place) for row in rows if row.kept.place))
