#!/usr/bin/env python3
"""Compares the requirement manifest with the marks on the tests, both ways.

    python scripts/requirements.py            print the counts; exit 1 when they disagree
    python scripts/requirements.py --write    move rows between open and tested first

A row is `tested` exactly when a test carries its id in `@pytest.mark.requirement(...)`. One of those tests must go
through a door: the engine behind a connection, the command line, a client. A type, a sentence or a function that works
by itself holds only a row that says so, in `of`: the part it is about. Marks are read from the source of the tests, so
nothing is imported or collected.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = ROOT / "docs" / "requirements" / "manifest.toml"
TESTS = ROOT / "tests"
STATES = ("tested", "open", "later", "not_applicable")
EXPLAINED_STATES = ("later", "not_applicable")
ROW_KEYS = {"text", "state", "reason", "note", "of"}
DOOR_FOLDERS = ("app", "cli", "engine", "clients")
DOORS = frozenset(
    {
        "bridle.conformance.harness",
        "bridle.app.engine",
        "bridle.app.queries.explain",
        "bridle.cli",
        "cli_kit",
        "served_kit",
        "serve_kit",
        "listening_kit",
    }
)
"""What a test elsewhere imports to go through a door."""
MAX_TEXT_CHARS = 110
ROW_LINE = re.compile(r'^"(?P<id>[^"]+)" = \{ .*?\bstate = "(?P<state>\w+)"')
WRITE = "python scripts/requirements.py --write"


class Row(NamedTuple):
    """One promised behaviour, as its manifest line says it."""

    id: str
    text: str
    state: str
    reason: str
    of: str
    unknown_keys: tuple[str, ...]


class Mark(NamedTuple):
    """A requirement id and the place of the test that carries it; an empty id could not be read.

    `at_a_door`: tests in that file see what a person or a client sees.
    """

    id: str
    place: str
    on_a_test: bool
    at_a_door: bool


def read_rows(manifest: str) -> list[Row]:
    """All rows of the manifest's text in order; an id repeated in two groups comes twice."""
    return [
        Row(
            id=row_id,
            text=str(row.get("text", "")),
            state=str(row.get("state", "")),
            reason=str(row.get("reason", "")),
            of=str(row.get("of", "")),
            unknown_keys=tuple(sorted(row.keys() - ROW_KEYS)),
        )
        for group in tomllib.loads(manifest).values()
        for row_id, row in group.items()
    ]


def read_marks(tests: Path) -> list[Mark]:
    """Every id in a requirement mark below the folder, with file and line."""
    marks: list[Mark] = []
    for path in sorted(tests.rglob("*.py")):
        if "node_modules" in path.parts:  # what others wrote, for other versions of Python
            continue
        place = path.relative_to(tests.parent).as_posix()
        marks.extend(_marks_of(ast.parse(path.read_bytes(), filename=place), place))
    return marks


def _marks_of(tree: ast.Module, place: str) -> Iterator[Mark]:
    door = place.split("/")[1] in DOOR_FOLDERS or not DOORS.isdisjoint(_imported(tree))
    strays = {id(call) for call in _calls_on_helpers(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_requirement_mark(node):
            where = f"{place}:{node.lineno}"
            for argument in node.args or [node]:
                value = argument.value if isinstance(argument, ast.Constant) else ""
                yield Mark(value if isinstance(value, str) else "", where, id(node) not in strays, door)


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _calls_on_helpers(tree: ast.Module) -> Iterator[ast.expr]:
    """Decorators of what pytest does not collect: a mark there would claim a test that never runs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            prefix = "Test" if isinstance(node, ast.ClassDef) else "test"
            if not node.name.startswith(prefix):
                yield from node.decorator_list


def _is_requirement_mark(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(attr="requirement", value=ast.Attribute(attr="mark") | ast.Name(id="mark")):
            return True
        case _:
            return False


def problems(rows: Sequence[Row], marks: Sequence[Mark]) -> list[str]:
    """Every disagreement as one sentence that names the id and the fix; empty when all is well."""
    return [
        *_faults_of_rows(rows),
        *_faults_of_marks(marks),
        *_disagreements(rows, marks),
        *_seen_by_nobody(rows, marks),
    ]


def _faults_of_rows(rows: Sequence[Row]) -> Iterator[str]:
    for row_id, count in Counter(row.id for row in rows).items():
        if count > 1:
            yield f"{row_id} is in the manifest {count} times: keep one row"
    for row in rows:
        if not row.text:
            yield f"{row.id} has no text: say in one line what Bridle does"
        if len(row.text) > MAX_TEXT_CHARS:
            yield f"{row.id} has {len(row.text)} characters of text: shorten it to {MAX_TEXT_CHARS}"
        if row.state not in STATES:
            yield f"{row.id} has the unknown state {row.state!r}: use one of {', '.join(STATES)}"
        if row.state in EXPLAINED_STATES and not row.reason:
            yield f"{row.id} is {row.state} without a reason: add one"
        if row.state not in EXPLAINED_STATES and row.reason:
            yield f"{row.id} is {row.state} with a reason: drop it, or make it a note"
        if row.unknown_keys:
            yield f"{row.id} has unknown keys: remove {', '.join(row.unknown_keys)}"


def _faults_of_marks(marks: Iterable[Mark]) -> Iterator[str]:
    for mark in marks:
        if not mark.id:
            yield f"{mark.place} has a mark that cannot be read: write the ids as plain strings"
        elif not mark.on_a_test:
            yield f"{mark.place} marks {mark.id} on something that is not a test: mark the test"


def _disagreements(rows: Sequence[Row], marks: Iterable[Mark]) -> Iterator[str]:
    states = {row.id: row.state for row in rows}
    places: dict[str, str] = {}
    for mark in marks:
        if mark.id:
            places.setdefault(mark.id, mark.place)
    for row_id, place in places.items():
        match states.get(row_id):
            case None:
                yield f"{row_id} is carried by {place} but is no row: correct the mark or add the row"
            case "open":
                yield f"{row_id} is carried by {place} but open: run {WRITE}"
            case "later" | "not_applicable" as state:
                yield f"{row_id} is carried by {place} but {state}: make it open, drop the reason, {WRITE}"
            case _:
                pass
    for row_id, state in states.items():
        if state == "tested" and row_id not in places:
            yield f"{row_id} is tested but no test carries it: run {WRITE}"


def _seen_by_nobody(rows: Sequence[Row], marks: Iterable[Mark]) -> Iterator[str]:
    """Rows that are said to hold although no test sees what a person or a client would."""
    at_a_door = {mark.id for mark in marks if mark.at_a_door}
    parts = {(mark.id, mark.place.split("/")[1]) for mark in marks}
    for row in rows:
        if row.state != "tested" or row.id not in {one for one, _ in parts}:
            continue
        if row.id not in at_a_door and not row.of:
            yield f"{row.id} is held by no test through a door: mark one, or name the part it is about in `of`"
        elif row.id in at_a_door and row.of:
            yield f"{row.id} is held through a door: drop `of`"
        elif row.of and (row.id, row.of) not in parts:
            yield f"{row.id} is about {row.of}, and no test in tests/{row.of} carries it: correct `of`"


def with_states(manifest: str, marked: set[str]) -> str:
    """The manifest's text with open and tested set by the marks; every other byte stays as it is."""
    return "".join(_with_state(line, marked) for line in manifest.splitlines(keepends=True))


def _with_state(line: str, marked: set[str]) -> str:
    row = ROW_LINE.match(line)
    if row is None or row["state"] not in ("open", "tested"):
        return line
    state = "tested" if row["id"] in marked else "open"
    return line[: row.start("state")] + state + line[row.end("state") :]


def counts(rows: Iterable[Row]) -> Mapping[str, int]:
    """How many rows are in each state, in the order of `STATES`."""
    found = Counter(row.state for row in rows)
    return {state: found[state] for state in STATES}


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Compare the requirement manifest with the tests.")
    parser.add_argument("--write", action="store_true", help="set open and tested by the marks on the tests")
    arguments = parser.parse_args(argv)
    manifest = MANIFEST.read_text(encoding="utf-8")
    marks = read_marks(TESTS)
    if arguments.write:
        manifest = with_states(manifest, {mark.id for mark in marks})
        MANIFEST.write_text(manifest, encoding="utf-8")
    rows = read_rows(manifest)
    print(f"{len(rows)} rows: " + ", ".join(f"{count} {state}" for state, count in counts(rows).items()))
    found = problems(rows, marks)
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
