"""The ports of a session store. `sessions` implements them with an encrypted database.

`conformance.store_checks` holds each of them to what is written here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

import msgspec

from bridle.engine.ports import Description, Lease, Record, Room, SessionLog, StoredSession
from bridle.engine.undo_records import ActionRow, CallRow, Contents, Item, Kept, NewCall
from bridle.protocol.events import Envelope


class OpenLog(SessionLog, Protocol):
    """The log of a session that was opened: whoever has it holds its lease until `aclose`.

    Every append belongs to the epoch of that lease. Once another has taken it, nothing of this log is written any more:
    its listener hears `StoreError("LeaseLost")`, and whatever is called next raises it. Other logs go on.
    """

    @property
    def session(self) -> str: ...
    @property
    def log(self) -> str: ...
    @property
    def lease(self) -> Lease: ...
    def records(self, after: int) -> Iterator[Record]:
        """Everything appended so far with an id above `after`. Blocks; run it in a thread."""
        ...

    def keep_fold(self, event_id: int, folded: bytes) -> None:
        """Keeps what the events up to `event_id` fold to. Blocks; run it in a thread."""
        ...

    def outputs_key(self) -> bytes:
        """What long outputs of this session are encrypted with, made when first asked for. Blocks."""
        ...

    def undo_store(self) -> UndoStore:
        """What was kept of this session's files, to put them back."""
        ...

    async def aclose(self) -> None:
        """Puts everything on the disk and gives the lease back. May be repeated.

        Raises: `StoreError` when something could not be written; the lease is free even then.
        """
        ...


class SessionStore(Protocol):
    """Every session of one person: making, finding, opening, naming and reading them.

    A session is meant by its id unless something else is said. What is only looked at needs no lease: the session may
    be running elsewhere. Several stores may work on the same sessions at once.

    Raises: `StoreError` from everything, where what is stored cannot be read or written;
    `CommandRefused("UnknownSession")` from everything that is given an id.
    """

    async def create(
        self,
        cwd: str,
        *,
        profile: str,
        aliases: Sequence[str] = (),
        root: str | None = None,
        headless: bool = False,
    ) -> OpenLog:
        """A new session with an empty log, open for appending. An alias in use moves to it."""
        ...

    async def open(self, session_id: str, *, accept_loss: bool = False) -> OpenLog:
        """Takes the lease of a session and opens its log for appending.

        Raises: `CommandRefused("SessionBusy")` while another holds it; `UsageError` for one that is only to be read;
        `StoreError("LogDamaged")` when its end was lost. With `accept_loss` the log goes on without what was.
        """
        ...

    async def find(self, text: str, *, cwd: str | None = None, exact: bool = False) -> StoredSession:
        """The session meant by an id, an alias, a title, a label or the unique beginning of an id, in order. No title
        and no label, which others can give, stands for the beginning of another session's id.

        The `sess_` of an id may be left out. `cwd` decides between several that fit. With `exact`, only a whole id or
        alias means one.
        Raises: `CommandRefused` (`UnknownSession`, `AmbiguousSession`).
        """
        ...

    async def newest(self, cwd: str) -> StoredSession:
        """The session used last in a folder, of those that can be gone on with. One in which nothing was said or done,
        as of somebody who came and left, only where there is no other.

        Raises: `CommandRefused("NoSessionHere")`.
        """
        ...

    async def list(
        self, *, cwd: str | None = None, after: tuple[int, str] | None = None, limit: int | None = None
    ) -> Sequence[StoredSession]:
        """Sessions, of one folder or all, the one used last first; of those used at the same moment the last made.

        Only those behind `after`, which is the `updated_ms` and the id of one of them, and no more than `limit`. A
        session that is made or used meanwhile comes before every place that was given out: no page shows one twice.
        """
        ...

    async def short_ids(self, sessions: Sequence[str]) -> Mapping[str, str]:
        """By session: the shortest beginning of its id that is the beginning of no other, as `base.ids.short_ids`."""
        ...

    async def describe(self, session_id: str) -> Description:
        """What is known of a session, and whether somebody has it open."""
        ...

    def events(self, session_id: str, *, after: int = 0) -> AsyncIterator[Envelope]:
        """The committed events above `after`, in order."""
        ...

    async def costs(self, session_id: str, *, since_ms: int = 0) -> Sequence[Envelope]:
        """What a session paid since a time: its `CostIncremented` events, in order."""
        ...

    async def fold(self, session_id: str) -> bytes | None:
        """The last kept fold of a session, if the log still holds the event it ends with."""
        ...

    async def verify(self, session_id: str, *, last: int | None = None) -> None:
        """Checks that the events, all or the `last` ones, are what was appended.

        Raises: `StoreError("LogDamaged")` naming the first event that is not.
        """
        ...

    async def digest(self, session_id: str) -> str:
        """What stands for everything in the log: another with each event, the same for as long as nothing is added."""
        ...

    async def calls(self, session_id: str) -> Sequence[CallRow]:
        """What is kept of what a session's calls did to files, in the order they began."""
        ...

    async def rename(self, session_id: str, title: str) -> None:
        """Gives the session a title of a person's choice; after an empty one the next input names it."""
        ...

    async def pin(self, session_id: str, *, pinned: bool) -> None:
        """Says whether the session's content is kept for as long as there is room."""
        ...

    async def aclose(self) -> None:
        """Writes what is queued. Close the open logs first."""
        ...


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A place where the words were said: `who` is "you" or "model". They stand between `OPENING` and `CLOSING`."""

    session: str
    event: int
    turn: int | None
    ts_ms: int
    who: str
    excerpt: str


OPENING, CLOSING = "\x02", "\x03"
"""Around the words that were found, in `Found.excerpt`."""


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """A session whose content expires at `at_ms`, which may be past."""

    id: str
    title: str
    at_ms: int


class Expired(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep did: whose content is gone, and who was spared because somebody works with it."""

    sessions: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds, and where it is; `key_path` is empty where it needs no key."""

    path: str
    key_path: str
    sessions: int
    events: int


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions that came in, and how many were left out: they are here already, or have nothing to go on with."""

    sessions: tuple[str, ...]
    left_out: int


DaysOf: TypeAlias = Callable[[str], int | None]
"""How many days the sessions of a profile keep their content; None for ever."""
ForgetBeside: TypeAlias = Callable[[str], None]
"""Deletes what lies beside the store of a session. It may be called again, and raises nothing."""


class Archive(Protocol):
    """What is done with stored sessions as a whole. What is about one file on a disk, its repair or another key for it,
    is no part of it: a store that has such a file has its own doors for that.

    Raises: as `SessionStore` does.
    """

    async def branch(self, session_id: str, *, turn: int | None = None) -> str:
        """Copies a session up to the end of `turn`, or of its last ended one, and returns the id of the new one.

        The parent may be running; nothing of it changes. Its branch can read the long outputs of its parent, once they
        are copied.
        Raises: `UsageError` for a turn that has no end (yet), and for a session that is only to be read.
        """
        ...

    async def import_lines(self, lines: Iterable[bytes], *, cwd: str, profile: str, missing: str = "") -> str:
        """Makes a session of the lines of an export and returns its id.

        It is found by the id it had elsewhere too, unless somebody here has that id or name. Where its end is
        `missing`, the session says so in these words.
        Raises: `UsageError` naming the first bad line.
        """
        ...

    async def search(self, words: str, *, limit: int) -> Sequence[Found]:
        """Where every one of the words was said, the last first; `"several words"` in quotes stand together.

        Whole words come before beginnings of words.
        """
        ...

    async def last_answers(self, sessions: Sequence[str]) -> Mapping[str, str]:
        """By session, of these: what its model said last, as far as searches have seen it."""
        ...

    async def expiring(self, days_of: DaysOf, *, until_ms: int) -> Sequence[Due]:
        """The sessions whose content expires up to a moment, the first first. Pinned ones never do."""
        ...

    async def expire(
        self,
        days_of: DaysOf,
        *,
        beside: ForgetBeside = lambda _session: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Expired:
        """Deletes the content of every session that is due, some days after it was last used; that it was stays.

        `stopped` is asked now and then; what is left then is finished by the next sweep. A session counts as done when
        nothing is left `beside` it either.
        """
        ...

    async def delete(self, session_id: str, *, beside: ForgetBeside = lambda _session: None) -> None:
        """Deletes a session and everything that belongs to it.

        Raises: `CommandRefused("SessionBusy")` while somebody works with it.
        """
        ...

    async def back_up(self, path: str) -> Backup:
        """Copies everything that is stored, as it is at one moment, to a new file, while others may write. The copy has
        its name when it was read back and is whole.

        Raises: `UsageError` where something has that name or it cannot be written; `BridleError("NothingStored")`
        before the first session.
        """
        ...

    async def restore(
        self, path: str, *, cwd: str, notice: Callable[[str], None] = lambda _text: None
    ) -> Restored:
        """Takes in every session of a backup that is not here, each as an export of it would come in, with its name.

        It belongs to `cwd`, unless the store can tell that it wrote the backup itself. `notice` hears what a person
        should know of the file.
        Raises: `UsageError` or `StoreError` for a file that is no whole backup of such a store.
        """
        ...


class Store(SessionStore, Archive, Room, Protocol):
    """All that an engine needs of what keeps its sessions."""


class UndoStore(Protocol):
    """What is kept of the files of one session: contents by their digest, what each call and each undo did, in order.

    A reader finds everything written before. An undo or redo counts as done once its `UndoApplied` is in the log, and
    the calls it names as undone, or as not undone any more.

    Raises: `StoreError` from everything, once writing has failed.
    """

    # Contents

    async def keep(self, contents: Contents, now_ms: int) -> None:
        """Stores contents, and returns when they are. They stay for a day without a row that names them."""
        ...

    async def content(self, digest: bytes) -> bytes | None:
        """What has this digest, checked; None where it is gone."""
        ...

    async def stored(self, digests: Iterable[bytes]) -> set[bytes]:
        """Those of the digests whose content is there."""
        ...

    async def sweeps(self) -> int:
        """How often contents were dropped. As long as it stays the same, what is stored is."""
        ...

    # Calls

    async def next_number(self) -> int:
        """The number of the next call. Only one process runs a session, so it may go on counting from there."""
        ...

    async def begin(self, call: NewCall, contents: Contents) -> None:
        """A call will run. It is stored before, or together with, whatever is appended to the log from now on."""
        ...

    async def begin_whole(self, call: NewCall, contents: Contents, *, sweeps: int) -> bool:
        """The same for a call that saw the whole tree, some of it as an earlier session knew it; stored on return.

        False, and nothing is stored, where a content it relies on was dropped since there had been so many `sweeps`.
        """
        ...

    async def end(self, number: int, kept: Kept, contents: Contents | None = None) -> None:
        """The call is over, stored as its beginning is. One that leaves no trace (`Kept.leaves_a_trace`) is dropped."""
        ...

    async def calls(self) -> list[CallRow]:
        """What is stored of this session's calls, in the order they began."""
        ...

    async def calls_nearby(self) -> list[CallRow]:
        """The same of the newest session of the same folder that has any; it may be this one."""
        ...

    # Undos

    async def begin_action(
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

    async def close_action(self, number: int) -> None:
        """An action that was cut off is left as it is, for good: another takes its place. One that is done stays."""
        ...

    async def actions(self) -> list[ActionRow]:
        """The undos and redos of this session, in order."""
        ...

    async def title_of(self, turn: int) -> str:
        """What the turn was about: the words that began it; empty for one that is not there."""
        ...

    async def forget_old(self, now_ms: int) -> bool:
        """Drops what is older than `DAYS_KEPT`, of every session, and the contents nobody needs any more.

        A session keeps all of its calls until the last of them is old. False where nothing was.
        """
        ...
