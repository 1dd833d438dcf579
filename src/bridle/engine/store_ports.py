"""What keeps sessions, as ports: `sessions` has the one on this machine's disk and the one in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from bridle.engine.undo_records import ActionRow, CallRow, Contents, Item, Kept, NewCall


class UndoStore(Protocol):
    """What is kept of the files of one session: contents by their digest, what each call and each undo did, in order.

    All of it blocks: who calls it looks at files too, and does that in a thread. Writing belongs to any thread, reading
    to the one that opened the log, or to the one that asked for a store of its own with `elsewhere`. Who reads finds
    everything written before. An undo or redo counts as done once its `UndoApplied` is in the log, and the calls it
    names as undone, or as not undone any more.

    Raises: `StoreError` from everything, once writing has failed.
    """

    def elsewhere(self) -> AbstractContextManager[UndoStore]:
        """The same store for another thread."""
        ...

    # Contents

    def keep(self, contents: Contents, now_ms: int) -> None:
        """Stores contents, and returns when they are. They stay for a day without a row that names them."""
        ...

    def content(self, digest: bytes) -> bytes | None:
        """What has this digest, checked; None where it is gone."""
        ...

    def stored(self, digests: Iterable[bytes]) -> set[bytes]:
        """Those of the digests whose content is there."""
        ...

    def sweeps(self) -> int:
        """How often contents were dropped. As long as it stays the same, what is stored is."""
        ...

    # Calls

    def next_number(self) -> int:
        """The number of the next call. Only one process runs a session, so it may go on counting from there."""
        ...

    def begin(self, call: NewCall, contents: Contents) -> None:
        """A call will run. It is stored before, or together with, whatever is appended to the log from now on."""
        ...

    def begin_whole(self, call: NewCall, contents: Contents, *, sweeps: int) -> bool:
        """The same for a call that saw the whole tree, some of it as an earlier session knew it; stored on return.

        False, and nothing is stored, where a content it relies on was dropped since there had been so many `sweeps`.
        """
        ...

    def end(self, number: int, kept: Kept, contents: Contents | None = None) -> None:
        """The call is over, stored as its beginning is. One that leaves no trace (`Kept.leaves_a_trace`) is dropped."""
        ...

    def calls(self) -> list[CallRow]:
        """What is stored of this session's calls, in the order they began."""
        ...

    def calls_nearby(self) -> list[CallRow]:
        """The same of the newest session of the same folder that has any; it may be this one."""
        ...

    # Undos

    def begin_action(
        self,
        items: Sequence[Item],
        *,
        calls: Sequence[str],
        turn: int | None,
        redo_of: int | None,
        started_ms: int,
    ) -> int:
        """An undo or redo will change these files. Returns its number, counted from 1, when it is stored."""
        ...

    def close_action(self, number: int) -> None:
        """An action that was cut off is left as it is, for good: another takes its place. One that is done stays."""
        ...

    def actions(self) -> list[ActionRow]:
        """The undos and redos of this session, in order."""
        ...

    def title_of(self, turn: int) -> str:
        """What the turn was about: the words that began it; empty for one that is not there."""
        ...

    def forget_old(self, now_ms: int) -> bool:
        """Drops what is older than `DAYS_KEPT`, of every session, and the contents nobody needs any more.

        A session keeps all of its calls until the last of them is old. False where nothing was.
        """
        ...
