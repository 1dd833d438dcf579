"""What a sandbox adds to a tool step where a model takes a while, and what one that waits saves of it.

The model is in the process and sleeps, so that what is counted is the engine's. From an answer to the next request
somebody waits for us; the rest of a step is done while the model thinks.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from measure import Figure, added, in_turns, scratch, times
from turns import ALL_OF_IT, Spent, ended_well, now

from bridle.conformance.harness import harness, of_kind
from bridle.engine.ports import ModelCall, ModelDone, ModelPart, ModelRequest, ModelText
from bridle.protocol.events import ToolCallStarted, ToolResult
from bridle.providers.scripted import ScriptedWire

ANSWER_S = 0.04
"""How long the model takes. Most take longer, in which nothing of ours happens."""
WARM_UP, STEPS = 10, 50
ROUNDS = 7
COMMANDS = {"touch": "touch made-{}", "true": "true {}"}
"""One that changes something, and one that is proven to change nothing."""


class Way(NamedTuple):
    """How commands are held."""

    sandbox: str
    warm: bool


WITHOUT, COLD, WARM = Way("off", False), Way("auto", False), Way("auto", True)


class Step(NamedTuple):
    """The middle of the steps of a turn: what is waited for, and own CPU of that and of all of it."""

    wall_s: float
    own_s: float
    whole_s: float


def warm_step() -> list[Figure]:
    """Turns without a sandbox, with one that is started for each command, and with one that waits."""
    return [figure for name in COMMANDS for figure in _figures(name)]


def _figures(name: str) -> list[Figure]:
    without, cold, warm = in_turns(
        ROUNDS, lambda: turn(name, WITHOUT), lambda: turn(name, COLD), lambda: turn(name, WARM)
    )

    def values(steps: list[Step], of: str) -> list[float]:
        return [getattr(step, of) for step in steps]

    def more(what: str, ours: list[Step], of: str, target: float | None = None) -> Figure:
        return added(
            f"{what} of `{name}` adds",
            values(ours, of),
            values(without, of),
            of="one without",
            target=target,
        )

    return [
        more("cold step, wall", cold, "wall_s"),
        more("warm step, wall", warm, "wall_s", 2),
        more("cold step, own CPU", cold, "own_s"),
        more("warm step, own CPU", warm, "own_s", 0.5),
        times(
            f"whole warm step of `{name}`",
            values(warm, "whole_s"),
            values(cold, "whole_s"),
            of="a cold one, own CPU",
            target=1.0,
        ),
    ]


def turn(name: str, way: Way) -> Step:
    """One turn of such commands in a repository, and the proof that they ran so."""
    with scratch() as folder:
        _make_repository(folder)
        model = _ThinkingModel(COMMANDS[name])
        asyncio.run(_turn(model, way, folder, mutating=name == "touch"))
    assert model.is_waited_for == way.warm, "a sandbox waited where none should, or none did"
    waited, whole = ([*zip(*steps[WARM_UP:], strict=True)] for steps in (model.waited_for, model.whole))
    return Step(*map(median, (*waited, whole[1])))


def _make_repository(folder: str) -> None:
    """One with a commit, and so with an index."""
    env = {"PATH": os.defpath, "HOME": folder}
    author = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
    for words in (("init", "-q"), (*author, "commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run(["git", "-C", folder, *words], check=True, env=env)


async def _turn(model: _ThinkingModel, way: Way, folder: str, *, mutating: bool) -> None:
    sets = [*ALL_OF_IT, f"sandbox.warm={str(way.warm).lower()}"]
    async with harness(
        model, mode="auto", folder=folder, sandbox=way.sandbox, max_steps=STEPS + 1, sets=sets
    ) as session:
        events = await session.ask("go")
    assert ended_well(events), events[-1]
    assert [result.outcome for result in of_kind(events, ToolResult)] == ["ok"] * STEPS
    assert [intent.mutating for intent in of_kind(events, ToolCallStarted)] == [mutating] * STEPS


class _ThinkingModel:
    """Asks for one command per request, each time after a while."""

    name = "bench"
    wire = ScriptedWire()

    def __init__(self, command: str) -> None:
        self._command = command
        self._asked: Spent | None = None
        self._answered: Spent | None = None
        self.is_waited_for = False
        """Whether a sandbox waited while the model thought."""
        self.waited_for: list[Spent] = []
        """From an answer to the next request."""
        self.whole: list[Spent] = []
        """From a request to the next one."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        asked = now()
        if self._asked is not None and self._answered is not None:
            self.waited_for.append(asked.since(self._answered))
            self.whole.append(asked.since(self._asked))
        self._asked = asked
        await asyncio.sleep(ANSWER_S)
        if request.answers == WARM_UP // 2:
            self.is_waited_for = _one_waits()
        self._answered = now()
        if request.answers == STEPS:
            yield ModelText("done")
            yield ModelDone("end_turn")
            return
        yield ModelCall("bash", json.dumps({"command": self._command.format(request.answers)}))
        yield ModelDone("tool_use")


def _one_waits() -> bool:
    started = [pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()]
    return any(b"bridle-waiting" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in started)
