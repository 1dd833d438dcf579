"""How long the loop gets to nothing else: while secrets are looked for in something long, while sandboxes start."""

from __future__ import annotations

import asyncio
import base64
import random
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from measure import Figure, scratch, within

from bridle.cli.setup.serve import SWITCH_S
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import HarnessSession, harness, outcomes
from bridle.protocol.events import ToolCallRequested
from bridle.providers.script import call, say

TICK_S = 0.001
STARTED, PAUSE_S = 25, 0.04
MOST = 4 << 20
"""What one answer may have."""
_RANDOM = random.Random(1)
LONG = {
    "one word": "x-" * (MOST // 2),
    "base64": base64.b64encode(_RANDOM.randbytes(MOST // 4 * 3)).decode(),
    "near-secrets": "password: " * (MOST // 10),
}
PRINTED = {
    "log": "2031-04-05 12:30:00 INFO worker: handled 18 items in 4 ms, 0 failed, 3 left\n" * (MOST // 76),
    "near-secrets": LONG["near-secrets"][: 1 << 20],
    "near-tokens": "eyJ" * ((1 << 20) // 3),
}


def stall() -> list[Figure]:
    """The gaps between the ticks of a task that wants to run every millisecond, in an engine that serves."""
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        return _figures()
    finally:
        sys.setswitchinterval(usual_s)


def _figures() -> list[Figure]:
    events = [_figure(name, text, _written) for name, text in LONG.items()]
    printed = [_figure(f"output, {name}", text, _printed) for name, text in PRINTED.items()]
    return [*events, *printed, _figure("sandboxes that start", "", _started, sandbox="auto", target=5)]


Work = Callable[[HarnessSession, str], Awaitable[None]]


def _figure(name: str, text: str, work: Work, *, sandbox: str = "off", target: float = 20) -> Figure:
    gaps, took_s = asyncio.run(_gaps(text, work, sandbox))
    size = f"{len(text) >> 20} MB; " if text else ""
    how = f"{size}{len(gaps)} ticks in {took_s:.1f} s, longest {max(gaps) * 1e3:.0f} ms"
    value = within(gaps, 0.99) * 1e3
    return Figure(name=f"stall p99, {name}", value=value, unit="ms", target=target, how=how)


async def _written(session: HarnessSession, text: str) -> None:
    """As the arguments of a call into the log."""
    journal = session.engine.live.session(session.id).journal
    await journal.record(
        ToolCallRequested(call_id="call_1", tool="write_file", input={"content": text}, step=0)
    )
    await journal.committed()


async def _printed(session: HarnessSession, text: str) -> None:
    """By a command."""
    await asyncio.to_thread(Path(session.folder, "long.txt").write_text, text, encoding="ascii")
    assert outcomes(await session.ask("look at it")) == ["ok"]


async def _started(session: HarnessSession, _text: str) -> None:
    """One for each command, at the pace of a model."""
    for _ in range(STARTED):
        assert outcomes(await session.ask("look")) == ["ok"]
        await asyncio.sleep(PAUSE_S)


async def _gaps(text: str, work: Work, sandbox: str) -> tuple[list[float], float]:
    gaps: list[float] = []

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(TICK_S)
            gaps.append(time.perf_counter() - before - TICK_S)

    with scratch() as home:
        begin = (call("bash", command="true"), say("ready"))
        look = (call("bash", command="cat long.txt" if text else "true"), say("done"))
        model = scripted(*begin, *(look * STARTED))
        async with harness(model, home=home, mode="yolo" if text else "auto", sandbox=sandbox) as session:
            await session.ask("begin")
            ticking = asyncio.ensure_future(tick())
            begun = time.perf_counter()
            await work(session, text)
            took_s = time.perf_counter() - begun
            ticking.cancel()
    assert gaps
    return gaps, took_s
