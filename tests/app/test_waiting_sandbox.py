"""While a model is asked, the sandbox of the next command is set up."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.engine.ports import ModelPart, ModelRequest, Provider, Wire
from bridle.protocol.events import ToolResult
from bridle.providers.script import call, say
from bridle.sandbox.warm_sandbox import DELAY_S

pytestmark = [
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(os.uname().sysname != "Linux", reason="bubblewrap needs Linux"),
]

_SHOW = "grep -ac 'bridle-waitin[g]' /proc/1/cmdline || true"
"""Says 1 where the first process of the sandbox was told to wait, and 0 where it was told to run this."""


class ThinkingModel:
    """Plays what another does, after some time."""

    def __init__(self, played: Provider, clock: FakeClock, after_s: float) -> None:
        self._played = played
        self._clock = clock
        self._after_s = after_s

    @property
    def name(self) -> str:
        return self._played.name

    @property
    def wire(self) -> Wire:
        return self._played.wire

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        await self._clock.advance(self._after_s)
        async for part in self._played.stream(request):
            yield part


def _waiting() -> bool:
    """Whether a process that we started waits for a command."""
    started = [pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()]
    return any(b"bridle-waiting" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in started)


async def ran_in(*commands: str, after_s: float = DELAY_S, **options: object) -> list[bool]:
    """Whether each command ran in a sandbox that waited for it, in one turn of a model that takes so long."""
    clock = FakeClock()
    played = scripted(*(call("bash", command=command) for command in commands), say("Done."), clock=clock)
    async with harness(ThinkingModel(played, clock, after_s), clock=clock, mode="yolo", **options) as session:
        results = of_kind(await session.ask("go"), ToolResult)
        async with asyncio.timeout(20):  # none waits behind its turn
            while _waiting():
                await asyncio.sleep(0)
    return [result.content == "1\n" for result in results]


async def test_the_next_command_of_a_turn_finds_a_sandbox_that_waits() -> None:
    assert await ran_in(_SHOW, _SHOW, _SHOW) == [False, True, True]


async def test_one_waits_for_commands_that_change_something_and_one_for_others() -> None:
    changes = f"touch made; {_SHOW}"
    assert await ran_in(_SHOW, changes, _SHOW, changes) == [False, False, True, True]


async def test_none_waits_while_answers_come_at_once() -> None:
    assert await ran_in(_SHOW, _SHOW, after_s=DELAY_S / 2) == [False, False]


async def test_none_waits_where_settings_say_so() -> None:
    assert await ran_in(_SHOW, _SHOW, sets=("sandbox.warm=false",)) == [False, False]
