"""What stands at a path, what a call changed there, and what a row of the undo store holds. Plain data, pure functions.

Paths are absolute. A name that is no UTF-8 is held the way `os.fsdecode` holds it and stored as the bytes it has.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["file", "link", "folder", "other"]
Signature: TypeAlias = tuple[int, int, int, int, int]
"""Modified and changed (ns), size, inode, mode. As long as these stay, the content does."""
NEVER_THE_SAME: Signature = (-1, -1, -1, -1, -1)


class State(msgspec.Struct, frozen=True, array_like=True):
    """A file, link or folder as undo knows it. `mode` are its permission bits.

    `sha256` is the content of a file if it is kept; without it the file can neither be compared nor put back.
    """

    kind: Kind
    mode: int = 0
    sha256: bytes = b""
    target: bytes = b""
    size: int = 0

    @property
    def known(self) -> bool:
        return bool(self.sha256) if self.kind == "file" else self.kind != "other"


def same(one: State | None, other: State | None) -> bool:
    """Whether both are certainly the same thing; what is not known is never the same as anything."""
    if one is None or other is None:
        return one is other
    return one == other and one.known


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """A path at one moment: how the system described it, and what it was; None where nothing was."""

    path: bytes
    signature: Signature
    state: State | None


class Change(msgspec.Struct, frozen=True, array_like=True):
    """What a call did to a path."""

    path: bytes
    before: State | None
    after: State | None
    signature: Signature = NEVER_THE_SAME

    @property
    def name(self) -> str:
        return os.fsdecode(self.path)


class Missed(msgspec.Struct, frozen=True, array_like=True):
    """Something that changed, or may have, and that undo does not cover."""

    what: str
    why: Literal["git", "objects", "skipped", "limit", "network", "background", "outside", "unseen"]


class Lost(msgspec.Struct, frozen=True, array_like=True):
    """What went from the `objects` folder of a repository and is nowhere else in it: files by their names below it.

    `names` are kept and can be given back, `unkept` is how many more there were.
    """

    objects: bytes
    names: tuple[str, ...] = ()
    unkept: int = 0

    @property
    def name(self) -> str:
        return os.fsdecode(self.objects)


class Kept(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What is stored of one call.

    `seen` is what had changed between the last call and this one; with `whole` it is the entire tree. What a call did
    that undo leaves, in a repository, comes to it in the end. With `exact` the
    call could change the paths in `seen` and no others. Nothing is known about what lay in `unlisted` folders.
    `changes` and `lost` are empty until the call is over.
    """

    whole: bool = False
    exact: bool = False
    seen: tuple[Seen, ...] = ()
    unlisted: tuple[bytes, ...] = ()
    changes: tuple[Change, ...] = ()
    missed: tuple[Missed, ...] = ()
    lost: tuple[Lost, ...] = ()

    @property
    def has_changes(self) -> bool:
        return bool(self.changes or self.lost)


class CallRow(msgspec.Struct, frozen=True, kw_only=True):
    """A call in the undo store, in the order calls began. `open` while it runs, or if Bridle stopped while it ran."""

    number: int
    call_id: str
    turn: int | None
    tool: str
    does: str
    started_ms: int
    open: bool
    undone: bool
    kept: Kept


class Item(msgspec.Struct, frozen=True, array_like=True):
    """One path of an undo: what stood there, and what stands there afterwards."""

    path: bytes
    before: State | None
    after: State | None

    @property
    def name(self) -> str:
        return os.fsdecode(self.path)

    def reversed(self) -> Item:
        return Item(self.path, self.after, self.before)


class ActionRow(msgspec.Struct, frozen=True, kw_only=True):
    """An undo or a redo in the store. `begun` and not `done`: Bridle stopped in the middle of it."""

    number: int
    calls: tuple[str, ...]
    turn: int | None
    redo_of: int | None
    done: bool
    reversed: bool
    started_ms: int
    items: tuple[Item, ...]


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
