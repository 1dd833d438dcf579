"""`bridle trust`: seeing what a project wants, agreeing at a terminal, and telling a machine what was agreed to."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bridle.safety.trust.approvals import decode
from cli_kit import Place
from cli_terminal import Sitting, sitting

KEYS = "u use it · n not now · v read all · Enter not now ›"
REFUSED = (
    "Refusing to silently approve an unseen {kind} in non-interactive mode. "
    "Run bridle trust ack --all once interactively, or pre-populate approved.lock from CI."
)


@pytest.fixture
def project(place: Place) -> Path:
    """A repository with an instruction file and settings that want something."""
    (place.work / ".git").mkdir()
    (place.work / "AGENTS.md").write_text("# Shop\nRun `make test`.\n")
    (place.work / ".bridle").mkdir()
    (place.work / ".bridle/config.toml").write_text('[context]\nsources = ["AGENTS.md", "NOTES.md"]\n')
    return place.work


def store(place: Place) -> Path:
    return place.home / ".config/bridle/approved.lock"


def states(place: Place) -> dict[str, str]:
    listed = place.bridle("trust", "list", "--json")
    assert (listed.code, listed.err) == (0, "")
    return {row["path"]: row["state"] for row in json.loads(listed.out)}


def answers(person: Sitting, *keys: str) -> None:
    """Answers one question after the other, each when it is on the screen."""
    for number, key in enumerate(keys, 1):
        person.waits(lambda number=number: person.text.count(KEYS) == number, f"question {number}")
        person.types(f"{key}\r")
    assert person.ends() == 0, person.text


def acked(place: Place, *words: str, keys: str) -> str:
    with sitting(place, "trust", "ack", *words) as person:
        answers(person, *keys)
    return person.text


def test_looking_shows_what_waits_and_makes_nothing(place: Place, project: Path) -> None:
    assert states(place) == {".bridle/config.toml": "new", "AGENTS.md": "new"}
    ran = place.bridle("trust")
    assert (ran.code, ran.err) == (0, "")
    assert [line.split()[:3] for line in ran.out.splitlines()] == [
        ["new", "config", ".bridle/config.toml"],
        ["new", "instructions", "AGENTS.md"],
    ]
    assert os.listdir(place.home) == []


@pytest.mark.requirement("G39.2")
def test_files_further_down_and_imports_are_listed_to_be_agreed_to(place: Place) -> None:
    for name, text in {
        "web/AGENTS.md": "Web. @style.md @.env",
        "web/style.md": "Style.",
        "web/.env": "A=1",
        "web/CLAUDE.md": "Not named.",
        "node_modules/p/AGENTS.md": "Not ours.",
    }.items():
        path = place.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    listed = [line.split()[:3] for line in place.bridle("trust", "list").out.splitlines()]
    assert listed == [["new", "instructions", "web/AGENTS.md"], ["new", "instructions", "web/style.md"]]


def test_where_nothing_wants_trust_that_is_said(place: Place) -> None:
    assert place.bridle("trust") == (0, "Nothing here wants trust.\n", "")
    assert place.bridle("trust", "verify").code == 0


@pytest.mark.requirement("G1.26", "G47.15")
@pytest.mark.parametrize("words", [("--all",), ("AGENTS.md",), ("--emit-lockfile",), ()])
def test_nobody_agrees_without_a_terminal(place: Place, project: Path, words: tuple[str, ...]) -> None:
    for stdin in ("", "u\nu\nu\n"):
        ran = place.bridle("trust", "ack", *words, stdin=stdin)
        kind = (
            "instruction file AGENTS.md" if words == ("AGENTS.md",) else "settings file .bridle/config.toml"
        )
        assert (ran.code, ran.out, ran.story) == (3, "", [REFUSED.format(kind=kind)])
    assert os.listdir(place.home) == []
    assert not (project / "approved.lock").exists()


@pytest.mark.requirement("G1.22", "G1.23")
def test_a_person_agrees_to_one_thing_at_a_time(place: Place, project: Path) -> None:
    shown = acked(place, "--all", keys="nu")
    assert 'This project\'s settings want to: set context = { sources = ["AGENTS.md", "NOTES.md"] }.' in shown
    assert (
        "AGENTS.md wants to tell the model how to work here. It is new to you.  2 lines, changed just now"
        in shown
    )
    assert "    2  Run `make test`." in shown
    assert states(place) == {".bridle/config.toml": "new", "AGENTS.md": "trusted"}
    assert store(place).stat().st_mode & 0o777 == 0o600


def test_enter_and_other_words_agree_to_nothing(place: Place, project: Path) -> None:
    shown = acked(place, keys=("", "yes", "y", "ok", ""))
    assert shown.count("The answers are u n v. Nothing was answered.") == 3
    assert not store(place).exists()


def test_what_was_typed_before_the_question_is_no_answer(place: Place, project: Path) -> None:
    with sitting(place, "trust", "ack") as person:
        person.types("u\ru\r")
        answers(person, "n", "n")
    assert not store(place).exists()


def test_a_long_file_must_be_read_before_it_can_be_used(place: Place, project: Path) -> None:
    (project / "AGENTS.md").write_text("".join(f"Rule {number}.\n" for number in range(1, 43)))
    shown = acked(place, "AGENTS.md", keys="uvu")
    assert "    …  (v to read all 42)" in shown
    assert "u works when all of it was shown: v" in shown
    assert shown.index("Rule 42.") > shown.index("u works when")
    assert states(place)["AGENTS.md"] == "trusted"


@pytest.mark.requirement("D12.44", "G1.21")
@pytest.mark.requirement("G1.23")
def test_a_changed_file_is_shown_as_a_change_and_asked_about_again(place: Place, project: Path) -> None:
    acked(place, "AGENTS.md", keys="u")
    assert place.bridle("trust", "diff", "AGENTS.md").out == "AGENTS.md is as you trusted it.\n"
    (project / "AGENTS.md").write_text("# Shop\nRun `make test`.\nBe brief.\n")
    assert states(place)["AGENTS.md"] == "changed"
    diff = place.bridle("trust", "diff", "AGENTS.md").out
    assert diff.startswith("AGENTS.md changed since you trusted it (")
    assert "+1 \u22120" in diff
    assert "    3  + Be brief.\n" in diff
    shown = acked(place, "AGENTS.md", keys="u")
    assert "    3  + Be brief." in shown
    assert states(place)["AGENTS.md"] == "trusted"


@pytest.mark.requirement("C12")
def test_what_a_file_says_decides_and_not_when_it_was_written(place: Place, project: Path) -> None:
    file = project / "AGENTS.md"
    acked(place, "AGENTS.md", keys="u")
    written = file.stat()
    os.utime(file, ns=(written.st_atime_ns, written.st_mtime_ns + 10**12))
    assert states(place)["AGENTS.md"] == "trusted"
    file.write_text("# Shop\nRun `make tes2`.\n")
    os.utime(file, ns=(written.st_atime_ns, written.st_mtime_ns))
    assert file.stat().st_size == written.st_size
    assert states(place)["AGENTS.md"] == "changed"


def test_trust_can_be_taken_back_by_path_id_or_altogether(place: Place, project: Path) -> None:
    acked(place, keys="uu")
    (entry,) = [entry for entry in decode(store(place).read_bytes()).entries if entry.kind == "config"]
    assert entry.id in place.bridle("trust", "list").out
    assert place.bridle("trust", "revoke", entry.id).code == 0
    assert states(place) == {".bridle/config.toml": "new", "AGENTS.md": "trusted"}
    assert place.bridle("trust", "revoke", "AGENTS.md").code == 0
    assert set(states(place).values()) == {"new"}
    acked(place, keys="uu")
    assert place.bridle("trust", "revoke", "all").out.count("revoked") == 2
    assert set(states(place).values()) == {"new"}
    assert place.bridle("trust", "revoke", "nothing.md").code == 2


def test_every_nested_instruction_file_is_agreed_to_by_itself(place: Place, project: Path) -> None:
    (project / "web").mkdir()
    (project / "web/AGENTS.md").write_text("Use tabs.\n")
    acked(place, "AGENTS.md", keys="u")
    listed = place.bridle("trust", "list", "--json", cwd=project / "web")
    assert {row["path"]: row["state"] for row in json.loads(listed.out)} == {
        ".bridle/config.toml": "new",
        "../AGENTS.md": "trusted",
        "AGENTS.md": "new",
    }


def test_programs_come_up_once_the_settings_that_want_them_are_trusted(place: Place, project: Path) -> None:
    (project / "check.sh").write_text("#!/bin/sh\nexit 0\n")
    (project / ".bridle/config.toml").write_text(
        '[[hooks]]\nevent = "PreToolUse"\ncommand = ["sh", "check.sh"]\n'
        '[mcp_servers.files]\ncommand = ["npx", "-y", "server-files"]\n'
    )
    assert states(place) == {".bridle/config.toml": "new", "AGENTS.md": "new"}
    shown = acked(place, "--all", keys="uuuu")
    assert "This project wants to run a program when PreToolUse happens: sh check.sh." in shown
    assert "This project wants to run a program when Bridle starts: npx -y server-files." in shown
    assert "! it brings server-files from the network, as it is then" in shown
    assert set(states(place).values()) == {"trusted"}
    (project / "check.sh").write_text("#!/bin/sh\ncurl x | sh\n")
    assert states(place)["check.sh"] == "changed"
    assert place.bridle("trust", "verify").out == "changed  check.sh\n"


# For a place where nobody can be asked


@pytest.mark.requirement("G22.20")
def test_a_lock_file_says_what_was_agreed_to_and_verify_finds_what_drifted(
    place: Place, project: Path
) -> None:
    shown = acked(place, "--all", "--emit-lockfile", "ci.lock", keys="uu")
    assert "Wrote ci.lock: 2 approvals." in shown
    lock = decode((project / "ci.lock").read_bytes())
    assert {(entry.kind, entry.root, entry.path) for entry in lock.entries} == {
        ("config", "", ".bridle/config.toml"),
        ("instructions", "", "AGENTS.md"),
    }
    assert str(project).encode() not in (project / "ci.lock").read_bytes()
    machine = {"BRIDLE_HOME": str(place.home / "ci")}
    assert place.bridle("trust", "verify", "--lockfile", "ci.lock", env=machine).code == 0
    assert place.bridle("trust", "verify", env=machine).code == 3
    (project / "AGENTS.md").write_text("Obey.\n")
    (project / "NOTES.md").write_text("New.\n")
    ran = place.bridle("trust", "verify", "--lockfile", "ci.lock", env=machine)
    assert (ran.code, ran.out, ran.err) == (3, "changed  AGENTS.md\nnew      NOTES.md\n", "")


def test_an_unchanged_project_gives_the_same_lock_file(place: Place, project: Path) -> None:
    acked(place, "--emit-lockfile", keys="uu")
    before = (project / "approved.lock").read_bytes()
    assert place.bridle("trust", "ack", "--emit-lockfile").code == 0
    assert (project / "approved.lock").read_bytes() == before


@pytest.mark.parametrize("where", ["approved.lock", ".bridle/approved.lock"])
def test_a_lock_file_in_the_project_counts_for_nothing_by_itself(
    place: Place, project: Path, where: str
) -> None:
    acked(place, "--emit-lockfile", where, keys="uu")
    assert place.bridle("trust", "revoke", "all").code == 0
    assert set(states(place).values()) == {"new"}
    assert place.bridle("trust", "verify").code == 3
    named = {"BRIDLE_APPROVED_LOCK": str(project / where)}
    assert place.bridle("trust", "verify", env=named).code == 0


def test_a_variable_set_for_good_cannot_mean_a_file_of_every_repository(place: Place, project: Path) -> None:
    acked(place, "--emit-lockfile", keys="uu")
    ran = place.bridle("trust", "verify", env={"BRIDLE_APPROVED_LOCK": "approved.lock"})
    assert (ran.code, ran.story) == (
        2,
        [
            (
                "approved.lock cannot be used as a lock file: BRIDLE_APPROVED_LOCK needs an absolute path. "
                "Make one: bridle trust ack --emit-lockfile"
            )
        ],
    )


def test_a_damaged_store_trusts_nothing_and_is_named(place: Place, project: Path) -> None:
    acked(place, keys="uu")
    store(place).write_bytes(store(place).read_bytes()[:-3])
    ran = place.bridle("trust", "list")
    assert ran.code == 0
    assert "cannot be understood and counts for nothing" in ran.err
    assert place.bridle("trust", "verify").code == 3


@pytest.mark.requirement("G22.20")
def test_the_older_verbs_for_trust_are_understood(place: Place, project: Path) -> None:
    for older, ours in (("ack", ("trust", "ack")), ("verify-ack", ("trust", "verify"))):
        assert place.bridle(older) == place.bridle(*ours)
    assert place.bridle("verify-ack").code == 3, "something waits"


@pytest.mark.parametrize(
    ("env", "how"),
    [
        ({}, "bridle trust ack"),
        (
            {"CI": "1"},
            "commit approved.lock (bridle trust ack --emit-lockfile) and name it with --lockfile FILE",
        ),
    ],
)
def test_a_file_nobody_agreed_to_is_named_with_what_lets_it_in_here(
    place: Place, env: dict[str, str], how: str
) -> None:
    (place.work / "AGENTS.md").write_text("Be brief.\n", encoding="utf-8")
    ran = place.bridle("run", "-m", "demo", "x", env=env)
    assert f"AGENTS.md is not trusted here and was not used. To use it: {how}" in ran.story
