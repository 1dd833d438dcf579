"""What the sandbox adds to a command, and what a flood of output does to the engine."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import time
from typing import TYPE_CHECKING, Literal

from measure import Figure, middle, scratch

from bridle.base.clock import SystemClock
from bridle.base.processes import Processes
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.engine.ports import SpawnPolicy
from bridle.protocol.commands import CancelTurn
from bridle.protocol.events import ToolCallProgress, ToolResult, TurnEnded
from bridle.providers.script import call, say
from bridle.sandbox.adapter_choice import ConfiningWay, adapter_for
from bridle.sandbox.adapters import can_wait
from bridle.sandbox.confinement import HostContext
from bridle.sandbox.sandbox_spawn import SandboxSpawn
from bridle.sandbox.warm_sandbox import WarmSandboxes

if TYPE_CHECKING:
    from bridle.sandbox.adapters import Adapter

SPAWNS = 100
ADAPTERS = ((ConfiningWay("bubblewrap", "full"), 8, 15), (ConfiningWay("landlock"), 4, None))
"""With how much each may add in the middle, and nineteen times in twenty."""
ANSWER_S = 0.04
"""How long a model takes that a sandbox is set up meanwhile; most take longer."""
FLOOD_MB = 1024


def added() -> list[Figure]:
    """Each adapter around `true`, against the same without a border, in turns."""
    with scratch() as folder:
        work = os.path.join(folder, "work")
        os.mkdir(work)
        subprocess.run(["git", "init", "-q", work], check=True, env={"PATH": "/usr/bin:/bin", "HOME": folder})
        return asyncio.run(_added(folder, work))


async def _added(folder: str, work: str) -> list[Figure]:
    figures: list[Figure] = []
    processes = Processes()
    try:
        for way, target, tail_target in ADAPTERS:
            adapter = adapter_for(way)
            if adapter is None:
                continue
            free_ms, held_ms = await _in_turns(processes, adapter, folder, work)
            more = sorted(held - free for free, held in zip(free_ms, held_ms, strict=True))
            how = f"N={SPAWNS}, without {middle(free_ms):.2f} ms"
            tail = more[int(SPAWNS * 0.95)]
            figures += [
                Figure(name=f"{way.name} adds", value=middle(more), unit="ms", target=target, how=how),
                Figure(name=f"{way.name} adds, p95", value=tail, unit="ms", target=tail_target, how=how),
            ]
            if not can_wait(adapter):
                continue
            for mode in ("workspace-write", "read-only"):
                free_ms, held_ms = await _in_turns(
                    processes, adapter, folder, work, mode=mode, answer_s=ANSWER_S
                )
                more = sorted(held - free for free, held in zip(free_ms, held_ms, strict=True))
                how = f"N={SPAWNS}, {mode}, answers take {ANSWER_S * 1000:g} ms, without {middle(free_ms):.2f} ms"
                figures += [
                    Figure(name=f"warm {mode} adds", value=middle(more), unit="ms", target=2, how=how),
                    Figure(
                        name=f"warm {mode} adds, p95",
                        value=more[int(SPAWNS * 0.95)],
                        unit="ms",
                        target=4,
                        how=how,
                    ),
                ]
    finally:
        await processes.close()
    return figures


async def _in_turns(
    processes: Processes,
    adapter: Adapter,
    folder: str,
    work: str,
    *,
    mode: Literal["workspace-write", "read-only"] = "workspace-write",
    answer_s: float = 0.0,
) -> tuple[list[float], list[float]]:
    """How long `true` took without and with a border. With `answer_s`, a sandbox may be set up in so long before."""

    async def choose() -> Adapter:
        return adapter

    place = HostContext(
        home=folder, own=(os.path.join(folder, "own"),), caches=os.path.join(folder, "caches")
    )
    spawn = SandboxSpawn(processes, place=lambda: place, choose=choose, away=os.path.join(folder, "masks"))
    warm = WarmSandboxes(spawn.wait_for_command, SystemClock()) if answer_s else None
    env = {"PATH": "/usr/bin:/bin", "HOME": folder}
    held = SpawnPolicy(mode=mode, workspace=work, scratch=os.path.join(folder, "tmp"))
    free = SpawnPolicy(mode="off", workspace=work)
    took_ms: dict[str, list[float]] = {"off": [], mode: []}
    for number in range(SPAWNS + 3):
        for policy in (free, held):
            if warm is not None:
                warm.expect()
                await asyncio.sleep(answer_s)
            begun = time.perf_counter()
            process = await spawn(
                ["/bin/true"],
                cwd=work,
                env=env,
                policy=policy,
                call_id="call_bench",
                on_output=lambda _chunk: None,
                warm=warm,
            )
            assert await process.wait() == 0
            assert process.sandbox == ("off" if policy is free else adapter.name)
            if number >= 3:
                took_ms[policy.mode].append((time.perf_counter() - begun) * 1000)
    if warm is not None:
        warm.discard()
    return took_ms["off"], took_ms[mode]


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
        begun = before_mb = asked = 0.0
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
