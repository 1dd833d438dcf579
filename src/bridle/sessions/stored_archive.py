"""What is done with the stored sessions as a whole, where the database is on this machine. All of it blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from bridle.engine.store_ports import Backup, DaysOf, Due, Expired, ForgetBeside, Found, Restored
from bridle.protocol.errors import BridleError
from bridle.sessions import repair
from bridle.sessions.backup import back_up, restore
from bridle.sessions.branch import branch
from bridle.sessions.import_session import import_lines
from bridle.sessions.rekey import rekey
from bridle.sessions.repair import Report
from bridle.sessions.retention import delete, expire, expiring
from bridle.sessions.store import SessionStore, busy
from bridle.sessions.text_search import last_answers, search


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
