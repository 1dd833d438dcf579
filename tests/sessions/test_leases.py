"""Whoever appends holds the lease of a log; whoever lost it writes nothing more, and others are not in its way."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from bridle.app.user.stored_keys import session_store
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.engine.undo_records import Kept, NewCall
from bridle.protocol.errors import StoreError
from bridle.protocol.events import TextDelta
from bridle.providers.script import answer, call, say
from bridle.sessions.archive.stored_archive import StoredArchive
from bridle.sessions.store import SessionStore
from sessions.session_kit import new_store, opened, put, python, raw, words

HOLDS = """
import asyncio
from pathlib import Path
from bridle.protocol.errors import StoreError
from sessions.session_kit import new_store, put, words

async def append(log):
    try:
        put(log, *words(3))
        await log.durable()
        return "kept"
    except StoreError as refused:
        return f"{refused.reason} {refused.data['holder']}"

store = new_store(Path(sys.argv[1]))
log = store.open(sys.argv[2]) if sys.argv[2:] else store.create("/work", profile="default")
print(log.session, log.lease.epoch, asyncio.run(append(log)), flush=True)
for _ in sys.stdin:
    print(asyncio.run(append(log)), flush=True)
"""


def rows(folder: Path) -> int:
    with closing(raw(folder)) as connection:
        return connection.execute("select count(*) from events").fetchall()[0][0]


async def test_a_run_whose_log_was_taken_over_writes_nothing_more_and_the_new_one_goes_on(tmp_path: Path):
    with opened(tmp_path) as mine, opened(tmp_path) as theirs:
        log, other = (mine.create("/work", profile="default") for _ in range(2))
        put(log, *words(2))
        await log.durable()
        (tmp_path / "locks" / log.log).unlink()
        taken = theirs.open(log.session)
        assert (log.lease.epoch, taken.lease.epoch) == (1, 2)
        put(log, *words(5))
        for _ in range(2):
            with pytest.raises(StoreError) as lost:
                await log.committed()
            assert lost.value.reason == "LeaseLost"
        with pytest.raises(StoreError) as late:
            put(log, TextDelta(text="later"))
        assert (late.value.reason, late.value.data["holder"]) == ("LeaseLost", taken.lease.holder)
        assert rows(tmp_path) == 2, "nothing of the old epoch is there"
        put(taken, *words(1))
        put(other, *words(1))
        await taken.durable()
        await other.durable()
        assert rows(tmp_path) == 4
        other.close()
        taken.close()
        with pytest.raises(StoreError):
            log.close()
    with opened(tmp_path) as store:
        store.verify(log.session)
        store.open(log.session).close()


async def test_a_run_that_lost_its_lease_keeps_nothing_for_undo_either(tmp_path: Path):
    with opened(tmp_path) as mine, opened(tmp_path) as theirs:
        log = mine.create("/work", profile="default")
        undo = log.undo_store()
        (tmp_path / "locks" / log.log).unlink()
        taken = theirs.open(log.session)
        call = NewCall(number=1, call_id="call_1", turn=1, tool="bash", does="", started_ms=1, kept=Kept())
        await undo.begin(call, {b"x" * 32: b"x"})
        with pytest.raises(StoreError) as lost:
            await undo.begin_action([], calls=["call_1"], turn=1, redo_of=None, started_ms=1)
        assert lost.value.reason == "LeaseLost"
        assert await taken.undo_store().calls() == []
        assert await taken.undo_store().actions() == []
        taken.close()


async def test_a_run_whose_session_was_deleted_writes_nothing_into_the_one_that_has_its_place(tmp_path: Path):
    with opened(tmp_path) as mine, opened(tmp_path) as theirs:
        log = mine.create("/work", profile="default")
        put(log, *words(2))
        await log.durable()
        (tmp_path / "locks" / log.log).unlink()
        StoredArchive(theirs).delete(log.session)
        other = theirs.create("/work", profile="default")
        put(other, *words(2))
        await other.durable()
        put(log, *words(3))
        with pytest.raises(StoreError) as lost:
            await log.durable()
        assert lost.value.reason == "LeaseLost"
        with pytest.raises(StoreError) as keyless:
            log.outputs_key()
        assert keyless.value.reason == "LeaseLost"
        put(other, *words(1))
        await other.durable()
        other.verify()
        assert rows(tmp_path) == 3
        other.close()


async def test_a_run_whose_content_expired_beside_it_writes_nothing_that_would_stay(tmp_path: Path):
    with opened(tmp_path) as mine, opened(tmp_path) as theirs:
        log = mine.create("/work", profile="default")
        put(log, *words(2))
        await log.durable()
        (tmp_path / "locks" / log.log).unlink()
        assert StoredArchive(theirs).expire(lambda _profile: -1).sessions == (log.session,)
        put(log, *words(3))
        with pytest.raises(StoreError) as lost:
            await log.durable()
        assert lost.value.reason == "LeaseLost"
        assert rows(tmp_path) == 2


@contextmanager
def holder(folder: Path, *session: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Another process that has a log open and has appended to it; with what it said of that."""
    process = python(HOLDS, str(folder), *session)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().split()
    finally:
        process.kill()
        process.communicate(timeout=30)


def test_a_dead_holder_gives_way_at_once_and_whoever_comes_late_writes_nothing(tmp_path: Path):
    with closing(new_store(tmp_path)) as store:
        with holder(tmp_path) as (first, (session, epoch, *_)):
            held = store.describe(session).lease
            assert held is not None
            assert held.epoch == int(epoch)
            first.kill()
            first.wait(timeout=30)
        assert store.describe(session).lease is None, "no time has to pass"
        with holder(tmp_path, session) as (second, said):
            assert said == [session, str(int(epoch) + 1), "kept"]
            (lock,) = (tmp_path / "locks").iterdir()
            lock.unlink()  # as on a disk that forgets locks: the second one lives, and does not know
            with closing(store.open(session)) as log:
                assert (log.last_id, log.lease.epoch) == (6, int(epoch) + 2)
                assert second.stdin is not None
                assert second.stdout is not None
                second.stdin.write("append\n")
                second.stdin.flush()
                assert second.stdout.readline().split() == ["LeaseLost", log.lease.holder]
                assert rows(tmp_path) == 6, "nothing of the old epoch is there"
                put(log, *words(1))
        store.verify(session)
        assert rows(tmp_path) == 7


async def test_a_session_that_was_taken_over_ends_its_turn_and_says_who_has_it(tmp_path: Path):
    async def talk(theirs: SessionStore) -> None:
        async with harness(scripted(say("One."), say("Two.")), home=str(tmp_path)) as session:
            await session.ask("one")
            before = len(await session.stored())
            for lock in tmp_path.rglob("locks/*"):
                lock.unlink()
            with closing(theirs.open(session.id)) as taken:
                with pytest.raises(StoreError) as lost:
                    await session.ask("two")
                assert (lost.value.reason, lost.value.data["holder"]) == ("LeaseLost", taken.lease.holder)
            assert len(list(theirs.events(session.id))) == before, "nothing of that turn is there"

    with closing(session_store({"BRIDLE_HOME": str(tmp_path)})) as theirs:
        with pytest.raises(StoreError) as ended:
            await talk(theirs)
        assert ended.value.reason == "LeaseLost", "whoever ends it is told as well"


async def test_a_call_that_changes_something_does_not_run_once_the_session_was_taken_over(tmp_path: Path):
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    waits = "touch begun; until [ -e taken ]; do sleep 0.05; done"
    model = scripted(
        answer(call("bash", command=waits), call("write", path="ran.txt", content="x")), say("Two.")
    )

    async def talk(theirs: SessionStore) -> None:
        async with harness(model, home=str(home), folder=str(work), mode="yolo") as session:
            asked = asyncio.create_task(session.ask("two calls"))
            async with asyncio.timeout(30):
                while not (work / "begun").exists():
                    await asyncio.sleep(0.01)
            for lock in home.rglob("locks/*"):
                lock.unlink()
            with closing(theirs.open(session.id)):
                (work / "taken").touch()
                with pytest.raises(StoreError):
                    await asked

    with closing(session_store({"BRIDLE_HOME": str(home)})) as theirs, pytest.raises(StoreError) as ended:
        await talk(theirs)
    assert ended.value.reason == "LeaseLost"
    assert not (work / "ran.txt").exists()
