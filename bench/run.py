"""`make bench`: prints what Bridle costs, next to what it may cost. Targets are printed, never enforced.

Every row runs in a process of its own, one after the other, and asserts that it did what it measures. The exit code is
0 unless a row could not be measured. `docs/performance.md` says what the rows mean.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace

from measure import REFERENCE_S, Figure, bare_s, middle

from bridle.cli import YOUNG_OBJECTS

ROWS = {
    "version": "startup:version",
    "run": "startup:one_turn",
    "lists": "listing:lists",
    "step": "stepping:step",
    "inner-step": "turns:step",
    "growth": "turns:growth",
    "decision": "decisions:decisions",
    "hook": "decisions:hooks",
    "deltas": "turns:deltas",
    "told": "telling:told",
    "screen": "screen:drawn",
    "idle": "idling:idle",
    "http-run": "over_http:one_turn",
    "http-deltas": "over_http:deltas",
    "latency": "streaming:latency",
    "memory": "parts:memory",
    "body": "turns:body",
    "resume": "logs:resume",
    "backlog": "logs:backlog",
    "append": "logs:append",
    "barrier": "logs:barrier",
    "size": "parts:size",
    "redact": "parts:redaction",
    "stall": "stalls:stall",
    "interrupt": "interrupting:interrupt",
    "search": "searching:search",
    "spawn": "parts:spawn",
    "sandbox": "sandboxing:sandbox",
    "flood": "sandboxing:flood",
    "undo": "undoing:undo",
    "twenty": "at_once:twenty",
    "delegations": "delegations:delegations",
    "fan-out": "many_clients:fan_out",
    "deaf": "many_clients:deaf",
    "sessions": "many_clients:sessions",
    "end": "many_clients:ending",
    "warm": "many_clients:warm",
    "attach": "many_clients:attach",
    "servers": "server_costs:first_request",
    "server-cycles": "server_costs:cycles",
    "memories": "memories:memory_choice",
    "big-log": "big_log:flat",
    "soak": "soak:soak",
}
"""Row names and where each is measured, in the order they are printed."""
WHEN_NAMED = frozenset({"big-log", "soak"})
"""Rows that take minutes or need more than `make setup`: only for those who ask for them (`--rows big-log`)."""


def main() -> int:
    options = _options()
    if options.in_process:
        gc.set_threshold(YOUNG_OBJECTS)  # as `bridle` itself runs
        json.dump([asdict(figure) for figure in _measured(options.in_process)], sys.stdout)
        return 0
    begun = time.perf_counter()
    if not options.json:
        _print_head()
    figures: list[Figure] = []
    broken: list[str] = []
    for name in options.rows:
        found = _measured_apart(name)
        if found is None:
            broken.append(name)
            continue
        figures += found
        if not options.json:
            for figure in found:
                _print_row(figure)
    if options.json:
        print(json.dumps([{**asdict(figure), "verdict": figure.verdict} for figure in figures], indent=1))
    else:
        print(
            f"\n{time.perf_counter() - begun:.0f} s"
            + (f"; could not measure: {', '.join(broken)}" if broken else "")
        )
    return 1 if broken else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/run.py", description="Measure what Bridle costs.")
    parser.add_argument(
        "--rows",
        nargs="+",
        choices=tuple(ROWS),
        default=tuple(name for name in ROWS if name not in WHEN_NAMED),
        metavar="NAME",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--in-process", choices=tuple(ROWS), help=argparse.SUPPRESS)
    return parser.parse_args()


def _measured(name: str) -> list[Figure]:
    module, _, function = ROWS[name].partition(":")
    return getattr(importlib.import_module(module), function)()


def _measured_apart(name: str) -> list[Figure] | None:
    """The figures of a row from a fresh process; None when it failed, which stderr explains."""
    bare = bare_s(5)
    ran = subprocess.run(
        [sys.executable, os.path.abspath(__file__), "--in-process", name], stdout=subprocess.PIPE, check=False
    )
    if ran.returncode != 0:
        print(f"{name}: could not be measured", file=sys.stderr)
        return None
    pace = middle([*bare, *bare_s(5)]) / REFERENCE_S
    figures = [Figure(**figure) for figure in json.loads(ran.stdout)]
    return [replace(figure, pace=pace) for figure in figures]


def _print_head() -> None:
    python = ".".join(map(str, sys.version_info[:3]))
    print(f"Python {python} on {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start\n")
    print(f"{'':<34}{'median':>9}       {'middle half':>15} {'at pace':>8} {'target':>8}          measured")


def _print_row(figure: Figure) -> None:
    target = "" if figure.target is None else f"{'≥' if figure.at_least else '≤'} {figure.target:g}"
    at_pace = f"{figure.at_reference:.2f}" if figure.is_paced else ""
    half = "" if figure.low is None else f"{figure.low:.2f} to {figure.high:.2f}"
    value = f"{figure.value:>9.2f} {figure.unit:<6}{half:>15} {at_pace:>8} {target:>8} {figure.verdict:<6}"
    print(f"{figure.name:<34}{value}   {figure.how}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
