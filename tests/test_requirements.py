"""The requirement manifest and the tests say the same, and the script that compares them can be believed."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def script(repository: Path) -> ModuleType:
    """scripts/requirements.py as a module; scripts is not a package."""
    spec = importlib.util.spec_from_file_location(
        "requirements_script", repository / "scripts/requirements.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def manifest(*lines: str) -> str:
    return "\n".join(("# a comment", '["1 group"]', *lines, ""))


def folder_of_tests(tmp_path: Path, source: str, part: str = "app") -> Path:
    folder = tmp_path / "tests"
    (folder / part).mkdir(parents=True)
    (folder / part / "test_example.py").write_text(f"import pytest\n{source}\n", encoding="utf-8")
    return folder


def found(script: ModuleType, text: str, folder: Path) -> list[str]:
    return script.problems(script.read_rows(text), script.read_marks(folder))


def test_manifest_and_tests_agree_in_both_directions(script: ModuleType) -> None:
    rows = script.read_rows(script.MANIFEST.read_text(encoding="utf-8"))
    assert script.problems(rows, script.read_marks(script.TESTS)) == []


def test_the_manifest_holds_every_family_of_rows(script: ModuleType) -> None:
    ids = [row.id for row in script.read_rows(script.MANIFEST.read_text(encoding="utf-8"))]
    assert {row_id[0] for row_id in ids} == set("HATGDCPX")
    assert {f"C{number}" for number in range(1, 32)} | {f"P{number}" for number in range(1, 27)} <= set(ids)


def test_every_row_is_one_line_that_the_writer_can_edit(script: ModuleType) -> None:
    text = script.MANIFEST.read_text(encoding="utf-8")
    editable = [match["id"] for line in text.splitlines() if (match := script.ROW_LINE.match(line))]
    assert editable == [row.id for row in script.read_rows(text)]


def test_a_marked_row_must_be_tested_and_a_tested_row_marked(script: ModuleType, tmp_path: Path) -> None:
    text = manifest(
        '"A1" = { text = "marked", state = "open" }',
        '"A2" = { text = "unmarked", state = "tested" }',
        '"A3" = { text = "postponed", state = "later", reason = "not now" }',
    )
    folder = folder_of_tests(tmp_path, '@pytest.mark.requirement("A1", "A3", "A9")\nasync def test_it(): ...')
    assert found(script, text, folder) == [
        f"A1 is carried by tests/app/test_example.py:2 but open: run {script.WRITE}",
        f"A3 is carried by tests/app/test_example.py:2 but later: make it open, drop the reason, {script.WRITE}",
        "A9 is carried by tests/app/test_example.py:2 but is no row: correct the mark or add the row",
        f"A2 is tested but no test carries it: run {script.WRITE}",
    ]


@pytest.mark.parametrize(
    "row",
    [
        '"A1" = { state = "open" }',
        f'"A1" = {{ text = "{"x" * 111}", state = "open" }}',
        '"A1" = { text = "x", state = "done" }',
        '"A1" = { text = "x", state = "later" }',
        '"A1" = { text = "x", state = "not_applicable" }',
        '"A1" = { text = "x", state = "open", reason = "why" }',
        '"A1" = { text = "x", state = "open", remark = "why" }',
        '"A1" = { text = "x", state = "open" }\n["2 other"]\n"A1" = { text = "x", state = "open" }',
    ],
)
def test_a_faulty_row_is_named(script: ModuleType, tmp_path: Path, row: str) -> None:
    (problem,) = found(script, manifest(row), tmp_path)
    assert problem.startswith("A1 ")


@pytest.mark.parametrize(
    "source",
    [
        '@pytest.mark.requirement("A1")\ndef test_it(): ...',
        '@pytest.mark.requirement("A1")\nclass TestIt: ...',
        'pytestmark = pytest.mark.requirement("A1")',
        'pytestmark = [pytest.mark.peers, pytest.mark.requirement("A1")]',
        'CASE = pytest.param(1, marks=pytest.mark.requirement("A1"))',
        'from pytest import mark\n@mark.requirement("A1")\ndef test_it(): ...',
    ],
)
def test_marks_are_read_wherever_pytest_accepts_them(script: ModuleType, tmp_path: Path, source: str) -> None:
    text = manifest('"A1" = { text = "x", state = "tested" }')
    assert found(script, text, folder_of_tests(tmp_path, source)) == []


@pytest.mark.parametrize(
    "source",
    [
        '@pytest.mark.requirement(*IDS, "A1")\ndef test_it(): ...',
        '@pytest.mark.requirement("A1")\n@pytest.mark.requirement()\ndef test_it(): ...',
        '@pytest.mark.requirement("A1")\ndef helper(): ...',
        '@pytest.mark.requirement("A1")\nclass Helper: ...',
    ],
)
def test_a_mark_that_proves_nothing_is_refused(script: ModuleType, tmp_path: Path, source: str) -> None:
    text = manifest('"A1" = { text = "x", state = "tested" }')
    (problem,) = found(script, text, folder_of_tests(tmp_path, source))
    assert problem.startswith("tests/app/test_example.py:")


def test_writing_moves_only_open_and_tested_rows_and_keeps_every_other_byte(script: ModuleType) -> None:
    before = manifest(
        '"A1" = { text = "says \\"state = open\\"", state = "open", note = "kept" }  # a remark',
        '"A2" = { text = "lost its test", state = "tested" }',
        '"A3" = { text = "postponed", state = "later", reason = "not now" }',
        '"A4" = { text = "still open", state = "open" }',
    )
    assert script.with_states(before, {"A1", "A3"}) == manifest(
        '"A1" = { text = "says \\"state = open\\"", state = "tested", note = "kept" }  # a remark',
        '"A2" = { text = "lost its test", state = "open" }',
        '"A3" = { text = "postponed", state = "later", reason = "not now" }',
        '"A4" = { text = "still open", state = "open" }',
    )


def test_the_script_prints_the_counts(repository: Path) -> None:
    finished = subprocess.run(
        [sys.executable, repository / "scripts/requirements.py"], capture_output=True, text=True, check=False
    )
    assert " rows: " in finished.stdout
    assert " tested, " in finished.stdout


MARKED = '@pytest.mark.requirement("A1")\ndef test_it(): ...'


@pytest.mark.parametrize("part", ["protocol", "safety"])
def test_a_row_that_no_test_through_a_door_holds_is_named(
    script: ModuleType, tmp_path: Path, part: str
) -> None:
    folder = folder_of_tests(tmp_path, MARKED, part)
    (problem,) = found(script, manifest('"A1" = { text = "x", state = "tested" }'), folder)
    assert problem.startswith("A1 is held by no test through a door")
    assert found(script, manifest(f'"A1" = {{ text = "x", state = "tested", of = "{part}" }}'), folder) == []
    (problem,) = found(script, manifest('"A1" = { text = "x", state = "tested", of = "tools" }'), folder)
    assert problem == "A1 is about tools, and no test in tests/tools carries it: correct `of`"


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("app", MARKED),
        ("engine", MARKED),
        ("safety", f"from bridle.conformance.harness import harness\n{MARKED}"),
        ("docs", f"from cli_kit import Place\n{MARKED}"),
    ],
)
def test_a_test_is_at_a_door_by_its_folder_or_by_what_it_opens(
    script: ModuleType, tmp_path: Path, part: str, source: str
) -> None:
    folder = folder_of_tests(tmp_path, source, part)
    assert found(script, manifest('"A1" = { text = "x", state = "tested" }'), folder) == []
    (problem,) = found(script, manifest(f'"A1" = {{ text = "x", state = "tested", of = "{part}" }}'), folder)
    assert problem == "A1 is held through a door: drop `of`"
