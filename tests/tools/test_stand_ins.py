"""A file that commands must not make: while one runs, the file tools say so; afterwards they write it."""

from __future__ import annotations

import stat

import pytest

from bridle.base.stand_ins import is_stand_in, take_away
from bridle.sandbox.masks import Masks
from bridle.tools.replace_file import replace_beneath
from undo.undo_kit import workshop

KEPT_AWAY = "a command still runs that must not be able to change it; write it when that one has ended"
PATCH = "*** Begin Patch\n*** Add File: AGENTS.md\n+rules\n*** End Patch\n"


@pytest.fixture(params=["write_file", "apply_patch"])
def written(request, bench):
    """Writes AGENTS.md with one of the tools."""

    async def write():
        if request.param == "write_file":
            return await bench.run("write_file", path="AGENTS.md", content="rules\n")
        return await bench.run("apply_patch", patch=PATCH)

    return write


async def test_while_a_command_runs_the_tool_says_why_it_cannot_write(bench, written) -> None:
    path = bench.workspace / "AGENTS.md"
    masks = Masks([str(path)])
    try:
        output = await written()
        assert output.outcome == "error"
        assert KEPT_AWAY in output.content
        assert is_stand_in(str(path)), "the command still has it in its way"
    finally:
        masks.release()
    assert (await written()).outcome == "ok"
    assert path.read_text() == "rules\n"


async def test_one_that_a_killed_engine_left_gives_way(bench, written) -> None:
    path = bench.workspace / "AGENTS.md"
    path.mkdir()
    path.chmod(0o1755)
    assert is_stand_in(str(path))
    assert (await written()).outcome == "ok"
    assert path.read_text() == "rules\n"


async def test_a_folder_of_somebodys_own_stays(bench, written) -> None:
    path = bench.workspace / "AGENTS.md"
    path.mkdir()
    assert (await written()).outcome == "error"
    path.chmod(0o1755)
    (path / "inside").write_text("x")
    assert (await written()).outcome == "error"
    assert (path / "inside").read_text() == "x"


def test_undo_takes_a_stand_in_for_nothing(tmp_path) -> None:
    with workshop(tmp_path / "data", tmp_path / "work") as shop:
        path = shop.folder / "AGENTS.md"
        held: list[Masks] = []
        shop.call(lambda: held.append(Masks([str(path)])))  # as a command does that goes on in the background
        assert shop.undo.plan() is None
        held[0].release()
        path.mkdir()
        path.chmod(0o1755)
        shop.call(lambda: replace_beneath(str(path), b"rules"), "AGENTS.md")
        assert path.read_text() == "rules"
        shop.undo_last()
        assert not path.exists()


def test_a_stand_in_is_an_empty_folder_with_the_mark(tmp_path) -> None:
    folder = tmp_path / "x"
    for make, expected in (
        (lambda: None, False),
        (lambda: folder.mkdir(), False),
        (lambda: folder.chmod(0o1755), True),
        (lambda: (folder / "inside").touch(), False),
        (lambda: (folder / "inside").unlink(), True),
        (lambda: folder.chmod(0o755), False),
    ):
        make()
        assert is_stand_in(str(folder)) == expected
    folder.chmod(stat.S_ISVTX | 0o755)
    assert take_away(str(folder))
    assert not folder.exists()
    folder.symlink_to(tmp_path)
    assert not take_away(str(folder))
