"""`bridle hooks`: what runs when, where that is written, why something does not count, and trying it for real."""

import json
import os
from pathlib import Path

import pytest

from bridle.cli.help import pages
from bridle.safety.hooks.definitions import EVENTS, content_digest
from bridle.safety.trust import Approvals
from cli_kit import Place

NOT_YET = "add --allow-project-hooks; not approved yet"


def config_folder(place: Place) -> Path:
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def own(place: Place, text: str) -> None:
    (config_folder(place) / "config.toml").write_text(text)


def program(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def approve(place: Place, path: Path, kind: str) -> None:
    root = os.path.realpath(place.work)
    Approvals(str(config_folder(place))).add(
        os.path.relpath(path, place.work), content_digest(str(path)) or "", kind=kind, root=root
    )


def test_without_hooks_the_page_that_explains_them_is_named(place: Place) -> None:
    assert place.bridle("hooks") == (0, "No hooks. How to write one: bridle help hooks\n", "")
    assert json.loads(place.bridle("hooks", "list", "--json").out) == []
    assert place.bridle("hooks", "test", "-h") == (0, pages()["hooks"], "")
    assert os.listdir(place.home) == []


@pytest.mark.requirement("G44.5")
def test_the_list_says_where_each_hook_is_written_and_whether_it_counts(place: Place) -> None:
    own(place, '\n[[hooks]]\nevent = "pre_tool_use"\ntool = "Bash|write_*"\ncommand = ["check", "a b"]\n')
    program(config_folder(place) / "hooks/Stop", "exit 0")
    (place.work / ".bridle").mkdir()
    (place.work / ".bridle/config.toml").write_text('[[hooks]]\nevent = "Stop"\ncommand = "notify"\n')
    (config_folder(place) / "hooks/SessionEnd").write_text("not a program")
    listed = place.bridle("hooks")
    assert (listed.code, listed.err) == (0, "")
    head, *lines = listed.out.splitlines()
    assert head.split() == ["event", "tools", "command", "written", "in", "counts"]
    assert [line.split("   ") for line in _squeezed(lines)] == [
        ["PreToolUse", "Bash|write_*", "check 'a b'", "config.toml:2", "yes"],
        ["Stop", "-", "hooks/Stop", "hooks/Stop", "yes"],
        ["Stop", "-", "notify", ".bridle/config.toml:1", f"no: {NOT_YET}"],
        ["-", "-", "-", "hooks/SessionEnd", "no: not executable"],
    ]
    rows = json.loads(place.bridle("hooks", "list", "--json").out)
    assert [(row["command"], row["scope"], row["timeout_ms"], row["on_error"]) for row in rows] == [
        ("check 'a b'", "user", 30_000, "block"),
        ("hooks/Stop", "user", 5_000, "warn"),
        ("notify", "project", 5_000, "warn"),
        ("", "", None, ""),
    ]


def _squeezed(lines: list[str]) -> list[str]:
    """The cells of a table with three spaces between them."""
    return ["   ".join(cell.strip() for cell in line.split("   ") if cell.strip()) for line in lines]


@pytest.mark.requirement("G1.21", "G44.5")
def test_a_trusted_projects_hook_counts_with_the_flag_until_it_changes(place: Place) -> None:
    file = program(place.work / ".bridle/hooks/PreToolUse", "echo theirs >&2; exit 2")
    approve(place, file, "hook")
    words = ("hooks", "test", "PreToolUse")
    held = place.bridle(*words)
    assert (held.code, held.out) == (0, "No hook listens to PreToolUse.\n")
    assert held.story == ["not run: .bridle/hooks/PreToolUse (add --allow-project-hooks)"]
    ran = place.bridle(*words, "--allow-project-hooks")
    assert ran.code == 3
    assert "  decision  block: theirs" in ran.out.splitlines()
    file.write_text("#!/bin/sh\ntouch stolen\n")
    changed = place.bridle(*words, "--allow-project-hooks")
    assert changed.code == 0
    assert changed.story == ["not run: .bridle/hooks/PreToolUse (not approved yet)"]
    assert not (place.work / "stolen").exists()


def test_trying_a_hook_runs_it_and_tells_what_it_said(place: Place) -> None:
    answer = json.dumps({"decision": "warn", "message": "big", "patch": {"path": "b"}})
    program(config_folder(place) / "hooks/PreToolUse", f"cat >told; echo some >&2; echo '{answer}'")
    words = ("--tool", "edit_file", "--input", '{"path": "a"}')
    ran = place.bridle("hooks", "test", "pre_tool_use", *words)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[:4] == [
        "PreToolUse  hooks/PreToolUse",
        '  call      edit_file {"path":"a"}',
        "  decision  warn: big",
        '  patch     {"path":"b"}',
    ]
    assert lines[4].startswith("  ended     exit 0, ")
    assert lines[5:] == [f"  stdout    {answer}", "  stderr    some"]
    told = json.loads((place.work / "told").read_text())
    assert (told["event"], told["toolName"], told["toolInput"]) == ("PreToolUse", "edit_file", {"path": "a"})


def test_only_hooks_of_the_tool_are_tried_and_a_sample_fits_the_hook(place: Place) -> None:
    own(place, '[[hooks]]\nevent = "PreToolUse"\ntool = "Read"\ncommand = "grep -q example.txt"\n')
    assert place.bridle("hooks", "test", "PreToolUse", "--tool", "bash").out == (
        "No hook listens to PreToolUse of bash.\n"
    )
    ran = place.bridle("hooks", "test", "PreToolUse")
    assert (ran.code, ran.out.splitlines()[2]) == (0, "  decision  pass")


@pytest.mark.requirement("H9.5")
@pytest.mark.parametrize(
    ("event", "code", "means"),
    [("PreToolUse", 3, "blocks"), ("PostToolUse", 0, "is only noted"), ("Stop", 0, "is only noted")],
)
def test_a_failing_hook_says_no_only_where_it_can(place: Place, event: str, code: int, means: str) -> None:
    own(place, f'[[hooks]]\nevent = "{event}"\ncommand = "no-such-program"\n')
    ran = place.bridle("hooks", "test", event)
    assert ran.code == code
    assert f"  decision  failed, which {means}: it could not be started: not found" in ran.out.splitlines()


def test_every_event_can_be_tried(place: Place) -> None:
    for event in EVENTS:
        program(config_folder(place) / f"hooks/{event}", 'test "$BRIDLE_HOOK_EVENT" = "${0##*/}"')
        ran = place.bridle("hooks", "test", event)
        assert (ran.code, ran.err) == (0, ""), event
        assert "  decision  pass" in ran.out.splitlines(), event


def test_what_makes_no_sense_is_one_sentence(place: Place) -> None:
    ran = place.bridle("hooks", "test", "Sometimes")
    assert (ran.code, ran.story) == (2, [f'There is no hook event "Sometimes". Events: {", ".join(EVENTS)}'])
    ran = place.bridle("hooks", "test", "Stop", "--input", "[1]")
    assert (ran.code, len(ran.story)) == (2, 1)
    own(place, '[[hooks]]\nevent = "Sometimes"\ncommand = "x"\n')
    ran = place.bridle("hooks")
    assert (ran.code, ran.out) == (2, "")
    assert ran.story[0].startswith('config.toml:1: event = "Sometimes" is not a hook event (SessionStart, ')


def test_hostile_output_and_names_are_shown_and_not_obeyed(place: Place) -> None:
    program(config_folder(place) / "hooks/Stop", "printf '\\033[2J\\377'; exit 0")
    own(place, '[[hooks]]\nevent = "Stop"\ncommand = ["\\u001b[31m"]\n')
    for words in (("hooks",), ("hooks", "test", "Stop")):
        ran = place.bridle(*words)
        assert "\x1b" not in ran.out + ran.err
        assert "⟨ESC⟩" in ran.out
