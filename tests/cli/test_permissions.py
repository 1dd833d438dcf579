"""What a run may do when nobody is there to ask, and what the options change about it."""

import pytest

from cli_kit import Place, Ran

SCRIPT = """\
call bash {"command": "echo hi"}
call bash {"command": "touch made"}
call write_file {"path": "new.txt", "content": "x\\n"}
---
say done
"""
EVERYTHING = ["echo hi", "touch made", "write new.txt"]


def run(place: Place, *options: str) -> tuple[Ran, dict[str, str], list[str]]:
    """A run of the script: the process, the calls it did not run with their reasons, and the files that appeared."""
    ran = place.bridle("run", "--json", "-m", place.script(SCRIPT), *options, "go")
    denied = {entry["call"]: entry["reason"] for entry in ran.result["denied"]}
    made = sorted({path.name for path in place.work.iterdir()} - {"it.script"})
    return ran, denied, made


@pytest.mark.requirement("C22")
def test_by_default_nothing_that_would_ask_is_run_and_the_turn_still_ends_well(place: Place) -> None:
    ran, denied, made = run(place)
    assert denied == dict.fromkeys(EVERYTHING, "NoApprover")
    assert made == []
    assert (ran.code, ran.result["success"], ran.result["finalResponse"]) == (0, True, "[scripted] done")


def test_a_call_that_was_not_run_never_looks_as_if_it_ran(place: Place) -> None:
    ran, _, _ = run(place)
    lines = [line for line in ran.story if any(call in line for call in EVERYTHING)]
    assert lines == [f"not run  {call:<30} nobody is here to ask" for call in EVERYTHING]
    assert ran.story[-1].endswith("3 calls not run")


@pytest.mark.parametrize(
    "option", [("-y",), ("--yes",), ("--mode", "auto"), ("--mode", "yolo")], ids=" ".join
)
def test_yes_and_the_generous_modes_run_everything(place: Place, option: tuple[str, ...]) -> None:
    ran, denied, made = run(place, *option)
    assert (ran.code, denied, made) == (0, {}, ["made", "new.txt"])
    assert ran.result["changed_files"] == ["new.txt"]


@pytest.mark.parametrize("mode", ["safe", "plan"])
def test_a_mode_that_denies_says_so_and_yes_does_not_lift_it(place: Place, mode: str) -> None:
    ran, denied, made = run(place, "--mode", mode, "-y")
    assert (denied, made) == (dict.fromkeys(EVERYTHING, "ModeDenied"), [])
    assert f"not run  touch made                     Mode {mode} does not allow bash (shell)." in ran.story


def test_a_rule_allows_what_it_names_and_no_more(place: Place) -> None:
    ran, denied, made = run(place, "--allow", "bash(echo*)")
    assert (list(denied), made) == (["touch made", "write new.txt"], [])
    (line,) = (line for line in ran.story if line.startswith("ran "))
    assert line.startswith("ran      echo hi                        exit 0   allowed by --allow ")


def test_several_rules_add_up(place: Place) -> None:
    _, denied, made = run(place, "--allow", "edit", "--allow", "bash(touch*)")
    assert (list(denied), made) == (["echo hi"], ["made", "new.txt"])


@pytest.mark.parametrize("option", ["-y", "--mode=yolo", "--allow=bash"])
def test_nothing_lifts_a_deny(place: Place, option: str) -> None:
    ran, denied, made = run(place, option, "--deny", "bash(touch*)")
    assert denied.pop("touch made") == "RuleDenied"
    assert "made" not in made
    assert 'not run  touch made                     rule deny "touch*" (--deny)' in ran.story


def test_a_write_outside_the_folder_is_refused_whatever_was_said(place: Place) -> None:
    model = place.script('call write_file {"path": "../outside.txt", "content": "x"}\n---\nsay done\n')
    ran = place.bridle("run", "--json", "-y", "--mode", "yolo", "-m", model, "go")
    assert [entry["reason"] for entry in ran.result["denied"]] == ["PathOutsideWorkspace"]
    assert not (place.work.parent / "outside.txt").exists()
