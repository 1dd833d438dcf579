"""The process that would end what runs after a kill of Bridle is killed itself: said, and mended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import HarnessSession, harness
from bridle.protocol.events import Notice
from bridle.providers.script import call, say
from cli_kit import guardians

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def own_guardians() -> set[int]:
    return set(guardians(os.getpid()))


@asynccontextmanager
async def with_a_job() -> AsyncIterator[tuple[HarnessSession, int]]:
    """A session with a command in the background and nothing else to do, and its guardian."""
    before = own_guardians()
    model = scripted(
        call("bash", command="sleep 600", background=True),
        say("It runs."),
        call("bash", command="true"),
        say("Done."),
    )
    async with harness(model, mode="yolo") as session, asyncio.timeout(30):
        await session.ask("go")
        (guardian,) = own_guardians() - before
        yield session, guardian


async def notices(session: HarnessSession, count: int) -> list[str]:
    """The first so many things that were said about the guardian."""
    said: list[str] = []
    async for envelope in session.connection.events(session.id, since=0):
        if isinstance(envelope.event, Notice) and envelope.event.reason.startswith("Guardian"):
            said.append(envelope.event.reason)
            if len(said) == count:
                return said
    raise AssertionError("the session ended")


async def test_its_death_is_said_and_another_takes_over_while_nothing_else_happens() -> None:
    before = own_guardians()
    async with with_a_job() as (session, guardian):
        os.kill(guardian, signal.SIGKILL)
        assert await notices(session, 1) == ["GuardianReplaced"]
        (another,) = own_guardians() - before
        assert another != guardian
        (log,) = Path(session.home).rglob("log/bridle-*.log")
        (line,) = [
            line for line in map(json.loads, log.read_text().splitlines()) if "guardian" in line["msg"]
        ]
        assert (line["level"], line["component"], line["reason"]) == ("warning", "engine", "GuardianReplaced")


async def test_where_they_die_again_and_again_that_is_said_once_and_the_next_command_brings_one() -> None:
    before = own_guardians()
    async with with_a_job() as (session, guardian):
        for deaths in (1, 2, 3):
            os.kill(guardian, signal.SIGKILL)
            assert await notices(session, deaths) == ["GuardianReplaced"] * deaths
            (guardian,) = own_guardians() - before
        os.kill(guardian, signal.SIGKILL)
        assert await notices(session, 4) == [*["GuardianReplaced"] * 3, "GuardianLost"]
        assert own_guardians() == before
        await session.ask("again")
        (guardian,) = own_guardians() - before
