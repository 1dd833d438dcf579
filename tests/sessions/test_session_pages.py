"""Lists of sessions in pages: joined they are the whole list, also while sessions are made and used."""

import asyncio
import os
from contextlib import closing
from itertools import count

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bridle.base.ids import SESS, Ids, is_id, list_place, read_list_place, short_ids
from bridle.conformance.fake_clock import FakeClock
from bridle.sessions.memory_store import MemoryStore
from bridle.sessions.sqlite_store import SqliteStore
from bridle.sessions.store import SessionStore
from effort import examples

FOLDER = count()


@pytest.fixture
def kept():
    """A store, and the clock it has."""
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    yield store, clock
    asyncio.run(store.aclose())


async def made(store, clock, cwd: str, later_s: list[int]) -> list[str]:
    """Sessions, each so many seconds after the one before; some at the same moment."""
    sessions: list[str] = []
    for seconds in later_s:
        await clock.advance(seconds)
        log = await store.create(cwd, profile="default")
        await log.aclose()
        sessions.append(log.session)
    return sessions


@settings(
    max_examples=examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.generate],  # what fails is short as it is, and every store is a real one
)
@given(
    first=st.lists(st.integers(0, 1), max_size=7),
    between=st.lists(st.integers(0, 1), max_size=2),
    limit=st.integers(1, 4),
    of_folder=st.booleans(),
)
def test_pages_joined_are_the_list_whatever_is_made_between_them(
    kept, first, between, limit, of_folder
) -> None:
    store, clock = kept
    here, elsewhere = f"/code/{next(FOLDER)}", f"/other/{next(FOLDER)}"

    async def read() -> None:
        await made(store, clock, here, first)
        await made(store, clock, elsewhere, first)
        cwd = here if of_folder else None
        whole = [row.id for row in await store.list(cwd=cwd)]
        joined: list[str] = []
        page = await store.list(cwd=cwd, limit=limit)
        while page:
            assert len(page) <= limit
            joined += [row.id for row in page]
            await clock.advance(1)
            await made(store, clock, here, between)
            page = await store.list(cwd=cwd, after=page[-1].place, limit=limit)
        assert joined == whole
        everyone = short_ids(row.id for row in await store.list())
        assert await store.short_ids(joined) == {one: everyone[one] for one in joined}

    asyncio.run(read())


def test_how_many_are_behind_a_page_is_counted_without_reading_them(tmp_path) -> None:
    clock = FakeClock()
    with closing(SessionStore(str(tmp_path), ids=Ids(clock.now_ms, os.urandom), clock=clock)) as store:
        assert store.count() == 0
        asyncio.run(made(SqliteStore(store), clock, "/code", [1, 0, 1]))
        asyncio.run(made(SqliteStore(store), clock, "/other", [1]))
        newest, second, *_ = store.list()
        assert (store.count(), store.count(cwd="/code"), store.count(after=second.place)) == (4, 3, 2)
        assert store.count(cwd="/other", after=newest.place) == 0


@given(st.integers(0, 10**15 - 1), st.integers(0, 2**48 - 1))
def test_a_place_in_a_list_is_read_as_it_was_written(at_ms: int, born_ms: int) -> None:
    session = Ids(lambda: born_ms, os.urandom).new(SESS)
    assert read_list_place(list_place(at_ms, session), SESS) == (at_ms, session)


@given(st.text() | st.from_regex(r"[0-9]{0,17}-[0-9A-Z]{0,27}", fullmatch=True))
def test_what_is_no_place_in_a_list_is_told_apart(text: str) -> None:
    place = read_list_place(text, SESS)
    assert place is None or (list_place(*place).lstrip("0") == text.lstrip("0") and is_id(place[1], SESS))
