"""A full disk: rows wait in memory where somebody waits with them, and are written in order when there is room."""

import asyncio
import os
from contextlib import closing

import pytest

from bridle.base.clock import SystemClock
from bridle.base.ids import Ids
from bridle.protocol.errors import StoreError
from bridle.protocol.events import TextDelta
from bridle.sessions.log.tips import TipFile
from bridle.sessions.log.writer import BATCH_ROWS
from bridle.sessions.store import SessionStore
from sessions.session_kit import put, raw, words

LARGE = [TextDelta(text=f"{number} " + "x" * 3_000) for number in range(200)]


def tight_store(folder, *, waits_for_room):
    clock = SystemClock()
    ids = Ids(clock.now_ms, os.urandom)
    return SessionStore(str(folder), ids=ids, clock=clock, waits_for_room=waits_for_room)


def no_more_pages(store):
    """From here on the database must not grow: to its writer that is a full disk."""

    def limit(connection):
        (pages,) = connection.execute("pragma page_count").fetchone()
        connection.execute(f"pragma max_page_count = {pages}")

    store.shelf.writer.run(limit)


def room_again(store):
    store.shelf.writer.run(
        lambda connection: connection.execute("pragma max_page_count = 1000000").fetchall()
    )


async def until_stuck(store):
    async with asyncio.timeout(20):
        while not store.stuck():
            await asyncio.sleep(0.01)


async def test_rows_wait_for_room_and_are_written_in_order(tmp_path):
    with closing(tight_store(tmp_path, waits_for_room=True)) as store:
        log = store.create("/work", profile="default")
        put(log, *words(10))
        await log.committed()
        no_more_pages(store)
        put(log, *LARGE)
        waiting = asyncio.create_task(log.durable())
        await until_stuck(store)
        put(log, *words(2 * BATCH_ROWS))
        store.shelf.writer.run(lambda _connection: None)  # it was tried again meanwhile, and is still full
        assert (store.enough(), waiting.done(), log.last_id) == (False, False, 210 + 2 * BATCH_ROWS)
        assert sum(1 for _ in store.events(log.session)) < 210, "what is stored can be read meanwhile"
        room_again(store)
        await waiting
        await log.durable()
        assert not store.stuck()
        log.verify()
        assert [one.event for one in store.events(log.session)] == [
            *words(10),
            *LARGE,
            *words(2 * BATCH_ROWS),
        ]
        log.close()


async def test_who_leaves_meanwhile_is_told_and_what_is_stored_is_whole(tmp_path):
    store = tight_store(tmp_path, waits_for_room=True)
    log = store.create("/work", profile="default")
    put(log, *words(10))
    await log.committed()
    no_more_pages(store)
    put(log, *LARGE)
    waiting = asyncio.create_task(log.durable())
    await until_stuck(store)
    with pytest.raises(StoreError) as refused:
        log.close()
    assert refused.value.reason == "NoSpace"
    store.close()
    with pytest.raises(StoreError):
        await waiting
    with closing(tight_store(tmp_path, waits_for_room=False)) as again:
        opened = again.open(log.session)
        opened.verify()
        assert 10 <= opened.last_id < 210
        opened.close()


async def stuck_and_closed(store, *, more=0):
    """A session that ended while its rows waited for room."""
    log = store.create("/work", profile="default")
    put(log, *words(10))
    await log.committed()
    no_more_pages(store)
    put(log, *LARGE, *words(more))
    await until_stuck(store)
    with pytest.raises(StoreError):
        log.close()
    return log


async def test_rows_of_a_session_that_ended_meanwhile_are_written_when_there_is_room_and_others_go_on(
    tmp_path,
):
    with closing(tight_store(tmp_path, waits_for_room=True)) as store:
        other = store.create("/work", profile="default")
        log = await stuck_and_closed(store)
        room_again(store)
        put(other, *words(3))
        await other.durable()
        assert [one.event for one in store.events(log.session)] == [*words(10), *LARGE]
        other.close()
        again = store.open(log.session)
        assert again.last_id == 210
        again.verify()
        again.close()


async def test_a_session_whose_rows_still_wait_is_not_opened_again_before_they_are_written(tmp_path):
    with closing(tight_store(tmp_path, waits_for_room=True)) as store:
        log = await stuck_and_closed(store, more=2 * BATCH_ROWS)
        with pytest.raises(StoreError) as refused:
            store.open(log.session)
        assert refused.value.reason == "NoSpace"
        room_again(store)
        async with asyncio.timeout(20):
            while store.stuck():
                await asyncio.sleep(0.01)
        again = store.open(log.session)
        assert again.last_id == 210 + 2 * BATCH_ROWS
        again.verify()
        again.close()


async def test_who_opened_on_a_full_disk_has_nothing_where_somebody_elses_rows_found_room_first(tmp_path):
    with (
        closing(tight_store(tmp_path, waits_for_room=True)) as theirs,
        closing(tight_store(tmp_path, waits_for_room=True)) as mine,
    ):
        spare = mine.create("/work", profile="default")
        log = await stuck_and_closed(theirs)
        with closing(raw(tmp_path)) as connection:  # to take a lease needs room from now on
            connection.execute(
                "create trigger larger after update on logs"
                " begin insert into blobs values(randomblob(32), zeroblob(100000)); end"
            )
        no_more_pages(mine)
        put(spare, *LARGE)
        await until_stuck(mine)
        early = mine.open(log.session)
        room_again(theirs)
        other = theirs.create("/work", profile="default")
        put(other, *words(1))
        await other.durable()
        put(early, *words(5))
        room_again(mine)
        with pytest.raises(StoreError) as lost:
            await early.durable()
        assert lost.value.reason == "LeaseLost"
        await spare.durable()
        assert [one.event for one in theirs.events(log.session)] == [*words(10), *LARGE]
        for one in (spare, other):
            one.close()


async def test_a_writer_that_does_not_wait_fails_for_good(tmp_path):
    store = tight_store(tmp_path, waits_for_room=False)
    log = store.create("/work", profile="default")
    no_more_pages(store)
    put(log, *LARGE)
    with pytest.raises(StoreError) as refused:
        await log.durable()
    assert refused.value.reason == "NoSpace"
    with pytest.raises(StoreError):
        put(log, *words(1))
    with pytest.raises(StoreError):
        log.close()
    store.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no disk that is always full here")
async def test_a_tip_that_finds_no_room_stays_behind_and_the_log_goes_on(tmp_path):
    with closing(tight_store(tmp_path, waits_for_room=True)) as store:
        log = store.create("/work", profile="default")
        put(log, *words(3))
        await log.durable()
        roomy, log._tail.tip = log._tail.tip, TipFile("/dev/full")
        put(log, *words(3))
        await log.durable()
        log._tail.tip.close()
        log._tail.tip = roomy
        assert roomy.read().event_id == 3
        put(log, *words(3))
        await log.durable()
        log.verify()
        assert roomy.read().event_id == log.last_id == 9
        log.close()
