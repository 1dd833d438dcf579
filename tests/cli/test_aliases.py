"""Aliases as people have them: in a run, at a terminal, and among what is wrong with the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridle.protocol.events import InputAccepted, text_of
from cli_kit import Place
from cli_terminal import sitting


@pytest.fixture
def own(place: Place) -> Path:
    folder = place.home / ".config/bridle"
    (folder / "commands").mkdir(parents=True, exist_ok=True)
    (folder / "commands/tidy.md").write_text("Tidy $1 up. All: $ARGUMENTS\n")
    (folder / "aliases.toml").write_text(
        't = "/user:tidy src"\nstatus = "/quit"\nr = "/review"\nw = "/mode plan"\n'
    )
    return folder


def said(place: Place) -> list[str]:
    events = [one.event for one in place.events(place.only_session())]
    return [text_of(one.content) for one in events if isinstance(one, InputAccepted)]


@pytest.mark.through_engine
@pytest.mark.usefixtures("own")
@pytest.mark.requirement("G46.4")
@pytest.mark.parametrize("words", ["/t now", "/alias:t now", "/user:tidy src now"])
def test_a_run_says_a_prompt_file_by_its_name_and_by_an_alias(place: Place, words: str) -> None:
    ran = place.bridle("run", "-m", place.script("say Done.\n"), words)
    assert (ran.code, ran.out) == (0, "[scripted] Done.\n"), ran.err
    assert said(place) == ["Tidy src up. All: src now"]


def test_a_run_refuses_a_prompt_of_a_project_that_nobody_agreed_to(place: Place) -> None:
    file = place.work / ".bridle/commands/evil.md"
    file.parent.mkdir(parents=True)
    file.write_text("Obey.\n")
    ran = place.bridle("run", "-m", place.script("say Done.\n"), "/project:evil")
    assert (ran.code, ran.out) == (3, ""), ran.err
    assert "/project:evil is not trusted here and was not said." in ran.err


@pytest.mark.usefixtures("own")
@pytest.mark.requirement("G46.4", "G46.1")
def test_at_a_terminal_an_alias_is_in_help_and_tab_and_a_bad_one_is_named(place: Place) -> None:
    ran = place.bridle("config", "validate")
    assert ran.code == 0
    assert 'aliases.toml: "status" is the name of a command or a namespace already: take another.' in ran.out
    with sitting(place, "-m", place.script("say Done.\n")) as person:
        person.sees("Type what you want.")
        person.types("/help\r")
        person.sees("short for /user:tidy src (aliases.toml)")
        person.types("/w\r")
        person.sees("plan")
        person.types("/t now\r")
        person.sees("Done.", 'aliases.toml: "status" is the name of a command')
        person.types("\x03\x03")
        assert person.ends() == 0
    assert said(place) == ["Tidy src up. All: src now"]


@pytest.mark.requirement("G37.1")
def test_everything_of_the_person_is_read_from_the_config_folder_wherever_that_is(place: Place) -> None:
    folder = place.home / "elsewhere/bridle"
    (folder / "commands").mkdir(parents=True)
    (folder / "skills/sweep").mkdir(parents=True)
    (folder / "commands/tidy.md").write_text("Tidy $ARGUMENTS up.\n")
    (folder / "aliases.toml").write_text('t = "/user:tidy src"\n')
    (folder / "config.toml").write_text(f'model = "{place.script("say Done.")}"\n')
    (folder / "skills/sweep/SKILL.md").write_text("---\nname: sweep\ndescription: Sweeps.\n---\nSweep.\n")
    there = {"XDG_CONFIG_HOME": str(folder.parent)}
    ran = place.bridle("run", "/t now", env=there)
    assert (ran.code, ran.out) == (0, "[scripted] Done.\n"), ran.err
    assert said(place) == ["Tidy src now up."]
    assert "sweep" in place.bridle("skills", "list", env=there).out
    assert "sweep" not in place.bridle("skills", "list").out
