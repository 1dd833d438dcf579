"""What it costs to decide about a call, and what a hook adds."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time

from measure import Figure, in_turns, middle, scratch, times, within

from bridle.app.queries.explain import explain, standing
from bridle.base.clock import SystemClock
from bridle.base.process.processes import Processes
from bridle.cli import YOUNG_OBJECTS
from bridle.safety.hooks.definitions import Actor, context_of, hook_from
from bridle.safety.hooks.hook_process import run_command, started_by
from bridle.sandbox.plain_spawn import EnvOnlySpawn

ROUNDS = 5
SPAWNS = 100
COMMANDS = (
    "ls -la src", "git status --short", "git log --oneline -20 | head", "git diff HEAD~1 -- src", "cat README.md",
    "head -50 a.py", "wc -l src/*.py", "rg -n 'def main' src",
    "grep -rn TODO --include='*.py' src", "find . -name '*.py'",
    "find src -type f | sort | uniq -c", "sed -n '1,40p' a.py", "awk '{print $1}' data.txt | sort", "jq '.a[0]' x.json",
    "cd src && ls", "du -sh * | sort -h", "diff a.py b.py", "which python3", "python3 --version",
    "npm test",
    "npm run build && npm test", "make", "make test 2>&1 | tail -20", "pytest -q tests/test_a.py",
    "cargo build --release", "go test ./...", "docker ps", "pip list",
    "git add -A && git commit -m 'x y'", "git push origin main", "mkdir -p out",
    "rm -rf build", "cp a.py b.py", "mv a.py src/", "curl -s https://example.org/x.json | jq .", "echo hi > out.txt",
    'for f in *.py; do wc -l "$f"; done', "bash -c 'ls | wc -l'", "env FOO=1 python3 x.py", "timeout 5 npm test",
)  # fmt: skip


def decisions() -> list[Figure]:
    """The gates and the decision about ordinary commands."""
    with scratch() as folder:
        took_ms = asyncio.run(_decisions(folder))
    how = f"N={ROUNDS} x {len(COMMANDS)} commands, p95 {within(took_ms, 0.95):.2f} ms"
    return [Figure(name="decision about a command", value=middle(took_ms), unit="ms", target=1, how=how)]


async def _decisions(folder: str, rounds: int = ROUNDS + 1) -> list[float]:
    env = {"HOME": folder, "PATH": "/usr/bin:/bin", "BRIDLE_HOME": os.path.join(folder, "bridle")}
    here = standing(env, cwd=folder, mode="default")
    took_ms: list[float] = []
    for number in range(rounds):
        for command in COMMANDS:
            begun = time.perf_counter()
            explained = await explain(here, "bash", {"command": command})
            if number:
                took_ms.append((time.perf_counter() - begun) * 1000)
            assert explained.verdict in ("allow", "ask"), (command, explained.message)
    return took_ms


def hooks() -> list[Figure]:
    """A hook that says nothing, against the same program started and waited for."""
    processes = Processes()
    env = {"PATH": "/usr/bin:/bin"}
    start = started_by(EnvOnlySpawn(processes), env)
    hook = hook_from({"event": "PreToolUse", "command": ["true"]})
    with scratch() as folder, asyncio.Runner() as runner:
        context = context_of("PreToolUse", Actor(session="sess_bench", cwd=folder), 1, tool_name="bash")

        async def bare() -> float:
            begun = time.perf_counter()
            process = await processes.start(["true"], cwd=folder, env=env, on_output=lambda _chunk: None)
            assert await process.wait() == 0
            return time.perf_counter() - begun

        async def hooked() -> float:
            begun = time.perf_counter()
            ran = await run_command(hook, context, start=start, clock=SystemClock())
            assert ran.exit_code == 0
            return time.perf_counter() - begun

        try:
            bare_s, hooked_s = in_turns(SPAWNS, lambda: runner.run(bare()), lambda: runner.run(hooked()))
        finally:
            runner.run(processes.close())
    return [times("hook before a call", hooked_s, bare_s, of="a spawn of true")]


if __name__ == "__main__":  # for those who count: so many rounds in a folder, and no figure
    gc.set_threshold(YOUNG_OBJECTS)
    asyncio.run(_decisions(sys.argv[1], int(sys.argv[2])))
