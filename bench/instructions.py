"""What Bridle's own process takes in instructions, which a busy machine does not change. Needs valgrind."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from decisions import COMMANDS
from measure import PYTHON, ROOT, Figure, bridle_of, plain_env, scratch
from over_http import configure, served
from stepping import script

FEW, MANY = 65, 95
"""By then what finds secrets is compiled, once, and that is in neither."""
"""Both behind what only the first steps do: loading, and compiling what finds secrets."""
SLOWNESS = 50
"""About how much longer everything takes where instructions are counted."""
FIRST, LATER = 5, 10
LEAST_DELTAS, MOST_DELTAS = 20_000, 40_000
FEWEST_SENT, MOST_SENT = 65, 85
_TOTAL = re.compile(rb"^(?:summary|totals): (\d+)", re.MULTILINE)
_MILLION = 1e6


def instructions() -> list[Figure]:
    """A whole run, one over HTTP, a step of it without and with a sandbox, a decision about a command, a delta."""
    assert shutil.which("valgrind"), "install valgrind to count instructions"
    scripted = count_run()
    decision, delta, delegation = _decisions(), _delta(), _delegation()
    plain, confined = count_steps("off"), count_steps("auto")
    rows = {
        "run": (scripted, "bridle run -m demo hi, a home that has sessions"),
        "run over HTTP": (plain.run, "one answer, a key in the environment"),
        "step over HTTP": (plain.step, f"({MANY} less {FEW} steps) of bash, no sandbox"),
        "step in the sandbox": (confined.step, "the same in a sandbox, the command itself not counted"),
        "early decision": (
            decision.first,
            f"{len(COMMANDS)} commands of the decision row {FIRST} times, and what they load",
        ),
        "decision": (decision.later, f"the same {LATER} times more, nothing remembered of a command"),
        "1,000 deltas": (
            delta,
            f"({MOST_DELTAS:,} less {LEAST_DELTAS:,}) of one answer as fast as they are taken",
        ),
        "delegation": (
            delegation,
            f"({MOST_SENT} less {FEWEST_SENT}) agents that answer at once, less as many calls of `ls`",
        ),
    }
    return [
        Figure(name=f"instructions, {name}", value=count / _MILLION, unit="M", how=how)
        for name, (count, how) in rows.items()
    ]


def count_run(python: str = PYTHON) -> int:
    """A scripted turn in a home that has sessions."""
    with scratch() as home, scratch() as cwd:
        env = plain_env(home) | {"PYTHONHASHSEED": "0"}
        return counted_warm(["run", "-m", "demo", "hi"], env=env, cwd=cwd, python=python)


class Counts(NamedTuple):
    run: int
    step: float


def count_steps(sandbox: str, python: str = PYTHON) -> Counts:
    """A run of one answer, and a step. What a step does within a time is what it does where nothing is counted."""
    slowed = (os.path.join(ROOT, "bench", "slowed.py"), str(SLOWNESS))
    few, many = (
        _http_run(script(steps), sandbox, python, requests=steps + 1, by=slowed) for steps in (FEW, MANY)
    )
    run = _http_run("say Hello from afar.\n", sandbox, python, requests=1)
    return Counts(run, (many - few) / (MANY - FEW))


def _http_run(played: str, sandbox: str, python: str, *, requests: int, by: Sequence[str] = ()) -> int:
    with scratch() as home, scratch() as cwd, served("---\n".join([played] * 2)) as server:
        env = plain_env(home) | {"PYTHONHASHSEED": "0", "BENCH_SERVER_KEY": "bench" * 4}
        configure(env["BRIDLE_HOME"], server.url)
        argv = ["run", "--mode", "auto", "--sandbox", sandbox, "-m", "bench:some-model", "hi"]
        counted = counted_warm(argv, env=env, cwd=cwd, by=by, python=python)
        server.take(2 * requests)
    return counted


class _Decisions(NamedTuple):
    first: float
    later: float


def _decisions() -> _Decisions:
    """What one decision takes when everything it needs is still to be loaded, and when it is there."""
    with scratch() as home, scratch() as cwd:
        env = plain_env(home) | {"PYTHONHASHSEED": "0"}
        program = os.path.join(ROOT, "bench", "decisions.py")
        none, one, more = (
            counted([program, cwd, str(rounds)], env=env, cwd=cwd) for rounds in (0, FIRST, FIRST + LATER)
        )
    return _Decisions((one - none) / FIRST / len(COMMANDS), (more - one) / LATER / len(COMMANDS))


def _delta() -> float:
    """What a thousand deltas of an answer take."""
    with scratch() as home, scratch() as cwd:
        env = plain_env(home) | {"PYTHONHASHSEED": "0"}
        program = os.path.join(ROOT, "bench", "turns.py")
        few, many = (
            counted([program, str(count), str(SLOWNESS)], env=env, cwd=cwd)
            for count in (LEAST_DELTAS, MOST_DELTAS)
        )
    return (many - few) / (MOST_DELTAS - LEAST_DELTAS) * 1_000


def _delegation() -> float:
    """What an agent takes that is sent and answers, beside the call that any tool has."""
    with scratch() as home, scratch() as cwd:
        env = plain_env(home) | {"PYTHONHASHSEED": "0"}
        program = os.path.join(ROOT, "bench", "delegations.py")

        def taken(kind: str) -> int:
            few, many = (
                counted([program, str(count), kind], env=env, cwd=cwd) for count in (FEWEST_SENT, MOST_SENT)
            )
            return many - few

        return (taken("sends") - taken("alone")) / (MOST_SENT - FEWEST_SENT)


def counted_warm(
    argv: list[str], *, env: dict[str, str], cwd: str, by: Sequence[str] = (), python: str = PYTHON
) -> int:
    """The second run: what the first finds out and makes is not counted."""
    bridle = bridle_of(python)
    subprocess.run([python, bridle, *argv], env=env, cwd=cwd, check=True, capture_output=True)
    return counted([*by, bridle, *argv], env=env, cwd=cwd, python=python)


def counted(argv: list[str], *, env: dict[str, str], cwd: str, python: str = PYTHON) -> int:
    with scratch() as folder:
        tool = ["valgrind", "--tool=callgrind", "--quiet", f"--callgrind-out-file={folder}/%p"]
        process = subprocess.Popen(
            [*tool, python, *argv],
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        _, said = process.communicate(timeout=600)
        assert process.returncode == 0, said
        with open(os.path.join(folder, str(process.pid)), "rb") as file:
            found = _TOTAL.search(file.read())
    assert found is not None, "valgrind counted nothing"
    return int(found[1])
