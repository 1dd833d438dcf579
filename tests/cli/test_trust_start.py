"""Trust when a session begins: asked once at a terminal, refused or named where nobody is."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridle.safety.trust.approvals import Approval, content_digest, encode
from cli_kit import Place
from cli_terminal import sitting

KEYS = "u use it · n not now · v read all · Enter not now ›"
READY = "Type what you want."
RULE = '[[permissions.rules]]\ntool = "write_file"\npath = "new.txt"\nverdict = "allow"\n'
WANTS = "This project's settings want to: allow write_file(new.txt)."
WRITES = 'call write_file {"path": "new.txt", "content": "hi"}\n---\nsay Done.\n'


@pytest.fixture
def project(place: Place) -> Path:
    (place.work / ".git").mkdir()
    (place.work / ".bridle").mkdir()
    (place.work / ".bridle/config.toml").write_text(RULE)
    return place.work


def test_settings_are_asked_about_once_and_count_after_a_yes(place: Place, project: Path) -> None:
    model = place.script(WRITES)
    with sitting(place, "-m", model) as person:
        person.sees(WANTS, "    4  verdict", KEYS)
        person.types("u\r")
        person.sees(READY)
        person.types("write it\r")
        person.sees("Done.")
        person.types("\x03\x03")
        assert person.ends() == 0
    assert (project / "new.txt").read_text() == "hi"
    with sitting(place, "-m", model) as person:
        person.sees(READY)
        assert WANTS not in person.text
        person.types("\x04")
        assert person.ends() == 0


def test_settings_that_were_not_agreed_to_are_named_and_do_not_count(place: Place, project: Path) -> None:
    with sitting(place, "-m", place.script(WRITES)) as person:
        person.sees(WANTS, KEYS)
        person.types("\r")
        person.sees(".bridle/config.toml: ignored allow rules (not trusted yet).", READY)
        person.types("write it\r")
        person.sees("Create new.txt?")
        person.types("\x03\x03")
        person.ends()
    assert not (project / "new.txt").exists()


@pytest.mark.parametrize("words", [("--require-trust",), ("--set", "trust.required=true")])
def test_a_run_can_insist_on_trust(place: Place, project: Path, words: tuple[str, ...]) -> None:
    ran = place.bridle("run", "-m", "demo", "--yes", *words, "--json", "hi")
    assert (ran.code, ran.result["exit_code"], ran.result["reason"]) == (3, 3, "NonInteractiveAckRefused")
    assert "an unseen settings file .bridle/config.toml" in ran.err


def test_a_run_uses_the_lock_file_it_is_told_to(place: Place, project: Path) -> None:
    entry = Approval(kind="config", path=".bridle/config.toml", digest=content_digest(RULE.encode()))
    (project / "ci.lock").write_bytes(encode([entry]))
    ran = place.bridle(
        "run", "-m", place.script(WRITES), "--lockfile", "ci.lock", "--require-trust", "write it"
    )
    assert ran.code == 0, ran.err
    assert (project / "new.txt").read_text() == "hi"
    (project / "ci.lock").write_text("nonsense")
    assert place.bridle("run", "-m", "demo", "--lockfile", "ci.lock", "hi").code == 2


NAMED = "team.toml may set whatever"


@pytest.mark.requirement("G7.2")
def test_settings_named_by_a_path_are_asked_about_again_once_they_changed(place: Place) -> None:
    (place.work / ".git").mkdir()
    team, model = place.work / "team.toml", place.script("say Hi.\n")
    team.write_text('mode = "strict"\n')
    named = ("--profile", "./team.toml")
    assert place.bridle("run", "-m", model, *named, "go").code == 0
    session = place.only_session()
    team.write_text('mode = "yolo"\n')
    for words in (("run", "-m", model, *named, "go"), ("run", "--resume", session, "go")):
        ran = place.bridle(*words)
        assert (ran.code, ran.out) == (3, "")
        assert ran.err.endswith("Look at it and agree: bridle trust ack team.toml.\n")
    listed = place.bridle("trust", "list").out.split()
    assert listed[:3] == ["changed", "settings", "team.toml"]
    with sitting(place, "-r", session) as person:
        person.sees("team.toml changed since you trusted it", NAMED, '+ mode = "yolo"', KEYS)
        person.types("u\r")
        person.sees("Back in")
        person.types("\x04")
        assert person.ends() == 0
    assert place.bridle("run", "-m", model, *named, "go").code == 0
    team.write_text('mode = "auto"\n')
    with sitting(place, "-m", model, *named) as person:
        person.sees(NAMED, KEYS)
        person.types("\r")
        person.sees("bridle trust ack team.toml.")
        assert person.ends() == 3
