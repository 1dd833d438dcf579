"""A tool step as people have it: a model over HTTP, every layer, the intent on disk; without and with the sandbox.

Beside it runs `floor.py`, which does the same with nothing around it.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Literal, NamedTuple

from measure import Figure, child, in_turns, plain_env, scratch, times
from over_http import Server, floor_argv, served, session_with
from turns import ALL_OF_IT, MUTATING, Spent, children_s, ended_well

from bridle.conformance.harness import of_kind
from bridle.protocol.events import ToolCallStarted, ToolResult

FEW, MANY = 20, 120
ROUNDS = 11


class Step(NamedTuple):
    """What one takes: with `own_s` as a part of `cpu_s` where children are told apart."""

    wall_s: float
    cpu_s: float
    own_s: float = 0.0


def step() -> list[Figure]:
    """Steps 20 to 120 of a turn, in turns with as many of the floor."""
    floor, plain, confined = in_turns(ROUNDS, _floor, lambda: _step("off"), lambda: _step("auto"))
    floor_cpu = [one.cpu_s for one in floor]

    def figures(name: str, ours: list[Step], wall: float, own: float) -> list[Figure]:
        return [
            times(
                f"{name}, wall",
                [one.wall_s for one in ours],
                [one.wall_s for one in floor],
                of="the floor",
                target=wall,
            ),
            times(f"{name}, CPU", [one.cpu_s for one in ours], floor_cpu, of="the floor, children too"),
            times(
                f"{name}, own CPU",
                [one.own_s for one in ours],
                floor_cpu,
                of="the floor, all of it",
                target=own,
            ),
        ]

    return [*figures("tool step", plain, 2.2, 1.5), *figures("tool step in the sandbox", confined, 4, 2.6)]


def _step(sandbox: Literal["off", "auto"]) -> Step:
    with served(script(MANY)) as server:
        begun_s = children_s()
        asked = asyncio.run(_asked(server, sandbox))
        children = (children_s() - begun_s) / MANY
        server.take(MANY + 1)
    steps = [later.since(earlier) for earlier, later in pairwise(asked)][FEW:]
    wall_s, own_s = (sum(values) / len(steps) for values in zip(*steps, strict=True))
    return Step(wall_s, own_s + children, own_s)


async def _asked(server: Server, sandbox: Literal["off", "auto"]) -> list[Spent]:
    """When the model was asked, in a turn that did what it is to measure."""
    async with session_with(server, mode="auto", sandbox=sandbox, max_steps=MANY + 1, sets=ALL_OF_IT) as (
        session,
        model,
    ):
        events = await session.ask("go")
    assert ended_well(events), events[-1]
    assert [one.content for one in of_kind(events, ToolResult)] == [_output(number) for number in range(MANY)]
    assert all(intent.mutating for intent in of_kind(events, ToolCallStarted)), (
        "the intent was not on disk first"
    )
    assert len(model.asked) == MANY + 1
    return model.asked


def _floor() -> Step:
    """One turn of the floor: what many take more than few, so that starting it does not count."""
    few, many = _floor_run(FEW), _floor_run(MANY)
    return Step(*((more - less) / (MANY - FEW) for less, more in zip(few, many, strict=True)))


def _floor_run(turns: int) -> Step:
    with scratch() as home, served(script(turns)) as server:
        ran = child(floor_argv(server), env=plain_env(home), cwd=home)
        server.take(turns + 1)
    assert ran.out == b"done\n", ran.out
    return Step(ran.wall_s, ran.cpu_s)


def script(steps: int) -> str:
    calls = [
        f'call bash {{"command": "{MUTATING} echo {_output(number).rstrip()}"}}\n' for number in range(steps)
    ]
    return "---\n".join([*calls, "say done\n"])


def _output(number: int) -> str:
    return f"step-{number}\n"
