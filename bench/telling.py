"""How long after it happened a client reads of an event: a session with every layer, a client in the same process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from measure import Figure, middle, within
from turns import CallingModel, ended_well

from bridle.base.clock import SystemClock
from bridle.conformance.harness import HarnessSession, harness
from bridle.engine.deltas import MIN_GAP_S
from bridle.engine.ports import ModelDone, ModelPart, ModelRequest, ModelText, Provider
from bridle.protocol.events import TurnEnded
from bridle.providers.scripted import ScriptedWire

STEPS = 150
WORDS = 150


class _Stamps(SystemClock):
    """No two times are the same, and it is known when each was asked for."""

    def __init__(self) -> None:
        self._last_ms = 0
        self.asked_s: dict[int, float] = {}

    def now_ms(self) -> int:
        self._last_ms = max(self._last_ms + 1, super().now_ms())
        self.asked_s[self._last_ms] = time.perf_counter()
        return self._last_ms


class _SlowModel:
    """Says one word after the other, with so much time between them that each becomes an event."""

    name = "bench"
    wire = ScriptedWire()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        for _ in range(WORDS):
            await asyncio.sleep(MIN_GAP_S)
            yield ModelText("words ")
        yield ModelDone("end_turn")


def told() -> list[Figure]:
    """From an event's stamp to the client that reads it: tool steps, and an answer that comes word by word."""
    steps = asyncio.run(_delays(CallingModel(STEPS)))
    words = asyncio.run(_delays(_SlowModel()))
    return [*_figures("told, steps", steps), *_figures("told, words", words)]


def _figures(name: str, delays_ms: list[float]) -> list[Figure]:
    how = f"{len(delays_ms):,} durable events, at most {max(delays_ms):.1f} ms"
    return [
        Figure(name=f"{name}, p50", value=middle(delays_ms), unit="ms", target=3, how=how),
        Figure(name=f"{name}, p99", value=within(delays_ms, 0.99), unit="ms", target=5, how=how),
    ]


async def _delays(model: Provider) -> list[float]:
    """What passes between the stamp of each durable event of a turn and its client having it, in milliseconds."""
    stamps = _Stamps()
    async with harness(model, clock=stamps, mode="auto", sandbox="off", max_steps=STEPS + 1) as session:
        delays_ms = await _read(session, stamps, await session.send("go"))
    assert len(delays_ms) > min(STEPS, WORDS)
    return delays_ms


async def _read(session: HarnessSession, stamps: _Stamps, since: int) -> list[float]:
    delays_ms: list[float] = []
    async for envelope in session.connection.events(session.id, since=since):
        if envelope.id is not None:
            delays_ms.append((time.perf_counter() - stamps.asked_s[envelope.ts_ms]) * 1000)
        if isinstance(envelope.event, TurnEnded):
            assert ended_well([envelope.event]), envelope.event
            return delays_ms
    raise AssertionError("the session ended before its turn did")
