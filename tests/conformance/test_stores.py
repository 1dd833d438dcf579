"""Every store of sessions keeps what the ports promise, and a store that does not is found out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from bridle.base.clock import SystemClock
from bridle.base.ids import Ids
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.store_checks import (
    StoreUnderTest,
    check_archive,
    check_session_store,
    check_undo_store,
)
from bridle.engine.store_ports import OpenLog
from bridle.protocol.errors import BridleError
from bridle.sessions.memory_log import MemoryLog
from bridle.sessions.memory_store import MemoryStore
from bridle.sessions.memory_undo import MemoryUndo
from bridle.sessions.sqlite_store import SqliteStore
from bridle.sessions.store import SessionStore
from tables import table

CHECKS = (check_session_store, check_archive, check_undo_store)
LEASE_MS = 60_000


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
        clock = FakeClock()
        store = kind(clock=clock, lease_ms=LEASE_MS)

        async def abandon(_log: OpenLog) -> None:
            await clock.advance(LEASE_MS / 1000)

        return StoreUnderTest(store=store, beside=store.beside(), abandon=abandon)

    return make


@pytest.mark.parametrize("check", CHECKS)
async def test_the_store_on_the_disk_keeps_every_promise(tmp_path: Path, check):
    await check(on_disk(tmp_path))


@table("check", CHECKS)
async def test_the_store_in_memory_keeps_every_promise(check):
    await check(in_memory())


# Stores that break a promise


class NoLease(MemoryStore):
    """Lets everybody in."""

    def _held_by(self, kept):
        return None


class SameEpoch(MemoryStore):
    """Hands the lease on without a word to whoever had it."""

    def _opened(self, kept, run):
        log = super()._opened(kept, run)
        if kept.records and kept.epoch > 1:
            kept.epoch -= 1
            log._lease = kept.lease = msgspec.structs.replace(log._lease, epoch=kept.epoch)
        return log


class NeverUp(MemoryStore):
    """Waits for ever for one that is dead."""

    def _held_by(self, kept):
        return kept.lease


class Deaf(MemoryStore):
    """Whoever lost the lease is not told."""

    def _opened(self, kept, run):
        log = super()._opened(kept, run)
        log.listen = lambda heard, stuck: MemoryLog.listen(log, lambda i, f: f or heard(i, f), stuck)
        return log


class Unlocked(MemoryStore):
    """What undo keeps does not ask for the lease."""

    def _opened(self, kept, run):
        log = super()._opened(kept, run)
        log.undo_store = lambda: MemoryUndo(self._memory, kept, lambda: None)
        return log


class OldestFirst(MemoryStore):
    async def list(self, *, cwd=None):
        return list(reversed(await super().list(cwd=cwd)))


class OneTooMany(MemoryStore):
    """Takes `after` for the first event that is wanted."""

    async def events(self, session_id, *, after=0):
        async for envelope in super().events(session_id, after=max(0, after - 1)):
            yield envelope


class Loses(MemoryStore):
    """Another store does not see what this one has."""

    def beside(self):
        return MemoryStore(clock=self._clock)


class SharedIds(MemoryStore):
    """The branch has the events of its parent, as they are."""

    async def branch(self, session_id, *, turn=None):
        made = await super().branch(session_id, turn=turn)
        kept, parent = self._of(made), self._of(session_id)
        kept.records[:-1] = parent.records[: len(kept.records) - 1]
        return made


class Obedient(MemoryStore):
    """Believes what a file says of rights."""

    async def import_lines(self, lines, *, cwd, profile, missing=""):
        made = await super().import_lines(lines, cwd=cwd, profile=profile, missing=missing)
        kept = self._of(made)
        first = kept.records[0]
        event = msgspec.structs.replace(first.envelope.event, mode="yolo")
        envelope = msgspec.structs.replace(first.envelope, event=event)
        kept.records[0] = msgspec.structs.replace(first, envelope=envelope)
        return made


class Forgetful(MemoryStore):
    """Lets what is pinned go."""

    def _candidates(self, days_of):
        for kept in self._memory.sessions.values():
            kept.row = msgspec.structs.replace(kept.row, pinned=False)
        return super()._candidates(days_of)


class Remembers(MemoryStore):
    """Says that content is gone, and keeps it."""

    async def expire(self, days_of, *, beside=lambda _: None, stopped=lambda: False):
        before = {one: list(kept.records) for one, kept in self._memory.sessions.items()}
        expired = await super().expire(days_of, beside=beside, stopped=stopped)
        for session in expired.sessions:
            self._of(session).records = before[session]
        return expired


class Ruthless(MemoryStore):
    """Deletes what somebody works with."""

    async def delete(self, session_id, *, beside=lambda _: None):
        self._of(session_id).lease = None
        await super().delete(session_id, beside=beside)


class CutsOff(MemoryStore):
    """Forgets the last event of each session it takes in from a backup."""

    async def restore(self, path, *, cwd, notice=lambda _: None):
        restored = await super().restore(path, cwd=cwd, notice=notice)
        for session in restored.sessions:
            del self._of(session).records[-1]
        return restored


class OnlyAtRest(MemoryStore):
    """Leaves what runs out of a backup."""

    async def back_up(self, path):
        asleep = {one: kept for one, kept in self._memory.sessions.items() if kept.lease is None}
        memory = msgspec.structs.replace(self._memory, sessions=asleep)
        return await MemoryStore(clock=self._clock, memory=memory).back_up(path)


class WritesOver(MemoryStore):
    """A backup takes the place of whatever has its name."""

    async def back_up(self, path):
        Path(path).unlink(missing_ok=True)
        return await super().back_up(path)


class AnyWord(MemoryStore):
    """One of the words is enough."""

    async def search(self, words, *, limit):
        first = words.split(" ")[0] if words.startswith("cart") else words
        return await super().search(first, limit=limit)


class Believing(MemoryStore):
    """A call may rely on content that is gone."""

    def _opened(self, kept, run):
        log = super()._opened(kept, run)

        class Undo(MemoryUndo):
            def begin_whole(self, call, contents, *, sweeps):
                self.begin(call, contents)
                return True

        log.undo_store = lambda: Undo(self._memory, kept, log.refuse_lost)
        return log


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


@table(("check", "wrong"), [(check, wrong) for check, every in WRONG.items() for wrong in every])
async def test_a_store_that_breaks_a_promise_is_found_out(check, wrong):
    with pytest.raises((AssertionError, BridleError)):
        await check(in_memory(wrong))
