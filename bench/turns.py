"""What a step, a delta, a request cost inside the engine: everything real but the model.

The models here note when they are asked, so a step is what lies between two requests.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from statistics import fmean
from typing import NamedTuple

from measure import Figure, middle, of_rounds, times

from bridle.base.clock import SystemClock
from bridle.conformance.fake_models import FloodModel, RecordingModel, scripted
from bridle.conformance.harness import harness, of_kind
from bridle.engine.ports import ModelCall, ModelDone, ModelPart, ModelRequest, ModelText, Provider
from bridle.protocol.events import AnyEvent, TextDelta, ToolCallStarted, ToolResult, TurnEnded, TurnTiming
from bridle.providers.script import say
from bridle.providers.scripted import ScriptedWire

WARM_UP = 30
"""By then what finds secrets is compiled."""
MUTATING = "BENCH=1"
"""An assignment in front: nobody proves what it does to a program, so the intent has to be on disk first."""
BATCH = 50
FLOOR_EVERY = 10
ALL_OF_IT = ["context.max_tokens=10000000"]
"""Nothing is summarised on the way to a body of a megabyte."""


class Spent(NamedTuple):
    wall_s: float
    own_s: float

    def since(self, begun: Spent) -> Spent:
        return Spent(self.wall_s - begun.wall_s, self.own_s - begun.own_s)


def now() -> Spent:
    return Spent(time.perf_counter(), time.process_time())


class CallingModel:
    """Asks for one bash call per request, `steps` times, then ends the turn. Every call is a different one.

    With a `floor`, that is done and timed before every `floor_every`th answer, outside of what counts as the step.
    """

    name = "bench"
    wire = ScriptedWire()

    def __init__(
        self,
        steps: int,
        *,
        filler_bytes: int = 0,
        floor: Callable[[str], None] | None = None,
        floor_every: int = 1,
    ) -> None:
        self._wanted = steps
        self._filler = "." * filler_bytes
        self._floor = floor
        self._floor_every = floor_every
        self._answered: Spent | None = None
        self.requests = 0
        self.body_bytes = 0
        self.steps: list[Spent] = []
        self.floors: list[Spent] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        asked = now()
        if self._answered is not None:
            self.steps.append(asked.since(self._answered))
        self.requests += 1
        self.body_bytes = len(request.body)
        if request.answers == self._wanted:
            yield ModelText("done")
            yield ModelDone("end_turn")
            return
        command = f"{MUTATING} echo {self.output(request.answers).rstrip()}"
        if self._floor is not None and request.answers % self._floor_every == 0:
            self._floor(command)
            self.floors.append(now().since(asked))
        self._answered = now()
        yield ModelCall("bash", json.dumps({"command": command}))
        yield ModelDone("tool_use")

    def output(self, number: int) -> str:
        return f"step-{number}{self._filler}\n"


def in_batches(spent: list[Spent], every: int = 1) -> list[Spent]:
    """Means of `BATCH` neighbours, without the warm-up: what comes only now and then is in them.

    With `every`, only every so many steps left one.
    """
    kept, size = spent[WARM_UP // every :], BATCH // every
    groups = [kept[at : at + size] for at in range(0, len(kept), size)]
    return [Spent(fmean(one.wall_s for one in group), fmean(one.own_s for one in group)) for group in groups]


def step() -> list[Figure]:
    """A tool step without the way to the model and back: for those who look for where its time goes."""
    steps = WARM_UP + 5 * BATCH
    before_s = children_s()
    with tempfile.TemporaryFile() as file:
        floor = _Floor(file.fileno())
        model = CallingModel(steps, floor=floor, floor_every=FLOOR_EVERY)
        timing = asyncio.run(_turn_of_calls(model, steps))
    children_ms = (children_s() - before_s - floor.children_s) / steps * 1000
    batches, floors = in_batches(model.steps), in_batches(model.floors, every=FLOOR_EVERY)
    walls_s, owns_s = [one.wall_s for one in batches], [one.own_s for one in batches]
    intent_ms = timing["log.durable"] / steps
    how = f"{len(batches)} batches of {BATCH} steps"
    return [
        times(
            "inner step, wall", walls_s, [one.wall_s for one in floors], of="Popen, read, write and fdatasync"
        ),
        Figure(
            name="inner step, intent", value=intent_ms, unit="ms", how="of it, until the intent is on disk"
        ),
        Figure(
            name="inner step, own CPU",
            value=middle(owns_s) * 1000,
            unit="ms",
            how=f"all threads of the engine, {how}",
        ),
        Figure(name="inner step, children's CPU", value=children_ms, unit="ms", how="shell and guardian"),
    ]


class _Floor:
    """The least a step can be: the command run by `Popen` with its output read, and 4 KB written and synced."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.children_s = 0.0

    def __call__(self, command: str) -> None:
        before_s = children_s()
        with subprocess.Popen(["/bin/bash", "-c", command], stdout=subprocess.PIPE) as popen:
            assert popen.stdout is not None
            assert popen.stdout.read() == command.removeprefix(f"{MUTATING} echo ").encode() + b"\n"
        self.children_s += children_s() - before_s
        os.write(self._fd, bytes(4096))
        getattr(os, "fdatasync", os.fsync)(self._fd)


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
        model = CallingModel(steps, filler_bytes=filler_bytes, floor=_same_work)
        asyncio.run(_turn_of_calls(model, steps))
        assert model.body_bytes >= least_body_bytes, model.body_bytes
        batches, yardsticks = in_batches(model.steps), in_batches(model.floors)
        assert len(batches) == 10
        firsts.append(batches[0].own_s)
        slowdown = yardsticks[-1].own_s / yardsticks[0].own_s
        ratios.append(batches[-1].own_s / batches[0].own_s / slowdown)
    how = f"first 50 at {middle(firsts) * 1000:.2f} ms of own CPU, machine's own drift taken out"
    return of_rounds(name, ratios, "x", target, how)


def _same_work(_command: str) -> None:
    """A yardstick: whatever else the machine does, this takes as much work at the end as at the beginning."""
    assert sum(number * number for number in range(4_000)) == 21_325_334_000


async def _turn_of_calls(model: CallingModel, steps: int) -> dict[str, float]:
    """One turn, the proof that it was what we meant to measure, and its own account of the time in ms."""
    async with harness(model, mode="auto", sandbox="off", max_steps=steps + 1, sets=ALL_OF_IT) as session:
        events = await session.ask("go")
        stored = await session.stored()
    assert ended_well(events), events[-1]
    results, intents = of_kind(events, ToolResult), of_kind(events, ToolCallStarted)
    assert model.requests == steps + 1, f"{model.requests} requests for {steps} steps"
    assert len(model.steps) == steps
    assert [result.content for result in results] == [model.output(number) for number in range(steps)]
    assert len(intents) == steps
    assert all(intent.mutating for intent in intents), (
        "the intent was not on disk first: choose another command"
    )
    assert [one.event for one in stored if one.id is not None][-1] == events[-1], (
        "the log holds the whole turn"
    )
    return of_kind(events, TurnTiming)[0].durations_ms


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
_TOKEN = "words "


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
            assert ended_well(events), events[-1]
            texts = [delta.text for delta in of_kind(events, TextDelta)]
            assert "".join(texts) == _TOKEN * count, "a delta was lost or changed"
            written = len(texts)
    return middle(spent), written


class _SlowClock(SystemClock):
    """Time for whoever is slowed down by so much: as many deltas become one event as ever."""

    def __init__(self, slowness: float) -> None:
        self._slowness = slowness

    def monotonic(self) -> float:
        return super().monotonic() / self._slowness


async def _turn_of(model: Provider, slowness: float) -> None:
    async with harness(model, clock=_SlowClock(slowness)) as session:
        assert ended_well(await session.ask("go"))


def body() -> list[Figure]:
    """The first request as bytes, with every tool there is."""
    return asyncio.run(_first_body())


async def _first_body() -> list[Figure]:
    model = RecordingModel(scripted(say("ok")))
    async with harness(model) as session:
        events = await session.ask("hi")
    assert ended_well(events), events[-1]
    assert len(model.requests) == 1
    request = json.loads(model.bodies[0])
    tools = [tool["name"] for tool in request["tools"]]
    assert "bash" in tools
    how = f"{len(tools)} tools, {len(json.dumps(request['tools'])):,} B of it"
    return [
        Figure(name="first request body", value=len(model.bodies[0]) / 1000, unit="KB", target=10, how=how)
    ]


def ended_well(events: list[AnyEvent]) -> bool:
    ended = events[-1]
    return isinstance(ended, TurnEnded) and ended.stop == "end_turn"


def children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if (
    __name__ == "__main__"
):  # for those who count: a turn of so many deltas where all is so slow, and no figure
    asyncio.run(_turn_of(FloodModel(int(sys.argv[1]), _TOKEN), float(sys.argv[2])))
