"""One agent sends another: the whole of it as conversations."""

from pathlib import Path

import msgspec
import pytest

from bridle.agents.definition import AgentDefinition, AgentDelegation, AgentProvider
from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness, of_kind, outcomes
from bridle.conformance.servers import ModelServer
from bridle.engine.tools import Tool, never_mutating
from bridle.protocol import events as e
from bridle.protocol.commands import AnswerPermission
from bridle.providers.script import call, say
from tables import table

WRITER = AgentDefinition(name="writer", description="Writes.", mode="subagent", system="You write.")


class Nothing(msgspec.Struct, frozen=True):
    """No arguments."""


def reviewing(*, child=None, task="Look at a.txt.", **given):
    """A main agent that has `review` look at a file, and tells what came of it."""
    return RecordingModel(
        scripted(
            call("delegate_agent", agent="review", task=task, **given),
            say("The reviewer found nothing."),
            agents={"review": child or (call("read_file", path="a.txt"), say("No faults."))},
        )
    )


@pytest.mark.requirement("D11.14", "D11.16", "T9.2", "D12.40")
async def test_a_child_reads_answers_and_its_answer_is_all_the_main_agent_gets(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha\n")
    model = reviewing()
    async with harness(model, folder=str(tmp_path), agent_mode="multi") as session:
        events = await session.ask("Have it reviewed.")
        stored = await session.stored()
    assert events[-1] == e.TurnEnded(stop="end_turn", steps=2)
    assert outcomes(events) == ["ok", "ok"]
    (started,), (ended,) = of_kind(events, e.ChildStarted), of_kind(events, e.ChildEnded)
    assert (started.agent, started.task) == ("review", "Look at a.txt.")
    assert (ended.ok, ended.steps, ended.stop) == (True, 2, "end_turn")
    assert ended.tools_used == ("read_file",)
    assert ended.result == "[scripted] No faults."
    main_first, child_first, child_second, main_second = model.bodies
    assert b"Have it reviewed." in child_first, "the person's request is handed over"
    assert b"alpha" in child_second
    assert b"alpha" not in main_second
    assert b"No faults." in main_second
    assert b"delegate_agent" in main_first
    assert b"delegate_agent" not in child_first
    stamps = {(one.invocation, one.agent_path) for one in stored if one.kind == "StepEnded"}
    assert stamps == {(None, ()), (started.invocation, ("review",))}


def delegating(agent="review", *, child, then=None, **given):
    return scripted(
        call("delegate_agent", agent=agent, task="Do it.", **given),
        *(then or (say("Done."),)),
        agents={agent: child},
    )


@pytest.mark.requirement("D1.5", "D7.2", "D9.13", "D20.3")
async def test_alone_an_agent_is_told_of_no_other_and_its_request_is_the_same_bytes(tmp_path: Path) -> None:
    bodies = []
    for options in ({}, {"agent_mode": "single"}):
        model = RecordingModel(scripted(say("Hello.")))
        async with harness(model, folder=str(tmp_path), **options) as session:
            await session.ask("Hello?")
        bodies.append(model.bodies)
    assert bodies[0] == bodies[1]
    assert b"delegate_agent" not in bodies[0][0]
    assert b"explore" not in bodies[0][0]


@pytest.mark.requirement("D7.3", "D11.17", "D9.11", "D9.12")
async def test_with_others_it_has_one_tool_that_names_them_and_a_list_of_when_to_use_whom(
    tmp_path: Path,
) -> None:
    model = RecordingModel(scripted(say("Hello.")))
    async with harness(model, folder=str(tmp_path), agent_mode="multi") as session:
        await session.ask("Hello?")
    body = msgspec.json.decode(model.bodies[0])
    (tool,) = [tool for tool in body["tools"] if tool["name"] == "delegate_agent"]
    schema = tool["input_schema"]
    assert schema["properties"]["agent"]["enum"] == ["explore", "review", "solve"]
    assert schema["required"] == ["agent", "task"]
    assert set(schema["properties"]) == {
        *("agent", "task", "context", "context_refs", "relevant_files", "constraints", "expected_output"),
        *("max_turns", "return_mode"),
    }
    assert "- review (reviewer, cheap): Looks for faults" in body["system"]
    assert "Use when:" in body["system"]
    assert "- build" not in body["system"]
    assert "- plan" not in body["system"]


@pytest.mark.requirement("D11.12")
@table(
    ("agent", "reason", "words"),
    [
        ("nobody", "AgentNotCallable", "Agent nobody is not callable."),
        ("plan", "AgentNotCallable", "Agent plan is not callable."),
        ("build", "AgentNotCallable", "Agent build is not callable."),
    ],
)
async def test_nobody_is_sent_who_cannot_be(agent, reason, words) -> None:
    model = RecordingModel(scripted(call("delegate_agent", agent=agent, task="x"), say("Done.")))
    async with harness(model, agent_mode="multi") as session:
        events = await session.ask("go")
    (result,) = of_kind(events, e.ToolResult)
    assert (result.outcome, result.reason) == ("error", reason)
    assert words in result.content
    assert not of_kind(events, e.ChildStarted)
    assert len(model.bodies) == 2


@pytest.mark.requirement("D11.15", "H14.6")
async def test_a_child_is_handed_what_belongs_to_the_task_and_nothing_of_the_conversation(
    tmp_path: Path,
) -> None:
    model = RecordingModel(
        scripted(
            say("I will remember MARKER."),
            call(
                "delegate_agent",
                agent="explore",
                task="Find the parser.",
                context="It was moved.",
                relevant_files=["src/a.py"],
                constraints=["Read only src."],
                expected_output="A path.",
            ),
            say("Done."),
            agents={"explore": (say("src/b.py"),)},
        )
    )
    async with harness(model, folder=str(tmp_path), agent_mode="multi") as session:
        await session.ask("Keep SECRETWORD in mind.")
        events = await session.ask("Where is the parser?")
    body = model.bodies[2]
    for told in (
        *(
            b"sent by build",
            b"Find the parser.",
            b"It was moved.",
            b"src/a.py",
            b"Read only src.",
            b"A path.",
        ),
        b"Where is the parser?",
    ):
        assert told in body, told
    for untold in (b"MARKER", b"SECRETWORD", of_kind(events, e.ChildStarted)[0].invocation.encode()):
        assert untold not in body, untold


@pytest.mark.requirement("D11.6", "D11.44")
async def test_a_question_of_a_child_goes_to_the_person_with_its_path_and_a_yes_for_the_session_holds_for_all(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_text("alpha\n")
    model = scripted(
        call("delegate_agent", agent="writer", task="Write."),
        call("write_file", path="b.txt", content="main"),
        say("Done."),
        agents={"writer": (call("write_file", path="a.txt", content="child"), say("Written."))},
    )
    async with harness(
        model, folder=str(tmp_path), agent_mode="multi", answers=True, agents=[WRITER]
    ) as session:
        number = await session.send("go")
        asked: list[e.Envelope] = []
        async for envelope in session.connection.events(session.id, since=number):
            if isinstance(envelope.event, e.PermissionRequested):
                asked.append(envelope)
                choice = "once" if envelope.event.tool == "delegate_agent" else "tool"
                await session.connection.send(
                    AnswerPermission(session=session.id, call_id=envelope.event.call_id, answer=choice)
                )
            if isinstance(envelope.event, e.TurnEnded) and envelope.invocation is None:
                break
    assert [(one.event.tool, one.agent_path) for one in asked] == [
        ("delegate_agent", ()),
        ("write_file", ("writer",)),
    ]
    assert (tmp_path / "a.txt").read_text() == "child"
    assert (tmp_path / "b.txt").read_text() == "main", "the yes the person gave a child is the session's"


@pytest.mark.requirement("T9.5", "D11.5")
async def test_no_child_sees_a_tool_that_starts_agents_whatever_it_is_called() -> None:
    async def run(_args, _context):
        raise AssertionError("it starts nothing")

    brought = [
        Tool(name=name, description="x", input=Nothing, risk="read", run=run, mutating=never_mutating)
        for name in ("subagent", "run_subagent", "agent")
    ]
    wanting = msgspec.structs.replace(WRITER, tools=("*",), delegation=AgentDelegation(invocation="allow"))
    calls = tuple(call(name) for name in ("subagent", "run_subagent", "agent", "delegate_agent"))
    model = RecordingModel(delegating("writer", child=(calls, say("x"))))
    async with harness(
        model, agent_mode="multi", agents=[wanting], tools=brought, mode="yolo", allow=("*",)
    ) as session:
        events = await session.ask("go")
    assert [one.reason for one in of_kind(events, e.ToolResult)] == ["UnknownTool"] * 4 + [None]
    names = {tool["name"] for tool in msgspec.json.decode(model.bodies[1])["tools"]}
    assert "read_file" in names
    assert not names & {"subagent", "run_subagent", "agent", "delegate_agent"}


@pytest.mark.requirement("D11.11", "D11.10")
async def test_our_readers_are_sent_freely_another_is_asked_about_and_a_hidden_one_never_sent() -> None:
    hidden = msgspec.structs.replace(WRITER, name="hidden", hidden=True)
    sends = tuple(call("delegate_agent", agent=name, task="x") for name in ("explore", "writer", "hidden"))
    model = scripted(sends, say("Done."), agents={"explore": [say("x")]})
    async with harness(model, agent_mode="multi", agents=[WRITER, hidden]) as session:
        events = await session.ask("go")
    assert outcomes(events) == ["ok", "denied", "error"]
    results = of_kind(events, e.ToolResult)
    assert [one.reason for one in results] == [None, "NoApprover", "AgentNotCallable"]


@pytest.mark.requirement("D8.80", "D11.44")
async def test_an_agent_works_with_the_provider_it_names_and_what_goes_there_is_asked_about(
    tmp_path: Path,
) -> None:
    free = AgentDelegation(invocation="allow")
    far, near = (
        msgspec.structs.replace(WRITER, name=name, delegation=free, provider=AgentProvider(profile=profile))
        for name, profile in (("far", "work"), ("near", None))
    )
    default = msgspec.structs.replace(near, name="default", provider=AgentProvider(inherit_root=False))
    home = tmp_path / "home"
    (home / "config").mkdir(parents=True)
    async with ModelServer.playing(say("From afar.")) as server:
        (home / "config" / "config.toml").write_text(
            f'model = "work:m"\n[providers.work]\nbase_url = "{server.url}"\nwire = "openai_chat"\nmodel = "m"\n'
        )
        model = scripted(
            tuple(call("delegate_agent", agent=name, task="x") for name in ("near", "far", "default")),
            say("Done."),
            agents={"near": [say("From here.")]},
        )
        async with harness(
            model, home=str(home), agent_mode="multi", agents=[far, near, default], answers=True
        ) as session:
            number = await session.send("go")
            async for envelope in session.connection.events(session.id, since=number):
                if isinstance(asked := envelope.event, e.PermissionRequested):
                    await session.connection.send(
                        AnswerPermission(session=session.id, call_id=asked.call_id, answer="once")
                    )
                if isinstance(envelope.event, e.TurnEnded) and envelope.invocation is None:
                    break
            events = await session.turn_of(number)
    questions = of_kind(events, e.PermissionRequested)
    assert [one.subjects for one in questions] == [("agent:far:work",), ("agent:default:work",)]
    assert [one.handoff and one.handoff.provider for one in questions] == ["work", "work"]
    assert [(one.agent, one.provider) for one in of_kind(events, e.ChildStarted)] == [
        ("near", "demo"),
        ("far", "work"),
        ("default", "work"),
    ]
    assert len(server.chats) == 2


@table(("depth", "sends"), [(1, False), (2, True)])
async def test_the_question_names_every_tool_that_the_agent_will_see(depth: int, *, sends: bool) -> None:
    asks = AgentDelegation(invocation="ask", can_delegate=True)
    lead = msgspec.structs.replace(WRITER, name="lead", delegation=asks)
    model = scripted(call("delegate_agent", agent="lead", task="x"), say("x"), agents={"lead": [say("x")]})
    options = {"agent_mode": "multi", "agents": [lead], "sets": (f"delegation.max_depth={depth}",)}
    async with harness(model, answers=True, **options) as session:
        number = await session.send("go")
        asked = await session.until(e.PermissionRequested)
        await session.connection.send(
            AnswerPermission(session=session.id, call_id=asked.call_id, answer="once")
        )
        await session.turn_of(number)
        stored = await session.stored()
    (prefix,) = [
        one.event for one in stored if isinstance(one.event, e.PrefixSet) and one.agent_path == ("lead",)
    ]
    assert asked.handoff is not None
    assert set(asked.handoff.tools) == {tool.name for tool in prefix.tools}
    assert ("delegate_agent" in asked.handoff.tools) is sends


async def test_an_agent_of_a_provider_nobody_knows_is_not_sent() -> None:
    lost = msgspec.structs.replace(WRITER, name="lost", provider=AgentProvider(profile="nowhere"))
    model = scripted(call("delegate_agent", agent="lost", task="x"), say("Done."))
    async with harness(model, agent_mode="multi", agents=[lost], answers=True) as session:
        events = await session.ask("go")
    (result,) = of_kind(events, e.ToolResult)
    assert result.outcome == "error"
    assert result.reason == "AgentNotCallable"
    assert not of_kind(events, e.ChildStarted)
