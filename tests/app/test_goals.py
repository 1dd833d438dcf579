"""`/goal`: work from turn to turn until a check of the person's passes, or until there is a reason to stop."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bridle.agents.definition import AgentDefinition
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import FailingModel, RecordingModel, SilentModel, scripted
from bridle.conformance.harness import HarnessSession, harness, of_kind
from bridle.protocol import events as e
from bridle.protocol.commands import AnswerPermission, AttachSession, CancelTurn, RunSlash
from bridle.protocol.errors import CommandRefused, ProviderError
from bridle.protocol.messages import TextBlock
from bridle.providers.script import call, say
from secret_kit import tokens
from tables import table

MAKE = call("bash", command="echo fine > done.txt")
CHECK = "--check 'grep -q fine done.txt' make done.txt"


@asynccontextmanager
async def session_of(*answers: Any, **options: Any) -> AsyncGenerator[HarnessSession]:
    async with harness(scripted(*answers), **{"mode": "auto", "answers": True, **options}) as session:
        yield session


async def give(session: HarnessSession, words: str) -> None:
    await session.connection.send(RunSlash(session=session.id, name="goal", arguments=words))


async def reach(session: HarnessSession, words: str = CHECK) -> list[e.AnyEvent]:
    """Gives a goal and returns its events, to its end."""
    before, found = session.conversation.last_id, list[e.AnyEvent]()
    await give(session, words)
    async for envelope in session.connection.events(session.id, since=before):
        found.append(envelope.event)
        if isinstance(envelope.event, e.GoalEnded) or (
            isinstance(envelope.event, e.Notice) and envelope.event.reason == "GoalNotBegun"
        ):
            return found
    raise AssertionError("the session ended before the goal did")


def ending(events: list[e.AnyEvent]) -> e.GoalEnded:
    (ended,) = of_kind(events, e.GoalEnded)
    return ended


def hooked(home: Path, script: str, tool: str = "bash") -> str:
    """A person's own folder with a hook before each command, or call of another tool."""
    hook = home / "programs" / "hook"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\ncat > /dev/null\n{script}\n")
    hook.chmod(0o755)
    config = home / "config" / "config.toml"
    config.parent.mkdir()
    config.write_text(f'[[hooks]]\nevent = "PreToolUse"\ntool = "{tool}"\ncommand = ["{hook}"]\n')
    return str(home)


# What it comes to


async def test_rounds_follow_until_the_check_passes() -> None:
    model = RecordingModel(scripted(say("Not yet."), MAKE, say("Done.")))
    async with harness(model, mode="auto") as session:
        events = await reach(session)
        stored = await session.stored()
    assert [(one.round, one.passed, one.problem) for one in of_kind(events, e.GoalChecked)] == [
        (1, False, "exit code 2"),
        (2, True, ""),
    ]
    assert ending(events) == e.GoalEnded(reached=True, rounds=2, steps=3)
    first, second = [one for one in stored if isinstance(one.event, e.InputAccepted)]
    assert (e.text_of(first.event.content), first.event.goal) == ("make done.txt", None)
    (begun,) = [one for one in stored if isinstance(one.event, e.GoalBegun)]
    assert (second.originator, second.event.identity, second.event.goal) == ("goal", "agent", begun.id)
    assert first.originator == begun.originator != "goal"
    told = model.bodies[1].decode()
    assert "untrusted-check-output" in told
    assert "done.txt: No such file" in told


async def test_a_check_is_the_persons_own_command_and_asks_nobody() -> None:
    async with session_of(say("Done."), mode="strict") as session:
        events = await reach(session, "--check 'touch made && test -f made' make it")
        by = [one.originator for one in await session.stored() if isinstance(one.event, e.PermissionDecided)]
    assert of_kind(events, e.PermissionRequested) == []
    (decided,) = of_kind(events, e.PermissionDecided)
    assert (decided.verdict, decided.answered_by) == ("allow", by[0])
    assert ending(events).reached


async def test_the_check_of_a_later_round_is_the_persons_too() -> None:
    async with session_of(say("No."), say("No."), mode="strict") as session:
        events = await reach(session, "--rounds 2 --check 'date +%N; touch x; false' make it")
        people = {
            one.originator for one in await session.stored() if isinstance(one.event, e.ToolCallRequested)
        }
    assert [one.answered_by for one in of_kind(events, e.PermissionDecided)] == [*people, *people]
    assert "goal" not in people


@table(
    ("words", "reason", "rounds"),
    [
        ("--rounds 1 --check false make it", "RoundsUsed", 1),
        ("--check false make it", "NoProgress", 2),
        ("--check 'secret-tool lookup a b' make it", "CheckNotRun", 0),
    ],
)
async def test_a_check_that_does_not_pass_ends_for_a_reason(words: str, reason: str, rounds: int) -> None:
    async with session_of(say("Done."), say("Really."), say("Honestly.")) as session:
        ended = ending(await reach(session, words))
    assert (ended.reached, ended.reason, ended.rounds) == (False, reason, rounds)
    assert ended.message


async def test_a_check_that_differs_only_in_numbers_says_the_same() -> None:
    async with session_of(*[say("Done.")] * 9) as session:
        ended = ending(await reach(session, "--check 'echo ran in 0.$RANDOM s; false' make it"))
    assert (ended.reason, ended.rounds) == ("NoProgress", 2)


async def test_a_changed_file_is_progress_whatever_the_check_says() -> None:
    change = [
        step for number in range(3) for step in (call("bash", command=f"echo {number} > a"), say("So."))
    ]
    async with session_of(*change) as session:
        ended = ending(await reach(session, "--rounds 3 --check false make it"))
    assert (ended.reason, ended.rounds) == ("RoundsUsed", 3)


async def test_steps_are_counted_over_all_rounds(tmp_path: Path) -> None:
    looks = [step for number in range(9) for step in (call("bash", command=f"echo {number} > a"), say("So."))]
    async with session_of(*looks, max_steps=5, answers=False) as session:
        events = await reach(session, "--check false make it")
    assert ending(events).reason == "StepLimit"
    assert ending(events).steps == 5


async def test_a_turn_that_failed_ends_the_goal_with_its_reason() -> None:
    model = FailingModel(ProviderError("BadCredentials", provider="demo", retryable=False))
    async with harness(model, mode="auto") as session:
        events = await reach(session)
    (turn,) = of_kind(events, e.TurnEnded)
    assert (ending(events).reason, turn.reason) == (turn.reason, turn.reason)
    assert turn.stop == "error"
    assert of_kind(events, e.GoalChecked) == []


async def test_an_answer_must_fit_the_schema_of_the_session() -> None:
    schema = {"type": "object", "required": ["total"]}
    async with session_of(say("Three."), say('{"total": 3}'), output_schema=schema) as session:
        events = await reach(session, "how many")
    assert [one.passed for one in of_kind(events, e.GoalChecked)] == [False, True]
    assert ending(events).reached


@table(
    ("said", "passes"),
    [
        ("All is there.\nPASSED", True),
        ("All is there.\n**PASSED**", True),
        ("It has NOT PASSED", False),
        ("Fine!", False),
    ],
)
async def test_an_agent_that_only_reads_says_whether_it_is_reached(said: str, *, passes: bool) -> None:
    reviewer = (call("ls", path="."), say(said))
    answers = scripted(MAKE, say("Done."), agents={"review": reviewer})
    async with harness(answers, mode="auto", agent_mode="multi") as session:
        events = await reach(session, "--rounds 1 --check-agent review make done.txt")
    (checked,) = of_kind(events, e.GoalChecked)
    assert (checked.passed, checked.problem) == (passes, "" if passes else "review does not agree")
    assert of_kind(events, e.PermissionRequested) == []
    assert (ending(events).reached, ending(events).steps) == (passes, 2)


@table(
    ("name", "mode", "problem"),
    [
        ("review", "single", "more than one"),
        ("nobody", "multi", 'no agent "nobody"'),
        ("writer", "multi", "could change"),
    ],
)
async def test_nobody_reviews_who_is_not_there_or_could_change_the_work(
    name: str, mode: str, problem: str
) -> None:
    writer = AgentDefinition(name="writer", description="Writes.", mode="subagent", system="You write.")
    async with session_of(say("Done."), agent_mode=mode, agents=[writer]) as session:
        events = await reach(session, f"--check-agent {name} make it")
    (refused,) = [one for one in of_kind(events, e.Notice) if one.reason == "GoalNotBegun"]
    assert problem in refused.message


# What the check is made of


async def test_the_model_that_edits_the_test_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/check.sh").write_text("exit 1\n")
    cheat = call("bash", command="echo exit 0 > tests/check.sh")
    async with session_of(cheat, say("All tests pass."), folder=str(tmp_path)) as session:
        events = await reach(session, "--check 'sh tests/check.sh' make the tests pass")
        await give(session, "")
        state = await session.until(e.Notice, since=session.conversation.last_id - 1)
    assert ending(events) == e.GoalEnded(reached=True, rounds=1, steps=2, changed=("tests/check.sh",))
    assert "tests/check.sh" in state.message


async def test_a_check_that_a_hook_replaced_does_not_count(tmp_path: Path) -> None:
    home = hooked(tmp_path / "home", """echo '{"decision":"allow","patch":{"command":"true"}}'""")
    async with session_of(say("Done."), home=home) as session:
        ended = ending(await reach(session))
    assert (ended.reached, ended.reason) == (False, "CheckReplaced")
    assert ": true." in (ended.message or "")


async def test_a_reviewer_that_a_hook_replaced_does_not_count(tmp_path: Path) -> None:
    patch = """echo '{"decision":"allow","patch":{"agent":"explore"}}'"""
    home = hooked(tmp_path / "home", patch, "delegate_agent")
    model = scripted(say("Done."), agents={"review": [say("FAILED")], "explore": [say("PASSED")]})
    async with harness(model, mode="auto", agent_mode="multi", home=home) as session:
        ended = ending(await reach(session, "--check-agent review make it"))
    assert (ended.reached, ended.reason) == (False, "CheckReplaced")
    assert ": explore." in (ended.message or "")


async def test_a_check_that_a_hook_blocks_ends_the_goal(tmp_path: Path) -> None:
    home = hooked(tmp_path / "home", "echo not today >&2; exit 2")
    async with session_of(say("Done."), home=home) as session:
        ended = ending(await reach(session))
    assert (ended.reached, ended.reason) == (False, "CheckNotRun")
    assert "not today" in (ended.message or "")


async def test_a_check_with_a_secret_in_it_runs_as_it_was_given_and_nobody_reads_it() -> None:
    secret = tokens()[0].secret
    async with session_of(say("Done.")) as session:
        events = await reach(session, f"--check 'test -n {secret}' make it")
        stored = await session.stored()
    assert ending(events).reached
    assert secret not in json.dumps([str(one) for one in stored])


async def test_of_a_flood_the_model_reads_the_beginning_and_the_end() -> None:
    model = RecordingModel(scripted(say("No."), MAKE, say("Done.")))
    flood = "echo first; head -c 20000000 /dev/zero | tr '\\0' 'x' | fold -w 100; echo last; test -f done.txt"
    async with harness(model, mode="auto") as session:
        events = await reach(session, f'--check "{flood}" make it')
    assert ending(events).reached
    added = [one for one in of_kind(events, e.ContextAdded) if one.source == "goal"]
    text = e.text_of(added[-1].content)
    assert len(text) < 10_000
    assert "first" in text
    assert "output:call_" in text


# Stopping


async def test_a_check_that_hangs_is_stopped_with_the_goal() -> None:
    async with session_of(say("Done.")) as session:
        await give(session, "--check 'echo begun; sleep 1000' make it")
        await session.until(e.ToolCallStarted)
        await session.connection.send(CancelTurn(session=session.id))
        ended = await session.until(e.GoalEnded)
        assert (ended.reached, ended.reason) == (False, "GoalStopped")
        while session.engine.live.session(session.id).busy:
            await asyncio.sleep(0)


async def test_stopping_a_turn_stops_its_goal() -> None:
    async with harness(SilentModel(), mode="auto") as session:
        await give(session, CHECK)
        await session.until(e.StepStarted)
        await session.connection.send(CancelTurn(session=session.id))
        assert (await session.until(e.GoalEnded)).reason == "GoalStopped"
        assert session.conversation.inputs == {}


async def test_a_goal_tells_how_far_it_is_and_ends_while_its_turn_goes_on() -> None:
    async with harness(SilentModel(), mode="auto") as session:
        await give(session, CHECK)
        await session.until(e.StepStarted)
        await give(session, "")
        told = await session.until(e.Notice)
        assert told.reason == "GoalState"
        assert "round 1 of 10" in told.message
        with pytest.raises(CommandRefused) as busy:
            await give(session, "--check true another")
        assert busy.value.reason == "TurnInProgress"
        await give(session, "stop")
        assert (await session.until(e.GoalEnded)).reason == "GoalStopped"
        assert session.conversation.turn_is_open
        await session.connection.send(CancelTurn(session=session.id))
        await session.until(e.TurnEnded)


async def test_a_goal_that_is_stopped_during_its_check_ends_once() -> None:
    async with session_of(say("Done."), say("Yes.")) as session:
        await give(session, "--check 'sleep 1000' make it")
        await session.until(e.ToolCallStarted)
        await give(session, "stop")
        await session.until(e.Cancelled)
        await session.ask("still there?")
        ends = [one for one in await session.stored() if isinstance(one.event, e.GoalEnded)]
    assert len(ends) == 1


async def test_the_time_of_a_goal_is_up_without_that_of_a_person() -> None:
    clock = FakeClock()
    answers = scripted(call("bash", command="touch a"), say("Done."), clock=clock)
    async with harness(answers, mode="strict", answers=True, clock=clock) as session:
        await give(session, "--timeout 50 --check 'sleep 1000' make it")
        asked = await session.until(e.PermissionRequested)
        await clock.advance(3600)
        await session.connection.send(
            AnswerPermission(session=session.id, call_id=asked.call_id, answer="once")
        )
        async for envelope in session.connection.events(session.id):
            match envelope.event:
                case e.ToolCallStarted(input={"command": "sleep 1000"}):
                    await clock.advance(49)
                    assert session.conversation.goal is not None
                    assert session.conversation.goal.ended is None
                    await clock.advance(2)
                case e.GoalEnded() as ended:
                    assert (ended.reason, ended.message) == (
                        "GoalTime",
                        "The check did not pass within 50 s.",
                    )
                    break
                case _:
                    pass


async def test_what_people_say_meanwhile_goes_first() -> None:
    async with session_of(say("Not yet."), say("Hello."), MAKE, say("Done.")) as session:
        await give(session, CHECK)
        await session.send("hello", mode="queue")
        ended = await session.until(e.GoalEnded)
        words = [
            (e.text_of(one.event.content)[:9], one.event.goal is None)
            for one in await session.stored()
            if isinstance(one.event, e.InputAccepted)
        ]
    assert ended.reached
    assert ("hello", True) in words


# Who, and what is refused


async def test_a_goal_is_for_people() -> None:
    async with session_of(say("Done.")) as session:
        agent = session.engine.connect(name="outer", identity="agent", answers=True)
        await agent.send(AttachSession(session=session.id))
        for words in (CHECK, "", "stop"):
            with pytest.raises(CommandRefused) as refused:
                await agent.send(RunSlash(session=session.id, name="goal", arguments=words))
            assert refused.value.reason == "NotAPerson"


async def test_every_client_sees_a_goal() -> None:
    async with session_of(MAKE, say("Done.")) as session:
        other = session.engine.connect(name="other", answers=False)
        await other.send(AttachSession(session=session.id))
        await give(session, CHECK)
        kinds = list[str]()
        async for envelope in other.events(session.id):
            kinds.append(envelope.kind)
            if isinstance(envelope.event, e.GoalEnded):
                break
    assert [kind for kind in kinds if kind.startswith("Goal")] == ["GoalBegun", "GoalChecked", "GoalEnded"]


@table(
    ("words", "problem"),
    [("make it", "no check"), ("--check true", "does not say"), ("--chek x y", '"--chek"')],
)
async def test_a_goal_without_check_or_words_is_refused(words: str, problem: str) -> None:
    async with session_of(say("Done.")) as session:
        events = await reach(session, words)
        (refused,) = [one for one in of_kind(events, e.Notice) if one.reason == "GoalNotBegun"]
        assert problem in refused.message
        assert session.conversation.goal is None


# Afterwards


async def test_a_goal_that_was_cut_off_is_over_when_the_session_goes_on(tmp_path: Path) -> None:
    """The log ends as a crash would leave it: between a check and the round it asks for."""
    folder, home = tmp_path / "work", tmp_path / "home"
    folder.mkdir()
    async with harness(scripted(say("One.")), folder=str(folder), home=str(home)) as session:
        await session.ask("hello")
        number = session.id
        journal = session.engine.live.session(number).journal
        begun = journal.emit(
            e.GoalBegun(text="x", check=e.GoalCheck(command="true"), limits=e.GoalLimits(rounds=3, steps=9))
        )
        journal.emit(e.GoalChecked(round=1, passed=False, problem="exit code 1", changed=("test_a.py",)))
        journal.emit(e.InputAccepted(content=(TextBlock(text="Work on."),), identity="agent", goal=begun))
    async with harness(scripted(say("Two.")), folder=str(folder), home=str(home), resume=number) as session:
        stored = [one.event for one in await session.stored()]
        ended = ending(stored)
        assert (ended.reason, ended.rounds, ended.changed) == ("GoalInterrupted", 1, ("test_a.py",))
        assert session.conversation.inputs == {}
        await session.ask("again")
        await give(session, "stop")
        state = await session.until(e.Notice, since=session.conversation.last_id - 1)
    assert "No goal is under way.\ngoal: x\n" in state.message
    assert "checked 1 time, in 3 rounds at most" in state.message
    assert "not reached: Bridle stopped without warning" in state.message


async def test_a_model_is_told_of_the_goal_once_and_compaction_may_drop_a_round() -> None:
    async with session_of(say("Not yet."), MAKE, say("Done.")) as session:
        await reach(session)
        sources = [(one.mark.source, one.message.role) for one in session.conversation.entries]
    assert sources[:3] == [("context", "user"), ("input", "user"), ("answer", "assistant")]
    assert [source for source, _ in sources].count("input") == 1
