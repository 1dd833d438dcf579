"""What later runs obey is one list: file tools, commands, mounts and what is put aside afterwards agree on it."""

import os
from pathlib import Path

import msgspec
import pytest

from bridle.base.fs.paths import session_folders
from bridle.base.secrets.secret_files import POLICY_PARENTS, held_examples, is_held_file, is_policy_file
from bridle.engine.ports import SpawnPolicy
from bridle.engine.tools import Subject
from bridle.safety.call_risk import facts_of_call
from bridle.safety.touched_files import SessionPlaces
from bridle.sandbox.confinement import ALWAYS_PROTECTED, HostContext, confinement_of
from bridle.sandbox.policy_files.policy_snapshot import NOTHING, compare, take_snapshot
from bridle.shell.command_facts import ScriptContext
from bridle.shell.understanding import understand
from tables import table

NAMED_BY_PEOPLE = [
    ".claude/settings.json", ".cursor/rules/a.mdc", ".gemini/settings.json", ".codex/config.toml",
    ".idea/workspace.xml", ".devcontainer/devcontainer.json", ".envrc", "CLAUDE.md", "GEMINI.md", "AGENTS.md",
    ".vscode/tasks.json", ".mcp.json", ".bridle/config.toml", ".github/copilot-instructions.md",
    ".github/instructions/a.md",
]  # fmt: skip
ALL = [*NAMED_BY_PEOPLE, *held_examples()]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = Path(os.path.realpath(tmp_path)) / "work"
    folder.mkdir()
    return folder


def make(folder: Path, path: str, text: str = "x\n") -> Path:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def confined(work: Path):
    policy = SpawnPolicy(mode="workspace-write", workspace=str(work))
    return confinement_of(policy, HostContext(home=str(work.parent)), str(work))


@table("below", ["", "pkg/"])
@table("path", [*ALL, ".github/workflows/ci.yml"])
def test_every_name_is_asked_about_by_file_tools_and_commands(
    calls, work: Path, path: str, below: str
) -> None:
    name = below + path
    assert is_policy_file(name)
    here = SessionPlaces(folders=session_folders(str(work), ()))

    def read(command: str, cwd: str):
        return understand(command, ScriptContext(cwd=cwd, home="/home/ann"))

    written = Subject(kind="path", access="write", value=name, resolved=str(work / name))
    call = msgspec.structs.replace(calls.make(), subjects=(written,))
    assert facts_of_call(call, here, understand=read).policy_file
    command = Subject(kind="command", access="run", value=f"echo x > '{name}'")
    call = msgspec.structs.replace(calls.make(), subjects=(command,))
    assert facts_of_call(call, here, understand=read).policy_file


@pytest.mark.parametrize("path", ALL)
def test_every_name_is_held_at_the_top(work: Path, path: str) -> None:
    file = make(work, path)
    held = confined(work).read_only
    assert any(str(file) == entry or str(file).startswith(f"{entry}/") for entry in held)


@pytest.mark.parametrize("below", ["", "pkg/", "pkg/deep/er/"])
@pytest.mark.parametrize("path", ALL)
def test_every_name_is_seen_where_it_appears(work: Path, path: str, below: str) -> None:
    (work / below).mkdir(parents=True, exist_ok=True)
    before = take_snapshot([str(work)], NOTHING)
    file = make(work, below + path)
    (came,) = compare(before, take_snapshot([str(work)], before), [str(work)]).changes
    assert str(file) == came.path or str(file).startswith(f"{came.path}/")


def test_what_is_masked_and_what_holds_some_are_on_the_list() -> None:
    assert all(is_held_file(name) for name in ALWAYS_PROTECTED)
    assert all(not is_held_file(name) for name in POLICY_PARENTS)


def test_workflows_are_asked_about_and_neither_held_nor_put_aside(work: Path) -> None:
    before = take_snapshot([str(work)], NOTHING)
    make(work, ".github/workflows/ci.yml")
    assert compare(before, take_snapshot([str(work)], before), [str(work)]).changes == []
    assert not [path for path in confined(work).read_only if "workflows" in path]
