"""One open session: an append-only log in the encrypted database."""

from __future__ import annotations

import contextlib
import os
from asyncio import get_running_loop, sleep
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from bridle.base.fs.files import FileLock
from bridle.engine.ports import Lease, Record
from bridle.protocol.errors import StoreError
from bridle.protocol.events import Envelope
from bridle.sessions.log import log_reader
from bridle.sessions.log.database import Connection, Database
from bridle.sessions.log.log_reader import LogName
from bridle.sessions.log.writer import Listener, LogTail, Writer

if TYPE_CHECKING:
    from bridle.sessions.log.undo_store import UndoTables

_KEEP_FOLD = """insert or replace into folds(log, id, chain, bytes)
  select ?, ?, chain, ? from events where log = ? and id = ?"""
_ADD_OUTPUTS_KEY = "update logs set outputs_key = ? where key = ? and outputs_key is null"
OUTPUTS_KEY = "select outputs_key from logs where key = ?"


class StoredLog:
    """Implements `engine.store_ports.OpenLog` with a run lock. Use it from one thread; `verify` and `records` may
    run in another."""

    def __init__(
        self,
        name: LogName,
        tail: LogTail,
        *,
        lease: Lease,
        lock: FileLock,
        writer: Writer,
        database: Database,
        reader: Callable[[], Connection],
        ticket: int = 0,
    ) -> None:
        self._name = name
        self._tail = tail
        self._lease = lease
        self._lock = lock
        self._writer = writer
        self._database = database
        self._reader = reader
        self._last_id = tail.event_id
        self._ticket = ticket
        self._closed = False

    @property
    def session(self) -> str:
        return self._name.session

    @property
    def log(self) -> str:
        return self._name.log_id

    @property
    def last_id(self) -> int:
        return self._last_id

    @property
    def lease(self) -> Lease:
        return self._lease

    def append(self, envelope: Envelope, payload: bytes) -> None:
        """Append the next event with its encoded bytes. Raises ValueError when it is not the next one."""
        if self._closed:
            raise ValueError(f"the log of {self.session} is closed")
        if envelope.id != self._last_id + 1:
            raise ValueError(f"event {envelope.id} cannot follow event {self._last_id}")
        if envelope.session != self.session:
            raise ValueError(f"an event of {envelope.session} does not belong to {self.session}")
        self._refuse_lost()
        self._ticket = self._writer.append(self._tail, envelope, payload)
        self._last_id += 1

    def listen(
        self, heard: Callable[[int, StoreError | None], None], stuck: Callable[[StoreError], None]
    ) -> None:
        self._writer.listen(self._tail, Listener(get_running_loop(), heard, stuck))

    async def committed(self) -> None:
        await self._writer.wait(self._ticket, sync=False)
        self._refuse_lost()

    async def durable(self) -> None:
        await self._writer.wait(self._ticket, sync=True)
        self._refuse_lost()

    def _refuse_lost(self) -> None:
        if self._tail.lost is not None:
            raise StoreError(self._tail.lost.reason, **self._tail.lost.data)

    async def since(self, after: int, *, limit: int) -> Sequence[Envelope]:
        await self.committed()
        found: list[Envelope] = []
        while len(found) < limit:
            wanted = min(log_reader.PAGE_ROWS, limit - len(found))
            page = [
                record.envelope for record in log_reader.records(self._reader(), self._name, after, wanted)
            ]
            found += page
            if len(page) < wanted:
                break
            after = page[-1].id or after
            await sleep(0)  # a long read lets others have their turn
        return found

    def records(self, after: int) -> Iterator[Record]:
        self._writer.wait_blocking(self._ticket, sync=False)
        with self._database.errors(), contextlib.closing(self._database.connect()) as connection:
            yield from log_reader.all_records(connection, self._name, after)

    def verify(self, last: int | None = None) -> None:
        """Check content, chain and tip, of the whole log or of its `last` events. Blocks. Raises
        `StoreError("LogDamaged")`."""
        self._writer.wait_blocking(self._ticket, sync=False)
        with self._database.errors(), contextlib.closing(self._database.connect()) as connection:
            log_reader.check_chain(connection, self._name, last)
            log_reader.check_tip(connection, self._name, self._tail.tip.read())

    def keep_fold(self, event_id: int, folded: bytes) -> None:
        key = self._name.key

        def insert(connection: Connection) -> None:
            connection.execute(_KEEP_FOLD, (key, event_id, folded, key, event_id))

        self._writer.wait_blocking(self._ticket, sync=False)
        self._writer.run_held(key, self._lease, insert)

    def outputs_key(self) -> bytes:
        key = self._name.key

        def found(connection: Connection) -> bytes:
            connection.execute(_ADD_OUTPUTS_KEY, (os.urandom(32), key))
            row = connection.execute(OUTPUTS_KEY, (key,)).fetchone()
            assert row is not None, "a log that is open has its row"
            return row[0]

        return self._writer.run_held(key, self._lease, found)

    def undo_store(self) -> UndoTables:
        from bridle.sessions.log.undo_store import UndoTables  # the door of what undo keeps

        return UndoTables(
            self._name,
            writer=self._writer,
            database=self._database,
            reader=self._reader,
            lease=self._lease,
        )

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        """Sync everything and release the run lock, even where that fails with `StoreError`. May be repeated."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._ticket:
                self._writer.wait_blocking(self._ticket, sync=True)
            self._refuse_lost()
        finally:
            self._writer.leave(self._tail, self._ticket)
            self._tail.tip.close()
            self._lock.release()
