"""What is said about the sandbox is what was tried: on a machine where bubblewrap is installed and cannot work."""

import json
from pathlib import Path
from typing import TypeVar

import pytest

from bare_machine import has_landlock, needs_a_bare_machine, on_a_bare_machine, on_a_breaking_machine
from bridle.protocol.errors import sentence
from bridle.protocol.events import Degraded, Notice, PrefixSet, SessionCreated, ToolResult
from cli_kit import Place, Ran

E = TypeVar("E")
pytestmark = needs_a_bare_machine
with_landlock = pytest.mark.skipif(not has_landlock(), reason="this kernel has no Landlock")
LANDLOCK = [
    pytest.param(True, id="with Landlock", marks=with_landlock),
    pytest.param(False, id="without Landlock"),
]


def running(place: Place, *commands: str) -> tuple[str, ...]:
    """What to say to Bridle so that a model runs commands one after the other."""
    script = "".join(f"call bash {json.dumps({'command': command})}\n---\n" for command in commands)
    return ("run", "--mode", "auto", "-y", "-m", place.script(f"{script}say Done.\n"), "go")


def worked(place: Place, command: str, *options: str, landlock: bool) -> Ran:
    """A fresh home, one command, one answer."""
    return on_a_bare_machine(place, *running(place, command), *options, landlock=landlock)


def stored(place: Place, kind: type[E]) -> list[E]:
    events = (envelope.event for envelope in place.events(place.only_session()))
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.parametrize("landlock", LANDLOCK)
@pytest.mark.requirement("D16.7")
def test_in_a_fresh_home_the_claim_is_what_holds_commands(
    place: Place, tmp_path: Path, landlock: bool
) -> None:
    outside = tmp_path / "outside"
    ran = worked(place, f"touch inside; touch {outside}; exit 0", landlock=landlock)
    assert ran.code == 0, ran.err
    (created,), (result,) = stored(place, SessionCreated), stored(place, ToolResult)
    holds = "landlock" if landlock else "env-only"
    assert (created.sandbox, result.shown.sandbox) == (holds, holds)
    assert created.confined == ("workspace-write" if landlock else "off")
    assert f"· sandbox {holds} ·" in ran.err
    assert ((place.work / "inside").exists(), outside.exists()) == (True, not landlock)


@pytest.mark.requirement("D16.6")
def test_where_nothing_holds_the_first_line_says_so(place: Place) -> None:
    ran = worked(place, "true", landlock=False)
    first, second, header, *_ = ran.err.splitlines()
    assert (first.removeprefix("bridle: "), second.strip()) == tuple(sentence("NoSandbox", {}).splitlines())
    assert " · sandbox env-only · " in header
    (degraded,) = stored(place, Degraded)
    assert (degraded.what, degraded.reason) == ("sandbox", "NoSandbox")


def test_where_one_is_required_and_bubblewrap_cannot_work_nothing_begins(place: Place) -> None:
    ran = worked(place, "touch made", "--set", "sandbox.required=true", landlock=False)
    assert (ran.code, ran.story) == (3, [sentence("SandboxRequired", {})])
    assert not (place.work / "made").exists()


@with_landlock
def test_what_landlock_cannot_protect_is_said_once_at_the_start(place: Place) -> None:
    ran = worked(place, "true", landlock=True)
    (notice,) = stored(place, Notice)
    assert notice.reason == "SandboxGaps"
    assert "AGENTS.md" in notice.message
    assert ".git/hooks" in notice.message
    assert "landlock" in notice.message
    assert ran.err.count(".git/hooks") == 1
    shown = on_a_bare_machine(place, "sandbox", landlock=True)
    assert ".git/hooks" in shown.out
    assert ".git/hooks" in on_a_bare_machine(place, "doctor", landlock=True).out


def test_bubblewrap_leaves_nothing_to_say(place: Place) -> None:
    place.bridle("run", "-m", place.script("say Hi.\n"), "go")
    assert stored(place, Notice) == []


# What is no longer so


@with_landlock
@pytest.mark.requirement("D16.7")
def test_what_breaks_in_a_session_is_said_before_a_weaker_sandbox_is_used(
    place: Place, tmp_path: Path
) -> None:
    sign, outside = place.work / "broken", tmp_path / "outside"
    commands = (f"touch {sign}", f"touch again; touch {outside}; exit 0")
    ran = on_a_breaking_machine(place, *running(place, *commands), landlock=True, sign=sign)
    assert ran.code == 0, ran.err
    assert [created.sandbox for created in stored(place, SessionCreated)] == ["bubblewrap"]
    assert [result.shown.sandbox for result in stored(place, ToolResult)] == ["bubblewrap", "landlock"]
    (degraded,) = stored(place, Degraded)
    assert (degraded.what, degraded.reason) == ("sandbox", "SandboxWeaker")
    assert degraded.message.startswith(
        "bubblewrap no longer works here: from now on commands are held by landlock."
    )
    assert ((place.work / "again").exists(), outside.exists()) == (True, False)
    assert ran.err.index("held by landlock") < ran.err.index("touch again")


def test_where_nothing_is_left_of_the_sandbox_a_command_is_not_run(place: Place) -> None:
    sign = place.work / "broken"
    asked = running(place, f"touch {sign}", "touch again", "touch once-more")
    ran = on_a_breaking_machine(place, *asked, landlock=False, sign=sign)
    _first, *others = stored(place, ToolResult)
    assert [(result.outcome, result.reason) for result in others] == [("blocked", "SandboxLost")] * 2
    assert others[0].content == sentence("SandboxLost", {"sandbox": "bubblewrap"})
    assert [result.shown for result in others] == [None, None]
    assert sorted(path.name for path in place.work.iterdir()) == ["broken", "it.script"]
    assert "not run  touch again" in ran.err


@pytest.mark.full
def test_what_cannot_be_found_out_in_time_is_not_claimed(place: Place) -> None:
    sign = place.work / "it.script"  # is there from the beginning
    model = place.script("say Hi.\n")
    hanging = "exec sleep 60"
    ran = on_a_breaking_machine(place, "run", "-m", model, "go", landlock=False, sign=sign, then=hanging)
    assert ran.code == 0, ran.err
    assert [(created.sandbox, created.confined) for created in stored(place, SessionCreated)] == [("", "off")]
    assert [degraded.reason for degraded in stored(place, Degraded)] == ["SandboxNotKnown"]
    assert not (place.home / ".local/state/bridle/sandbox.json").exists()
    required = ("run", "--set", "sandbox.required=true", "-m", model, "go")
    refused = on_a_breaking_machine(place, *required, landlock=False, sign=sign, then=hanging)
    assert (refused.code, refused.story) == (3, [sentence("SandboxNotKnown", {"seconds": "5"})])
    assert len(place.sessions()) == 1


def test_a_session_that_goes_on_without_a_sandbox_does_not_tell_the_model_of_one(place: Place) -> None:
    assert place.bridle("run", "-q", "-m", "demo:hello", "x").code == 0
    assert place.bridle("run", "-q", "-c", "-s", "off", "y").code == 0
    assert place.bridle("run", "-q", "-c", "z").code == 0
    events = [one.event for one in place.events(place.only_session())]
    told = [
        line
        for event in events
        if isinstance(event, PrefixSet)
        for line in event.system.splitlines()
        if line.startswith("Commands run in: ")
    ]
    assert told[1] == "Commands run in: no sandbox"
    assert told[0] == told[2] != told[1], "and of the one there is again"
