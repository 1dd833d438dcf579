"""`bridle memory`: what a person does with what is remembered."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from cli_kit import Place
from cli_terminal import sitting


def test_a_memory_is_added_listed_shown_and_removed(place: Place) -> None:
    added = place.bridle(
        "memory", "add", "tabs", "Indent Go files with tabs", "--scope", "user", "--tag", "go"
    )
    assert added.out == "remembered: user/tabs: Indent Go files with tabs\n"
    assert "user/tabs   Indent Go files with tabs (user, " in place.bridle("memory").out
    assert "tags: [go]" in place.bridle("memory", "show", "tabs").out
    path = Path(place.bridle("memory", "path", "tabs").out.strip())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not list(place.work.iterdir())
    assert place.bridle("memory", "remove", "tabs").out == "forgotten: user/tabs\n"
    assert not path.exists()


def test_programs_read_it_as_json(place: Place) -> None:
    place.bridle("memory", "add", "release", "Run make ship", "-d", "How a release is made")
    (listed,) = json.loads(place.bridle("memory", "list", "--json").out)
    assert (listed["scope"], listed["name"], listed["problem"]) == ("project", "release", "")
    shown = json.loads(place.bridle("memory", "show", "release", "--json").out)
    assert (shown["description"], shown["text"]) == ("How a release is made", "Run make ship")
    assert set(json.loads(place.bridle("memory", "path", "--json").out)) == {"project", "user"}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("show", "nothing"), 2, 'There is no memory "nothing". List them: bridle memory'),
        (("remove", "../../x"), 2, 'There is no memory "../../x".'),
        (("add", "../x", "text"), 2, "a name is small letters, digits and single hyphens"),
        (
            ("add", "x"),
            2,
            'A memory needs a text: bridle memory add NAME "what to remember", or - and text on stdin',
        ),
        (("add", "x", "y", "--type", "secret"), 2, "is none of user, feedback, project, reference"),
        (("add", "x", "ghp_" + "a1B2" * 9), 3, "some of it looks like a secret"),
        (("edit", "nothing"), 2, 'There is no memory "nothing".'),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(place: Place, words, code, said) -> None:
    done = place.bridle("memory", *words)
    assert done.code == code
    assert said in done.err
    assert done.out == ""


def test_a_broken_file_is_named_with_the_command_that_fixes_it(place: Place) -> None:
    place.bridle("memory", "add", "x", "one")
    file = Path(place.bridle("memory", "path", "x").out.strip())
    file.write_text("no front matter\n")
    done = place.bridle("memory", "show", "x")
    problem = "bridle: The memory x cannot be kept or read: it has no front matter. "
    assert (done.code, done.err) == (2, problem + "Fix the file: bridle memory edit project/x.\n")


def test_an_editor_that_fails_changes_nothing_and_is_named(place: Place) -> None:
    place.bridle("memory", "add", "x", "one")
    with sitting(place, "memory", "edit", "x", EDITOR="false") as person:
        person.sees("The editor false ended with exit code 1. project/x is unchanged.")
        assert person.ends() == 1, person.text


def test_a_file_that_is_no_text_can_be_edited(place: Place) -> None:
    place.bridle("memory", "add", "x", "one")
    file = Path(place.bridle("memory", "path", "x").out.strip())
    good = file.with_name("good")
    file.replace(good)
    file.write_bytes(b"\xff\xfe")
    with sitting(place, "memory", "edit", "x", EDITOR=f"cp {good}") as person:
        person.sees("remembered: project/x: one")
        assert person.ends() == 0, person.text


def test_one_of_that_name_is_there_already(place: Place) -> None:
    place.bridle("memory", "add", "x", "one")
    done = place.bridle("memory", "add", "x", "two")
    assert (done.code, done.err) == (
        2,
        "bridle: There is a memory project/x already. Change it: bridle memory edit x\n",
    )


@pytest.mark.parametrize(("flag", "used"), [((), False), (("--memory",), True), (("--no-memory",), False)])
def test_a_run_uses_memory_only_when_asked(place: Place, flag, used) -> None:
    place.bridle("memory", "add", "release", "Run make ship", "--tag", "release")
    done = place.bridle("run", "-m", "demo", *flag, "prepare the release")
    assert done.code == 0
    assert ("notes used: project/release" in done.err) == used
