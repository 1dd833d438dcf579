"""The home, what holds it and the system's own folders are no workspace by accident. The model only says hello."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bridle.safety.wide_folders import why_wide
from cli_kit import BRIDLE, Place
from cli_terminal import Sitting, at_terminal
from tables import table

pytestmark = pytest.mark.through_engine(quick=False)


def model(place: Place) -> str:
    place.script("say hello\n")
    return f"demo:{place.work}/it.script"


def wide_folders(place: Place) -> list[Path]:
    return [Path("/"), Path("/etc"), Path("/usr"), place.home, place.home.parent]


@pytest.mark.parametrize("number", range(5), ids=["root", "etc", "usr", "home", "above the home"])
def test_a_run_in_a_wide_folder_is_refused_unless_it_is_named(place: Place, number: int) -> None:
    folder = wide_folders(place)[number]
    refused = place.bridle("run", "-y", "-m", model(place), "hi", cwd=folder)
    assert refused.code == 3
    (line,) = refused.story
    assert f"-C {folder.resolve()}" in line
    assert place.sessions() == []
    assert place.bridle("run", "-q", "-y", "-m", model(place), "hi", cwd=folder) == refused
    named = place.bridle("run", "-m", model(place), "-C", str(folder), "hi")
    assert (named.code, named.out) == (0, "[scripted] hello\n")
    assert place.bridle("run", "-m", model(place), "-C", ".", "hi", cwd=folder).code == 0


def test_a_link_to_a_wide_folder_is_that_folder(place: Place) -> None:
    (place.work / "elsewhere").symlink_to(place.home)
    assert place.bridle("run", "-m", model(place), "hi", cwd=place.work / "elsewhere").code == 3


def test_a_project_in_the_home_is_none(place: Place) -> None:
    project = place.home / "code"
    project.mkdir()
    assert place.bridle("run", "-m", model(place), "hi", cwd=project).code == 0


def test_naming_another_folder_does_not_name_that_of_the_session(place: Place) -> None:
    assert place.bridle("run", "-m", model(place), "-C", str(place.home), "hi").code == 0
    session = place.only_session()
    assert place.bridle("run", "-m", model(place), "-r", session, "again").code == 3
    assert place.bridle("run", "-m", model(place), "-C", str(place.work), "-r", session, "again").code == 3
    assert place.bridle("run", "-m", model(place), "-C", str(place.home), "-r", session, "again").code == 0


def at_home(place: Place, *words: str):
    env = place.environment(TERM="xterm-256color")
    return at_terminal(*BRIDLE, "-m", model(place), *words, cwd=place.home, env=env)


def leaves(person: Sitting) -> int:
    person.types("\x04")
    return person.ends()


def test_at_a_terminal_a_person_is_asked_once_and_a_yes_is_remembered(place: Place) -> None:
    question = "Work in it all the same?"
    with at_home(place) as person:
        person.sees("your home folder", question)
        person.types("\n")  # Enter approves nothing
        assert person.ends() == 0
    assert place.sessions() == []
    with at_home(place) as person:
        person.sees(question)
        person.types("y\n")
        person.sees("Type what you want")
        leaves(person)
    with at_home(place) as person:
        person.sees("Type what you want")
        assert question not in person.text
        leaves(person)
    assert place.bridle("run", "-m", model(place), "hi", cwd=place.home).code == 3


def test_a_remembered_yes_that_others_can_write_counts_for_nothing(place: Place) -> None:
    with at_home(place) as person:
        person.sees("Work in it all the same?")
        person.types("y\n")
        person.sees("Type what you want")
        leaves(person)
    (place.home / ".local/state/bridle/wide_folders.json").chmod(0o666)
    with at_home(place) as person:
        person.sees("chmod go-w", "Work in it all the same?")


@table(
    ("folder", "wide"),
    [
        ("/", True), ("/home", True), ("/home/ana", True), ("/home/ana/code", False), ("/home/anabel", False),
        ("/etc", True), ("/etc/nginx", True), ("/usr", True), ("/usr/lib/python3", True), ("/usr/local", True),
        ("/usr/local/src/app", False), ("/usr/src/app", False), ("/var", True), ("/var/www/site", False),
        ("/opt", True), ("/opt/app", False), ("/tmp", True), ("/tmp/x", False), ("/srv/app", False), ("/app", False),
        ("/workspace", False), ("/dev/shm/work", False), ("/proc", True), ("/boot/efi", True), ("/root", True),
        ("/System/Library", True), ("/Users/ana/x", False), ("/Users", True),
    ],
)  # fmt: skip
def test_which_folders_are_wide(folder: str, wide: bool) -> None:
    assert (why_wide(folder, "/home/ana") is not None) is wide


def test_the_home_counts_under_whatever_name(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "real")
    assert why_wide(os.path.realpath(tmp_path / "real"), str(tmp_path / "home")) is not None
