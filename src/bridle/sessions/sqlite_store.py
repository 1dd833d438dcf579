"""The encrypted database of this machine as the store of an engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bridle.engine.ports import Description, StoredSession
    from bridle.engine.store_ports import (
        Backup,
        DaysOf,
        Due,
        Expired,
        ForgetBeside,
        Found,
        Restored,
    )
    from bridle.engine.undo_records import CallRow
    from bridle.protocol.events import Envelope
    from bridle.sessions.archive.stored_archive import StoredArchive
    from bridle.sessions.log.session_log import StoredLog
    from bridle.sessions.store import SessionStore


class SqliteStore:
    """Implements `engine.store_ports.Store`.

    A look at the database takes less than handing it to a thread would, so it is taken at once; what takes long is
    done in one. `database` is what it works on, for those who have it on their own disk.
    """

    def __init__(self, database: SessionStore) -> None:
        self.database = database

    # The sessions

    async def create(
        self,
        cwd: str,
        *,
        profile: str,
        aliases: Sequence[str] = (),
        root: str | None = None,
        headless: bool = False,
    ) -> StoredLog:
        return self.database.create(cwd, profile=profile, aliases=aliases, root=root, headless=headless)

    async def open(self, session_id: str, *, accept_loss: bool = False) -> StoredLog:
        return self.database.open(session_id, accept_loss=accept_loss)

    async def find(self, text: str, *, cwd: str | None = None, exact: bool = False) -> StoredSession:
        return self.database.find(text, cwd=cwd, exact=exact)

    async def newest(self, cwd: str) -> StoredSession:
        return self.database.newest(cwd)

    async def list(
        self, *, cwd: str | None = None, after: tuple[int, str] | None = None, limit: int | None = None
    ) -> Sequence[StoredSession]:
        return self.database.list(cwd=cwd, after=after, limit=limit)

    async def short_ids(self, sessions: Sequence[str]) -> Mapping[str, str]:
        return self.database.short_ids(sessions)

    async def describe(self, session_id: str) -> Description:
        return self.database.describe(session_id)

    async def events(self, session_id: str, *, after: int = 0) -> AsyncIterator[Envelope]:
        for envelope in self.database.events(session_id, after=after):
            yield envelope

    async def costs(self, session_id: str, *, since_ms: int = 0) -> Sequence[Envelope]:
        return list(self.database.costs(self.database.row(session_id), since_ms=since_ms))

    async def fold(self, session_id: str) -> bytes | None:
        return self.database.fold(session_id)

    async def verify(self, session_id: str, *, last: int | None = None) -> None:
        self.database.verify(session_id, last=last)

    async def digest(self, session_id: str) -> str:
        return self.database.digest(session_id)

    async def calls(self, session_id: str) -> Sequence[CallRow]:
        return await self.database.undo_of(session_id).calls()

    async def rename(self, session_id: str, title: str) -> None:
        self.database.rename(session_id, title)

    async def pin(self, session_id: str, *, pinned: bool) -> None:
        self.database.pin(session_id, pinned=pinned)

    async def aclose(self) -> None:
        self.database.close()

    # All of them

    async def branch(self, session_id: str, *, turn: int | None = None) -> str:
        return self._archive().branch(session_id, turn=turn)

    async def import_lines(self, lines: Iterable[bytes], *, cwd: str, profile: str, missing: str = "") -> str:
        return self._archive().import_lines(lines, cwd=cwd, profile=profile, missing=missing)

    async def search(self, words: str, *, limit: int) -> Sequence[Found]:
        return self._archive().search(words, limit=limit)

    async def last_answers(self, sessions: Sequence[str]) -> Mapping[str, str]:
        return self._archive().last_answers(sessions)

    async def expiring(self, days_of: DaysOf, *, until_ms: int) -> Sequence[Due]:
        return self._archive().expiring(days_of, until_ms=until_ms)

    async def expire(
        self,
        days_of: DaysOf,
        *,
        beside: ForgetBeside = lambda _session: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Expired:
        archive = self._archive()
        return await asyncio.to_thread(archive.expire, days_of, beside=beside, stopped=stopped)

    async def delete(self, session_id: str, *, beside: ForgetBeside = lambda _session: None) -> None:
        self._archive().delete(session_id, beside=beside)

    async def back_up(self, path: str) -> Backup:
        return await asyncio.to_thread(self._archive().back_up, path)

    async def restore(
        self, path: str, *, cwd: str, notice: Callable[[str], None] = lambda _text: None
    ) -> Restored:
        return await asyncio.to_thread(self._archive().restore, path, cwd=cwd, notice=notice)

    def _archive(self) -> StoredArchive:
        from bridle.sessions.archive.stored_archive import StoredArchive  # most runs do without

        return StoredArchive(self.database)

    # The disk

    def enough(self) -> bool:
        return self.database.enough()

    def stuck(self) -> bool:
        return self.database.stuck()
