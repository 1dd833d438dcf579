"""`bridle skills`: listing, showing, checking and beginning skills, and a run that uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridle.protocol.events import ContextAdded, InputAccepted, text_of
from cli_kit import Place
from cli_terminal import sitting

GOOD = "---\nname: {}\ndescription: Counts beans. Use it for beans.\n---\n\nCount twice.\n"


def write(folder: Path, name: str, text: str = GOOD) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(text.format(name))
    return folder / name


@pytest.fixture
def own(place: Place) -> Path:
    return place.home / ".config/bridle/skills"


@pytest.mark.requirement("G15.5")
def test_the_list_names_source_and_state_and_what_is_none(place: Place, own: Path) -> None:
    write(own, "beans")
    write(place.work / ".bridle/skills", "waiting")
    write(place.work / ".bridle/skills", "broken", "---\nname: broken\n---\n")
    shown = place.bridle("skills")
    assert [line.split()[:3] for line in shown.out.splitlines()] == [
        ["beans", "yours", "offered"],
        ["find-the-cause", "built-in", "offered"],
        ["write-a-skill", "built-in", "offered"],
        ["waiting", "project", "not"],
    ]
    assert ".bridle/skills/broken/SKILL.md:1: description is missing" in shown.err
    listed = json.loads(place.bridle("skills", "list", "--json").out)
    assert [(one["name"], one.get("trusted", True)) for one in listed["skills"]] == [
        ("beans", True),
        ("find-the-cause", True),
        ("write-a-skill", True),
        ("waiting", False),
    ]
    assert len(listed["problems"]) == 1
    trusted = place.bridle("trust", "list").out.split()
    assert trusted[:3] == ["new", "skill", ".bridle/skills/waiting"]


def test_one_is_shown_whole_and_one_that_waits_is_not(place: Place, own: Path) -> None:
    (write(own, "beans") / "notes.md").write_text("x")
    write(place.work / ".bridle/skills", "waiting")
    shown = place.bridle("skills", "show", "beans")
    assert (shown.code, shown.out.splitlines()[-1], "files: notes.md" in shown.out) == (
        0,
        "Count twice.",
        True,
    )
    assert json.loads(place.bridle("skills", "show", "beans", "--json").out)["body"] == "Count twice."
    refused = place.bridle("skills", "show", "waiting")
    assert (refused.code, refused.out) == (3, "")
    assert ".bridle/skills/waiting is a skill that nobody agreed to yet, so it is not used." in refused.err
    unknown = place.bridle("skills", "show", "nothing")
    assert (unknown.code, unknown.out) == (2, "")
    assert 'There is no skill "nothing" here. Skills: beans, find-the-cause, write-a-skill.' in unknown.err


@pytest.mark.requirement("G15.2")
def test_a_check_says_file_line_and_what_to_change(place: Place) -> None:
    skills = place.work / ".bridle/skills"
    write(skills, "good")
    write(skills, "loose", "---\nname: {}\ndescription: Counts: beans\n---\n")
    assert (done := place.bridle("skills", "check")).code == 0, done.out
    assert done.out.splitlines() == [
        ".bridle/skills/good/SKILL.md: good",
        ".bridle/skills/loose/SKILL.md: good",
        ".bridle/skills/loose/SKILL.md: line 3: put quotation marks around a text with a colon",
    ]
    write(skills, "bad", "---\nname: {}\ndescription: x\nx: [\n---\n")
    done = place.bridle("skills", "check", ".bridle/skills/bad", "nowhere")
    assert done.code == 1
    assert done.out.splitlines()[0].startswith(".bridle/skills/bad/SKILL.md:5: ")
    assert done.out.splitlines()[1] == "nowhere: there is no SKILL.md in a folder of that name"
    found = json.loads(place.bridle("skills", "check", "--json").out)
    assert [(one["path"], bool(one["problem"])) for one in found][:2] == [
        (".bridle/skills/bad/SKILL.md", True),
        (".bridle/skills/good/SKILL.md", False),
    ]


def test_a_new_one_is_a_skill_at_once_and_nothing_is_overwritten(place: Place, own: Path) -> None:
    made = place.bridle("skills", "new", "bean-count", "--description", 'Counts: "beans".')
    assert (made.code, "bridle trust ack" in made.out) == (0, True)
    assert place.bridle("skills", "check").code == 0
    again = place.bridle("skills", "new", "bean-count")
    assert (again.code, "is there already. Nothing was changed" in again.err) == (2, True)
    for name in ("Bean", "../x", "a/b", "-", ""):
        assert place.bridle("skills", "new", name).code == 2
    assert place.bridle("skills", "new", "mine", "--own").code == 0
    assert (own / "mine/SKILL.md").is_file()
    assert "mine" in place.bridle("completion", "skills").out.split()


@pytest.mark.through_engine
def test_a_run_uses_a_skill_the_model_calls_for(place: Place, own: Path) -> None:
    write(own, "beans")
    model = place.script('call skill {"name": "beans"}\n---\nsay Counted.\n')
    ran = place.bridle("run", "-m", model, "count")
    assert (ran.code, ran.out) == (0, "[scripted] Counted.\n")
    assert "skill    beans" in ran.err
    added = [one.event for one in place.events(place.only_session()) if isinstance(one.event, ContextAdded)]
    assert [one.source for one in added] == ["skill"]


@pytest.mark.requirement("G45.3")
@pytest.mark.through_engine
def test_a_run_uses_a_skill_that_is_named(place: Place, own: Path) -> None:
    write(own, "beans")
    model = place.script("say Counted.\n")
    ran = place.bridle("run", "-m", model, "/skills:beans in the jar", stdin="and these")
    assert (ran.code, ran.out) == (0, "[scripted] Counted.\n"), ran.err
    assert "skill    beans" in ran.err
    (said,) = [
        one.event for one in place.events(place.only_session()) if isinstance(one.event, InputAccepted)
    ]
    assert text_of(said.content) == "in the jar\n\n```\nand these\n```"
    unknown = place.bridle("run", "-m", model, "/skills:peas")
    assert (unknown.code, unknown.out) == (2, "")
    assert 'There is no skill "peas" here.' in unknown.err


@pytest.mark.requirement("G46.3")
@pytest.mark.requirement("G45.3")
def test_at_a_terminal_new_skills_are_completed_after_a_reload_and_used(place: Place, own: Path) -> None:
    model = place.script("say Counted.\n")
    with sitting(place, "-m", model) as person:
        person.sees("Type what you want.")
        write(own, "peas")
        person.types("/skills\r")
        person.sees("find-the-cause  built-in  offered")
        person.types("/skills:reload\r")
        person.sees("skills   3 skills · new: peas")
        person.types("/skills:pe\t")
        person.sees("/skills:peas")
        person.types(" how many?\r")
        person.sees("Counted.")
        assert "skill    peas" in person.text
        person.types("\x03\x03")
        assert person.ends() == 0
