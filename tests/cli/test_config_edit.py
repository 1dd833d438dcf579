"""`bridle config edit`: the person's own editor, at a real terminal, with a small script in its place."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cli_kit import Place
from cli_terminal import Sitting, sitting

BAD_MODE = 'mode = "yollo" is not a mode (strict, default, safe, auto, yolo, plan).'
AGAIN = "e edit again · Enter keep it as it is ›"
CTRL_D, ENTER = "\x04", "\r"


class Editor:
    """A program that stands in for an editor: its first call does the first thing, and so on."""

    def __init__(self, place: Place, *scripts: str) -> None:
        self._folder = place.work.parent / "editor"
        self._folder.mkdir()
        for number, script in enumerate(scripts, 1):
            (self._folder / str(number)).write_text(script, encoding="utf-8")
        self._file = self._folder / "edit"
        self._file.write_text(
            f'#!/bin/sh\ncd {self._folder}\necho "$@" >> words\nn=$(wc -l < words)\n. ./$((n))\n',
            encoding="utf-8",
        )
        self._file.chmod(0o755)

    def __str__(self) -> str:
        return str(self._file)

    @property
    def calls(self) -> list[str]:
        """The words of every call."""
        words = self._folder / "words"
        return words.read_text(encoding="utf-8").splitlines() if words.exists() else []


def writes(text: str) -> str:
    return f"cat > \"$1\" <<'END'\n{text}END\n"


def own_file(place: Place) -> Path:
    return place.home / ".config/bridle/config.toml"


def plain(person: Sitting) -> str:
    """What was written, without the line ends of the terminal."""
    return " ".join(person.bytes.decode().split())


def test_a_file_that_is_not_there_is_made_with_a_few_words_in_it(place: Place) -> None:
    editor = Editor(place, 'cp "$1" seen; echo \'mode = "plan"\' >> "$1"')
    with sitting(place, "config", "edit", EDITOR=str(editor)) as person:
        assert person.ends() == 0
        assert person.modes == person.modes_found
    assert editor.calls == [str(own_file(place))]
    lines = own_file(place).read_text(encoding="utf-8").splitlines()
    assert [line[:2] for line in lines] == ["# ", "# ", "mo"]
    assert own_file(place).stat().st_mode & 0o777 == 0o600
    assert place.bridle("config", "get", "mode").out == "plan\n"


def test_a_file_that_was_made_and_not_used_is_taken_away_again(place: Place) -> None:
    with sitting(place, "config", "edit", EDITOR="true") as person:
        person.sees("Nothing was written.")
        assert person.ends() == 0
    assert list(place.home.rglob("*")) == [place.home / ".config"]


def test_the_words_of_an_editor_come_before_the_file_and_visual_wins(place: Place) -> None:
    own_file(place).parent.mkdir(parents=True)
    own_file(place).write_text('mode = "plan"\n', encoding="utf-8")
    editor = Editor(place, "")
    with sitting(place, "config", "edit", VISUAL=f"{editor} --wait 'two words'", EDITOR="false") as person:
        assert person.ends() == 0
    assert editor.calls == [f"--wait two words {own_file(place)}"]
    assert own_file(place).read_text(encoding="utf-8") == 'mode = "plan"\n'


def test_a_mistake_is_shown_with_its_line_and_can_be_mended(place: Place) -> None:
    editor = Editor(place, writes('# mine\nmode = "yollo"\n'), writes('# mine\nmode = "safe"\n'))
    with sitting(place, "config", "edit", EDITOR=str(editor)) as person:
        person.sees(AGAIN)
        assert f"config.toml line 2: {BAD_MODE}" in plain(person)
        person.types("e" + ENTER)
        assert person.ends() == 0
    assert len(editor.calls) == 2
    assert place.bridle("config", "get", "mode").out == "safe\n"


@pytest.mark.parametrize("answer", [ENTER, "n" + ENTER, CTRL_D])
def test_a_mistake_can_be_kept_and_is_said_by_the_exit_code(place: Place, answer: str) -> None:
    editor = Editor(place, writes("mode = \n"))
    with sitting(place, "config", "edit", EDITOR=str(editor)) as person:
        person.sees(AGAIN)
        person.types(answer)
        assert person.ends() == 2
    assert own_file(place).read_text(encoding="utf-8") == "mode = \n"


def test_ctrl_c_at_the_question_leaves_the_file_as_it_is(place: Place) -> None:
    editor = Editor(place, writes("mode = \n"))
    with sitting(place, "config", "edit", EDITOR=str(editor)) as person:
        person.sees(AGAIN)
        person.types("\x03")
        assert person.ends() == 130
    assert "Traceback" not in person.text
    assert own_file(place).read_text(encoding="utf-8") == "mode = \n"


def test_a_warning_is_said_and_asks_nothing(place: Place) -> None:
    editor = Editor(place, writes("moode = 1\n"))
    with sitting(place, "config", "edit", EDITOR=str(editor)) as person:
        assert person.ends() == 0
    assert 'config.toml line 1: there is no setting "moode" (nearest: mode).' in plain(person)


def test_an_editor_that_fails_is_said_to(place: Place) -> None:
    editor = Editor(place, "exit 9")
    with sitting(place, "config", "edit", EDITOR=str(editor)) as person:
        assert person.ends() == 1
    assert "the editor ended with exit code 9" in plain(person)


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({}, "No editor is set. Name one, for instance: export EDITOR=nano"),
        ({"EDITOR": " "}, "No editor is set."),
        ({"EDITOR": "no-such-editor"}, "The editor no-such-editor could not be started (not found)"),
        ({"EDITOR": "vi 'x"}, "EDITOR is not a command: vi 'x (No closing quotation)"),
    ],
)
def test_without_an_editor_there_is_a_sentence(
    place: Place, variables: dict[str, str], sentence: str
) -> None:
    with sitting(place, "config", "edit", **variables) as person:
        assert person.ends() == 2
    assert sentence in plain(person)


def test_without_a_terminal_the_file_is_named_and_no_editor_started(place: Place) -> None:
    editor = Editor(place, "")
    ran = place.bridle("config", "edit", env={"EDITOR": str(editor)})
    assert (ran.code, ran.out, editor.calls) == (2, "", [])
    assert ran.story == [f"An editor needs a terminal. The file is {own_file(place)}"]


def test_a_projects_file_is_made_at_its_root_for_everybody(place: Place) -> None:
    (place.work / ".git").mkdir()
    below = place.work / "src"
    below.mkdir()
    editor = Editor(place, 'echo \'mode = "strict"\' >> "$1"')
    with sitting(place, "config", "edit", "--project", EDITOR=str(editor)) as person:
        assert person.ends() == 0
    file = place.work / ".bridle/config.toml"
    assert file.stat().st_mode & 0o777 == 0o644
    assert place.bridle("config", "get", "mode", cwd=below).out == "strict\n"


@pytest.mark.requirement("H4.9")
@pytest.mark.skipif(shutil.which("git") is None, reason="git is asked what it ignores")
def test_a_local_file_that_is_made_is_not_for_git(place: Place) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=place.work, check=True)
    (place.work / ".bridle").mkdir()
    (place.work / ".bridle/.gitignore").write_text("other", encoding="utf-8")
    editor = Editor(place, 'echo \'mode = "strict"\' >> "$1"')
    with sitting(place, "config", "edit", "--local", EDITOR=str(editor)) as person:
        assert person.ends() == 0
    ignored = ["git", "check-ignore", ".bridle/config.local.toml"]
    assert subprocess.run(ignored, cwd=place.work, check=False, capture_output=True).returncode == 0
    assert (place.work / ".bridle/.gitignore").read_text(encoding="utf-8") == "other\nconfig.local.toml\n"
    assert (place.work / ".bridle/config.local.toml").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("linked", [".bridle", ".bridle/config.toml"])
def test_a_link_in_a_project_leads_no_editor_elsewhere(place: Place, linked: str) -> None:
    elsewhere = place.home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "config.toml").write_text("x = 1\n", encoding="utf-8")
    link = place.work / linked
    link.parent.mkdir(exist_ok=True)
    os.symlink(elsewhere if linked == ".bridle" else elsewhere / "config.toml", link)
    editor = Editor(place, "")
    with sitting(place, "config", "edit", "--project", EDITOR=str(editor)) as person:
        assert person.ends() == 2
    assert "is a symbolic link" in plain(person)
    assert editor.calls == []


def test_both_tiers_at_once_are_a_mistake(place: Place) -> None:
    ran = place.bridle("config", "edit", "--project", "--local")
    assert (ran.code, ran.story) == (2, ["--project and --local exclude each other. Choose one"])
