"""People watch agents that were sent, and stop one of them."""

from collections.abc import Sequence

import pytest

from bridle.agents.definition import AgentDefinition
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import ScriptedAnswer, scripted
from bridle.conformance.harness import harness, of_kind
from bridle.protocol import events as e
from bridle.protocol.commands import AnswerPermission, AttachSession, CancelTurn
from bridle.protocol.errors import CommandRefused
from bridle.providers.script import call, say, wait
from bridle.providers.scripted import ScriptedModel

WRITER = AgentDefinition(name="writer", description="Writes.", mode="subagent", system="You write.")
OPTIONS = {"agent_mode": "multi", "agents": [WRITER], "answers": True, "allow": ["delegate_agent"]}
WRITES = (call("write_file", path="a.txt", content="alpha"), say("Written."))
"""A child that has to ask first."""


def sending(*names: str, child: Sequence[ScriptedAnswer] = WRITES) -> ScriptedModel:
    sent = tuple(call("delegate_agent", agent=name, task=f"Do it, {name}.") for name in names)
    return scripted(sent, say("Went on."), agents=dict.fromkeys(names, child))


@pytest.mark.parametrize("identity", ["human", "agent"])
async def test_one_child_is_stopped_whoever_says_so_and_who_sent_it_goes_on(identity) -> None:
    async with harness(sending("writer"), **OPTIONS) as session:
        other = session.engine.connect(name="other", identity=identity, answers=identity == "human")
        await other.send(AttachSession(session=session.id))
        number = await session.send("go")
        asked = await session.until(e.PermissionRequested, since=number)
        started = await session.until(e.ChildStarted, since=number)
        if identity == "agent":
            with pytest.raises(CommandRefused) as refused:
                await other.send(AnswerPermission(session=session.id, call_id=asked.call_id, answer="once"))
            assert refused.value.reason == "SelfApproval"
        await other.send(CancelTurn(session=session.id, invocation=started.invocation))
        events = await session.turn_of(number)
    by = "a person" if identity == "human" else "other"
    (ended,) = of_kind(events, e.ChildEnded)
    assert (ended.ok, ended.stop, ended.stopped_by) == (False, "cancelled", by)
    results = {result.tool: result for result in of_kind(events, e.ToolResult)}
    assert results["write_file"].outcome == "cancelled"
    sent = results["delegate_agent"]
    assert (sent.outcome, sent.reason) == ("cancelled", "ChildStopped")
    assert sent.content.partition("\n\n")[0] == f"The agent writer was stopped by {by}."
    assert events[-1] == e.TurnEnded(stop="end_turn", steps=2)


async def test_of_two_that_work_side_by_side_only_the_one_that_was_meant_stops() -> None:
    model = scripted(
        (
            call("delegate_agent", agent="explore", task="First."),
            call("delegate_agent", agent="review", task="Second."),
        ),
        say("Went on."),
        agents={"explore": (wait(60),), "review": (say("No faults."),)},
        clock=FakeClock(),  # nobody lets time pass: it would wait for ever
    )
    async with harness(model, **OPTIONS) as session:
        number = await session.send("go")
        assert (await session.until(e.ChildEnded, since=number)).agent == "review"
        (working,) = session.conversation.children
        await session.connection.send(CancelTurn(session=session.id, invocation=working))
        events = await session.turn_of(number)
    ends = {ended.agent: (ended.stop, ended.ok) for ended in of_kind(events, e.ChildEnded)}
    assert ends == {"explore": ("cancelled", False), "review": ("end_turn", True)}
    assert events[-1] == e.TurnEnded(stop="end_turn", steps=2)


async def test_a_child_that_does_not_work_is_not_stopped() -> None:
    async with harness(sending("writer"), **OPTIONS) as session:
        with pytest.raises(CommandRefused) as refused:
            await session.connection.send(CancelTurn(session=session.id, invocation="inv_nobody"))
    assert refused.value.reason == "NoSuchChild"


async def test_where_there_are_no_agents_there_is_no_child_to_stop() -> None:
    async with harness(scripted(say("Hello."))) as session:
        with pytest.raises(CommandRefused) as refused:
            await session.connection.send(CancelTurn(session=session.id, invocation="inv_nobody"))
    assert refused.value.reason == "NoSuchChild"
