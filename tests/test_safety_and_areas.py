"""Each safety guarantee, and each area that is to be tested, names tests that are there and run."""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

LIST = "docs/requirements/safety_and_areas.toml"
SKIPPING = {"skip", "skipif", "xfail"}


@pytest.fixture(scope="module")
def listed(repository: Path) -> dict[str, dict[str, dict[str, list[str]]]]:
    return tomllib.loads((repository / LIST).read_text(encoding="utf-8"))


def problems(repository: Path, entries: dict[str, dict[str, list[str]]], tested: set[str]) -> Iterator[str]:
    """What is wrong with a list, given the rows of the manifest that are tested."""
    for name, entry in entries.items():
        waits = entry.get("waits", [])
        if not entry.get("tests") and not waits:
            yield f"{name}: names neither a test nor what it waits for"
        for row in sorted(tested.intersection(waits)):
            yield f"{name}: {row} is tested by now; name its tests here"
        for test in entry.get("tests", []):
            path, _, function = test.partition("::")
            found = functions_of(repository / path).get(function) if (repository / path).is_file() else None
            if found is None:
                yield f"{name}: there is no {test}"
            elif SKIPPING & found:
                yield f"{name}: {test} does not run everywhere"


@cache
def functions_of(path: Path) -> dict[str, frozenset[str]]:
    """The tests of a file, each with the names of its marks."""
    found = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    tests = (one for one in found if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    return {one.name: frozenset(map(_mark, one.decorator_list)) for one in tests}


def _mark(decorator: ast.expr) -> str:
    bare = decorator.func if isinstance(decorator, ast.Call) else decorator
    return bare.attr if isinstance(bare, ast.Attribute) else ""


def rows_with_tests(repository: Path) -> set[str]:
    groups: dict[str, dict[str, Any]] = tomllib.loads(
        (repository / "docs/requirements/manifest.toml").read_text(encoding="utf-8")
    )
    return {name for rows in groups.values() for name, row in rows.items() if row["state"] == "tested"}


@pytest.mark.requirement("D19.1")
def test_every_safety_guarantee_has_a_test_that_runs(repository: Path, listed: Any) -> None:
    guarantees = listed["safety guarantees"]
    assert len(guarantees) == 15
    assert list(problems(repository, guarantees, rows_with_tests(repository))) == []
    assert not any(entry.get("waits") for entry in guarantees.values())


def test_every_area_has_a_test_that_runs_or_says_what_it_waits_for(repository: Path, listed: Any) -> None:
    areas = listed["areas"]
    assert [int(name.split()[0]) for name in areas] == list(range(1, 41))
    assert list(problems(repository, areas, rows_with_tests(repository))) == []


def test_a_list_that_is_wrong_is_found_out(repository: Path) -> None:
    here = "tests/test_safety_and_areas.py"
    entries: dict[str, dict[str, list[str]]] = {
        "nothing": {},
        "gone": {"tests": [f"{here}::test_that_nobody_wrote", "tests/nowhere.py::test_it"]},
        "built": {"waits": ["A1", "A2"]},
        "good": {"tests": [f"{here}::test_a_list_that_is_wrong_is_found_out"]},
    }
    assert list(problems(repository, entries, {"A2"})) == [
        "nothing: names neither a test nor what it waits for",
        f"gone: there is no {here}::test_that_nobody_wrote",
        "gone: there is no tests/nowhere.py::test_it",
        "built: A2 is tested by now; name its tests here",
    ]
