#!/usr/bin/env python3
"""Put small faults into a clone, one at a time, and tell which of them the tests catch.

    python scripts/seeded_faults.py            30 faults, chosen by seed 1
    python scripts/seeded_faults.py 30 7       30 faults, chosen by seed 7
    python scripts/seeded_faults.py 30 7 4-9   only the fourth to the ninth of them

A fault is a turned comparison, a turned condition or a swapped `and` and `or` inside a function. Every package gets
one, the larger packages a second. The tests of the package run first, then those of the clients and the composition.
A test that fails without the fault as well does not count.

A fault may be in a guard, so the tests run in a bubblewrap that can write only to the clone and to `/tmp` of its own.
"""

from __future__ import annotations

import ast
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ROOT / "src" / "bridle"
FOLDERS = {"mcp": "mcp_client", "plugin": "app"}
"""Packages whose tests are in a folder with another name."""
LATER = ("tests/app", "tests/cli", "tests/clients", "tests/control", "tests/conformance")
TIMEOUT_S = 900
HANGS = "tests that hang"
TURNED: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip


class Fault(NamedTuple):
    """A place in a file and the text to put there. Columns count bytes."""

    path: str
    line: int
    start: int
    end: int
    text: str


def faults_in(path: Path) -> Iterator[Fault]:
    """Yield the faults that one line of a function can have."""
    source = path.read_text()
    place = str(path.relative_to(ROOT))
    functions = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    seen = set[tuple[int, int]]()
    for function in functions:
        for node in _walk(function):
            text = _faulty(node)
            if text is None or not isinstance(node, ast.expr) or node.lineno != node.end_lineno:
                continue
            if (node.lineno, node.col_offset) not in seen:
                seen.add((node.lineno, node.col_offset))
                yield Fault(place, node.lineno, node.col_offset, node.end_col_offset or 0, text)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below one, but none in a formatted string: before Python 3.12 their columns are wrong."""
    yield node
    for inner in ast.iter_child_nodes(node):
        if not isinstance(inner, ast.JoinedStr):
            yield from _walk(inner)


def _faulty(node: ast.AST) -> str | None:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in TURNED:
        return f"({ast.unparse(node.left)} {TURNED[type(node.ops[0])]} {ast.unparse(node.comparators[0])})"
    if isinstance(node, ast.BoolOp):
        word = " or " if isinstance(node.op, ast.And) else " and "
        return "(" + word.join(f"({ast.unparse(value)})" for value in node.values) + ")"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return f"bool({ast.unparse(node.operand)})"
    return None


def chosen(count: int, seed: int) -> list[Fault]:
    """Choose the faults: one for each package, and more for the larger ones."""
    chance = random.Random(seed)
    found = {
        folder.name: [fault for path in sorted(folder.rglob("*.py")) for fault in faults_in(path)]
        for folder in sorted(PACKAGES.iterdir())
        if folder.is_dir() and folder.name != "__pycache__"
    }
    order = sorted(found, key=lambda name: (-len(found[name]), name))
    return [chance.choice(found[order[at % len(order)]]) for at in range(count)]


def main(count: int, seed: int, first: int, last: int) -> int:
    """Try the faults and print a line for each. Return the number of faults that no test caught."""
    with tempfile.TemporaryDirectory(prefix="faults-", dir="/var/tmp") as folder:
        clone = Path(folder) / "bridle"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        subprocess.run(["scripts/setup", "dev"], cwd=clone, check=True, capture_output=True, env=env)
        missed, spoilt = 0, dict[str, list[str]]()
        for number, fault in enumerate(chosen(count, seed), 1):
            if not first <= number <= last:
                continue
            caught = _caught(clone, fault, env, spoilt)
            missed += not caught
            verdict = f"caught by {caught}" if caught else "NOT CAUGHT"
            print(f"{number:2} {fault.path}:{fault.line}: {fault.text}: {verdict}", flush=True)
    print(f"{last - first + 1 - missed} caught, {missed} not caught")
    return missed


def _caught(clone: Path, fault: Fault, env: dict[str, str], spoilt: dict[str, list[str]]) -> str:
    """Return a test that fails with the fault and passes without it; empty if there is none.

    `spoilt` collects the tests of each folder that fail without a fault.
    """
    package = fault.path.split("/")[2]
    own = f"tests/{FOLDERS.get(package, package)}"
    path = clone / fault.path
    good = path.read_bytes()
    lines = good.splitlines(keepends=True)
    line = lines[fault.line - 1]
    lines[fault.line - 1] = line[: fault.start] + fault.text.encode() + line[fault.end :]
    for part in (own, *(part for part in LATER if part != own)):
        if part not in spoilt:
            spoilt[part] = _failing(clone, [part], env)
        path.write_bytes(b"".join(lines))
        failed = _failing(clone, ["-x", part, *(f"--deselect={name}" for name in spoilt[part])], env)
        path.write_bytes(good)
        for name in failed:
            if name == HANGS or not _failing(clone, [name], env):
                return name
    return ""


def _contained(clone: Path) -> list[str]:
    own = ("--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp")
    here = (
        "--bind",
        str(clone),
        str(clone),
        "--setenv",
        "HOME",
        "/tmp",
        "--unshare-pid",
        "--die-with-parent",
    )
    return ["bwrap", "--cap-add", "ALL", *own, *here]


def _failing(clone: Path, tests: list[str], env: dict[str, str]) -> list[str]:
    """Return the tests that fail; the folder if its tests could not be collected."""
    command = [*_contained(clone), ".venv/bin/python", "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup"]
    try:
        done = subprocess.run(
            [*command, "-m", "not peers", *tests],
            check=False,
            cwd=clone,
            capture_output=True,
            text=True,
            env=env,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return [HANGS]
    if done.returncode == 0:
        return []
    lines = done.stdout.splitlines()
    names = [
        line.split(" - ")[0].split(" ", 1)[1] for line in lines if line.startswith(("FAILED ", "ERROR "))
    ]
    return [name for name in names if "::" in name] or [
        next(test for test in tests if test.startswith("tests/"))
    ]


if __name__ == "__main__":
    count, seed = [*map(int, sys.argv[1:3]), *(30, 1)[len(sys.argv[1:3]) :]]
    first, _, last = (sys.argv[3] if len(sys.argv) > 3 else f"1-{count}").partition("-")
    raise SystemExit(1 if main(count, seed, int(first), int(last or first)) else 0)
