"""Git by slash as a person uses it: in a run, where nobody is asked, and at a terminal, with their own editor."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bridle.clients.interaction.session.key_router import GRACE_S, QUIET_S
from bridle.protocol.events import GitEnded, QuestionAnswered
from bridle.protocol.questions import GitAnswer
from cli_kit import Place
from cli_terminal import Sitting, sitting

pytestmark = pytest.mark.through_engine(quick=False)

MESSAGE = "fix: count what is bought twice"


def git(place: Place, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(place.home)}
    done = subprocess.run(
        ["git", *words], cwd=place.work, env=env, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def model(place: Place) -> str:
    """A model that drafts one message, in a repository with one change."""
    git(place, "init", "--quiet", "-b", "main")
    git(place, "config", "user.name", "A Person")
    git(place, "config", "user.email", "a@example.org")
    (place.work / "cart.py").write_text("total = 1\n")
    git(place, "add", ".")
    git(place, "commit", "--quiet", "-m", "feat: a cart")
    (place.work / "cart.py").write_text("total = 2\n")
    return place.script(f"say {MESSAGE}\n")


def answers(person: Sitting, key: str) -> None:
    """A key counts when the question has had the keyboard for a moment."""
    person.looks_for(QUIET_S + GRACE_S * 1.5)
    person.types(f"{key}\r")


def commits(place: Place) -> int:
    return int(git(place, "rev-list", "--count", "HEAD"))


@pytest.mark.requirement("H12.2", "C20")
@pytest.mark.parametrize("name", ["/commit", "/git:commit"])
def test_a_run_commits_with_a_yes(place: Place, model: str, name: str) -> None:
    ran = place.bridle("run", "-m", model, "-y", name)
    head = git(place, "rev-parse", "HEAD")
    assert (ran.code, ran.out) == (0, f"commit   {head[:9]} [scripted] {MESSAGE}    on main\n")
    assert ran.story == [
        "Drafting a message from the diff…",
        "Running git commit --all --cleanup=whitespace --file=-",
    ]
    assert git(place, "log", "-1", "--format=%B") == f"[scripted] {MESSAGE}"


def test_a_run_without_a_yes_asks_nobody_and_commits_nothing(place: Place, model: str) -> None:
    ran = place.bridle("run", "-m", model, "--json", "/commit")
    assert (ran.code, ran.result["exit_code"], ran.result["reason"]) == (3, 3, "NoApprover")
    assert ran.result["error"]["message"].endswith("bridle run -y /commit")
    assert ran.result["cost"]["output_tokens"] == 0
    assert commits(place) == 1


def test_a_dry_run_prints_the_message_and_changes_nothing(place: Place, model: str) -> None:
    ran = place.bridle("run", "-m", model, "--dry-run", "/commit")
    assert (ran.code, ran.out) == (0, f"[scripted] {MESSAGE}\n")
    assert "Dry run: git commit --all --cleanup=whitespace --file=- would run now." in ran.err
    assert commits(place) == 1


def test_a_hook_that_says_no_is_shown_and_fails_the_run(place: Place, model: str) -> None:
    hook = place.work / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho the tests fail\nexit 1\n")
    hook.chmod(0o755)
    ran = place.bridle("run", "-m", model, "-y", "--quiet", "/commit fix: two")
    assert (ran.code, ran.out) == (1, "")
    assert ran.story == [
        "    the tests fail",
        "git commit --all --cleanup=whitespace --file=- failed (exit 1).",
    ]
    assert commits(place) == 1


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (("/commit",), "a diff of somebody's", "/commit takes nothing from a file or from stdin"),
        (("--output-schema", "schema.json", "/commit"), "", "/commit takes no --output-schema"),
        (("/comit",), "", "Did you mean /commit?"),
    ],
)
def test_what_makes_no_sense_beside_a_git_command_is_said(
    place: Place, model: str, words: tuple[str, ...], stdin: str, said: str
) -> None:
    (place.work / "schema.json").write_text('{"type": "object"}')
    ran = place.bridle("run", "-m", model, "-y", *words, stdin=stdin)
    assert ran.code == 2
    assert said in ran.err
    assert commits(place) == 1


def test_words_from_stdin_are_no_git_command(place: Place, model: str) -> None:
    ran = place.bridle("run", "-m", model, "-y", "-", stdin="/commit")
    assert ran.code == 0
    assert commits(place) == 1


@pytest.mark.requirement("H12.2")
def test_at_a_terminal_the_message_is_edited_shown_again_and_committed(place: Place, model: str) -> None:
    editor = place.home / "editor"
    editor.write_text("#!/bin/sh\nprintf 'fix: my own words\\n' > \"$1\"\n")
    editor.chmod(0o755)
    with sitting(place, "-m", model, EDITOR=str(editor)) as person:
        person.sees("Type what you want.")
        person.types("/commit\r")
        person.sees("Commit 1 file on main?", MESSAGE, "e edit the message")
        answers(person, "e")
        person.sees("    fix: my own words", "e edit the message")
        answers(person, "y")
        person.sees("commit   ")
        person.types("\x03\x03")
        assert person.ends() == 0
    assert git(place, "log", "-1", "--format=%B") == "fix: my own words"
    events = [envelope.event for envelope in place.events(place.only_session())]
    given = [event.answer for event in events if isinstance(event, QuestionAnswered)]
    assert [answer.choice for answer in given if isinstance(answer, GitAnswer)] == ["edit", "go"]
    assert [event.reason for event in events if isinstance(event, GitEnded)] == [None]


def test_at_a_terminal_of_a_run_a_person_is_asked(place: Place, model: str) -> None:
    with sitting(place, "run", "-m", model, "/branch fix/total") as person:
        person.sees("Make this branch?", "$ git checkout -b fix/total --", "y yes")
        answers(person, "y")
        person.sees("branch   fix/total, checked out")
        assert person.ends() == 0
    assert git(place, "branch", "--show-current") == "fix/total"
    assert Path(place.work / "cart.py").read_text() == "total = 2\n"
