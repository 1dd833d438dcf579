"""What holds while children work: limits, cancelling, hooks, several at once, one below another."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from bridle.agents.definition import AgentDefinition, AgentDelegation, AgentRule
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind, outcomes
from bridle.engine.tools import Tool, ToolOutput, never_mutating
from bridle.protocol import events as e
from bridle.protocol.commands import AnswerPermission, AnswerQuestion, CancelTurn, EndSession, RunSlash
from bridle.protocol.queries import DescribeLog
from bridle.protocol.questions import UndoAnswer
from bridle.providers.script import call, fail, say

FREELY = AgentDelegation(invocation="allow")
WRITER = AgentDefinition(name="writer", description="Writes.", mode="subagent", delegation=FREELY)


def sent(*agents, then="Done."):
    """A step that sends these agents at once, then an answer."""
    calls = tuple(call("delegate_agent", agent=agent, task="Do it.") for agent in agents)
    return (calls, say(then))


@pytest.mark.requirement("T9.4", "D7.8")
async def test_a_child_ends_at_its_step_limit_and_nobody_is_asked_for_more(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number}.txt").write_text("x\n")
    child = [call("read_file", path=f"{number}.txt") for number in range(12)]
    model = scripted(*sent("explore"), agents={"explore": child})
    async with harness(model, folder=str(tmp_path), agent_mode="multi", answers=True) as session:
        events = await session.ask("go")
    (ended,) = of_kind(events, e.ChildEnded)
    assert (ended.ok, ended.steps, ended.stop) == (False, 10, "error")
    assert not of_kind(events, e.QuestionAsked)
    result = of_kind(events, e.ToolResult)[-1]
    assert (result.tool, result.outcome, result.reason) == ("delegate_agent", "error", "ChildFailed")
    assert "explore did not finish" in result.content
    assert events[-1].stop == "end_turn"


@pytest.mark.parametrize(
    ("asked", "defined", "steps"), [(2, 10, 2), (None, 3, 3), (50, 3, 3)], ids=["asked", "defined", "fewest"]
)
async def test_whoever_names_the_fewest_steps_decides(tmp_path: Path, asked, defined, steps) -> None:
    agent = msgspec.structs.replace(WRITER, max_steps=defined)
    given = {} if asked is None else {"max_turns": asked}
    child = [call("glob", pattern=f"{number}*") for number in range(12)]
    model = scripted(
        call("delegate_agent", agent="writer", task="x", **given), say("Done."), agents={"writer": child}
    )
    async with harness(model, folder=str(tmp_path), agent_mode="multi", agents=[agent]) as session:
        events = await session.ask("go")
    assert of_kind(events, e.ChildEnded)[0].steps == steps


async def test_a_child_in_a_loop_is_stopped_and_the_main_agent_goes_on(tmp_path: Path) -> None:
    child = [call("glob", pattern="*")] * 9
    model = scripted(*sent("explore"), agents={"explore": child})
    async with harness(model, folder=str(tmp_path), agent_mode="multi") as session:
        events = await session.ask("go")
    ends = of_kind(events, e.TurnEnded)
    assert [(end.stop, end.reason) for end in ends] == [("error", "LoopDetected"), ("end_turn", None)]


async def test_a_child_whose_provider_is_down_fails_its_call_and_nothing_else() -> None:
    clock = FakeClock()
    model = scripted(*sent("explore"), agents={"explore": [fail("bad_credentials")]}, clock=clock)
    async with harness(model, agent_mode="multi", clock=clock) as session:
        events = await session.ask("go")
    (ended,) = of_kind(events, e.ChildEnded)
    assert (ended.ok, ended.stop) == (False, "error")
    assert "explore did not finish" in of_kind(events, e.ToolResult)[-1].content
    assert events[-1].stop == "end_turn"


@pytest.mark.requirement("D11.20", "G6.6")
async def test_cancelling_the_turn_ends_every_child_on_record(tmp_path: Path) -> None:
    working = asyncio.Semaphore(0)

    async def hang(_args, _context):
        working.release()
        await asyncio.Event().wait()
        raise AssertionError

    class Nothing(msgspec.Struct, frozen=True):
        """No arguments."""

    tool = Tool(
        name="hang", description="Waits.", input=Nothing, risk="read", run=hang, mutating=never_mutating
    )
    agents = [
        AgentDefinition(name=f"a{n}", description="x", delegation=FREELY, permission_mode="plan")
        for n in range(3)
    ]
    model = scripted(*sent("a0", "a1", "a2"), agents={agent.name: [call("hang")] for agent in agents})
    async with harness(
        model, folder=str(tmp_path), agent_mode="multi", agents=agents, tools=[tool], allow=("hang",)
    ) as session:
        number = await session.send("go")
        for _ in agents:
            await working.acquire()
        await session.connection.send(CancelTurn(session=session.id))
        events = await session.turn_of(number)
        assert session.conversation.children == {}
        assert session.conversation.open_calls == ()
    assert [(end.ok, end.stop) for end in of_kind(events, e.ChildEnded)] == [(False, "cancelled")] * 3
    assert outcomes(events) == ["cancelled"] * 6, "three calls of children, three that sent them"
    assert [end.stop for end in of_kind(events, e.TurnEnded)] == ["cancelled"] * 4


class Number(msgspec.Struct, frozen=True):
    """Who comes."""

    number: int


@pytest.mark.requirement("D7.6")
async def test_agents_that_change_nothing_work_at_once_and_their_results_keep_the_order(
    tmp_path: Path,
) -> None:
    """Each waits until all are there, then for the one behind it: the last is done first."""
    arrived, left = [asyncio.Event() for _ in range(3)], [asyncio.Event() for _ in range(4)]
    left[3].set()

    async def meet(args: Number, _context) -> ToolOutput:
        arrived[args.number].set()
        for one in arrived:
            await one.wait()
        await left[args.number + 1].wait()
        return ToolOutput(content="met")

    tool = Tool(
        name="meet", description="Meets.", input=Number, risk="read", run=meet, mutating=never_mutating
    )
    looking = [
        AgentDefinition(name=f"a{n}", description="x", delegation=FREELY, permission_mode="plan")
        for n in range(3)
    ]
    answers = {f"a{n}": [call("meet", number=n), say(f"Number {n}.")] for n in range(3)}
    model = scripted(*sent("a0", "a1", "a2"), agents=answers)
    options = {"agent_mode": "multi", "agents": looking, "tools": [tool], "allow": ("meet",)}
    async with harness(model, folder=str(tmp_path), **options) as session:
        number = await session.send("go")
        ends: list[str] = []
        async for envelope in session.connection.events(session.id, since=number):
            if isinstance(envelope.event, e.ChildEnded):
                ends.append(envelope.event.agent)
                left[int(envelope.event.agent[1:])].set()
            if isinstance(envelope.event, e.TurnEnded) and envelope.invocation is None:
                break
        results = session.conversation.messages[-2].content
    assert ends == ["a2", "a1", "a0"]
    assert [f"Number {n}." in result.text for n, result in enumerate(results)] == [True] * 3


async def test_agents_that_may_change_something_work_one_after_the_other() -> None:
    agents = [AgentDefinition(name=f"w{n}", description="x", delegation=FREELY) for n in range(2)]
    model = scripted(*sent("w0", "w1"), agents={agent.name: [say("ok")] for agent in agents})
    async with harness(model, agent_mode="multi", agents=agents) as session:
        events = await session.ask("go")
    kinds = [type(event) for event in events if isinstance(event, e.ChildStarted | e.ChildEnded)]
    assert kinds == [e.ChildStarted, e.ChildEnded] * 2


@pytest.mark.requirement("D11.12", "D11.13", "C30")
async def test_a_child_sends_others_only_where_it_may_and_settings_let_it_go_so_deep() -> None:
    middle = AgentDefinition(
        name="middle",
        description="x",
        delegation=AgentDelegation(invocation="allow", can_delegate=True),
    )
    answers = {
        "middle": [call("delegate_agent", agent="explore", task="deeper"), say("Asked.")],
        "explore": [say("Found.")],
    }
    model = scripted(*sent("middle"), agents=answers)
    async with harness(model, agent_mode="multi", agents=[middle]) as session:
        events = await session.ask("go")
    assert [event.agent for event in of_kind(events, e.ChildStarted)] == ["middle"]
    assert of_kind(events, e.ToolResult)[0].reason == "UnknownTool", "one level is the default"
    async with harness(
        model, agent_mode="multi", agents=[middle], sets=("delegation.max_depth=2",)
    ) as session:
        events = await session.ask("go")
        stored = await session.stored()
    assert [event.agent for event in of_kind(events, e.ChildStarted)] == ["middle", "explore"]
    paths = [one.agent_path for one in stored if one.kind == "StepStarted"]
    assert paths == [(), ("middle",), ("middle", "explore"), ("middle",), ()]


@pytest.mark.requirement("D12.40", "D11.2", "D11.7", "T9.7")
async def test_what_an_agent_denies_itself_is_asked_about_and_denied_where_nobody_is(tmp_path: Path) -> None:
    careful = msgspec.structs.replace(
        WRITER, rules=(AgentRule(tool="write_file", verdict="deny", path="docs/**", reason="docs are mine"),)
    )
    child = [
        call("write_file", path="docs/a.md", content="x"),
        call("write_file", path="b.txt", content="x"),
        say("x"),
    ]
    model = scripted(*sent("writer"), agents={"writer": child})
    async with harness(
        model, folder=str(tmp_path), agent_mode="multi", agents=[careful], yes=True
    ) as session:
        events = await session.ask("go")
    assert outcomes(events) == ["denied", "ok", "ok"]
    decided = of_kind(events, e.PermissionDecided)[1]
    assert (decided.decided_by, decided.step, decided.origin) == ("nobody", 5, "agent writer")


@pytest.mark.requirement("D10.7")
async def test_hooks_hear_of_what_a_child_does_with_its_path(tmp_path: Path) -> None:
    told = tmp_path / "told.jsonl"
    (tmp_path / "a.txt").write_text("x\n")
    home = tmp_path / "home"
    (home / "config").mkdir(parents=True)
    hook = {"event": "PreToolUse", "tool": "read_file", "command": f"cat >> {told}"}
    (home / "config" / "settings.json").write_text(json.dumps({"hooks": [hook]}))
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("x\n")
    model = scripted(*sent("explore"), agents={"explore": [call("read_file", path="a.txt"), say("x")]})
    async with harness(model, folder=str(work), home=str(home), agent_mode="multi", sandbox="off") as session:
        events = await session.ask("go")
    (line,) = told.read_text().splitlines()
    heard = json.loads(line)
    assert (heard["agent"], heard["agentPath"]) == ("explore", ["explore"])
    assert heard["invocationId"] == of_kind(events, e.ChildStarted)[0].invocation


async def test_a_dry_run_changes_nothing_in_a_child_either(tmp_path: Path) -> None:
    child = [call("write_file", path="a.txt", content="x"), say("x")]
    model = scripted(*sent("writer"), agents={"writer": child})
    async with harness(
        model, folder=str(tmp_path), agent_mode="multi", agents=[WRITER], yes=True, dry_run=True
    ) as session:
        events = await session.ask("go")
    assert outcomes(events) == ["blocked", "ok"]
    assert not (tmp_path / "a.txt").exists()


async def test_an_agent_that_ran_out_of_steps_says_what_gives_it_more(tmp_path: Path) -> None:
    agent = msgspec.structs.replace(WRITER, max_steps=1)
    model = scripted(*sent("writer"), agents={"writer": [call("ls", path="."), say("never")]})
    async with harness(model, folder=str(tmp_path), agent_mode="multi", agents=[agent], yes=True) as session:
        events = await session.ask("go")
    (ended,) = (one for one in of_kind(events, e.ChildEnded))
    assert (ended.ok, ended.stop) == (False, "error")
    assert "1 step done and still working" in ended.result
    assert "delegation.max_steps" in ended.result
    assert "--max-steps" not in ended.result


async def test_undo_takes_back_what_a_child_changed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("before")
    child = [call("read_file", path="a.txt"), call("write_file", path="a.txt", content="after"), say("x")]
    model = scripted(*sent("writer"), agents={"writer": child})
    options = {"agent_mode": "multi", "agents": [WRITER], "yes": True, "answers": True}
    async with harness(model, folder=str(tmp_path), **options) as session:
        await session.ask("go")
        assert (tmp_path / "a.txt").read_text() == "after"
        await session.connection.send(RunSlash(session=session.id, name="undo", arguments=""))
        asked = await session.until(e.QuestionAsked)
        answer = AnswerQuestion(
            session=session.id, question_id=asked.question_id, answer=UndoAnswer(choice="go")
        )
        await session.connection.send(answer)
        await session.until(e.UndoApplied)
    assert (tmp_path / "a.txt").read_text() == "before"


async def test_a_session_and_its_agents_change_files_in_turn_and_undo_takes_back_all_of_it(
    tmp_path: Path,
) -> None:
    model = scripted(
        call("write_file", path="a.txt", content="a"),
        call("delegate_agent", agent="writer", task="Do it."),
        call("bash", command="echo c > c.txt"),
        say("Done."),
        agents={"writer": [call("write_file", path="b.txt", content="b"), say("Wrote it.")]},
    )
    options = {"agent_mode": "multi", "agents": [WRITER], "yes": True, "answers": True}
    async with harness(model, folder=str(tmp_path), **options) as session:
        events = await session.ask("go")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt", "c.txt"]
        await session.connection.send(RunSlash(session=session.id, name="undo", arguments=""))
        asked = await session.until(e.QuestionAsked)
        answer = AnswerQuestion(
            session=session.id, question_id=asked.question_id, answer=UndoAnswer(choice="go")
        )
        await session.connection.send(answer)
        await session.until(e.UndoApplied)
    assert events[-1].stop == "end_turn"
    assert list(tmp_path.iterdir()) == []


async def test_changes_of_a_child_between_those_of_its_sender_are_kept_with_them(tmp_path: Path) -> None:
    """All of a session's are one record, whoever made them."""

    def writes(name: str):
        return call("write_file", path=name, content="x")

    model = scripted(writes("a.txt"), *sent("writer")[:1], writes("c.txt"), say("Done."),
                     agents={"writer": [writes("b.txt"), call("bash", command="touch d.txt"), say("x")]})  # fmt: skip
    options = {"agent_mode": "multi", "agents": [WRITER], "mode": "yolo"}
    async with harness(model, folder=str(tmp_path), **options) as session:
        events = await session.ask("go")
        described = await session.connection.ask(DescribeLog(session=session.id))
    assert outcomes(events) == ["ok"] * 5
    assert [one.paths for one in described.changes] == [("a.txt",), ("b.txt",), ("d.txt",), ("c.txt",)]


async def test_an_agent_in_the_background_wakes_whoever_sent_it_when_it_is_done() -> None:
    let_go = asyncio.Event()

    async def hold(_args: Number, _context) -> ToolOutput:
        await let_go.wait()
        return ToolOutput(content="held")

    tool = Tool(
        name="hold", description="Waits.", input=Number, risk="read", run=hold, mutating=never_mutating
    )
    beside = AgentDefinition(
        name="beside", description="x", delegation=AgentDelegation(invocation="allow", background=True)
    )
    model = scripted(
        call("delegate_agent", agent="beside", task="Look."),
        say("It is on its way."),
        say("I heard."),
        agents={"beside": [call("hold", number=1), say("All is well.")]},
    )
    options = {"agent_mode": "multi", "agents": [beside], "tools": [tool], "allow": ("hold",)}
    async with harness(model, **options) as session:
        first = await session.ask("go")
        assert first[-1].stop == "end_turn", "nobody waits for it"
        assert not of_kind(first, e.ChildEnded)
        let_go.set()
        ends = 0
        async for envelope in session.connection.events(session.id, since=0):
            ends += isinstance(envelope.event, e.TurnEnded) and envelope.invocation is None
            if ends == 2:
                break
        said = [block.text for block in session.conversation.messages[-2].content]
    assert "The agent beside" in said[0]
    assert "All is well." in said[0]


async def test_an_agent_in_the_background_ends_with_its_session() -> None:
    async def hold(_args: Number, _context) -> ToolOutput:
        await asyncio.Event().wait()
        raise AssertionError

    tool = Tool(
        name="hold", description="Waits.", input=Number, risk="read", run=hold, mutating=never_mutating
    )
    beside = AgentDefinition(
        name="beside", description="x", delegation=AgentDelegation(invocation="allow", background=True)
    )
    model = scripted(
        call("delegate_agent", agent="beside", task="Look."),
        say("It is on its way."),
        agents={"beside": [call("hold", number=1)]},
    )
    options = {"agent_mode": "multi", "agents": [beside], "tools": [tool], "allow": ("hold",)}
    async with harness(model, **options) as session:
        await session.ask("go")
        await session.until(e.ChildStarted)
        await session.connection.send(EndSession(session=session.id))
        stored = [envelope async for envelope in session.connection.events(session.id, since=0)]
    ends = [one.event for one in stored if isinstance(one.event, e.ChildEnded)]
    assert [(end.ok, end.stop) for end in ends] == [(False, "cancelled")]
    assert stored[-1].kind == "SessionEnded"


@pytest.mark.requirement("D11.4")
async def test_only_a_person_lets_an_agent_do_what_it_denies_itself_and_their_yes_holds(
    tmp_path: Path,
) -> None:
    careful = msgspec.structs.replace(
        WRITER, rules=(AgentRule(tool="write_file", verdict="deny", reason="I only read"),)
    )
    writes = [call("write_file", path=f"{name}.txt", content="x") for name in "ab"]
    model = scripted(*sent("writer"), agents={"writer": [*writes, say("x")]})
    options = {"agent_mode": "multi", "agents": [careful], "answers": True, "mode": "yolo"}
    async with harness(model, folder=str(tmp_path), **options) as session:
        number = await session.send("go")
        asked = await session.until(e.PermissionRequested)
        await session.connection.send(
            AnswerPermission(session=session.id, call_id=asked.call_id, answer="tool")
        )
        events = await session.turn_of(number)
    assert (asked.tool, asked.because) == ("write_file", "this agent asks first")
    assert outcomes(events) == ["ok", "ok", "ok"]
    assert len(of_kind(events, e.PermissionRequested)) == 1
