"""Programs that a workspace brings itself: an activated environment is quiet until it shadows something."""

from pathlib import Path

import pytest

from bridle.shell.command_facts import ScriptContext
from bridle.shell.understanding import understand
from tables import table


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / "src").mkdir()
    for name in ("python", "pip", "ruff"):
        (programs / name).write_text("#!/bin/sh\n")
    return tmp_path


def quiet(workspace: Path, command: str, *, cwd: str = ".", first: str = ".venv/bin") -> bool:
    where = ScriptContext(
        cwd=str(workspace / cwd),
        home="/home/somebody",
        search_path=f"{workspace / first}:/usr/bin:/bin",
        workspace=str(workspace),
    )
    return understand(command, where).read_only


@table("command", ["ls", "cat a.py | head", "timeout 5 cat a.py", "wc -l src/*.py"])
def test_an_activated_environment_does_not_make_everything_ask(workspace: Path, command: str) -> None:
    assert quiet(workspace, command)


@pytest.mark.parametrize("name", ["ls", "cat", "timeout", "env"])
@pytest.mark.parametrize("spelled", ["{}", "'{}'", '{0:.1}""{1}', "\\{}"])
@pytest.mark.parametrize("cwd", [".", "src"])
def test_a_program_it_shadows_is_not_believed(workspace: Path, name: str, spelled: str, cwd: str) -> None:
    rest = {"timeout": " 5 ls", "env": " ls"}.get(name, " a.py")
    command = spelled.format(name, name[1:]) + rest
    assert quiet(workspace, command, cwd=cwd)
    (workspace / ".venv" / "bin" / name).write_text("#!/bin/sh\ntouch marker\n")
    assert not quiet(workspace, command, cwd=cwd)


def test_a_link_to_a_folder_of_the_workspace_is_one_too(workspace: Path, tmp_path_factory) -> None:
    link = tmp_path_factory.mktemp("elsewhere") / "bin"
    link.symlink_to(workspace / ".venv" / "bin")
    (workspace / ".venv" / "bin" / "ls").write_text("#!/bin/sh\n")
    assert not quiet(workspace, "ls", first=str(link))


@table("first", ["", ".", "bin"])
def test_a_search_path_that_moves_with_the_folder_is_never_believed(workspace: Path, first: str) -> None:
    where = ScriptContext(cwd=str(workspace), home="/home/somebody", search_path=f"{first}:/usr/bin")
    assert not understand("ls", where).read_only
