"""What sending an agent costs, and what it leaves in the conversation of whoever sent it."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from measure import Figure, added, in_turns, scratch
from turns import ended_well

from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness, of_kind
from bridle.protocol.events import ChildEnded, ToolResult
from bridle.providers.script import call, say

CHILDREN = 20
ROUNDS = 9
LINES = 2_000


def delegations() -> list[Figure]:
    """Twenty children one after the other, each of which answers at once; then twenty that read a long file first."""
    with scratch() as folder:
        alone_s, sent_s = in_turns(
            ROUNDS,
            lambda: asyncio.run(_turn(folder, CHILDREN, sends=False)) / CHILDREN,
            lambda: asyncio.run(_turn(folder, CHILDREN)) / CHILDREN,
        )
        Path(folder, "long.txt").write_text("".join(f"line {number}\n" for number in range(LINES)))
        growth, results = asyncio.run(_growth(folder))
    return [
        added("delegation, own CPU", sent_s, alone_s, of=f"a call of `ls`, {CHILDREN} in a turn", target=2),
        Figure(
            name="root request, beside a result",
            value=(growth - results) / CHILDREN,
            unit="B",
            target=250,
            how=f"a child each of {CHILDREN} that read {LINES:,} lines: {growth:,} B more, {results:,} of it results",
        ),
    ]


async def _turn(folder: str, children: int, *, sends: bool = True) -> float:
    """The CPU time of a turn that sends so many, or calls a plain tool as often."""
    work = _sending(children) if sends else [call("ls", path=f"./{'.' * (n % 2)}") for n in range(children)]
    model = scripted(*work, say("Done."), agents={"explore": [say("Found.")]})
    async with harness(model, folder=folder, agent_mode="multi", max_steps=children + 2) as session:
        before = time.process_time()
        events = await session.ask("go")
        spent = time.process_time() - before
    assert ended_well(events), events[-1]
    assert len(of_kind(events, ChildEnded)) == (children if sends else 0)
    return spent


def _sending(children: int) -> list[Any]:
    return [call("delegate_agent", agent="explore", task=f"Look, {number}.") for number in range(children)]


async def _growth(folder: str) -> tuple[int, int]:
    """How many bytes the last request of the main agent has more than its first, and those of the results."""
    theirs = [call("read_file", path="long.txt"), say("It has lines. " * 20)]
    model = RecordingModel(scripted(*_sending(CHILDREN), say("Done."), agents={"explore": theirs}))
    async with harness(model, folder=folder, agent_mode="multi", max_steps=CHILDREN + 2) as session:
        events = await session.ask("go")
    assert ended_well(events), events[-1]
    results = [one for one in of_kind(events, ToolResult) if one.tool == "delegate_agent"]
    assert len(results) == CHILDREN
    return len(model.bodies[-1]) - len(model.bodies[0]), sum(len(one.content) for one in results)


if __name__ == "__main__":  # for those who count: a turn with so many, and no figure
    with scratch() as place:
        asyncio.run(_turn(place, int(sys.argv[1]), sends=sys.argv[2] == "sends"))
