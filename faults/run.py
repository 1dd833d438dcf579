"""`make faults`: kills the engine at named points and at any moment, spoils its disk, and checks what must hold.

    faults/run.py [--seeds 20] [--kills 500] [--only WORD] [--jobs 2] [--json FILE]

Prints a table; the exit code is 1 when anything was lost, repeated, left running or left broken. Everything happens in
scratch folders that are removed; nothing is sent anywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))  # the tree we stand in

import disks
import fuzz
import traps
import worktree_faults
from case import Place, Result, forked, killed_case

CASE_S = 150.0
Case = tuple[str, int, Callable[[Place, Result], None]]


def cases(options: argparse.Namespace) -> Iterator[Case]:
    for point in (*traps.POINTS, *traps.IN_CHILD):
        for seed in range(options.seeds):
            yield point, seed, partial(killed_case, point=point, on_resume=False)
    for point in traps.ON_RESUME:
        for seed in range(options.seeds):
            yield point, seed, partial(killed_case, point=point, on_resume=True)
    for point in worktree_faults.POINTS if options.seeds > 1 else worktree_faults.FEW:
        for seed in range(options.seeds):
            yield point, seed, partial(worktree_faults.killed_worktree, point=point)
    yield "merge, torn", 0, worktree_faults.torn_merge
    for name, fault in disks.FAULTS.items():
        for seed in range(options.seeds):
            yield name, seed, fault
    for seed in range(options.kills):
        yield "any moment", seed, fuzz.any_moment
    if options.long:
        yield "100,000 events", 0, fuzz.long_log


def run_case(case: Case) -> Result:
    fault, seed, check = case
    result = Result(fault, seed)
    root = tempfile.mkdtemp(prefix="bridle-faults-")
    try:
        check(Place(root), result)
    except Exception as problem:  # noqa: BLE001  a case that cannot be judged counts against us
        result.broken.append(f"the case failed: {type(problem).__name__}: {problem}")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return result


class Running:
    """A case in a process of its own, so that several run at once and one that hangs ends alone."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.reading)
            ended, said = forked(lambda: asdict(run_case(case)), within_s=CASE_S)
            if ended != 0 or not said or "fault" not in said:
                said = asdict(Result(case[0], case[1], broken=[f"the case did not end: {said or ended}"]))
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(json.dumps(said).encode())
            os._exit(0)
        os.close(writing)

    def result(self) -> Result:
        with os.fdopen(self.reading, "rb") as pipe:
            said = pipe.read()
        os.waitpid(self.pid, 0)
        return Result(**json.loads(said))


def run_all(wanted: list[Case], jobs: int) -> Iterator[Result]:
    waiting, running = list(reversed(wanted)), list[Running]()
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(Running(waiting.pop()))
        ready, _, _ = select.select([one.reading for one in running], [], [])
        for one in [one for one in running if one.reading in ready]:
            running.remove(one)
            yield one.result()


COUNTS = ("killed", "seen", "lost", "reused", "repeated", "orphans")
HEAD = f"{'fault':<26} {'runs':>5} {' '.join(f'{name:>8}' for name in COUNTS)}   ready, middle and worst"


def row(fault: str, results: list[Result]) -> str:
    ready = sorted(ms for one in results for ms in one.ready_ms)
    times = f"{ready[len(ready) // 2]:7.0f} ms {ready[-1]:7.0f} ms" if ready else f"{'-':>10}"
    counts = " ".join(f"{sum(getattr(one, name) for one in results):>8}" for name in COUNTS)
    broken = sum(bool(one.broken) for one in results)
    verdict = f"   {broken} broken" if broken else ""
    return f"{fault:<26} {len(results):>5} {counts}   {times}{verdict}"


def main() -> int:
    options = _options()
    wanted = [case for case in cases(options) if options.only in case[0]]
    begun = time.monotonic()
    found: dict[str, list[Result]] = {}
    counts = {name: sum(case[0] == name for case in wanted) for name, _, _ in wanted}
    print(HEAD, flush=True)
    for result in run_all(wanted, options.jobs):
        results = found.setdefault(result.fault, [])
        results.append(result)
        if len(results) == counts[result.fault]:
            print(row(result.fault, results), flush=True)
    every = [result for results in found.values() for result in results]
    print(row("all", every))
    never = [
        name
        for name in (*traps.POINTS, *traps.IN_CHILD, *traps.ON_RESUME, *worktree_faults.POINTS)
        if name in found and not _reached(found[name])
    ]
    for name in never:
        print(f"{name}: no run was killed there")
    blind = not any(result.seen for result in every)
    if blind:
        print("the witness saw nothing in any run")
    for result in every:
        for problem in result.broken:
            print(f"{result.fault}, seed {result.seed}: {problem}")
    print(f"{len(every)} runs in {time.monotonic() - begun:.0f} s")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump([asdict(result) for result in every], file)
    return 1 if never or blind or any(result.broken for result in every) else 0


def _reached(results: list[Result]) -> bool:
    return any(result.killed for result in results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make faults")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--long", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
