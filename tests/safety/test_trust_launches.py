"""A launch is what would run: whatever of it changes, it is another one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.safety.trust.launches import ProgramLaunch, launch_of
from effort import examples


class Project:
    """A project with a script, a module, and a folder of programs on the search path."""

    def __init__(self, root: Path) -> None:
        self.root = root / "shop"
        self.programs = root / "bin"
        (self.root / "scripts").mkdir(parents=True)
        self.programs.mkdir()
        self.write("scripts/serve.js", "serve()")
        self.write("tool.py", "print(1)")
        for name in ("node", "npx", "python3", "bash"):
            self.program(name, name)

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def program(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)

    def launch(self, *words: str, env: dict[str, str] | None = None, cwd: str = "") -> ProgramLaunch:
        return launch_of(
            words[0] if len(words) == 1 and " " in words[0] else words,
            root=str(self.root),
            cwd=os.path.join(str(self.root), cwd),
            env=env or {},
            search_path=str(self.programs),
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


COMMANDS = [
    ("node", "scripts/serve.js"),
    ("node", "--import=./scripts/serve.js", "-e", "1"),
    ("npx", "-y", "some-server", "scripts/serve.js"),
    ("bash -e scripts/serve.js && echo done",),
    ("scripts/serve.js",),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_file_a_launcher_runs_is_part_of_the_launch(project: Project, words: tuple[str, ...]):
    (project.root / "scripts/serve.js").chmod(0o755)
    before = project.launch(*words).digest
    assert project.launch(*words).digest == before
    project.write("scripts/serve.js", "steal()")
    assert project.launch(*words).digest != before


def test_a_module_of_the_project_is_part_of_the_launch(project: Project):
    before = project.launch("python3", "-m", "tool").digest
    project.write("tool.py", "print(2)")
    assert project.launch("python3", "-m", "tool").digest != before


def test_a_file_named_by_a_variable_is_part_of_the_launch(project: Project):
    env = {"NODE_OPTIONS": "--require=./scripts/serve.js"}
    before = project.launch("node", "-v", env=env).digest
    project.write("scripts/serve.js", "steal()")
    assert project.launch("node", "-v", env=env).digest != before


def test_another_program_of_the_same_name_is_another_launch(project: Project):
    before = project.launch("node", "x").digest
    project.program("node", "another")
    assert project.launch("node", "x").digest != before


def test_words_variables_and_folder_are_part_of_the_launch(project: Project):
    launches = [
        project.launch("node", "a", "b"),
        project.launch("node", "a b"),
        project.launch("node", "a"),
        project.launch("node", "a", env={"b": ""}),
        project.launch("node", "a", env={"b": "c"}),
        project.launch("node", "a", cwd="scripts"),
        project.launch("missing", "a"),
    ]
    assert len({launch.digest for launch in launches}) == len(launches)


@pytest.mark.parametrize("search_path", [".:/nowhere", "/nowhere::", "scripts/..:/usr/bin"])
def test_a_program_of_the_project_that_the_search_path_leads_to_is_the_program(
    project: Project, search_path: str
):
    project.write("ls", "#!/bin/sh\ntouch stolen\n")
    (project.root / "ls").chmod(0o755)
    root = str(project.root)
    found = launch_of(["ls"], root=root, cwd=root, env={}, search_path=search_path)
    assert found.program == f"{root}/ls", "the system would start it too"


def test_the_same_project_elsewhere_has_the_same_launch(project: Project, tmp_path: Path):
    before = project.launch("node", "scripts/serve.js").digest
    moved = tmp_path / "elsewhere"
    project.root.rename(moved)
    project.root = moved
    assert project.launch("node", "scripts/serve.js").digest == before


@pytest.mark.parametrize(
    ("words", "fetched"),
    [
        (("npx", "-y", "@scope/server", "."), "@scope/server"),
        (("uvx", "tool"), "tool"),
        (("pipx", "run", "tool"), "tool"),
        (("node", "scripts/serve.js"), ""),
    ],
    ids=str,
)
def test_what_would_come_from_the_network_is_known_by_name(
    project: Project, words: tuple[str, ...], fetched: str
):
    assert project.launch(*words).fetched == fetched


WORDS = st.lists(st.text(max_size=3), min_size=1, max_size=3).map(tuple)
PAIRS = st.lists(st.tuples(st.text(max_size=2), st.text(max_size=2)), max_size=2).map(tuple)
LAUNCHES = st.builds(
    ProgramLaunch, argv=WORDS, env=PAIRS, files=PAIRS, cwd=st.text(max_size=2), program=st.text(max_size=2)
)


@settings(max_examples=examples(150), deadline=None)
@given(LAUNCHES, LAUNCHES)
def test_two_launches_have_one_digest_only_if_they_are_the_same(first: ProgramLaunch, second: ProgramLaunch):
    assert (first.digest == second.digest) == (first == second)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("scripts/.npmrc", ("npx", "-y", "some-server@1.0.0")),
        ("scripts/inner.py", ("uv", "--directory", ".", "run", "inner.py")),
    ],
    ids=str,
)
def test_what_a_folder_says_to_a_launcher_is_part_of_the_launch(
    project: Project, file: str, words: tuple[str, ...]
):
    before = project.launch(*words, cwd="scripts").digest
    project.write(file, "script-shell=./one")
    with_it = project.launch(*words, cwd="scripts").digest
    project.write(file, "script-shell=./two")
    assert len({before, with_it, project.launch(*words, cwd="scripts").digest}) == 3
