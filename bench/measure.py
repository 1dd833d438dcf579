"""What every row shares: a figure and its verdict, ours and a yardstick in turns, child processes, a scratch folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median, quantiles
from typing import NamedTuple, TypeVar

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = sys.executable


def bridle_of(python: str) -> str:
    """The program that an environment has, by its interpreter."""
    return os.path.join(os.path.dirname(python), "bridle")


BRIDLE = bridle_of(PYTHON)

Result = TypeVar("Result")

REFERENCE_S = 0.012
"""The CPU time of `python -c pass` on the machine that the targets in units of time are from."""
_TIMES = frozenset({"s", "ms", "µs"})
_RATES = frozenset({"k/s"})


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of the report. Without a target it only informs; `at_least` turns the comparison round.

    The middle half of its rounds lies between `low` and `high`, where it has some. `pace` says how much slower this
    machine was in that minute than the one the targets are from.
    """

    name: str
    value: float
    unit: str
    how: str
    target: float | None = None
    at_least: bool = False
    pace: float = 1.0
    low: float | None = None
    high: float | None = None

    @property
    def at_reference(self) -> float:
        """What is compared with the target: times and rates as that machine would have had them, the rest as it is."""
        if self.unit in _TIMES:
            return self.value / self.pace
        return self.value * self.pace if self.unit in _RATES else self.value

    @property
    def is_paced(self) -> bool:
        return self.unit in _TIMES | _RATES

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        if self.at_least:
            return "under" if self.at_reference < self.target else "ok"
        return "over" if self.at_reference > self.target else "ok"


class Child(NamedTuple):
    """A process that ended. `cpu_s` counts it and what it waited for; `marks_s` says when a line came."""

    wall_s: float
    cpu_s: float
    out: bytes
    marks_s: dict[bytes, float]


def child(argv: Sequence[str], *, env: dict[str, str], cwd: str, marks: Sequence[bytes] = ()) -> Child:
    """Runs a program to its end. Raises when it fails, with what it said.

    For each of `marks` the time is kept at which the first line of its output that holds it was read.
    """
    seen: dict[bytes, float] = {}
    lines: list[bytes] = []
    with tempfile.TemporaryFile() as said:
        begun = time.perf_counter()
        process = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, bufsize=0
        )
        assert process.stdout is not None
        for line in process.stdout:
            now = time.perf_counter()
            for mark in marks:
                if mark in line:
                    seen.setdefault(mark, now - begun)
            lines.append(line)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - begun
        process.stdout.close()
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        assert process.returncode == 0, f"{argv} ended with {process.returncode}: {said.read().decode()}"
    return Child(wall_s, usage.ru_utime + usage.ru_stime, b"".join(lines), seen)


def walls(children: Sequence[Child]) -> list[float]:
    return [one.wall_s for one in children]


def cpus(children: Sequence[Child]) -> list[float]:
    return [one.cpu_s for one in children]


def in_turns(rounds: int, *subjects: Callable[[], Result]) -> list[list[Result]]:
    """Runs all subjects in each round, every other round in reverse. The first round warms up and is not counted."""
    results: list[list[Result]] = [[] for _ in subjects]
    for number in range(rounds + 1):
        order = list(zip(subjects, results, strict=True))
        for subject, kept in reversed(order) if number % 2 else order:
            result = subject()
            if number:
                kept.append(result)
    return results


def times(
    name: str, ours_s: Sequence[float], yardstick_s: Sequence[float], *, of: str, target: float | None = None
) -> Figure:
    """How many times its yardstick ours takes: the median of what each round says."""
    ratios = [ours / yardstick for ours, yardstick in zip(ours_s, yardstick_s, strict=True)]
    return of_rounds(name, ratios, "x", target, f"{shown_s(ours_s)} to {shown_s(yardstick_s)} of {of}")


def added(
    name: str, ours_s: Sequence[float], without_s: Sequence[float], *, of: str, target: float | None = None
) -> Figure:
    """How much longer ours takes, in ms: the median of what each round says."""
    more_ms = [(ours - without) * 1000 for ours, without in zip(ours_s, without_s, strict=True)]
    return of_rounds(name, more_ms, "ms", target, f"{shown_s(ours_s)} to {shown_s(without_s)} of {of}")


def of_rounds(name: str, values: Sequence[float], unit: str, target: float | None, how: str) -> Figure:
    """The median of what the rounds say, and where the middle half of them lies."""
    low, _, high = quantiles(values, n=4)
    how = f"{len(values)} rounds, {how}"
    return Figure(name=name, value=median(values), unit=unit, target=target, how=how, low=low, high=high)


def shown_s(values_s: Sequence[float]) -> str:
    """The median of times, in the unit in which it is read best."""
    middle_s = median(values_s)
    for unit, factor in (("s", 1), ("ms", 1e3)):
        if middle_s * factor >= 1:
            return f"{middle_s * factor:.3g} {unit}"
    return f"{middle_s * 1e6:.3g} µs"


def within(values: Sequence[float], share: float) -> float:
    """What so large a share of them stays within."""
    return sorted(values)[int(len(values) * share)]


def bare_s(rounds: int) -> list[float]:
    """The CPU time of a Python that does nothing, so many times."""
    with scratch() as home:
        runs = [child([PYTHON, "-c", "pass"], env=plain_env(home), cwd=home) for _ in range(rounds)]
    return [run.cpu_s for run in runs]


def middle(values: Sequence[float]) -> float:
    return median(values)


@contextmanager
def scratch() -> Generator[str]:
    """A folder of this row, on the file system that holds temporary files."""
    with tempfile.TemporaryDirectory(prefix="bridle-bench-") as folder:
        yield folder


def plain_env(home: str) -> dict[str, str]:
    """What a run sees: nothing of the caller but where programs are."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": home,
        "BRIDLE_HOME": os.path.join(home, "bridle"),
    }


def peak_mib() -> float:
    """The most memory this process ever held, from the kernel's own high-water mark."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
    except FileNotFoundError:
        pass
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)  # macOS counts bytes
