"""Operations on stored sessions: branch, import, search, retention, backup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from bridle.engine.ports import StoredSession
from bridle.engine.store_ports import Backup, DaysOf, Due, Expired, ForgetBeside, Found, Restored
from bridle.protocol.errors import BridleError, UsageError
from bridle.protocol.events import Branched
from bridle.sessions.archive.backup import back_up, restore
from bridle.sessions.archive.event_copy import Origin, new_session
from bridle.sessions.archive.import_session import import_lines
from bridle.sessions.archive.retention import delete, expire, expiring
from bridle.sessions.archive.text_search import last_answers, search
from bridle.sessions.log import log_reader
from bridle.sessions.log.database import Connection
from bridle.sessions.repair import repair
from bridle.sessions.repair.rekey import rekey
from bridle.sessions.repair.repair import Report
from bridle.sessions.shelf import Shelf
from bridle.sessions.store import SessionRow, SessionStore, busy, refuse_rest

_ENDS = """select e.turn, e.id, e.chain from events e
  where e.log = ? and e.kind = 'TurnEnded' and e.agent_path is null order by e.id"""


_SHARE_OUTPUTS_KEY = """update logs set outputs_key = (select outputs_key from logs where key = ?)
  where session = ?"""


def branch(shelf: Shelf, parent: SessionRow, *, turn: int | None = None) -> str:
    """Copies the session up to the end of `turn`, or of its last ended one, and returns the id of the new one.

    It can read the long outputs of its parent, once they are copied.

    The parent may be running; nothing of it changes. Raises `UsageError` for a turn that has no end (yet).
    """
    refuse_rest(parent)
    name = parent.name
    with shelf.database.errors():
        ends = shelf.reader().execute(_ENDS, (name.key,)).fetchall()
    at = end_of_turn([(number, event) for number, event, _ in ends], turn)
    (link,) = (link for _, event, link in ends if event == at)
    origin = msgspec.structs.replace(branch_origin(parent, at), chain=link)
    with shelf.database.errors():
        made = new_session(shelf, origin, log_reader.up_to(shelf.reader(), name, at))

    def share(connection: Connection) -> None:
        connection.execute(_SHARE_OUTPUTS_KEY, (name.key, made))

    shelf.writer.run(share)
    return made


def end_of_turn(ends: Sequence[tuple[int, int]], turn: int | None) -> int:
    """The event that ended a turn, or the last one that did; `ends` are turns and events. Raises `UsageError`."""
    wanted = [event for number, event in ends if turn in (None, number)]
    if not wanted:
        raise UsageError(_no_such_end(turn, [number for number, _ in ends]))
    return wanted[-1]


def branch_origin(parent: StoredSession, at: int) -> Origin:
    """What a branch of this session begins with that goes up to event `at`."""
    return Origin(
        cwd=parent.cwd,
        root=parent.root,
        profile=parent.profile,
        title=f"{parent.title} (branch)" if parent.title else "",
        renamed=parent.renamed,
        branch_of=parent.id,
        branched=Branched(parent_log=parent.log, at=at),
    )


def _no_such_end(turn: int | None, ended: list[int]) -> str:
    if not ended:
        return "No turn of this session has ended yet, and a branch begins where one ended"
    most = f"it has turns 1 to {ended[-1]}" if len(ended) > 1 else "it has 1 turn"
    return f"Turn {turn} of this session has not ended or does not exist: {most}"


class StoredArchive:
    """Does what `engine.store_ports.Archive` says, and what is about the file itself.

    What each of it takes is loaded when it is done.
    """

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._shelf = store.shelf

    def branch(self, session_id: str, *, turn: int | None = None) -> str:
        self._shelf.writer.settle()  # the turn that just ended is one to branch from
        return branch(self._shelf, self._store.row(session_id), turn=turn)

    def import_lines(self, lines: Iterable[bytes], *, cwd: str, profile: str, missing: str = "") -> str:
        return import_lines(self._shelf, lines, cwd=cwd, profile=profile, missing=missing)

    def search(self, words: str, *, limit: int) -> Sequence[Found]:
        return search(self._shelf, words, limit=limit)

    def last_answers(self, sessions: Sequence[str]) -> Mapping[str, str]:
        return last_answers(self._shelf, sessions)

    def expiring(self, days_of: DaysOf, *, until_ms: int) -> Sequence[Due]:
        return expiring(self._shelf, days_of, until_ms=until_ms)

    def expire(
        self,
        days_of: DaysOf,
        *,
        beside: ForgetBeside = lambda _session: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Expired:
        """May be run in another thread than the store's."""
        with self._shelf.elsewhere() as shelf:
            return expire(shelf, days_of, beside=beside, stopped=stopped)

    def delete(self, session_id: str, *, beside: ForgetBeside = lambda _session: None) -> None:
        row = self._store.row(session_id)
        if not delete(self._shelf, row.id, row.log_key, row.log, beside=beside):
            raise busy(row.id, self._shelf.lock_of(row.log))

    def back_up(self, path: str) -> Backup:
        """May be run in another thread than the store's."""
        self._refuse_nothing()
        self._shelf.writer.settle()
        return back_up(self._shelf.database, path)

    def restore(self, path: str, *, cwd: str, notice: Callable[[str], None]) -> Restored:
        """May be run in another thread than the store's."""
        with self._shelf.elsewhere() as shelf:
            return restore(shelf, path, cwd=cwd, notice=notice)

    # The file

    def repair(self, *, only_look: bool = False) -> Report:
        """Looks at the whole database, and saves what is whole of it."""
        return (repair.examine if only_look else repair.repair)(self._shelf.database)

    def rekey(self) -> str:
        """Encrypts everything with a new key; returns where that is. Raises `NothingStored`."""
        self._refuse_nothing()
        rekey(self._shelf.database)
        return self._shelf.database.key_path

    def _refuse_nothing(self) -> None:
        if not self._shelf.database.exists():
            raise BridleError("NothingStored")
