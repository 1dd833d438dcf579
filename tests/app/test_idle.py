"""A session nobody is attached to and that does nothing ends after a while; the session stays, and goes on."""

import asyncio
import os
from pathlib import Path

import pytest

from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.protocol.commands import AttachSession, CreateSession, DetachSession, EndSession, SessionOptions
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import SessionCreated, SessionEnded, TurnEnded
from bridle.providers.script import answer, say, wait

HALF_HOUR_S = 1800


def _is_live(session) -> bool:
    try:
        session.engine.live.session(session.id)
    except CommandRefused:
        return False
    return True


def _stored(session) -> list:
    return [envelope.event for envelope in session.engine.store.events(session.id)]


@pytest.mark.requirement("G16.5")
@pytest.mark.requirement("G42.1")
@pytest.mark.requirement("G26.4")
async def test_an_idle_session_without_clients_ends_and_a_new_run_begins_when_somebody_comes_back() -> None:
    clock = FakeClock()
    async with harness(scripted(say("one"), say("two")), clock=clock) as session:
        await session.ask("hello")
        await session.connection.send(DetachSession(session=session.id))
        await clock.advance(HALF_HOUR_S - 1)
        assert _is_live(session)
        await clock.advance(2)
        assert not _is_live(session)

        await session.connection.send(AttachSession(session=session.id))
        assert SessionEnded(cause="idle") in _stored(session)
        runs = [event for event in _stored(session) if isinstance(event, SessionCreated)]
        assert [run.resumed for run in runs] == [False, True]
        events = await session.ask("and now?")
        assert events[-1].stop == "end_turn"
        assert [message.role for message in session.conversation.messages] == ["user", "assistant"] * 2


async def test_a_session_somebody_is_attached_to_stays() -> None:
    clock = FakeClock()
    async with harness(scripted(say("one")), clock=clock) as session:
        await session.ask("hello")
        other = session.engine.connect(name="other", answers=False)
        await other.send(AttachSession(session=session.id))
        await other.close()
        await clock.advance(10 * HALF_HOUR_S)
        assert _is_live(session)


async def test_coming_back_in_time_keeps_the_run() -> None:
    clock = FakeClock()
    async with harness(scripted(say("one")), clock=clock) as session:
        await session.connection.send(DetachSession(session=session.id))
        await clock.advance(HALF_HOUR_S - 1)
        await session.connection.send(AttachSession(session=session.id))
        await clock.advance(10 * HALF_HOUR_S)
        assert _is_live(session)


@pytest.mark.requirement("G33.4")
async def test_a_pinned_session_does_not_end_when_idle() -> None:
    clock = FakeClock()
    async with harness(scripted(say("one")), clock=clock) as session:
        session.engine.store.pin(session.id, pinned=True)
        await session.connection.send(DetachSession(session=session.id))
        await clock.advance(10 * HALF_HOUR_S)
        assert _is_live(session)


async def test_one_that_was_pinned_while_it_was_idle_stays_too() -> None:
    clock = FakeClock()
    async with harness(scripted(say("one")), clock=clock) as session:
        await session.connection.send(DetachSession(session=session.id))
        session.engine.store.pin(session.id, pinned=True)
        await clock.advance(10 * HALF_HOUR_S)
        assert _is_live(session)


async def test_how_long_is_a_setting() -> None:
    clock = FakeClock()
    async with harness(scripted(say("one")), clock=clock, sets=("sessions.idle_timeout_s=5",)) as session:
        await session.connection.send(DetachSession(session=session.id))
        await clock.advance(6)
        assert not _is_live(session)


async def test_a_turn_that_runs_is_finished_first() -> None:
    clock = FakeClock()
    model = scripted(answer(wait(50), say("late")), clock=clock)
    async with harness(model, clock=clock, sets=("sessions.idle_timeout_s=20",)) as session:
        number = await session.send("hello")
        await session.connection.send(DetachSession(session=session.id))
        await clock.advance(49)
        assert _is_live(session)
        await clock.advance(2)
        await session.connection.send(AttachSession(session=session.id))
        assert (await session.turn_of(number))[-1] == TurnEnded(stop="end_turn", steps=1)
        await session.connection.send(DetachSession(session=session.id))
        await clock.advance(19)
        assert _is_live(session)
        await clock.advance(2)
        assert not _is_live(session)


async def test_a_session_that_was_ended_on_purpose_begins_a_new_run_without_the_options_of_the_last() -> None:
    async with harness(scripted(say("one")), dry_run=True) as session:
        await session.connection.send(EndSession(session=session.id))
        assert not _is_live(session)
        await session.connection.send(AttachSession(session=session.id))
        same = CreateSession(cwd=session.folder, resume=session.id, config=SessionOptions(dry_run=True))
        with pytest.raises(CommandRefused) as refused:
            await session.connection.send(same)
        assert refused.value.reason == "SessionIsOpen"


async def test_who_comes_while_an_idle_session_ends_gets_the_options_it_had_too(tmp_path: Path) -> None:
    home, folder, clock = tmp_path / "home", tmp_path / "work", FakeClock()
    (home / "config").mkdir(parents=True)
    folder.mkdir()
    os.mkfifo(folder / "gate")
    hook = f'[[hooks]]\nevent = "SessionEnd"\ncommand = "cat {folder}/gate"\n'
    (home / "config" / "config.toml").write_text(hook)
    async with harness(
        scripted(say("one")), clock=clock, home=str(home), folder=str(folder), dry_run=True
    ) as session:
        await session.connection.close()
        await clock.advance(HALF_HOUR_S + 1)
        assert not _is_live(session), "it ends, and its hook waits at the gate"
        other = session.engine.connect(name="other", answers=False)
        coming = asyncio.ensure_future(other.send(AttachSession(session=session.id)))
        await clock.settle()
        await asyncio.to_thread((folder / "gate").write_text, "go on\n")
        (folder / "gate").unlink()
        await coming
        same = CreateSession(cwd=session.folder, resume=session.id, config=SessionOptions(dry_run=True))
        assert (await other.send(same)).session == session.id


async def test_a_session_that_ended_because_it_was_idle_goes_on_with_the_options_it_had() -> None:
    clock = FakeClock()
    async with harness(scripted(say("one")), clock=clock, dry_run=True, yes=True) as session:
        for identity, kept in (
            ("agent", SessionOptions(dry_run=True)),
            ("human", SessionOptions(dry_run=True, yes=True)),
        ):
            await session.connection.close()
            await clock.advance(HALF_HOUR_S + 1)
            other = session.engine.connect(name="other", identity=identity, answers=False)
            await other.send(AttachSession(session=session.id))
            same = CreateSession(cwd=session.folder, resume=session.id, config=kept)
            assert (await session.connection.send(same)).session == session.id
            await other.close()
            if identity == "agent":
                await session.connection.send(EndSession(session=session.id))
                first = CreateSession(
                    cwd=session.folder, resume=session.id, config=SessionOptions(dry_run=True, yes=True)
                )
                await session.connection.send(first)
