"""Twenty runs at once on one home: what they cost each other, beside the work itself."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from measure import BRIDLE, Child, Figure, child, cpus, in_turns, plain_env, scratch, times, walls
from turns import children_s

RUNS = 20
STEPS = 8
ROUNDS = 3
_STEP = """\
say I look at part {step} of it, and then I write down what I found there.
call bash
    command: echo {step} >> {name}; cat {name}
"""


def twenty() -> list[Figure]:
    """Twenty `bridle run` of some steps at once: when the last one is done, against the processor time they need."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with scratch() as home, scratch() as cwd:
        env = plain_env(home)
        for number in range(RUNS + 1):
            steps = (_STEP.format(step=step, name=f"notes-{number}") for step in range(STEPS))
            Path(cwd, f"{number}.script").write_text("---\n".join([*steps, "say That is all.\n"]))
        alone, together = in_turns(
            ROUNDS, lambda: child(_words(RUNS), env=env, cwd=cwd), lambda: _together(env, cwd)
        )
    alone_s = [RUNS * cpu_s for cpu_s in cpus(alone)]
    least_s = [cpu_s / cores for cpu_s in alone_s]
    return [
        times(
            "twenty runs at once",
            walls(together),
            least_s,
            of=f"their CPU alone over {cores} cores",
            target=1.5,
        ),
        times(
            "twenty runs at once, CPU", cpus(together), alone_s, of="as many alone: what they cost each other"
        ),
    ]


def _together(env: dict[str, str], cwd: str) -> Child:
    """All of them as one."""
    for notes in Path(cwd).glob("notes-*"):
        notes.unlink()
    spent_s, begun = children_s(), time.perf_counter()
    running = [_started(env, cwd, number) for number in range(RUNS)]
    said = [one.communicate() for one in running]
    ended = Child(time.perf_counter() - begun, children_s() - spent_s, b"", {})
    for one, (_, err) in zip(running, said, strict=True):
        assert one.returncode == 0, err.decode()
    for number in range(RUNS):
        assert len(Path(cwd, f"notes-{number}").read_text().splitlines()) == STEPS
    return ended


def _words(number: int) -> list[str]:
    return [BRIDLE, "run", "-y", "-m", f"demo:{number}.script", "Go through it"]


def _started(env: dict[str, str], cwd: str, number: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        _words(number),
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
