"""Every store of sessions keeps what the ports promise, and a store that does not is found out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from bridle.base.clock import SystemClock
from bridle.base.ids import Ids
from bridle.base.threads import in_thread
from bridle.conformance.store_checks import (
    StoreUnderTest,
    check_archive,
    check_session_store,
    check_undo_store,
)
from bridle.engine.store_ports import OpenLog
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.sessions.log.session_log import StoredLog
from bridle.sessions.log.undo_store import UndoTables
from bridle.sessions.memory_store import MemoryStore
from bridle.sessions.sqlite_store import SqliteStore
from bridle.sessions.store import SessionStore
from tables import table

CHECKS = (check_session_store, check_archive, check_undo_store)


def on_disk(folder: Path) -> Callable[[], StoreUnderTest]:
    made = 0

    def make() -> StoreUnderTest:
        nonlocal made
        made += 1
        data = folder / str(made)

        def store() -> SqliteStore:
            clock = SystemClock()
            return SqliteStore(SessionStore(str(data), ids=Ids(clock.now_ms, os.urandom), clock=clock))

        async def abandon(log: OpenLog) -> None:
            """A lock that is not there holds nobody off: somebody tidied up, or the disk knows none."""
            (data / "locks" / log.log).unlink()

        return StoreUnderTest(store=store(), beside=store(), abandon=abandon)

    return make


def in_memory(kind: type[MemoryStore] = MemoryStore) -> Callable[[], StoreUnderTest]:
    def make() -> StoreUnderTest:
        store = kind()

        async def abandon(log: OpenLog) -> None:
            lock_of(store, log.log).unlink()

        return StoreUnderTest(store=store, beside=store.beside(), abandon=abandon)

    return make


def lock_of(store: MemoryStore, log: str) -> Path:
    return Path(store.database.shelf.folder) / "locks" / log


@pytest.mark.parametrize("check", CHECKS)
async def test_the_store_on_the_disk_keeps_every_promise(tmp_path: Path, check):
    await check(on_disk(tmp_path))


@table("check", CHECKS)
async def test_the_store_in_memory_keeps_every_promise(check):
    await check(in_memory())


# Stores that break a promise


class NoLease(MemoryStore):
    """Opens a log that another holds."""

    async def open(self, session_id, *, accept_loss=False):
        lock_of(self, (await self.find(session_id)).log).unlink()
        return await super().open(session_id, accept_loss=accept_loss)


class SameEpoch(MemoryStore):
    """Gives the lease of a dead holder to the next one unchanged."""

    async def open(self, session_id, *, accept_loss=False):
        before = self.database.shelf.reader().execute(LEASE, (session_id,)).fetchone()
        log = await super().open(session_id, accept_loss=accept_loss)
        self.database.shelf.writer.run(
            lambda connection: connection.execute(SET_LEASE, (*before, session_id))
        )
        log._lease = msgspec.structs.replace(log._lease, epoch=before[0], holder=before[1])
        log._tail.lease = log._lease
        return log


LEASE = "select epoch, holder from logs where session = ?"
SET_LEASE = "update logs set epoch = ?, holder = ? where session = ?"


class NeverUp(MemoryStore):
    """Waits for a dead holder."""

    async def open(self, session_id, *, accept_loss=False):
        if not lock_of(self, (await self.find(session_id)).log).exists():
            raise CommandRefused("SessionBusy", session=session_id)
        return await super().open(session_id, accept_loss=accept_loss)


class ChangedLogs(MemoryStore):
    """A store that changes each log it creates."""

    def changed(self, log):
        raise NotImplementedError

    async def create(self, cwd, **options):
        log = await super().create(cwd, **options)
        self.changed(log)
        return log


class Deaf(ChangedLogs):
    """Does not report the lost lease to the listener."""

    def changed(self, log):
        log.listen = lambda heard, stuck: StoredLog.listen(log, lambda i, f: f or heard(i, f), stuck)


class ChangedUndo(ChangedLogs):
    """A store with an undo store of another class."""

    undo_class = UndoTables

    def changed(self, log):
        parts = {"writer": log._writer, "database": log._database, "reader": log._reader}
        log.undo_store = lambda: self.undo_class(log._name, **parts, lease=log.lease)


class Unlocked(ChangedUndo):
    """Does not ask for the lease when undo keeps something."""

    class undo_class(UndoTables):  # noqa: N801  an attribute of the store
        async def _run(self, work):
            return await in_thread(lambda: self._writer.run(work))


class Believing(ChangedUndo):
    """Lets a call rely on content that is gone."""

    class undo_class(UndoTables):  # noqa: N801  an attribute of the store
        async def begin_whole(self, call, contents, *, sweeps):
            await self.begin(call, contents)
            return True


class OldestFirst(MemoryStore):
    async def list(self, **options):
        return list(reversed(await super().list(**options)))


class OneTooMany(MemoryStore):
    """Takes `after` for the first event that is wanted."""

    async def events(self, session_id, *, after=0):
        async for envelope in super().events(session_id, after=max(0, after - 1)):
            yield envelope


class Loses(MemoryStore):
    """Another store does not see the sessions of this one."""

    def beside(self):
        return MemoryStore()


class ChangedEvents(MemoryStore):
    """A store that gives other events than it has, of sessions in `changed`."""

    def __init__(self, **options):
        super().__init__(**options)
        self.changed = {}

    def beside(self):
        other = super().beside()
        other.changed = self.changed
        return other

    async def now(self, session_id):
        return [envelope async for envelope in super().events(session_id)]

    async def events(self, session_id, *, after=0):
        for envelope in self.changed.get(session_id) or await self.now(session_id):
            if envelope.id > after:
                yield envelope


class SharedIds(ChangedEvents):
    """Gives a branch the events of its parent unchanged."""

    async def branch(self, session_id, *, turn=None):
        made = await super().branch(session_id, turn=turn)
        own, parent = await self.now(made), await self.now(session_id)
        self.changed[made] = [*parent[: len(own) - 1], own[-1]]
        return made


class Obedient(ChangedEvents):
    """Believes what a file says of rights."""

    async def import_lines(self, lines, *, cwd, profile, missing=""):
        made = await super().import_lines(lines, cwd=cwd, profile=profile, missing=missing)
        first, *others = await self.now(made)
        event = msgspec.structs.replace(first.event, mode="yolo")
        self.changed[made] = [msgspec.structs.replace(first, event=event), *others]
        return made


class Remembers(ChangedEvents):
    """Says that content is gone, and keeps it."""

    async def expire(self, days_of, *, beside=lambda _: None, stopped=lambda: False):
        before = {row.id: await self.now(row.id) for row in await self.list()}
        expired = await super().expire(days_of, beside=beside, stopped=stopped)
        self.changed.update({session: before[session] for session in expired.sessions})
        return expired


class CutsOff(ChangedEvents):
    """Forgets the last event of each session it restores from a backup."""

    async def restore(self, path, *, cwd, notice=lambda _: None):
        restored = await super().restore(path, cwd=cwd, notice=notice)
        for session in restored.sessions:
            self.changed[session] = (await self.now(session))[:-1]
        return restored


class Forgetful(MemoryStore):
    """Expires pinned sessions."""

    async def pin(self, session_id, *, pinned):
        await super().pin(session_id, pinned=False)


class Ruthless(MemoryStore):
    """Deletes a session that is in use."""

    async def delete(self, session_id, *, beside=lambda _: None):
        lock_of(self, (await self.find(session_id)).log).unlink()
        await super().delete(session_id, beside=beside)


class OnlyAtRest(MemoryStore):
    """Leaves open sessions out of a backup."""

    async def back_up(self, path):
        made = await super().back_up(path)
        held = [row for row in await self.list() if (await self.describe(row.id)).lease is not None]
        return msgspec.structs.replace(made, sessions=made.sessions - len(held))


class WritesOver(MemoryStore):
    """Replaces a file that has the name of the backup."""

    async def back_up(self, path):
        for one in (path, f"{path}.key"):
            Path(one).unlink(missing_ok=True)
        return await super().back_up(path)


class AnyWord(MemoryStore):
    """Finds texts that have one of the words."""

    async def search(self, words, *, limit):
        first = words.split(" ")[0] if words.startswith("cart") else words
        return await super().search(first, limit=limit)


WRONG = {
    check_session_store: (NoLease, SameEpoch, NeverUp, Deaf, Unlocked, OldestFirst, OneTooMany, Loses),
    check_archive: (
        SharedIds,
        Obedient,
        Forgetful,
        Remembers,
        Ruthless,
        AnyWord,
        CutsOff,
        OnlyAtRest,
        WritesOver,
    ),
    check_undo_store: (Believing,),
}


async def test_a_store_that_breaks_a_promise_is_found_out():
    undetected = []
    for check, stores in WRONG.items():
        for wrong in stores:
            try:
                await check(in_memory(wrong))
            except (AssertionError, BridleError):
                continue
            undetected.append(wrong.__name__)
    assert undetected == []
