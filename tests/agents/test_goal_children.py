"""Goals in a session with several agents: what they use and change is the goal's, and its end is theirs."""

from pathlib import Path

import msgspec

from agents.test_background_children import BESIDE, HELD_CHILD, Held
from app.test_compacting import Model, windows
from app.test_goals import ending, give, reach
from bridle.agents.definition import AgentDefinition, AgentDelegation
from bridle.clients.interaction.view import SessionView
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.protocol import events as e
from bridle.protocol.commands import CancelTurn
from bridle.protocol.messages import Usage
from bridle.providers.script import Spend, answer, call, say
from tables import table

WRITER = AgentDefinition(
    name="writer", description="Writes.", mode="subagent", delegation=AgentDelegation(invocation="allow")
)
SEND = call("delegate_agent", agent="writer", task="Do it.")
OPTIONS = {"mode": "auto", "agent_mode": "multi", "agents": [WRITER, BESIDE]}
CHANGES = [call("bash", command=f"echo {number} > a") for number in range(20)]
"""Steps of a child that goes on and on."""


async def test_steps_of_agents_are_steps_of_the_goal() -> None:
    model = scripted(SEND, say("So."), agents={"writer": [*CHANGES[:2], say("x")]})
    async with harness(model, **OPTIONS) as session:
        events = await reach(session, "--rounds 1 --check false make it")
        view = SessionView("c")
        for envelope in await session.stored():
            view.take(envelope)
    assert ending(events).steps == 2 + 3
    assert view.goal is not None
    assert view.goal.steps == 5


async def test_an_agent_uses_no_more_steps_than_the_goal_has_left() -> None:
    model = scripted(SEND, say("So."), say("More."), agents={"writer": CHANGES})
    async with harness(model, **OPTIONS, max_steps=4) as session:
        events = await reach(session, "--check false make it")
    (child,) = of_kind(events, e.ChildEnded)
    assert (child.ok, child.steps) == (False, 3), "one step of the goal was its sender's"
    assert (ending(events).reason, ending(events).steps) == ("StepLimit", 4)


async def test_what_an_agent_leaves_is_less_for_whoever_sent_it() -> None:
    looks = [call("bash", command=f"echo {number} > b") for number in range(9)]
    model = scripted(SEND, *looks, say("x"), agents={"writer": [*CHANGES[:2], say("x")]})
    async with harness(model, **OPTIONS, max_steps=6) as session:
        events = await reach(session, "--check false make it")
    assert (ending(events).reason, ending(events).steps) == ("StepLimit", 6)
    assert [ended.steps for ended in of_kind(events, e.TurnEnded)] == [3, 3]


async def test_whoever_looks_at_the_work_has_steps_of_their_own() -> None:
    reviewer = [call("glob", pattern=f"{number}*") for number in range(4)]
    model = scripted(say("Done."), agents={"review": [*reviewer, say("All is there.\nPASSED")]})
    async with harness(model, **OPTIONS, max_steps=2) as session:
        events = await reach(session, "--check-agent review make it")
    assert (ending(events).reached, ending(events).steps) == (True, 1)


async def test_what_agents_cost_ends_the_goal(tmp_path: Path) -> None:
    dear = answer(Spend(Usage(input_tokens=3_000, output_tokens=2_000)), CHANGES[0])
    model = Model(scripted(SEND, say("So."), agents={"writer": [dear, say("x")]}))
    async with harness(model, home=windows(tmp_path), max_cost=0.006, **OPTIONS) as session:
        events = await reach(session, "--check false make it")
    assert of_kind(events, e.ChildEnded)[0].ok is False
    assert ending(events).reason == "BudgetExceeded"


@table("how", ["cancelled", "time"])
async def test_the_end_of_a_goal_reaches_the_agents_that_work_for_it(how: str) -> None:
    held, clock = Held(), FakeClock()
    options = {**OPTIONS, "tools": [held.tool], "allow": ("hold",), "clock": clock}
    async with harness(scripted(SEND, say("x"), agents={"writer": HELD_CHILD}), **options) as session:
        await give(session, "--timeout 60 --check false make it")
        await held.runs.wait()
        if how == "cancelled":
            await session.connection.send(CancelTurn(session=session.id))
        else:
            await clock.advance(61)
        ended = await session.until(e.GoalEnded)
        assert session.conversation.children == {}
        child = await session.until(e.ChildEnded)
    assert (child.ok, child.stop) == (False, "cancelled")
    assert ended.reason == ("GoalStopped" if how == "cancelled" else "GoalTime")


async def test_files_of_the_check_that_an_agent_changed_are_told(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/check.sh").write_text("exit 1\n")
    cheat = call("bash", command="echo exit 0 > tests/check.sh")
    model = scripted(SEND, say("All tests pass."), agents={"writer": [cheat, say("Done.")]})
    async with harness(model, folder=str(tmp_path), **OPTIONS) as session:
        events = await reach(session, "--check 'sh tests/check.sh' make the tests pass")
    assert (ending(events).reached, ending(events).changed) == (True, ("tests/check.sh",))


async def test_what_an_agent_changed_is_progress() -> None:
    child = [call("write_file", path="a.txt", content="x"), say("x")]
    model = scripted(SEND, say("So."), say("So."), say("So."), agents={"writer": child})
    async with harness(model, **OPTIONS) as session:
        events = await reach(session, "--rounds 9 --check false make it")
    assert (ending(events).reason, ending(events).rounds) == ("NoProgress", 2)


async def test_nobody_works_in_the_background_of_a_goal() -> None:
    """Its check follows the turn: all of the work has to be done then."""
    send = msgspec.structs.replace(SEND, input={**SEND.input, "agent": "beside"})
    child = [call("bash", command="echo fine > done.txt"), say("Done.")]
    model = scripted(send, say("It was done."), agents={"beside": child})
    async with harness(model, **OPTIONS) as session:
        events = await reach(session, "--check 'grep -q fine done.txt' make done.txt")
    assert (ending(events).reached, ending(events).rounds) == (True, 1)
    assert [one.background for one in of_kind(events, e.ChildStarted)] == [False]


async def test_a_command_of_an_agent_in_the_background_is_not_taken_for_the_check() -> None:
    """It began before the goal, and runs while the check does."""
    held = Held()
    child = [call("hold"), call("bash", command="echo from the background"), say("x")]
    send = msgspec.structs.replace(SEND, input={**SEND.input, "agent": "beside"})
    answers = scripted(send, say("Sent."), say("Done."), say("Heard."), agents={"beside": child})
    options = {**OPTIONS, "tools": [held.tool], "allow": ("hold",)}
    async with harness(answers, **options) as session:
        await session.ask("go")
        await held.runs.wait()
        await give(session, "--check 'until test -e stop; do sleep 0.01; done' make it")
        async for envelope in session.connection.events(session.id, since=0):
            if isinstance(envelope.event, e.ToolCallStarted) and "until" in str(envelope.event.input):
                held.let_go.set()
            if isinstance(envelope.event, e.ToolResult) and envelope.invocation is not None:
                Path(session.folder, "stop").touch() if envelope.event.tool == "bash" else None
            if isinstance(envelope.event, e.GoalEnded):
                break
    assert envelope.event.reached, envelope.event.reason
