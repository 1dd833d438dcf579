"""What the sandbox adds to a command, and what a flood of output does to the engine."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

from measure import Figure, added, in_turns, scratch, within

from bridle.base.process.processes import Processes
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.engine.ports import SpawnPolicy
from bridle.protocol.commands import CancelTurn
from bridle.protocol.events import ToolCallProgress, ToolResult, TurnEnded
from bridle.providers.script import call, say
from bridle.sandbox.adapters.adapter_choice import ConfiningWay, adapter_for
from bridle.sandbox.confinement import HostContext
from bridle.sandbox.sandbox_spawn import SandboxSpawn

if TYPE_CHECKING:
    from bridle.sandbox.adapters.adapter import Adapter

SPAWNS = 100
ADAPTERS = ((ConfiningWay("bubblewrap", "full"), 8, 15), (ConfiningWay("landlock"), 4, None))
"""With how much each may add in the middle, and nineteen times in twenty."""
FLOOD_MB = 1024


def sandbox() -> list[Figure]:
    """Each adapter around `true`, against the same without a border, in turns."""
    with scratch() as folder:
        work = os.path.join(folder, "work")
        os.mkdir(work)
        subprocess.run(["git", "init", "-q", work], check=True, env={"PATH": "/usr/bin:/bin", "HOME": folder})
        with asyncio.Runner() as runner:
            processes = Processes()
            try:
                return [
                    figure
                    for way, target, late in ADAPTERS
                    if (adapter := adapter_for(way)) is not None
                    for figure in _figures(Bordered(runner, processes, adapter, folder, work), target, late)
                ]
            finally:
                runner.run(processes.close())


class Bordered(NamedTuple):
    """What a command with a border is started with."""

    runner: asyncio.Runner
    processes: Processes
    adapter: Adapter
    folder: str
    work: str


def _figures(bordered: Bordered, target: float, late: float | None) -> list[Figure]:
    name = bordered.adapter.name
    return _added(f"{name} adds", bordered, target, late)


def _added(name: str, bordered: Bordered, target: float, late: float | None) -> list[Figure]:
    """What a border adds to `true`."""
    runner, processes, adapter, folder, work = bordered

    async def choose() -> Adapter:
        return adapter

    place = HostContext(
        home=folder, own=(os.path.join(folder, "own"),), caches=os.path.join(folder, "caches")
    )
    spawn = SandboxSpawn(processes, place=lambda: place, choose=choose)
    held = SpawnPolicy(mode="workspace-write", workspace=work, scratch=os.path.join(folder, "tmp"))
    free = SpawnPolicy(mode="off", workspace=work)

    async def run(policy: SpawnPolicy) -> float:
        begun = time.perf_counter()
        process = await spawn(
            ["/bin/true"],
            cwd=work,
            env={"PATH": "/usr/bin:/bin", "HOME": folder},
            policy=policy,
            call_id="call_bench",
            on_output=lambda _chunk: None,
        )
        assert await process.wait() == 0
        assert process.sandbox == ("off" if policy is free else adapter.name)
        return time.perf_counter() - begun

    free_s, held_s = in_turns(SPAWNS, lambda: runner.run(run(free)), lambda: runner.run(run(held)))
    more_ms = [(held - free) * 1000 for free, held in zip(free_s, held_s, strict=True)]
    middle = added(name, held_s, free_s, of="one without a border", target=target)
    tail = within(more_ms, 0.95)
    return [middle, Figure(name=f"{name}, p95", value=tail, unit="ms", target=late, how="of the same")]


def flood() -> list[Figure]:
    """A command that prints a gigabyte, to its end; and one that never ends, cancelled."""
    return asyncio.run(_flood())


async def _flood() -> list[Figure]:
    line = "0123456789 abcdefghij and so on, as programs print it when nobody is looking"
    command = f"yes '{line}' | head -c {FLOOD_MB << 20}"
    model = scripted(
        call("bash", command="yes x | head -c 1000000"),
        call("bash", command=command, timeout_ms=600_000),
        call("bash", command=f"yes '{line}'"),
        say("Done."),
    )
    async with harness(model, mode="yolo") as session:
        number = await session.send("go")
        results = 0
        begun = before_mb = asked = took_s = grown_mb = cancelled_ms = 0.0
        async for envelope in session.connection.events(session.id, since=number):
            match envelope.event:
                case ToolResult() as result if results < 2:
                    assert result.outcome == "ok", result
                    results += 1
                    if results == 1:
                        before_mb, begun = _peak_mb(), time.perf_counter()
                    else:
                        took_s, grown_mb = time.perf_counter() - begun, _peak_mb() - before_mb
                case ToolCallProgress() if results == 2 and not asked:
                    asked = time.perf_counter()
                    await session.connection.send(CancelTurn(session=session.id))
                case TurnEnded() as ended:
                    assert ended.stop == "cancelled", ended
                    cancelled_ms = (time.perf_counter() - asked) * 1000
                    break
                case _:
                    pass
        assert of_kind([e.event for e in await session.stored()], ToolResult)
    how = f"{FLOOD_MB} MB of output in {took_s:.1f} s, {FLOOD_MB / took_s:.0f} MB/s"
    return [
        Figure(name="memory under a flood", value=grown_mb, unit="MB", target=64, how=how),
        Figure(
            name="cancel of a flood", value=cancelled_ms, unit="ms", target=500, how="to the end of the turn"
        ),
    ]


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
