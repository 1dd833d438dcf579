"""Files as they were at several moments, compared: pure functions over what the undo store holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from bridle.engine.undo_records import NEVER_THE_SAME, CallRow, Change, Seen, State
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
