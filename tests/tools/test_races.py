"""A folder that becomes a link after the guard has looked and before the tool opens what is in it."""

import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.requirement("H10.7")


@pytest.fixture
def swapped(bench, tmp_path: Path):
    """Puts a link to a folder outside in the place of `src`, just before the tool itself runs."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("hidden\n")
    (bench.workspace / "src").mkdir()
    (bench.workspace / "src/a.py").write_text("open\n")

    def swap() -> None:
        if not (bench.workspace / "src").is_symlink():
            os.rename(bench.workspace / "src", bench.workspace / "moved")
            os.symlink(outside, bench.workspace / "src")

    bench.before_run = swap
    return outside


CALLS = [
    ("read_file", {"path": "src/a.py"}),
    ("write_file", {"path": "src/a.py", "content": "changed\n"}),
    ("write_file", {"path": "src/new.py", "content": "changed\n"}),
    ("write_file", {"path": "src/deep/new.py", "content": "changed\n"}),
    ("edit_file", {"path": "src/a.py", "old_string": "hidden", "new_string": "changed"}),
    (
        "apply_patch",
        {"patch": "*** Begin Patch\n*** Update File: src/a.py\n-hidden\n+changed\n*** End Patch"},
    ),
    ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: src/new.py\n+changed\n*** End Patch"}),
    ("apply_patch", {"patch": "*** Begin Patch\n*** Delete File: src/a.py\n*** End Patch"}),
    ("ls", {"path": "src"}),
    ("glob", {"path": "src", "pattern": "*"}),
    ("grep", {"path": "src", "pattern": "hidden"}),
    ("grep", {"path": "src/a.py", "pattern": "hidden"}),
]


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
async def test_a_tool_opens_what_was_guarded_or_nothing(bench, swapped, tool: str, arguments: dict) -> None:
    output = await bench.run(tool, **arguments)
    assert (output.outcome, "hidden" in output.content) == ("error", False)
    assert {path.name: path.read_text() for path in swapped.iterdir()} == {"a.py": "hidden\n"}


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
async def test_the_same_calls_work_when_nobody_interferes(bench, swapped, tool: str, arguments: dict) -> None:
    (bench.workspace / "src/a.py").write_text("hidden\n")
    bench.before_run = lambda: None
    assert (await bench.run(tool, **arguments)).ok


class Swapping:
    """Starts programs as usual, after the folder was exchanged."""

    def __init__(self, spawn, swap) -> None:
        self._spawn = spawn
        self._swap = swap
        self.adapter = spawn.adapter

    async def __call__(self, argv, **options):
        self._swap()
        return await self._spawn(argv, **options)


async def test_what_a_search_program_finds_in_another_folder_is_not_shown(bench, swapped) -> None:
    bench.spawn = Swapping(bench.spawn, bench.before_run)
    bench.before_run = lambda: None
    output = await bench.run("grep", path="src", pattern="hidden")
    assert (output.outcome, "hidden" in output.content) == ("error", False)
