#!/usr/bin/env python3
"""Compares the requirement manifest with the marks on the tests, both ways.

    python scripts/requirements.py            print the counts; exit 1 when they disagree
    python scripts/requirements.py --write    move rows between open and tested first

A row is `tested` exactly when a test carries its id in `@pytest.mark.requirement(...)`. Marks are read from
the source of the tests, so nothing is imported or collected.
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
ROW_KEYS = {"text", "state", "reason", "note"}
MAX_TEXT_CHARS = 110
ROW_LINE = re.compile(r'^"(?P<id>[^"]+)" = \{ .*?\bstate = "(?P<state>\w+)"')
WRITE = "python scripts/requirements.py --write"


class Row(NamedTuple):
    """One promised behaviour, as its manifest line says it."""

    id: str
    text: str
    state: str
    reason: str
    unknown_keys: tuple[str, ...]


class Mark(NamedTuple):
    """A requirement id and the place of the test that carries it; an empty id could not be read."""

    id: str
    place: str
    on_a_test: bool


def read_rows(manifest: str) -> list[Row]:
    """All rows of the manifest's text in order; an id repeated in two groups comes twice."""
    return [
        Row(
            id=row_id,
            text=str(row.get("text", "")),
            state=str(row.get("state", "")),
            reason=str(row.get("reason", "")),
            unknown_keys=tuple(sorted(row.keys() - ROW_KEYS)),
        )
        for group in tomllib.loads(manifest).values()
        for row_id, row in group.items()
    ]


def read_marks(tests: Path) -> list[Mark]:
    """Every id in a requirement mark below the folder, with file and line."""
    marks: list[Mark] = []
    for path in sorted(tests.rglob("*.py")):
        place = path.relative_to(tests.parent).as_posix()
        marks.extend(_marks_of(ast.parse(path.read_bytes(), filename=place), place))
    return marks


def _marks_of(tree: ast.Module, place: str) -> Iterator[Mark]:
    strays = {id(call) for call in _calls_on_helpers(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_requirement_mark(node):
            where = f"{place}:{node.lineno}"
            for argument in node.args or [node]:
                value = argument.value if isinstance(argument, ast.Constant) else ""
                yield Mark(value if isinstance(value, str) else "", where, id(node) not in strays)


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
    return [*_faults_of_rows(rows), *_faults_of_marks(marks), *_disagreements(rows, marks)]


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
