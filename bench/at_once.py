"""Twenty runs at once on one home: what they cost each other, beside the work itself."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from measure import BRIDLE, Child, Figure, child, middle, plain_env, scratch
from turns import children_s

RUNS = 20
STEPS = 8
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
        for number in range(RUNS + 4):
            steps = (_STEP.format(step=step, name=f"notes-{number}") for step in range(STEPS))
            Path(cwd, f"{number}.script").write_text("---\n".join([*steps, "say That is all.\n"]))
        alone = [_alone(env, cwd, RUNS + number) for number in range(4)][1:]
        spent_s, begun = children_s(), time.perf_counter()
        running = [_started(env, cwd, number) for number in range(RUNS)]
        said = [one.communicate() for one in running]
        last_s, spent_s = time.perf_counter() - begun, children_s() - spent_s
        for one, (_, err) in zip(running, said, strict=True):
            assert one.returncode == 0, err.decode()
        for number in range(RUNS):
            assert len(Path(cwd, f"notes-{number}").read_text().splitlines()) == STEPS
    cpu_s = middle([one.cpu_s for one in alone])
    least_s = RUNS * cpu_s / cores
    how = (
        f"{RUNS} x {cpu_s:.2f} s on {cores} cores are {least_s:.1f} s; the last was done after {last_s:.1f} s"
    )
    return [
        Figure(name="twenty runs at once", value=last_s / least_s, unit="x", target=1.5, how=how),
        Figure(
            name="twenty runs at once, CPU",
            value=spent_s / (RUNS * cpu_s),
            unit="x",
            how="of all of them, against so many alone: tells what they cost each other on a busy machine too",
        ),
    ]


def _words(number: int) -> list[str]:
    return [BRIDLE, "run", "-y", "-m", f"demo:{number}.script", "Go through it"]


def _alone(env: dict[str, str], cwd: str, number: int) -> Child:
    return child(_words(number), env=env, cwd=cwd)


def _started(env: dict[str, str], cwd: str, number: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        _words(number),
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
