"""The end of an engine: all sessions at once, and none that begins meanwhile is left behind."""

import asyncio
from pathlib import Path

import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.engine.features import Feature
from bridle.protocol.commands import AttachSession, CreateSession, SessionOptions
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import Degraded, SessionEnded


async def test_a_session_that_is_being_opened_when_its_engine_ends_is_ended_with_it(tmp_path: Path) -> None:
    async with harness(scripted()) as session:
        create = CreateSession(cwd=str(tmp_path), model="demo", config=SessionOptions(title="late"))
        opening = asyncio.ensure_future(session.connection.send(create))
        await asyncio.sleep(0)
        assert not opening.done()
        await session.engine.live.close()
        accepted = await opening
        assert session.engine.live.all_open() == {}
        events = [one.event async for one in session.engine.sessions.events(accepted.session)]
        assert isinstance(events[-1], SessionEnded)
        for late in (create, AttachSession(session=accepted.session)):
            with pytest.raises(CommandRefused) as refused:
                await session.connection.send(late)
            assert refused.value.reason == "EngineStopping"


async def test_sessions_that_take_their_time_to_end_do_not_wait_for_each_other(tmp_path: Path) -> None:
    together = asyncio.Barrier(2)

    async def wait_for_the_other() -> None:
        await together.wait()

    slow = Feature(name="slow", at_end=wait_for_the_other)
    async with harness(scripted(), features=(slow,)) as session:
        other = await session.connection.send(CreateSession(cwd=str(tmp_path), model="demo"))
        await session.engine.live.close()
        for ended in (session.id, other.session):
            events = [one.event async for one in session.engine.sessions.events(ended)]
            assert isinstance(events[-1], SessionEnded)
            assert not [one for one in events if isinstance(one, Degraded)]
