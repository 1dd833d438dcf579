"""How long the loop gets to nothing else while a long event is written into the journal."""

from __future__ import annotations

import asyncio
import base64
import random
import time

from measure import Figure, scratch

from bridle.conformance.harness import harness
from bridle.conformance.models import scripted
from bridle.protocol.events import ToolCallRequested
from bridle.providers.script import say

TICK_S = 0.001
MOST = 4 << 20
"""What one answer may have."""
_RANDOM = random.Random(1)
LONG = {
    "one word": "x-" * (MOST // 2),
    "base64": base64.b64encode(_RANDOM.randbytes(MOST // 4 * 3)).decode(),
    "near-secrets": "password: " * (MOST // 10),
}


def stall() -> list[Figure]:
    """The gaps between the ticks of a task that wants to run every millisecond."""
    return [_figure(name, text) for name, text in LONG.items()]


def _figure(name: str, text: str) -> Figure:
    gaps, took_s = asyncio.run(_gaps(text))
    worst = sorted(gaps)
    how = f"4 MB; {len(gaps)} ticks in {took_s:.1f} s, longest {worst[-1] * 1e3:.0f} ms"
    value = worst[int(len(worst) * 0.99)] * 1e3
    return Figure(name=f"stall p99, {name}", value=value, unit="ms", target=20, how=how)


async def _gaps(text: str) -> tuple[list[float], float]:
    gaps: list[float] = []

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(TICK_S)
            gaps.append(time.perf_counter() - before - TICK_S)

    with scratch() as home:
        async with harness(scripted(say("ready")), home=home) as session:
            await session.ask("begin")
            journal = session.engine.multiplexer.session(session.id).journal
            event = ToolCallRequested(call_id="call_1", tool="write_file", input={"content": text}, step=0)
            ticking = asyncio.ensure_future(tick())
            begun = time.perf_counter()
            await journal.record(event)
            await journal.committed()
            took_s = time.perf_counter() - begun
            ticking.cancel()
    assert gaps
    return gaps, took_s
