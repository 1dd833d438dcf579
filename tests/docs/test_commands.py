"""Every command in the documents works as written: in an empty home, in the order of the page.

Of the fenced `sh` blocks, lines that begin with `bridle`, `git` or `mkdir` are run, those with `jq` where there is one;
those that begin with `make` must name a target.
A comment `# exit 3` behind a command says which exit code to expect; without one it is 0.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from cli_kit import TIMEOUT_S, Place
from tables import table

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# `bridle` is the program under test, whatever is installed on this machine.
RUN = {"bridle", "git", "mkdir", *(["jq"] if shutil.which("jq") else [])}
PROLOGUE = f'bridle() {{ {shlex.quote(sys.executable)} -m bridle "$@"; }}\n'


class Command(NamedTuple):
    line: str
    program: str
    exit_code: int


def commands(page: str) -> list[Command]:
    """The commands of a page's `sh` blocks, continued lines joined."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [_command(line) for line in lines if shlex.split(line, comments=True)]


def _command(line: str) -> Command:
    line = line.strip().removeprefix("$ ").replace(".venv/bin/bridle", "bridle")
    expected = re.search(r"#\s*exit (\d+)\b", line)
    return Command(line, shlex.split(line, comments=True)[0], int(expected[1]) if expected else 0)


FOUND = {page.name: commands(page.read_text(encoding="utf-8")) for page in PAGES}


@pytest.mark.parametrize("page", [name for name, found in FOUND.items() if found])
def test_the_commands_of_a_page_do_what_it_says(tmp_path: Path, page: str) -> None:
    place = Place(tmp_path)
    for command in FOUND[page]:
        if command.program in RUN:
            done = subprocess.run(
                ["/bin/sh", "-c", PROLOGUE + command.line],
                cwd=place.work,
                env=place.environment(TMPDIR=str(tmp_path)),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
            )
            said = (done.stdout + done.stderr).decode()
            assert done.returncode == command.exit_code, f"{command.line}\n{said}"
            assert "Traceback" not in said


def test_every_make_command_is_a_target() -> None:
    targets = set(
        re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    wanted = {
        word
        for found in FOUND.values()
        for command in found
        if command.program == "make"
        for word in shlex.split(command.line, comments=True)[1:]
        if "=" not in word and not word.startswith("-")
    }
    assert wanted <= targets


def test_the_first_page_shows_how_to_begin() -> None:
    programs = {command.program for command in FOUND["README.md"]}
    assert {"make", "bridle"} <= programs


def test_commands_are_found_with_comments_prompts_and_continued_lines() -> None:
    page = (
        "text\n```sh\n# only a comment\n$ bridle run \\\n  -m demo x   # exit 3\n.venv/bin/bridle help\n\n```\n"
        "```\nbridle not this\n```\n```sh\nmake test\n```\n"
    )
    assert [(command.program, command.exit_code) for command in commands(page)] == [
        ("bridle", 3),
        ("bridle", 0),
        ("make", 0),
    ]


@table("page", ["using.md", "scripts.md", "trouble.md"])
def test_a_page_for_users_fits_a_terminal(page: str) -> None:
    lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 100] == []


def test_pages_for_users_come_before_those_for_builders() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    places = [page.index(name) for name in ("docs/using.md", "docs/scripts.md", "docs/trouble.md")]
    assert max(places) < page.index("docs/architecture.md")


@pytest.mark.requirement("G2.1")
def test_the_page_on_safety_names_every_principal() -> None:
    page = (ROOT / "docs/safety.md").read_text(encoding="utf-8")
    table = page.partition("## Who is who")[2]
    for principal in (
        "you, at",
        "another client",
        "an agent",
        "files of a project",
        "web pages",
        "MCP servers",
    ):
        assert principal in table


@pytest.mark.requirement("X27")
def test_the_page_on_safety_says_what_is_not_guaranteed(repository: Path) -> None:
    page = (repository / "docs/safety.md").read_text()
    _, _, rest = page.partition("## What is not guaranteed\n")
    assert len([line for line in rest.partition("\n## ")[0].splitlines() if line.startswith("- ")]) >= 5
