"""A tool step as people have it: a model over HTTP, every layer, the intent on disk; the sandbox has a row of its own.

Beside it runs `floor.py`, which does the same with nothing around it.
"""

from __future__ import annotations

import asyncio
import os
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from measure import PYTHON, ROOT, Figure, child, middle, plain_env, scratch
from over_http import Server, served, session_with
from turns import ALL_OF_IT, BATCH, MUTATING, WARM_UP, Spent, children_s, ended_well, in_batches

from bridle.conformance.harness import of_kind
from bridle.protocol.events import ToolCallStarted, ToolResult

FEW, MANY = 20, 120
STEPS = WARM_UP + 5 * BATCH


class Turn(NamedTuple):
    wall_ms: float
    cpu_ms: float


REFERENCE = Turn(1.35, 1.1)
"""One of the floor on the machine that the targets are from."""


def step() -> list[Figure]:
    """What a step takes, and how much slower than the machine of the targets this one is at it."""
    before = _floor()
    with served(script(STEPS)) as server:
        begun_s = children_s()
        spent = in_batches(asyncio.run(_steps(server)))
        children_ms = (children_s() - begun_s) / STEPS * 1000
        server.take(STEPS + 1)
    floor = Turn(*map(fmean, zip(before, _floor(), strict=True)))
    wall_pace, cpu_pace = floor.wall_ms / REFERENCE.wall_ms, floor.cpu_ms / REFERENCE.cpu_ms
    wall_ms = middle([batch.wall_s for batch in spent]) * 1000
    own_ms = middle([batch.own_s for batch in spent]) * 1000
    cpu_ms = own_ms + children_ms
    wall_how = f"{wall_ms / floor.wall_ms:.2f} x the floor of {floor.wall_ms:.2f} ms"
    cpu_how = (
        f"{cpu_ms / floor.cpu_ms:.2f} x the floor of {floor.cpu_ms:.2f} ms, {children_ms:.2f} in children"
    )
    own_how = f"{len(spent)} batches of {BATCH} steps, all threads of the engine"
    return [
        Figure(name="tool step, wall", value=wall_ms, unit="ms", target=4, pace=wall_pace, how=wall_how),
        Figure(name="tool step, CPU", value=cpu_ms, unit="ms", target=3.5, pace=cpu_pace, how=cpu_how),
        Figure(name="tool step, own CPU", value=own_ms, unit="ms", target=2, pace=cpu_pace, how=own_how),
    ]


async def _steps(server: Server) -> list[Spent]:
    async with session_with(server, mode="auto", sandbox="off", max_steps=STEPS + 1, sets=ALL_OF_IT) as (
        session,
        model,
    ):
        events = await session.ask("go")
    assert ended_well(events), events[-1]
    assert [one.content for one in of_kind(events, ToolResult)] == [
        _output(number) for number in range(STEPS)
    ]
    assert all(intent.mutating for intent in of_kind(events, ToolCallStarted)), (
        "the intent was not on disk first"
    )
    assert len(model.asked) == STEPS + 1
    return [later.since(earlier) for earlier, later in pairwise(model.asked)]


def _floor() -> Turn:
    """One turn of the floor: what many take more than few, so that starting it does not count."""
    few, many = _floor_run(FEW), _floor_run(MANY)
    return Turn(*((more - less) / (MANY - FEW) for less, more in zip(few, many, strict=True)))


def _floor_run(turns: int) -> Turn:
    with scratch() as home, served(script(turns)) as server:
        host, port = server.url.removeprefix("http://").removesuffix("/v1").split(":")
        argv = [PYTHON, os.path.join(ROOT, "bench", "floor.py"), host, port]
        ran = child(argv, env=plain_env(home), cwd=home)
        server.take(turns + 1)
    assert ran.out == b"done\n", ran.out
    return Turn(ran.wall_s * 1000, ran.cpu_s * 1000)


def script(steps: int) -> str:
    calls = [
        f'call bash {{"command": "{MUTATING} echo {_output(number).rstrip()}"}}\n' for number in range(steps)
    ]
    return "---\n".join([*calls, "say done\n"])


def _output(number: int) -> str:
    return f"step-{number}\n"
