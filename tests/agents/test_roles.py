"""`/plan`, `/solve`, `/code` and `/auto` with words: an agent of its own works on them."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness, of_kind
from bridle.engine.tools import Tool, never_mutating
from bridle.protocol import events as e
from bridle.protocol.commands import CancelTurn, RunSlash
from bridle.providers.script import call, say
from tables import table


async def run_slash(session, name, words=""):
    """The events of a command, to what it came to."""
    since = session.conversation.last_id
    await session.connection.send(RunSlash(session=session.id, name=name, arguments=words))
    found = []
    async for envelope in session.connection.events(session.id, since=since):
        found.append(envelope.event)
        if envelope.invocation is None and isinstance(
            envelope.event, e.ContextAdded | e.Notice | e.Cancelled
        ):
            return found
    raise AssertionError("the session ended before the command did")


@pytest.mark.requirement("H14.1", "H14.5", "C15")
async def test_plan_with_words_has_an_agent_without_tools_plan_and_the_conversation_learns_of_it() -> None:
    model = RecordingModel(scripted(say("I know."), agents={"plan": [say("Step one.")]}))
    async with harness(model) as session:
        events = await run_slash(session, "plan", "a better parser")
        assert session.conversation.mode == "default", "nothing else changes"
        await session.ask("And now?")
    body = msgspec.json.decode(model.bodies[0])
    assert body["tools"] == []
    assert "You are a planning agent." in body["system"]
    assert [block["text"] for message in body["messages"] for block in message["content"]] == [
        "a better parser"
    ]
    (ended,) = of_kind(events, e.ChildEnded)
    assert (ended.ok, ended.result) == (True, "[scripted] Step one.")
    assert b"I had /plan work on this: a better parser" in model.bodies[1]
    assert b"Step one." in model.bodies[1]


@pytest.mark.requirement("H14.2", "H14.3")
@table(("name", "words", "writes"), [("solve", "problem-solving", False), ("code", "coding", True)])
async def test_solve_only_reads_and_code_has_every_tool(name, words, writes) -> None:
    model = RecordingModel(scripted(agents={name: [say("Done.")]}))
    async with harness(model) as session:
        await run_slash(session, name, "it")
    body = msgspec.json.decode(model.bodies[0])
    tools = {tool["name"] for tool in body["tools"]}
    assert "read_file" in tools
    assert ("write_file" in tools) is writes
    assert "delegate_agent" not in tools
    assert f"You are a {words} agent." in body["system"]


@pytest.mark.requirement("H14.4")
async def test_auto_plans_does_and_looks_at_it_each_told_what_the_one_before_came_to(tmp_path: Path) -> None:
    model = RecordingModel(
        scripted(
            agents={
                "plan": [say("Write a.txt.")],
                "code": [call("write_file", path="a.txt", content="x"), say("Wrote it.")],
                "solve": [say("It is right.")],
            }
        )
    )
    async with harness(model, folder=str(tmp_path), yes=True) as session:
        events = await run_slash(session, "auto", "make a.txt")
    assert [event.agent for event in of_kind(events, e.ChildStarted)] == ["plan", "code", "solve"]
    assert (tmp_path / "a.txt").read_text() == "x"
    plan, code, _, review = model.bodies
    assert b"Write a.txt." not in plan
    assert b"Write a.txt." in code
    assert b"Wrote it." in review
    assert b"looks at its own work" in review
    assert "It is right." in events[-1].content[1].text


async def test_auto_stops_at_the_first_that_fails() -> None:
    model = scripted(agents={"plan": [say("Plan.")], "code": [call("glob", pattern="*")] * 9})
    async with harness(model) as session:
        events = await run_slash(session, "auto", "it")
    assert [event.ok for event in of_kind(events, e.ChildEnded)] == [True, False]
    assert "code did not finish" in events[-1].content[1].text


async def test_auto_without_words_only_tells_the_mode() -> None:
    async with harness(scripted()) as session:
        events = await run_slash(session, "auto")
    assert events[-1].message == "/auto works on words behind it: /auto words. The mode is default."


async def test_what_a_person_had_work_is_stopped_like_a_turn() -> None:
    model = scripted(agents={"code": [call("bash", command="sleep 60")]})
    async with harness(model, yes=True) as session:
        await session.connection.send(RunSlash(session=session.id, name="code", arguments="wait"))
        await session.until(e.ToolCallStarted)
        await session.connection.send(CancelTurn(session=session.id))
        ended = await session.until(e.ChildEnded)
        assert (ended.ok, ended.stop) == (False, "cancelled")
        assert session.conversation.open_calls == ()


@table("options", [{}, {"agent_mode": "multi"}])
async def test_an_agent_of_a_command_is_stopped_as_any_other(options) -> None:
    working = asyncio.Event()

    async def hang(_args, _context):
        working.set()
        await asyncio.Event().wait()

    tool = Tool(name="hang", description="x", input=Nothing, risk="read", run=hang, mutating=never_mutating)
    model = scripted(agents={"code": [call("hang")]})
    async with harness(model, tools=[tool], allow=("hang",), **options) as session:
        await session.connection.send(RunSlash(session=session.id, name="code", arguments="it"))
        await working.wait()
        child = (await session.until(e.ChildStarted)).invocation
        await session.connection.send(CancelTurn(session=session.id, invocation=child))
        ended = await session.until(e.ChildEnded)
    assert (ended.ok, ended.stop, bool(ended.stopped_by)) == (False, "cancelled", True)


class Nothing(msgspec.Struct, frozen=True):
    """No arguments."""
