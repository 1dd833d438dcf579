"""What stands at a path, what a call changed there, and what a row of the undo store holds. Plain data.

Who keeps these rows and who makes them both know this, and not each other. Paths are absolute. A name that is no UTF-8
is held the way `os.fsdecode` holds it and stored as the bytes it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from bridle.base.fs.paths import name_of

Kind: TypeAlias = Literal["file", "link", "folder", "other"]
Signature: TypeAlias = tuple[int, int, int, int, int]
"""Modified and changed (ns), size, inode, mode. As long as these stay, the content does."""
NEVER_THE_SAME: Signature = (-1, -1, -1, -1, -1)
DAYS_KEPT = 30
"""So long what calls did can be taken back."""
Contents: TypeAlias = Mapping[bytes, bytes]
"""By their digest."""


class State(msgspec.Struct, frozen=True, array_like=True):
    """A file, link or folder as undo knows it. `mode` are permission bits. A file without `sha256` can neither be
    compared nor put back."""

    kind: Kind
    mode: int = 0
    sha256: bytes = b""
    target: bytes = b""
    size: int = 0

    @property
    def known(self) -> bool:
        return bool(self.sha256) if self.kind == "file" else self.kind != "other"


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
        return name_of(self.path)


class Missed(msgspec.Struct, frozen=True, array_like=True):
    """Something that changed, or may have, and that undo does not cover."""

    what: str
    why: Literal["git", "objects", "skipped", "limit", "network", "background", "outside", "unseen"]


class Lost(msgspec.Struct, frozen=True, array_like=True):
    """Names in the `objects` folder of a repository that went and can be given back. A third value of older sessions
    is ignored."""

    objects: bytes
    names: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return name_of(self.objects)


class Kept(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What is stored of one call.

    `seen` is what had changed between the last call and this one; with `whole` it is the entire tree. What a call did
    that undo leaves, in a repository, comes to it in the end. With `exact` the
    call could change the paths in `seen` and no others. Nothing is known about what lay in `unlisted` folders.
    `changes` and `lost` are empty until the call is over. `place` is the folder whose record it belongs to, where that
    is not the session's own: a worktree in which an agent works.
    """

    whole: bool = False
    exact: bool = False
    seen: tuple[Seen, ...] = ()
    unlisted: tuple[bytes, ...] = ()
    changes: tuple[Change, ...] = ()
    missed: tuple[Missed, ...] = ()
    lost: tuple[Lost, ...] = ()
    place: bytes = b""

    @property
    def has_changes(self) -> bool:
        return bool(self.changes or self.lost)

    @property
    def leaves_a_trace(self) -> bool:
        """Whether a call that is over and kept this is worth a row."""
        return bool(self.has_changes or self.missed or (self.seen and not self.exact))

    def named(self) -> set[bytes]:
        """The contents of the files it saw, by their digests."""
        return {seen.state.sha256 for seen in self.seen if seen.state is not None} - {b""}


class NewCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is about to run; calls of a session are numbered in the order they begin."""

    number: int
    call_id: str
    turn: int | None
    tool: str
    does: str
    started_ms: int
    kept: Kept


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
        return name_of(self.path)

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
