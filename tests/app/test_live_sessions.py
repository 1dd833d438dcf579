"""One owner of a live session: opened once, attached to by many, ended in one way, and free again afterwards."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.app.engine import Engine
from bridle.base.clock import SystemClock
from bridle.config.folders import folders
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.protocol import commands as c
from bridle.protocol.errors import CommandRefused, StoreError
from bridle.protocol.events import QuestionAsked, SessionCreated, SessionEnded, TurnEnded
from bridle.protocol.messages import TextBlock
from bridle.protocol.questions import OrphanAnswer
from bridle.providers.script import call, say
from recovery.test_court import Crashed, judge

HAPPENED = OrphanAnswer(judgement="happened")
LATER = OrphanAnswer(judgement="later")


async def refused(work: Any) -> str:
    with pytest.raises(CommandRefused) as refusal:
        await work
    return refusal.value.reason


def words(session: str, text: str) -> c.SendInput:
    return c.SendInput(session=session, content=(TextBlock(text=text),), mode="queue")


async def until(client: Any, session: str, kind: type, since: int = 0) -> Any:
    async for envelope in client.events(session, since=since):
        if isinstance(envelope.event, kind):
            return envelope
    raise AssertionError(f"no {kind.__name__}")


@pytest.fixture
def crashed(tmp_path: Path) -> Crashed:
    return Crashed(tmp_path)


@pytest.mark.requirement("G32.3")
async def test_after_decide_later_nothing_is_taken_that_will_not_run_and_the_session_can_be_resumed(
    crashed: Crashed,
) -> None:
    await crashed.during(call("bash", command="touch a"))
    async with crashed.resumed(scripted(say("x"), say("Back."))) as session:
        await judge(session, LATER)
        await session.until(SessionEnded)
        client = session.connection
        assert await refused(client.send(words(session.id, "hello?"))) == "SessionNotOpen"

        past = len(list(session.engine.store.events(session.id)))
        again = c.CreateSession(
            cwd=session.folder, resume=session.id, config=c.SessionOptions(on_orphan="ask")
        )
        assert (await client.send(again)).session == session.id
        asked = await until(client, session.id, QuestionAsked, since=past)
        await client.send(
            c.AnswerQuestion(session=session.id, question_id=asked.event.question_id, answer=HAPPENED)
        )
        assert (await session.ask("go on"))[-1].stop == "end_turn"


async def test_attaching_after_decide_later_begins_a_run_that_asks_again(crashed: Crashed) -> None:
    await crashed.during(call("bash", command="touch a"))
    async with crashed.resumed(scripted(say("x"), say("Back."))) as session:
        await judge(session, LATER)
        await session.until(SessionEnded)
        past = len(list(session.engine.store.events(session.id)))
        attached = await session.connection.send(c.AttachSession(session=session.id))
        assert attached.opened is not None
        assert attached.opened > past
        again = await session.until(QuestionAsked, since=past)
        assert again.question.input == {"command": "touch a"}


@pytest.mark.requirement("G16.4", "G20.1")
async def test_resuming_a_live_session_attaches_to_it() -> None:
    async with harness(scripted(say("One."), say("Two."))) as session:
        await session.ask("hello")
        other = session.engine.connect(name="other", answers=False)
        resumed = await other.send(c.CreateSession(cwd=session.folder, resume=session.id))
        assert resumed.session == session.id
        sent = await other.send(words(session.id, "and me"))
        ended = await until(other, session.id, TurnEnded, since=sent.event or 0)
        assert ended.event.stop == "end_turn"
        runs = [one for one in await session.stored() if isinstance(one.event, SessionCreated)]
        assert len(runs) == 1, "one run, two clients"


async def test_resuming_a_live_session_with_other_options_than_its_run_has_is_refused() -> None:
    async with harness(scripted(say("One."))) as session:
        other = session.engine.connect(name="other", answers=False)
        stricter = c.CreateSession(
            cwd=session.folder, resume=session.id, config=c.SessionOptions(dry_run=True)
        )
        assert await refused(other.send(stricter)) == "SessionIsOpen"
        named = c.CreateSession(cwd=session.folder, resume=session.id, config=c.SessionOptions(headless=True))
        assert (await other.send(named)).session == session.id


async def test_a_client_that_resumes_a_live_session_gives_all_of_its_options_or_none() -> None:
    async with harness(scripted(say("One.")), dry_run=True, yes=True) as session:
        other = session.engine.connect(name="other", answers=False)
        resume = c.CreateSession(cwd=session.folder, resume=session.id)
        assert (await other.send(resume)).session == session.id
        same = msgspec.structs.replace(resume, config=c.SessionOptions(dry_run=True, yes=True, headless=True))
        assert (await other.send(same)).session == session.id
        without_yes = msgspec.structs.replace(resume, config=c.SessionOptions(dry_run=True, headless=True))
        with pytest.raises(CommandRefused) as problem:
            await other.send(without_yes)
        assert (problem.value.reason, problem.value.data["options"]) == ("SessionIsOpen", "yes")


async def test_resuming_a_live_session_in_another_mode_sets_the_mode() -> None:
    async with harness(scripted(say("One.")), mode="default") as session:
        other = session.engine.connect(name="other", answers=False)
        await other.send(c.CreateSession(cwd=session.folder, resume=session.id, mode="plan"))
        assert session.conversation.mode == "plan"
        agent = session.engine.connect(name="agent", identity="agent", answers=False)
        looser = c.CreateSession(cwd=session.folder, resume=session.id, mode="auto")
        assert await refused(agent.send(looser)) == "OnlyStricter"
        assert session.conversation.mode == "plan"


@asynccontextmanager
async def engine_in(home: Path, *answers: Any) -> Any:
    env = {"BRIDLE_HOME": str(home), "HOME": str(home / "person")}
    engine = Engine(where=folders(env), env=env, clock=SystemClock(), model=scripted(*answers))
    try:
        yield engine
    finally:
        await engine.close()


@pytest.fixture
async def stored(tmp_path: Path) -> tuple[Path, Path, str]:
    """A home, a folder, and a session that was ended there."""
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    async with harness(scripted(say("One.")), home=str(home), folder=str(folder)) as session:
        await session.ask("hello")
        return home, folder, session.id


@pytest.mark.requirement("G26.4", "G16.5")
async def test_attaching_to_a_stored_session_opens_it(stored: tuple[Path, Path, str]) -> None:
    home, _, session = stored
    async with engine_in(home, say("One."), say("Two.")) as engine:
        client = engine.connect(name="test", answers=False)
        attached = await client.send(c.AttachSession(session=session))
        sent = await client.send(words(session, "go on"))
        ended = await until(client, session, TurnEnded, since=sent.event)
        assert (attached.session, ended.event.stop) == (session, "end_turn")
        nowhere = c.AttachSession(session="sess_" + "0" * 26)
        assert await refused(client.send(nowhere)) == "UnknownSession"


async def test_two_who_open_a_stored_session_at_once_get_one_live_session(
    stored: tuple[Path, Path, str],
) -> None:
    home, folder, session = stored
    async with engine_in(home, say("One."), say("Two.")) as engine:
        clients = [engine.connect(name=name, answers=False) for name in ("one", "two", "three")]
        opened = await asyncio.gather(
            clients[0].send(c.CreateSession(cwd=str(folder), resume=session)),
            clients[1].send(c.AttachSession(session=session)),
            clients[2].send(c.CreateSession(cwd=str(folder), resume=session)),
        )
        assert {one.session for one in opened} == {session}
        assert len({one.opened for one in opened}) == 1
        sent = await clients[0].send(words(session, "go on"))
        for client in clients:
            assert (await until(client, session, TurnEnded, since=sent.event)).event.stop == "end_turn"


async def test_an_opening_that_fails_leaves_nothing_behind(stored: tuple[Path, Path, str]) -> None:
    home, folder, session = stored
    async with engine_in(home, say("One."), say("Two.")) as engine:
        one, two = (engine.connect(name=name, answers=False) for name in ("one", "two"))
        wrong = c.CreateSession(cwd=str(folder), resume=session, model="nobody:knows")
        right = c.CreateSession(cwd=str(folder), resume=session)
        failed, opened = await asyncio.gather(one.send(wrong), two.send(right), return_exceptions=True)
        assert isinstance(failed, CommandRefused)
        assert not isinstance(opened, BaseException)
        assert opened.session == session


@pytest.mark.requirement("G20.9")
async def test_every_way_to_end_frees_the_lock_and_the_name(stored: tuple[Path, Path, str]) -> None:
    home, _, session = stored
    async with engine_in(home, say("One."), say("Two.")) as engine:
        client = engine.connect(name="test", answers=False)
        await client.send(c.AttachSession(session=session))
        await client.send(c.EndSession(session=session))
        engine.store.open(session).close()
        await client.send(c.AttachSession(session=session))
        ends = [
            event.cause
            for event in of_kind([one.event for one in engine.store.events(session)], SessionEnded)
        ]
    assert ends == ["binary-shutdown", "user"]


async def test_who_was_there_at_the_end_reads_the_end(stored: tuple[Path, Path, str]) -> None:
    home, _, session = stored
    async with engine_in(home, say("One.")) as engine:
        client, late = engine.connect(name="a", answers=False), engine.connect(name="b", answers=False)
        opened = await client.send(c.AttachSession(session=session))
        await client.send(c.EndSession(session=session))
        last = await until(client, session, SessionEnded, since=opened.opened or 0)
        assert last.event.cause == "user"
        assert await refused(anext(late.events(session))) == "SessionNotOpen"


async def test_a_session_that_an_agent_goes_on_with_allows_no_more_than_the_settings(
    tmp_path: Path,
) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    async with harness(
        scripted(say("One.")), home=str(home), folder=str(folder), mode="yolo", yes=True
    ) as session:
        stored = session.id
    async with engine_in(home, say("One.")) as engine:
        agent = engine.connect(name="outer", identity="agent", answers=False)
        opened = await agent.send(c.AttachSession(session=stored))
        created = await until(agent, stored, SessionCreated, since=(opened.opened or 1) - 1)
        assert created.event.mode == "default"


async def _break_the_disk(seen: list[object]) -> None:
    async with harness(scripted(say("Hi."))) as session:
        await session.ask("go")
        store = session.engine.store
        lock = store.shelf.lock_of(store.find(session.id).log)
        assert not lock.acquire()

        def broken(_connection: object) -> None:
            raise StoreError("StoreUnwritable", path="x", problem="the disk is gone")

        store._writer.change(broken)
        with pytest.raises(StoreError):
            await until(session.connection, session.id, SessionEnded, since=session.conversation.last_id)
        seen.append(await refused(session.connection.send(words(session.id, "hello?"))))
        async with asyncio.timeout(20):
            while not lock.acquire():
                await asyncio.sleep(0)
        lock.release()
        seen.append("free")


async def test_a_store_that_fails_ends_the_session_and_frees_its_lock() -> None:
    seen: list[object] = []
    with pytest.raises(StoreError):  # closing says it once more
        await _break_the_disk(seen)
    assert seen == ["SessionNotOpen", "free"]
