"""Every store of sessions keeps what the ports promise, and a store that does not is found out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

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
from bridle.sessions.memory_store import MemoryStore
from bridle.sessions.sqlite_store import SqliteStore
from bridle.sessions.store import SessionStore

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


@pytest.mark.parametrize("check", CHECKS)
async def test_the_store_in_memory_keeps_every_promise(check):
    await check(in_memory())
