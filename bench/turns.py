"""What a step, a delta, a request cost inside the engine: everything real but the model.

The models here note when they are asked, so a step is what lies between two requests.
"""

from __future__ import annotations

import asyncio
import json
import resource
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import NamedTuple

from measure import Figure, middle

from bridle.conformance.harness import harness, of_kind
from bridle.conformance.models import FloodModel, RecordingModel, scripted
from bridle.engine.ports import ModelCall, ModelDone, ModelPart, ModelRequest, ModelText, Provider
from bridle.protocol.events import AnyEvent, TextDelta, ToolCallStarted, ToolResult, TurnEnded
from bridle.providers.script import say
from bridle.providers.scripted import ScriptedWire

WARM_UP = 20
BATCH = 50


class Moment(NamedTuple):
    wall_s: float
    cpu_s: float


class CallingModel:
    """Asks for one bash call per request, `steps` times, then ends the turn. Every call is a different one."""

    name = "bench"
    wire = ScriptedWire()

    def __init__(self, steps: int, *, filler_bytes: int = 0) -> None:
        self._steps = steps
        self._filler = "." * filler_bytes
        self.moments: list[Moment] = []
        self.body_bytes: list[int] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        self.moments.append(Moment(time.perf_counter(), time.process_time()))
        self.body_bytes.append(len(request.body))
        if request.answers == self._steps:
            yield ModelText("done")
            yield ModelDone("end_turn")
            return
        yield ModelCall("bash", json.dumps({"command": f"echo {self.output(request.answers).rstrip()}"}))
        yield ModelDone("tool_use")

    def output(self, number: int) -> str:
        return f"step-{number}{self._filler}\n"

    def batches(self) -> list[Moment]:
        """Wall and own CPU per step, as means of `BATCH` steps, without the warm-up."""
        marks = self.moments[WARM_UP::BATCH]
        return [
            Moment((end.wall_s - begin.wall_s) / BATCH, (end.cpu_s - begin.cpu_s) / BATCH)
            for begin, end in pairwise(marks)
        ]


def step() -> list[Figure]:
    """One tool step, bash `echo`, with every layer and the intent on disk before the call."""
    steps = WARM_UP + 5 * BATCH
    model = CallingModel(steps)
    children_before = _children_cpu()
    asyncio.run(_turn_of_calls(model, steps))
    children_ms = (_children_cpu() - children_before) / steps * 1000
    batches = model.batches()
    wall_ms = middle([batch.wall_s for batch in batches]) * 1000
    own_ms = middle([batch.cpu_s for batch in batches]) * 1000
    how = f"{steps} steps, median of {len(batches)} batches of {BATCH}"
    return [
        Figure(name="tool step, wall", value=wall_ms, unit="ms", target=4, how=how),
        Figure(
            name="tool step, CPU", value=own_ms + children_ms, unit="ms", target=3.5, how="own and children"
        ),
        Figure(name="tool step, own CPU", value=own_ms, unit="ms", target=2, how=how),
        Figure(
            name="tool step, children's CPU", value=children_ms, unit="ms", how="the shell and the guardian"
        ),
    ]


def growth() -> list[Figure]:
    """Own CPU of the last 50 of 500 steps against the first 50, small results and results that add up to 1 MB."""
    return [
        _growth("growth over 500 steps", filler_bytes=0, least_body_bytes=50_000, target=1.1),
        _growth("growth to a 1 MB body", filler_bytes=1_000, least_body_bytes=1_000_000, target=1.2),
    ]


def _growth(name: str, *, filler_bytes: int, least_body_bytes: int, target: float) -> Figure:
    ratios: list[float] = []
    firsts: list[float] = []
    steps = WARM_UP + 500
    for _ in range(3):
        model = CallingModel(steps, filler_bytes=filler_bytes)
        asyncio.run(_turn_of_calls(model, steps))
        assert model.body_bytes[-1] >= least_body_bytes, model.body_bytes[-1]
        batches = model.batches()
        assert len(batches) == 10
        firsts.append(batches[0].cpu_s)
        ratios.append(batches[-1].cpu_s / batches[0].cpu_s)
    how = f"N={len(ratios)}, first 50 at {middle(firsts) * 1000:.2f} ms of own CPU"
    return Figure(name=name, value=middle(ratios), unit="x", target=target, how=how)


async def _turn_of_calls(model: CallingModel, steps: int) -> None:
    """One turn, and the proof that it was what we meant to measure."""
    async with harness(model, mode="auto", max_steps=steps + 1) as session:
        events = await session.ask("go")
        stored = await session.stored()
    results, intents = of_kind(events, ToolResult), of_kind(events, ToolCallStarted)
    assert len(model.moments) == steps + 1, f"{len(model.moments)} requests for {steps} steps"
    assert [result.content for result in results] == [model.output(number) for number in range(steps)]
    assert len(intents) == steps
    assert all(intent.mutating for intent in intents), (
        "the intent was not on disk first: choose another command"
    )
    assert _ended_well(events), events[-1]
    assert [one.event for one in stored if one.id is not None][-1] == events[-1], (
        "the log holds the whole turn"
    )


def deltas() -> list[Figure]:
    """Own CPU per one-token delta: all at once, and with a turn of the event loop before each."""
    burst_us, burst_events = asyncio.run(_per_delta(FloodModel))
    paced_us, paced_events = asyncio.run(_per_delta(PacedModel))
    how = "N=3 turns of {:,} deltas in {:,} events, less a turn of one"
    return [
        Figure(
            name="delta, burst", value=burst_us, unit="µs", target=8, how=how.format(DELTAS, burst_events)
        ),
        Figure(
            name="delta, paced", value=paced_us, unit="µs", target=130, how=how.format(DELTAS, paced_events)
        ),
    ]


DELTAS = 20_000
_TOKEN = "token "


class PacedModel:
    """Yields one delta per turn of the event loop, as if each came from a read of its own."""

    name = "bench"
    wire = ScriptedWire()

    def __init__(self, deltas: int, text: str) -> None:
        self._deltas = deltas
        self._text = text

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        for _ in range(self._deltas):
            await asyncio.sleep(0)
            yield ModelText(self._text)
        yield ModelDone("end_turn")


async def _per_delta(make: type[FloodModel] | type[PacedModel]) -> tuple[float, int]:
    """Microseconds per delta, and how many events they became."""
    one, _ = await _turn_cpu(make(1, _TOKEN), 1)
    many, events = await _turn_cpu(make(DELTAS, _TOKEN), DELTAS)
    return (many - one) / DELTAS * 1e6, events


async def _turn_cpu(model: Provider, count: int) -> tuple[float, int]:
    spent: list[float] = []
    written = 0
    async with harness(model) as session:
        for number in range(4):
            before = time.process_time()
            events = await session.ask("go")
            if number:
                spent.append(time.process_time() - before)
            texts = [delta.text for delta in of_kind(events, TextDelta)]
            assert "".join(texts) == _TOKEN * count, "a delta was lost or changed"
            assert _ended_well(events), events[-1]
            written = len(texts)
    return middle(spent), written


def body() -> list[Figure]:
    """The first request as bytes, with every tool there is."""
    return asyncio.run(_first_body())


async def _first_body() -> list[Figure]:
    model = RecordingModel(scripted(say("ok")))
    async with harness(model) as session:
        assert _ended_well(await session.ask("hi"))
    assert len(model.requests) == 1
    request = json.loads(model.bodies[0])
    tools = [tool["name"] for tool in request["tools"]]
    assert "bash" in tools
    how = f"{len(tools)} tools, {len(json.dumps(request['tools'])):,} B of it"
    return [
        Figure(name="first request body", value=len(model.bodies[0]) / 1000, unit="KB", target=10, how=how)
    ]


def _ended_well(events: list[AnyEvent]) -> bool:
    ended = events[-1]
    return isinstance(ended, TurnEnded) and ended.stop == "end_turn"


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
