"""A run and a step with each Python there is an environment for, in instructions: what newer ones add. Needs valgrind.

`make bench-pythons` makes the environments, beside `.venv`.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from instructions import count_run, count_steps, counted
from measure import ROOT, Figure, plain_env, scratch

WITHIN = 1.05


def pythons() -> list[Figure]:
    """Each against the oldest. What a bare Python and its imports take more there is nobody's but its own."""
    assert shutil.which("valgrind"), "install valgrind to count instructions"
    found = {_version(path): str(path) for path in Path(ROOT).glob(".venv-python3*/bin/python")}
    oldest, *newer = sorted(found)
    assert newer, "make bench-pythons makes the environments to compare"
    kinds: dict[str, tuple[Callable[[str], float], float | None]] = {
        "bare": (lambda python: _alone(python, "pass"), None),
        "imports": (lambda python: _alone(python, "import msgspec, asyncio"), None),
        "run": (count_run, WITHIN),
        "step": (lambda python: count_steps("off", python).step, WITHIN),
    }
    figures: list[Figure] = []
    for kind, (count, target) in kinds.items():
        base = count(found[oldest])
        for version in newer:
            there = count(found[version])
            how = f"{there / 1e6:.2f} M to {base / 1e6:.2f} M of {_shown(oldest)}"
            name = f"Python {_shown(version)}, {kind}"
            figures.append(Figure(name=name, value=there / base, unit="x", target=target, how=how))
    return figures


def _version(python: Path) -> tuple[int, ...]:
    said = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in said.split()[1].split("."))


def _shown(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _alone(python: str, code: str) -> int:
    """The second time: by then what it imports is compiled."""
    with scratch() as home:
        env = plain_env(home) | {"PYTHONHASHSEED": "0"}
        _, warm = (counted(["-c", code], env=env, cwd=home, python=python) for _ in range(2))
    return warm
