"""`bridle run --goal`: what a script gets of work that goes on until a check passes."""

from __future__ import annotations

import json
import signal

import pytest

from bridle.protocol import events as e
from cli_kit import Place

WORKS = """say Not yet.
---
call bash {"command": "echo fine > done.txt"}
---
say Done.
"""
CHECK = ("--goal", "--check", "test -f done.txt")


@pytest.mark.through_engine
def test_a_run_works_on_until_its_check_passes(place: Place) -> None:
    ran = place.bridle("run", "-y", "-m", place.script(WORKS), *CHECK, "make done.txt")
    assert (ran.code, ran.out) == (0, "[scripted] Done.\n")
    told = [line for line in ran.story if line.split()[0] in ("goal", "check", "warning")]
    assert told == [
        "goal     until test -f done.txt         10 rounds at most",
        "check    not passed (exit code 1)       round 1",
        "check    passed                         round 2",
        "goal     reached in 2 rounds",
    ]
    assert ran.story[-1].startswith("done ")


@pytest.mark.through_engine
def test_the_result_tells_what_the_goal_came_to_and_what_of_the_check_was_changed(place: Place) -> None:
    (place.work / "tests").mkdir()
    (place.work / "tests/check.sh").write_text("exit 1\n")
    model = place.script('call bash {"command": "echo exit 0 > tests/check.sh"}\n---\nsay Passed.\n')
    words = ("-y", "-q", "--json", "--goal", "--check", "sh tests/check.sh", "make the tests pass")
    ran = place.bridle("run", "-m", model, *words)
    assert (ran.code, ran.result["success"]) == (0, True)
    assert ran.result["goal"] == {
        "reached": True,
        "rounds": 1,
        "steps": 2,
        "reason": None,
        "changed_files": ["tests/check.sh"],
    }
    assert ran.story == ["warning  The model changed these files of the check: tests/check.sh"]


@pytest.mark.through_engine
def test_a_goal_that_is_not_reached_fails_the_run_with_its_reason(place: Place) -> None:
    model = place.script("say No.\n---\nsay No.\n")
    ran = place.bridle("run", "-m", model, "--stream-json", "--rounds", "1", *CHECK, "make done.txt")
    last = ran.stream[-1]
    assert (ran.code, last["exit_code"], last["reason"]) == (1, 1, "RoundsUsed")
    assert last["goal"]["reached"] is False
    assert [line["eventType"] for line in ran.stream if line["eventType"].startswith("Goal")] == [
        "GoalBegun",
        "GoalChecked",
        "GoalEnded",
    ]


@pytest.mark.through_engine
def test_a_hub_reads_of_the_goal(place: Place) -> None:
    ran = place.bridle(
        "run", "-y", "-m", place.script(WORKS), "--output-format", "hub", *CHECK, "make done.txt"
    )
    kinds = [line["event_type"] for line in ran.stream if ".goal_" in line["event_type"]]
    assert kinds == [
        "run.agent.goal_started",
        "run.agent.goal_checked",
        "run.agent.goal_checked",
        "run.agent.goal_ended",
    ]
    assert ran.stream[-1]["payload"]["success"] is True


@pytest.mark.through_engine
def test_an_answer_that_fits_is_a_goal_too(place: Place) -> None:
    (place.work / "form.json").write_text(json.dumps({"type": "object", "required": ["total"]}))
    model = place.script('say three\n---\nsay {"sum": 3}\n---\nsay {"total": 3}\n')
    ran = place.bridle("run", "-m", model, "--goal", "--output-schema", "form.json", "count")
    assert (ran.code, ran.out) == (0, '{"total": 3}\n')


@pytest.mark.through_engine
def test_a_goal_as_a_command(place: Place) -> None:
    ran = place.bridle("run", "-y", "-m", place.script(WORKS), "/goal --check 'test -f done.txt' make it")
    assert (ran.code, ran.out) == (0, "[scripted] Done.\n")


@pytest.mark.through_engine
def test_a_check_that_hangs_ends_with_the_time_of_the_run(place: Place) -> None:
    ran = place.bridle(
        "run",
        "-m",
        place.script("say Done.\n"),
        "--json",
        "--timeout",
        "3",
        "--goal",
        "--check",
        "sleep 1000",
        "go",
    )
    assert (ran.code, ran.result["exit_code"], ran.result["reason"]) == (124, 124, "DeadlineReached")
    assert ran.result["goal"]["reached"] is False


def test_nobody_takes_the_words_of_a_round_for_the_persons(place: Place) -> None:
    place.bridle("run", "-y", "-m", place.script(WORKS), *CHECK, "make done.txt")
    session = place.only_session()
    for words in (("sessions", "show", session), ("sessions", "replay", session, "--pace", "1000")):
        told = place.bridle(*words).out
        assert "make done.txt" in told
        assert "round 1" in told
        assert "Work on until it passes" not in told
    exported = place.bridle("sessions", "export", session, "--format", "markdown", "-o", "-").out
    assert "Work on until it passes" not in exported


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--goal", "make it"), "A goal needs a check"),
        (("--check", "true", "make it"), "--check belongs to a goal"),
        (("--rounds", "3", "make it"), "--rounds belongs to a goal"),
        (("--check-agent", "review", "make it"), "--check-agent belongs to a goal"),
        (("--goal", "--check-agent", "review", "make it"), "more than one"),
        (("--goal", "--check", "true", "-i", "a.png", "make it"), "takes no --image"),
        (("--goal", "--check", "true", "--dry-run", "make it"), "a dry run changes nothing"),
        (("/goal --chek x y",), 'no option "--chek"'),
        (("/goal stop",), "A run begins a goal"),
    ],
)
def test_a_goal_that_makes_no_sense_is_refused_in_a_sentence(
    place: Place, words: tuple[str, ...], problem: str
) -> None:
    ran = place.bridle("run", "-m", place.script("say Done.\n"), *words)
    (line,) = ran.story
    assert (ran.code, ran.out) == (2, "")
    assert problem in line


def test_a_goal_that_was_killed_between_rounds_is_over_when_the_session_goes_on(place: Place) -> None:
    model = place.script("say No.\n---\npace 100\nchunk 4\nsay " + "words and " * 400 + "\n")
    with place.started("run", "--stream-json", "-m", model, *CHECK, "make it") as running:
        running.until("GoalChecked")
        running.until("TurnStarted")
        assert running.signal(signal.SIGKILL).code == -signal.SIGKILL
    session = place.only_session()
    assert [one.kind for one in place.events(session)].count("GoalEnded") == 0

    ran = place.bridle(
        "run", "-c", "-m", place.script("\n---\n".join(["say I am back."] * 3), "back.script"), "go on"
    )
    assert (ran.code, ran.out) == (0, "[scripted] I am back.\n")
    events = place.events(session)
    (ended,) = [one.event for one in events if isinstance(one.event, e.GoalEnded)]
    assert (ended.reached, ended.reason) == (False, "GoalInterrupted")
    assert [one.kind for one in events].count("GoalChecked") == 1
    place.verify(session)


def test_a_signal_stops_the_goal_of_a_run(place: Place) -> None:
    model = place.script("say No.\n")
    with place.started(
        "run", "--stream-json", "-m", model, "--goal", "--check", "sleep 1000", "go"
    ) as running:
        running.until("ToolCallStarted")
        ran = running.signal(signal.SIGINT)
    assert ran.code == 130
    last = json.loads(ran.out.splitlines()[-1])
    assert (last["exit_code"], last["goal"]["reason"]) == (130, "GoalStopped")
