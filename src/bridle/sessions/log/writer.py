"""Write rows with one thread, one connection and group commits.

Appending puts a row in a queue and returns; so does a change of another table that belongs to the next rows. The thread
commits what has gathered `LINGER_S` after the first of it, or at once when somebody waits, and tells who listens to a
log how far it is kept. A commit survives the death of the process; a sync of the write-ahead log makes it survive a
power cut. The first failure is final: it is raised to everyone who waits and listens and from every later call, and
nothing after the failed row is written.

A writer that `waits_for_room` makes one exception: while the disk is full, rows stay in memory and are tried again. Who
waits without blocking waits on; who blocks is told.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Generic, TypeAlias, TypeVar, cast

import msgspec

from bridle.engine.ports import Lease
from bridle.protocol.errors import StoreError
from bridle.protocol.events import Envelope
from bridle.sessions.log import chain
from bridle.sessions.log.database import Connection, Database, keep_log
from bridle.sessions.log.projections import PROJECTED, project
from bridle.sessions.log.tips import TipFile
from bridle.sessions.log.write_ahead import WriteAheadLog

LINGER_S = 0.002
BATCH_ROWS = 500
INLINE_BYTES = 4096
RETRY_S = 1.0
MOST_WAITING = 20_000
"""So many rows wait in memory for room on the disk; then the writer fails."""

_INSERT = "insert into events values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_LEASE = "select epoch, holder, session from logs where key = ?"
_INSERT_BLOB = "insert or ignore into blobs values(?, ?)"

Result = TypeVar("Result")


class LogTail(msgspec.Struct):
    """The end of a log, in the writer thread. Rows are written while `lease` holds; `lost` is set once another run
    took the log."""

    key: int
    log_id: str
    event_id: int
    chain: bytes
    tip: TipFile
    lease: Lease | None = None
    lost: StoreError | None = None


class _Row(msgspec.Struct, frozen=True):
    tail: LogTail
    envelope: Envelope
    payload: bytes


Change = Callable[[Connection], None]
"""Changes other tables than those of the events. It may be run again, where its transaction was undone."""


class _Waiter(msgspec.Struct, frozen=True):
    """Without a `loop` it is a thread that blocks."""

    ticket: int
    sync: bool
    settle: Callable[[StoreError | None], None]
    loop: asyncio.AbstractEventLoop | None = None


class Listener(msgspec.Struct, frozen=True):
    """Who is told in `loop` how far a log is kept, of the failure, and when rows begin to wait for room."""

    loop: asyncio.AbstractEventLoop
    heard: Callable[[int, StoreError | None], None]
    stuck: Callable[[StoreError], None]


_News: TypeAlias = "tuple[asyncio.AbstractEventLoop | None, Callable[[], None]]"
"""Something to call, and the event loop to call it in."""


class Writer:
    """The one writer of a process. Its thread starts with the first thing to write."""

    def __init__(self, database: Database, *, waits_for_room: bool = False) -> None:
        self._database = database
        self._waits_for_room = waits_for_room
        self._full: StoreError | None = None
        self._wake = threading.Condition()
        self._rows: deque[_Row | Change] = deque()
        self._jobs: deque[tuple[Callable[[Connection], Any], _Outcome[Any]]] = deque()
        self._waiters: list[_Waiter] = []
        self._listeners: dict[int, Listener] = {}
        self._left: dict[int, int] = {}
        self._thread: threading.Thread | None = None
        self._closing = False
        self._error: StoreError | None = None
        self._appended = 0
        self._committed = 0
        self._synced = -1  # what an earlier process left unsynced counts too
        self._asleep = False
        self._wal = WriteAheadLog(database)

    @property
    def stuck(self) -> bool:
        return self._full is not None

    @property
    def failed(self) -> bool:
        return self._error is not None

    def append(self, tail: LogTail, envelope: Envelope, payload: bytes) -> int:
        """Queues a row, never waits, and returns the ticket to wait for."""
        return self._queue(_Row(tail, envelope, payload))

    def listen(self, tail: LogTail, listener: Listener) -> None:
        with self._wake:
            self._listeners[tail.key] = listener

    def leave(self, tail: LogTail, ticket: int) -> None:
        """Nobody listens to the log any more. Where its rows up to `ticket` wait for room, they are still written."""
        with self._wake:
            self._listeners.pop(tail.key, None)
            if ticket > self._committed:
                self._left[tail.key] = ticket

    def settle_left(self, key: int) -> None:
        """Blocks until nothing waits that was left behind in a log."""
        if (ticket := self._left.get(key)) is not None:
            self.wait_blocking(ticket, sync=False)
            del self._left[key]

    def change(self, change: Change) -> int:
        """Queue a change of other tables, committed no later than rows appended after it; return its ticket. What it
        raises ends the writer."""
        return self._queue(change)

    def settle(self) -> None:
        """Blocks until everything queued so far is committed."""
        self.wait_blocking(self._appended, sync=False)

    def run(self, job: Callable[[Connection], Result]) -> Result:
        """Run `job` in a transaction of its own and block until it is committed. What it raises is raised here and
        undoes the transaction."""
        done: _Outcome[Result] = _Outcome()
        with self._wake:
            self._ready()
            self._jobs.append((job, done))
            self._wake.notify()
        return done.result()

    def run_held(self, key: int, lease: Lease | None, work: Callable[[Connection], Result]) -> Result:
        """`run` for what belongs to a log, while its lease is held. Raises `LeaseLost`."""

        def job(connection: Connection) -> Result:
            if (lost := lease_lost(connection, key, lease)) is not None:
                raise lost
            return work(connection)

        try:
            return self.run(job)
        except StoreError as failure:
            if failure.reason != "LeaseLost":
                raise
        self.settle()  # on a full disk the lease itself waits for room
        return self.run(job)

    async def wait(self, ticket: int, *, sync: bool) -> None:
        """Returns when the row of `ticket` is committed, with `sync` when it is on the disk."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        if self._must_wait(_Waiter(ticket, sync, partial(_settle, done), loop)):
            await done

    def wait_blocking(self, ticket: int, *, sync: bool) -> None:
        """The same for callers without an event loop."""
        done: _Outcome[None] = _Outcome()
        if self._must_wait(_Waiter(ticket, sync, partial(_fulfil, done))):
            done.result()

    def close(self) -> None:
        with self._wake:
            self._closing = True
            self._wake.notify()
            thread = self._thread
        if thread is not None:
            thread.join()
            atexit.unregister(self.close)

    def _queue(self, row: _Row | Change) -> int:
        with self._wake:
            self._ready()
            if self._full is not None and len(self._rows) >= MOST_WAITING:
                raise StoreError(self._full.reason, **self._full.data)
            self._rows.append(row)
            self._appended += 1
            if self._asleep or len(self._rows) == BATCH_ROWS:
                self._asleep = False
                self._wake.notify()
            return self._appended

    # Both sides, with the lock held

    def _ready(self) -> None:
        if self._error is not None:
            raise StoreError(self._error.reason, **self._error.data)
        if self._closing:
            raise RuntimeError("the session store is closed")
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="bridle-log", daemon=True)
            self._thread.start()
            atexit.register(self.close)

    def _must_wait(self, waiter: _Waiter) -> bool:
        with self._wake:
            if self._error is None and self._reached(waiter):
                return False
            self._ready()
            if waiter.loop is None and self._full is not None:
                raise StoreError(self._full.reason, **self._full.data)
            self._waiters.append(waiter)
            self._wake.notify()
            return True

    def _reached(self, waiter: _Waiter) -> bool:
        return waiter.ticket <= (self._synced if waiter.sync else self._committed)

    # The thread

    def _work(self) -> None:
        try:
            with (
                self._database.errors(),
                contextlib.closing(self._database.connect(writing=True)) as connection,
            ):
                connection.set_wal_hook(self._wal.committed)
                try:
                    self._database.keep_key_proof()
                    while self._gather():
                        self._do_jobs(connection)
                        self._write(connection)
                        self._wal.fold_back(connection)
                except BaseException:
                    keep_log(connection)  # folding it back would rely on a sync
                    raise
        except StoreError as error:
            self._fail(error)
        except Exception as problem:  # noqa: BLE001  a silent death of this thread would hang everyone who waits
            path = self._database.path
            self._fail(
                StoreError("StoreUnwritable", path=path, problem=f"{type(problem).__name__}: {problem}")
            )
        finally:
            self._wal.close()

    def _gather(self) -> bool:
        """Wait for work; False when the writer closes and all is done. A row, a waiter or a full batch wakes it."""
        with self._wake:
            if not self._has_work():
                self._asleep = True
                self._wake.wait_for(self._has_work)
                self._asleep = False
            self._wake.wait_for(self._is_urgent, LINGER_S)
            return bool(self._rows or self._jobs or self._waiters or self._synced < self._committed)

    def _has_work(self) -> bool:
        return bool(self._rows or self._jobs or self._waiters or self._closing)

    def _is_urgent(self) -> bool:
        return bool(self._jobs or self._waiters or self._closing or len(self._rows) >= BATCH_ROWS)

    def _do_jobs(self, connection: Connection) -> None:
        while self._jobs:
            job, done = self._jobs.popleft()
            try:
                with self._database.errors(), _Transaction(connection):
                    result = job(connection)
            except Exception as error:  # whatever it is, the caller of `run` gets it
                done.set_exception(error)
                if isinstance(error, StoreError) and error.reason == "StoreFailed":
                    raise
            else:
                done.set_result(result)

    def _write(self, connection: Connection) -> None:
        with self._wake:
            queued = [self._rows.popleft() for _ in range(min(len(self._rows), BATCH_ROWS))]
        tails = self._kept(connection, queued) if queued else ()
        if tails is None:
            return
        with self._wake:
            self._committed += len(queued)
            sync = self._closing or any(
                waiter.sync and waiter.ticket <= self._committed for waiter in self._waiters
            )
        if sync:
            self._wal.sync()
            self._synced = self._committed
        self._tell(tails)

    def _kept(self, connection: Connection, queued: list[_Row | Change]) -> list[LogTail] | None:
        """Commits what was queued and gives the logs that grew; None when it has to wait for room, and is the first in
        the queue again."""
        rows, changes = list[_Row](), list[Change]()
        ends: dict[int, tuple[LogTail, int, bytes]] = {}
        for one in queued:
            if isinstance(one, _Row):
                rows.append(one)
                ends.setdefault(id(one.tail), (one.tail, one.tail.event_id, one.tail.chain))
            else:
                changes.append(one)
        tails = [tail for tail, _, _ in ends.values()]
        try:
            with self._database.errors():
                _commit(connection, changes, rows, tails)
        except StoreError as failure:
            if failure.reason != "NoSpace" or not self._waits_for_room or self._closing:
                raise
            for tail, event_id, link in ends.values():
                tail.event_id, tail.chain = event_id, link
            self._wait_for_room(queued, failure)
            return None
        self._full = None
        return tails

    def _wait_for_room(self, queued: list[_Row | Change], failure: StoreError) -> None:
        with self._wake:
            listeners = () if self._full is not None else tuple(self._listeners.values())
        _deliver([(one.loop, partial(one.stuck, failure)) for one in listeners])
        with self._wake:
            self._rows.extendleft(reversed(queued))
            self._full = failure
            for waiter in [waiter for waiter in self._waiters if waiter.loop is None]:
                self._waiters.remove(waiter)
                waiter.settle(failure)
            self._wake.wait_for(lambda: self._closing or bool(self._jobs), RETRY_S)

    def _tell(self, tails: Iterable[LogTail]) -> None:
        """Wake waiters, then tell listeners how far their log is kept, in one go."""
        with self._wake:
            news: list[_News] = []
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if self._reached(waiter):
                    news.append((waiter.loop, partial(waiter.settle, None)))
                else:
                    self._waiters.append(waiter)
            news += [
                (
                    listener.loop,
                    partial(listener.heard, tail.event_id if tail.lost is None else 0, tail.lost),
                )
                for tail in tails
                if (listener := self._listeners.get(tail.key))
            ]
        _deliver(news)

    def _fail(self, error: StoreError) -> None:
        if self._committed and error.reason == "StoreUnwritable":  # which says that nothing was run
            error = StoreError("StoreFailed", **error.data)
        with self._wake:
            self._error = error
            news: list[_News] = [(one.loop, partial(one.heard, 0, error)) for one in self._listeners.values()]
            news += [(waiter.loop, partial(waiter.settle, error)) for waiter in self._waiters]
            news += [(None, partial(done.set_exception, error)) for _, done in self._jobs]
            self._waiters.clear()
            self._jobs.clear()
        _deliver(news)


class _Outcome(Generic[Result]):
    """What comes of something another thread does: given once, waited for by one.

    `concurrent.futures.Future` does this and more; importing it takes longer than all that a short session writes.
    """

    def __init__(self) -> None:
        self._given = threading.Lock()
        self._given.acquire()
        self._result: Result | None = None
        self._error: BaseException | None = None

    def set_result(self, result: Result) -> None:
        self._result = result
        self._given.release()

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._given.release()

    def result(self) -> Result:
        with self._given:
            if self._error is not None:
                raise self._error
            return cast("Result", self._result)


class _Transaction:
    """`BEGIN IMMEDIATE` … `COMMIT`, undone when anything is raised inside."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("begin immediate")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._connection.execute("commit")
        elif self._connection.in_transaction:  # SQLite undoes some failures by itself
            self._connection.execute("rollback")


def _commit(
    connection: Connection, changes: list[Change], rows: list[_Row], tails: Sequence[LogTail]
) -> None:
    """Makes the changes, stores the rows with all that is derived from them, then moves the tips of their logs."""
    with _Transaction(connection):
        for change in changes:
            change(connection)
        held = [tail for tail in tails if _is_held(connection, tail)]
        if len(held) < len(tails):
            rows = [row for row in rows if row.tail.lost is None]
        connection.executemany(_INSERT, _stored(connection, rows))
        for row in rows:
            if row.envelope.kind in PROJECTED:
                project(connection, row.tail.key, row.tail.log_id, row.envelope)
    for tail in held:
        tail.tip.write(tail.event_id, tail.chain)


def _is_held(connection: Connection, tail: LogTail) -> bool:
    """Whether nobody has taken the log over."""
    if tail.lost is None:
        tail.lost = lease_lost(connection, tail.key, tail.lease)
    return tail.lost is None


def lease_lost(connection: Connection, key: int, lease: Lease | None) -> StoreError | None:
    """Return why a log cannot be written under this lease, or None. Ask in the transaction that writes. A new log
    may reuse the key of a deleted one, never its holder."""
    epoch, holder, session = connection.execute(_LEASE, (key,)).fetchone() or (
        None,
        "it was deleted",
        "a session",
    )
    if lease is not None and epoch == lease.epoch and holder == lease.holder:
        return None
    return StoreError("LeaseLost", session=session, holder=holder)


def insert_events(connection: Connection, tail: LogTail, events: Sequence[tuple[Envelope, bytes]]) -> None:
    """Stores events behind `tail` inside the caller's transaction, linked. Nothing is derived from them."""
    connection.executemany(
        _INSERT, _stored(connection, [_Row(tail, envelope, payload) for envelope, payload in events])
    )


def _stored(connection: Connection, rows: list[_Row]) -> list[tuple[Any, ...]]:
    """The rows as columns, each linked to the one before it."""
    salts = os.urandom(chain.SALT_BYTES * len(rows))
    stored: list[tuple[Any, ...]] = []
    for index, row in enumerate(rows):
        tail, envelope, payload = row.tail, row.envelope, row.payload
        salt = salts[index * chain.SALT_BYTES : (index + 1) * chain.SALT_BYTES]
        digest = chain.digest(salt, payload)
        kind, ts_ms, originator = envelope.kind, envelope.ts_ms, envelope.originator
        agent_path = msgspec.json.encode(envelope.agent_path).decode() if envelope.agent_path else None
        place = (envelope.turn, agent_path, envelope.invocation)
        tail.event_id += 1
        tail.chain = chain.link(tail.chain, tail.event_id, kind, ts_ms, originator, place, digest)
        blob = None
        inline: bytes | None = payload
        if len(payload) > INLINE_BYTES:
            blob, inline = sha256(payload).digest(), None
            connection.execute(_INSERT_BLOB, (blob, payload))
        where = (tail.key, tail.event_id, kind, ts_ms, originator)
        stored.append((*where, *place, inline, blob, salt, digest, tail.chain))
    return stored


def _deliver(news: Iterable[_News]) -> None:
    """Calls everything, in order; what belongs to one event loop in one go, for each one wakes it."""
    by_loop: dict[asyncio.AbstractEventLoop | None, list[Callable[[], None]]] = {}
    for loop, call in news:
        by_loop.setdefault(loop, []).append(call)
    for loop, calls in by_loop.items():
        if loop is None:
            _call_all(calls)
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and with it whoever waited
                loop.call_soon_threadsafe(_call_all, calls)


def _call_all(calls: Iterable[Callable[[], None]]) -> None:
    for call in calls:
        call()


def _settle(done: asyncio.Future[None], error: StoreError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


def _fulfil(done: _Outcome[None], error: StoreError | None) -> None:
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
