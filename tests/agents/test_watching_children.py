"""People watch agents that were sent, and stop one of them."""

import itertools
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.agents.definition import AgentDefinition
from bridle.clients.dotted_events import events_lines
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import RecordingModel, ScriptedAnswer, scripted
from bridle.conformance.harness import harness, of_kind
from bridle.engine.conversation import Conversation
from bridle.protocol import events as e
from bridle.protocol.child_tree import ChildTree
from bridle.protocol.commands import AnswerPermission, AttachSession, CancelTurn, RunSlash
from bridle.protocol.errors import CommandRefused
from bridle.protocol.messages import Usage
from bridle.protocol.queries import CustomQuery, ListSlash
from bridle.providers.script import call, say, wait
from bridle.providers.scripted import ScriptedModel
from rows_kit import lines_of
from tables import table

WRITER = AgentDefinition(name="writer", description="Writes.", mode="subagent", system="You write.")
OPTIONS = {"agent_mode": "multi", "agents": [WRITER], "answers": True, "allow": ["delegate_agent"]}
WRITES = (call("write_file", path="a.txt", content="alpha"), say("Written."))
"""A child that has to ask first."""


def sending(*names: str, child: Sequence[ScriptedAnswer] = WRITES) -> ScriptedModel:
    sent = tuple(call("delegate_agent", agent=name, task=f"Do it, {name}.") for name in names)
    return scripted(sent, say("Went on."), agents=dict.fromkeys(names, child))


@table("identity", ["human", "agent"])
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


@pytest.mark.requirement("D18.2", "D18.6")
async def test_any_client_can_ask_who_was_sent_what_they_are_at_and_what_they_cost() -> None:
    query = CustomQuery(namespace="agents", verb="children")
    async with harness(sending("writer"), **OPTIONS) as session:
        query = msgspec.structs.replace(query, session=session.id)
        number = await session.send("go")
        asked = await session.until(e.PermissionRequested, since=number)
        (waiting,) = (await session.connection.ask(query)).payload["children"]
        assert (waiting["agent"], waiting["task"]) == ("writer", "Do it, writer.")
        assert (waiting["state"], *waiting["path"], waiting["parent"]) == ("waiting", "writer", None)
        answer = AnswerPermission(session=session.id, call_id=asked.call_id, answer="deny")
        await session.connection.send(answer)
        await session.turn_of(number)
        (done,) = (await session.connection.ask(query)).payload["children"]
    assert (done["state"], done["steps"]) == ("done", 2)


@pytest.mark.requirement("D11.10", "D18.3")
async def test_a_yes_to_an_agent_is_no_yes_to_any_call_of_it() -> None:
    options = {name: value for name, value in OPTIONS.items() if name != "allow"}
    asked: list[e.Envelope] = []
    async with harness(sending("writer"), **options) as session:
        number = await session.send("go")
        async for envelope in session.connection.events(session.id, since=number):
            if isinstance(envelope.event, e.PermissionRequested):
                asked.append(envelope)
                choice = "tool" if envelope.event.handoff else "deny"
                call_id = envelope.event.call_id
                answer = AnswerPermission(session=session.id, call_id=call_id, answer=choice)
                await session.connection.send(answer)
            if isinstance(envelope.event, e.TurnEnded) and envelope.invocation is None:
                break
        lines = [msgspec.json.decode(line) for line in events_lines(await session.stored())]
    sent, write = (one.event for one in asked)
    assert (sent.tool, write.tool) == ("delegate_agent", "write_file")
    handoff = sent.handoff
    assert (handoff.agent, handoff.provider, handoff.model) == ("writer", "demo", "scripted")
    assert "Do it, writer." in handoff.text
    assert "write_file" in handoff.tools
    targets = [
        (line["type"], line["targetType"], line["targetName"], line.get("agentPath"))
        for line in lines
        if line["type"].startswith("permission.")
    ]
    assert targets == [
        ("permission.requested", "agent", "writer", None),
        ("permission.granted", "agent", "writer", None),
        ("permission.requested", "tool", "write_file", ["writer"]),
        ("permission.denied", "tool", "write_file", ["writer"]),
    ]


@pytest.mark.requirement("D11.44")
async def test_whoever_comes_in_the_middle_of_a_childs_work_hears_its_question_with_its_path() -> None:
    async with harness(sending("writer"), **OPTIONS) as session:
        number = await session.send("go")
        asked = await session.until(e.PermissionRequested, since=number)
        late = session.engine.connect(name="late", answers=True)
        attached = await late.send(AttachSession(session=session.id))
        async for envelope in late.events(session.id, since=attached.event or 0):
            if isinstance(envelope.event, e.PermissionRequested):
                break
        assert (envelope.agent_path, envelope.event.call_id) == (("writer",), asked.call_id)
        answer = AnswerPermission(session=session.id, call_id=asked.call_id, answer="once")
        await late.send(answer)
        events = await session.turn_of(number)
    assert of_kind(events, e.ChildEnded)[0].ok


@pytest.mark.requirement("G45.5")
async def test_a_person_has_an_agent_work_and_the_conversation_hears_what_came_of_it() -> None:
    model = RecordingModel(scripted(say("I see."), agents={"review": (say("No faults."),)}))
    async with harness(model, **OPTIONS) as session:
        await session.connection.send(
            RunSlash(session=session.id, name="agents:review", arguments="Look at a.txt.")
        )
        added = await session.until(e.ContextAdded)
        events = await session.ask("And?")
        described = (await session.connection.ask(ListSlash(session=session.id))).commands
        stored = await session.stored()
    assert added.source == "agent"
    assert [block.text for block in added.content] == [
        "I had the agent review work on this: Look at a.txt.",
        "<untrusted-agent-result>[scripted] No faults.</untrusted-agent-result>",
    ]
    child, main = model.bodies
    assert b"Look at a.txt." in child
    assert b"No faults." in main
    assert events[-1] == e.TurnEnded(stop="end_turn", steps=1)
    assert "agents:review" in {one.name for one in described}
    assert "[scripted] No faults." in lines_of(stored)


async def test_words_for_an_agent_may_begin_on_a_line_of_their_own() -> None:
    async with harness(scripted(agents={"review": (say("No faults."),)}), **OPTIONS) as session:
        await session.connection.send(
            RunSlash(session=session.id, name="agents", arguments="review\nLook at it.")
        )
        started = await session.until(e.ChildStarted)
    assert (started.agent, started.task) == ("review", "Look at it.")


async def test_an_agent_that_nobody_can_send_is_named_with_those_that_can() -> None:
    async with harness(sending("writer"), **OPTIONS) as session:
        await session.connection.send(RunSlash(session=session.id, name="agents:nobody", arguments="x"))
        notice = await session.until(e.Notice)
    assert notice.message == '"nobody" is not a NAME of /agents (explore, review, solve, writer).'


NUMBERS = itertools.count(1)


def told(event: e.AnyEvent, *path: str) -> e.Envelope:
    """An event of the main agent, or of the one that this path leads to."""
    return e.Envelope(
        id=next(NUMBERS),
        kind=type(event).__name__,
        session="s",
        originator="",
        ts_ms=0,
        event=event,
        agent_path=path,
        invocation=f"inv_{path[-1]}" if path else None,
    )


def begins(agent: str, *path: str) -> e.Envelope:
    return told(e.ChildStarted(invocation=f"inv_{agent}", agent=agent, task="Do it."), *path)


def ends(agent: str, *path: str, usd: float = 0.0, **fields) -> e.Envelope:
    values = {"ok": True, "result": "", "stop": "end_turn", **fields}
    return told(e.ChildEnded(invocation=f"inv_{agent}", agent=agent, usd=usd, **values), *path)


def paid(usd: float | None, *path: str, **fields) -> e.Envelope:
    return told(e.CostIncremented(provider="w", model="m", usage=Usage(), usd=usd, **fields), *path)


def test_costs_of_children_that_work_side_by_side_are_their_own_and_of_those_they_sent() -> None:
    main = Conversation()
    for envelope in (
        *(begins("one"), begins("two"), paid(0.5), paid(1.0, "one"), paid(2.0, "two")),
        *(begins("below", "one"), paid(4.0, "one", "below"), ends("below", "one", usd=4.0)),
    ):
        main.apply(envelope)
    assert main.children["inv_one"].own_usd == 5.0
    assert main.children["inv_two"].own_usd == 2.0
    assert main.spent_usd == 7.5


class TestTree:
    """The children of a session as one fold."""

    def test_each_stands_below_whoever_sent_it_with_what_it_came_to(self) -> None:
        tree = ChildTree()
        for envelope in (
            *(begins("one"), begins("below", "one"), paid(0.25, "one", "below"), ends("below", "one")),
            *(paid(0.5, "one"), paid(None, "one", local=True), begins("two"), paid(None, "two")),
            ends("two", ok=False, stop="error", result="It broke."),
            ends("one", ok=False, stop="cancelled", stopped_by="Ana"),
        ):
            tree.take(envelope)
        found = [(depth, one.agent, one.state, one.usd) for depth, one in tree.walk()]
        assert found == [
            (0, "one", "stopped", 0.5),
            (1, "below", "done", 0.25),
            (0, "two", "failed", None),
        ]
        assert tree.entries["inv_two"].why == "It broke."
        assert tree.entries["inv_below"].path == ("one", "below")

    def test_two_of_one_name_that_work_at_once_are_told_apart_and_each_is_found(self) -> None:
        tree = ChildTree()
        for number in (1, 2):
            tree.take(told(e.ChildStarted(invocation=f"inv_ABCD{number}", agent="explore", task="")))
        assert [one.label for one in tree.working] == ["explore", "explore 2"]
        assert tree.named("explore").invocation == "inv_ABCD1"
        assert tree.named("explore 2").invocation == "inv_ABCD2"
        assert tree.named("inv_ABCD1").label == "explore"
        assert tree.named("ABCD2").label == "explore 2"
        assert tree.named("review") is None
        tree.take(told(e.ChildEnded(invocation="inv_ABCD1", agent="explore", ok=True, result="")))
        assert tree.named("explore").invocation == "inv_ABCD2", "one that works goes before one that did"

    @given(st.lists(st.sampled_from(["start", "end", "cost", "ask", "answer"]), max_size=30))
    def test_whatever_comes_in_whatever_order_nobody_is_lost(self, what) -> None:
        tree, started = ChildTree(), set[str]()
        events = {
            "start": lambda: begins("one"),
            "end": lambda: ends("one"),
            "cost": lambda: paid(1.0, "one"),
            "ask": lambda: told(
                e.PermissionRequested(call_id="c", tool="t", input={}, risk="read", why=""), "one"
            ),
            "answer": lambda: told(
                e.PermissionDecided(call_id="c", tool="t", verdict="allow", decided_by="person"), "one"
            ),
        }
        for one in what:
            tree.take(events[one]())
            started |= {"inv_one"} if one == "start" else set()
            assert set(tree.entries) == started
            assert [child for _, child in tree.walk()] == list(tree.entries.values())
