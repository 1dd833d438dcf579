"""Two sessions, three clients and an agent in one engine, through `Connection` alone."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bridle.app.engine import Engine
from bridle.base.clock import SystemClock
from bridle.config.folders import folders
from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.engine.ports import ModelPart, ModelRequest
from bridle.protocol import commands as c
from bridle.protocol import queries as q
from bridle.protocol.codec import encode_envelope
from bridle.protocol.connection import Connection
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import (
    Envelope,
    PermissionDecided,
    PermissionRequested,
    SessionCreated,
    SessionEnded,
    ToolResult,
    TurnEnded,
)
from bridle.protocol.messages import TextBlock, Usage
from bridle.protocol.tokens import Claims
from bridle.providers.script import Spend, answer, call, say

SPENT = Spend(Usage(input_tokens=10, output_tokens=2))


class Breakable(RecordingModel):
    """Breaks inside the adapter for the model `broken`."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        if request.model == "broken":
            raise ZeroDivisionError("inside the adapter")
        async for part in super().stream(request):
            yield part


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "work").mkdir()
    return str(tmp_path / "work")


@pytest.fixture
async def engine(tmp_path: Path, folder: str) -> AsyncIterator[Engine]:
    env = {"BRIDLE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path / "person"), "PATH": "/usr/bin:/bin"}
    (tmp_path / "person").mkdir()
    model = scripted(
        answer(say("I am one."), SPENT),
        call("bash", command="touch asked"),
        say("Done."),
        say("More."),
    )
    engine = Engine(where=folders(env), env=env, clock=SystemClock(), model=Breakable(model))
    try:
        yield engine
    finally:
        await engine.close()


def bound(*sessions: str) -> Claims:
    return Claims(ver=1, jti="t", identity_class="human", exp=2**40, sessions=sessions)


async def refused(work: Any) -> str:
    with pytest.raises(CommandRefused) as refusal:
        await work
    return refusal.value.reason


async def until(client: Connection, session: str, kind: type, *, since: int = 0) -> Any:
    async for envelope in client.events(session, since=since):
        if isinstance(envelope.event, kind):
            return envelope
    raise AssertionError(f"no {kind.__name__}")


async def said(client: Connection, session: str, text: str) -> int:
    command = c.SendInput(session=session, content=(TextBlock(text=text),), mode="queue")
    number = (await client.send(command)).event
    assert number is not None
    await until(client, session, TurnEnded, since=number)
    return number


@pytest.mark.requirement("G1.3", "G20.1", "G20.2", "G20.6")
async def test_two_sessions_three_clients_and_an_agent(engine: Engine, folder: str) -> None:
    ann = engine.connect(name="ann", answers=True)
    bob = engine.connect(name="bob", answers=False)
    outer = engine.connect(name="outer", identity="agent", answers=True)
    new = c.CreateSession(cwd=folder, model="demo:scripted")
    violet = (await ann.send(new)).session
    orange = (await bob.send(new)).session
    cleo = engine.connect(name="cleo", answers=False, claims=bound(orange))

    # each of its own, and nobody in the other's
    await said(ann, violet, "violet?")
    await said(bob, orange, "orange?")
    assert await refused(said(bob, violet, "me too")) == "NotAttached"
    assert await refused(said(outer, orange, "me too")) == "NotAttached"

    # who is bound to one session finds no other
    await cleo.send(c.AttachSession(session=orange))
    assert await refused(cleo.send(c.AttachSession(session=violet))) == "UnknownSession"
    assert [one.id for one in (await cleo.ask(q.ListSessions())).sessions] == [orange]
    assert {one.id for one in (await ann.ask(q.ListSessions())).sessions} == {violet, orange}
    assert {hit.session for hit in (await cleo.ask(q.SearchSessions(words="one"))).hits} == {orange}
    assert {hit.session for hit in (await ann.ask(q.SearchSessions(words="one"))).hits} == {violet, orange}
    assert (await cleo.ask(q.SumCosts())).total.requests == 1
    assert (await ann.ask(q.SumCosts())).total.requests == 2
    assert await refused(cleo.ask(q.DescribeSession(session=violet))) == "UnknownSession"
    assert await refused(cleo.ask(q.SumCosts(session=violet))) == "UnknownSession"
    assert (await cleo.ask(q.CheckHealth())).open_sessions == 1

    # an agent works in a session, a person says yes
    await outer.send(c.AttachSession(session=violet))
    command = c.SendInput(session=violet, content=(TextBlock(text="touch it"),))
    sent = await outer.send(command)
    asked = await until(ann, violet, PermissionRequested, since=sent.event or 0)
    yes = c.AnswerPermission(session=violet, call_id=asked.event.call_id, answer="once")
    assert await refused(outer.send(yes)) == "SelfApproval"
    assert await refused(bob.send(yes)) == "NotAttached"
    await ann.send(yes)
    result = await until(outer, violet, ToolResult, since=asked.id)
    assert result.event.outcome == "ok"
    await until(ann, violet, TurnEnded, since=asked.id)

    # all who are attached read the same, in one order
    await bob.send(c.AttachSession(session=violet))
    details = await bob.ask(q.DescribeSession(session=violet))
    assert {one.name for one in details.clients} == {"ann", "bob", "outer"}
    await ann.send(c.EndSession(session=violet))
    readings = [[one async for one in client.events(violet)] for client in (ann, bob, outer)]
    assert readings[0] == readings[1] == readings[2]
    assert isinstance(readings[0][-1].event, SessionEnded)
    assert (await said(cleo, orange, "still there?")) > 0


@pytest.mark.requirement("G1.3", "G20.1", "G41.5")
async def test_neither_settings_nor_crash_nor_end_of_one_session_reach_the_other(
    engine: Engine, folder: str, tmp_path: Path
) -> None:
    ann = engine.connect(name="ann", answers=True)
    bob = engine.connect(name="bob", answers=True)
    cleo = engine.connect(name="cleo", answers=False)
    outer = engine.connect(name="outer", identity="agent", answers=True)

    async def opened(client: Connection, name: str, settings: str) -> str:
        (tmp_path / f"{name}.toml").write_text(settings)
        config = c.SessionOptions(config_file=str(tmp_path / f"{name}.toml"))
        return (await client.send(c.CreateSession(cwd=folder, model="demo:scripted", config=config))).session

    # each works by its own settings
    violet = await opened(ann, "violet", 'mode = "default"\n')
    orange = await opened(cleo, "orange", 'mode = "plan"\n')
    for client, session, mode, plans in ((ann, violet, "default", False), (cleo, orange, "plan", True)):
        assert (await until(client, session, SessionCreated)).event.mode == mode
        tools = {tool.name for tool in (await client.ask(q.ListTools(session=session))).tools}
        assert ("exit_plan_mode" in tools) is plans

    # one waits for a person, the other crashes meanwhile
    await said(ann, violet, "violet?")
    sent = await ann.send(c.SendInput(session=violet, content=(TextBlock(text="touch it"),)))
    asked = await until(ann, violet, PermissionRequested, since=sent.event or 0)
    await cleo.send(c.SetModel(session=orange, model="demo:broken"))
    crashed = await said(cleo, orange, "orange?")
    assert (await until(cleo, orange, TurnEnded, since=crashed)).event.reason == "EngineFault"

    # the second client of the first says yes, after the first has left
    yes = c.AnswerPermission(session=violet, call_id=asked.event.call_id, answer="once")
    await bob.send(c.AttachSession(session=violet))
    await ann.send(c.DetachSession(session=violet))
    assert await refused(ann.send(yes)) == "NotAttached"
    await bob.send(yes)
    decided = await until(bob, violet, PermissionDecided, since=asked.id)
    assert decided.event.answered_by == bob.client
    assert (await until(bob, violet, TurnEnded, since=asked.id)).event.stop == "end_turn"

    # an agent is told why not, by reasons that stay
    await outer.send(c.AttachSession(session=violet))
    looser = c.CreateSession(cwd=folder, model="demo:scripted", mode="yolo")
    own_yes = c.CreateSession(cwd=folder, model="demo:scripted", config=c.SessionOptions(yes=True))
    assert [await refused(outer.send(one)) for one in (looser, own_yes)] == ["OnlyStricter", "NotAPerson"]
    assert await refused(outer.send(c.SetMode(session=violet, mode="yolo"))) == "SelfApproval"
    assert await refused(outer.send(c.EndSession(session=orange))) == "NotAttached"

    # it ends, and goes on for who comes later: what was, byte for byte, then more
    live = [encode_envelope(one) async for one in _until_end(bob, violet)]
    again = await ann.send(c.CreateSession(cwd=folder, resume=violet))
    assert again.session == violet
    reader = ann.events(violet)
    assert [encode_envelope(await anext(reader)) for _ in live] == live
    await said(ann, violet, "go on")

    # the one that crashed is still there too
    await cleo.send(c.SetModel(session=orange, model="demo:scripted"))
    more = await said(cleo, orange, "and now?")
    assert (await until(cleo, orange, TurnEnded, since=more)).event.stop == "end_turn"


async def _until_end(client: Connection, session: str) -> AsyncIterator[Envelope]:
    await client.send(c.EndSession(session=session))
    async for envelope in client.events(session):
        yield envelope


@pytest.mark.requirement("G20.2")
async def test_what_several_say_at_once_has_one_order_for_all(engine: Engine, folder: str) -> None:
    clients = [engine.connect(name=f"c{number}", answers=False) for number in range(3)]
    session = (await clients[0].send(c.CreateSession(cwd=folder, model="demo:scripted"))).session
    for client in clients[1:]:
        await client.send(c.AttachSession(session=session))
    numbers = await asyncio.gather(
        *(
            client.send(c.SendInput(session=session, content=(TextBlock(text=client.client),), mode="queue"))
            for client in clients
        )
    )
    assert len({one.event for one in numbers}) == 3
    for client in clients:
        heard = await until(client, session, TurnEnded, since=max(one.event or 0 for one in numbers))
        assert heard.event.stop == "end_turn"


async def test_what_a_client_may_want_to_know_comes_as_an_answer(engine: Engine, folder: str) -> None:
    client = engine.connect(name="ann", answers=True)
    session = (await client.send(c.CreateSession(cwd=folder, model="demo:scripted"))).session
    await said(client, session, "violet?")
    (info,) = (await client.ask(q.ListSessions(cwd=folder))).sessions
    assert (info.id, info.title, info.turns, info.state) == (session, "violet?", 1, "open")
    assert session.removeprefix("sess_").startswith(info.short_id)
    assert (await client.ask(q.ListSessions(cwd="/nowhere"))).sessions == ()
    tools = {tool.name: tool for tool in (await client.ask(q.ListTools(session=session))).tools}
    assert (tools["bash"].risk, tools["bash"].source) == ("shell", "builtin")
    assert "exit_plan_mode" not in tools, "what the model is told of, and nothing else"
    assert {"compact", "diff", "undo"} <= {one.name for one in (await client.ask(q.ListSlash())).commands}
    assert "careful" in (await client.ask(q.ListProfiles())).profiles
    (named,) = (await client.ask(q.ListProviders(session=session, names=("openai",)))).providers
    assert (named.name, named.local, named.key_from) == ("openai", False, None)
    names = ("demo:scripted", "openai:gpt-5", "nobody:knows")
    demo, known, unknown = (await client.ask(q.ListModels(names=names))).models
    assert (demo.model, demo.local, demo.price_in) == ("demo:scripted", True, None)
    assert known.context_tokens
    assert known.price_out
    assert (unknown.model, unknown.local, unknown.context_tokens) == ("nobody:knows", False, None)
    listed = (await client.ask(q.ListModels(provider="openai"))).models
    assert "openai:gpt-5" in {one.model for one in listed}
    health = await client.ask(q.CheckHealth())
    assert (health.open_sessions, health.disk_has_room) == (1, True)
    assert await refused(client.ask(q.CustomQuery(namespace="x", verb="y"))) == "NotSupported"
    (row,) = (await client.ask(q.SumCosts(by="session"))).rows
    assert row.name == f"{session} violet?"


async def test_a_remembered_yes_is_listed_and_taken_back(engine: Engine, folder: str) -> None:
    client = engine.connect(name="ann", answers=True)
    session = (await client.send(c.CreateSession(cwd=folder, model="demo:scripted"))).session
    await said(client, session, "violet?")
    sent = await client.send(c.SendInput(session=session, content=(TextBlock(text="go"),)))
    asked = await until(client, session, PermissionRequested, since=sent.event or 0)
    await client.send(c.AnswerPermission(session=session, call_id=asked.event.call_id, answer="pattern"))
    await until(client, session, TurnEnded, since=asked.id)
    (grant,) = (await client.ask(q.ListGrants(session=session))).grants
    assert (grant.tool, grant.pattern) == ("bash", "touch")
    await client.send(c.RevokeGrant(session=session, grant_id=grant.grant_id))
    assert (await client.ask(q.ListGrants(session=session))).grants == ()


async def test_sessions_are_put_in_order_by_commands(engine: Engine, folder: str) -> None:
    client = engine.connect(name="ann", answers=True)
    session = (await client.send(c.CreateSession(cwd=folder, model="demo:scripted"))).session
    await said(client, session, "violet?")
    await client.send(c.RenameSession(session=session, title="  a new\n name "))
    await client.send(c.PinSession(session=session))
    info = (await client.ask(q.DescribeSession(session=session))).session
    assert (info.title, info.named, info.pinned) == ("a new name", True, True)
    branch = (await client.send(c.BranchSession(session=session, turn=1))).session
    assert (await client.ask(q.DescribeSession(session=branch))).session.branch_of == session
    assert await refused(client.send(c.DeleteSession(session=session))) == "SessionBusy"
    await client.send(c.DeleteSession(session=branch))
    assert await refused(client.ask(q.DescribeSession(session=branch))) == "UnknownSession"
    await client.send(c.PinSession(session=session, pinned=False))
    assert not (await client.ask(q.DescribeSession(session=session))).session.pinned


@pytest.mark.requirement("G20.8")
async def test_the_class_of_a_client_is_the_one_of_its_claims(engine: Engine, folder: str) -> None:
    claims = Claims(ver=1, jti="t", identity_class="agent", exp=2**40)
    client = engine.connect(name="x", identity="human", answers=True, claims=claims)
    session = (await client.send(c.CreateSession(cwd=folder, model="demo:scripted"))).session
    assert await refused(client.send(c.SetMode(session=session, mode="yolo"))) == "SelfApproval"


async def test_a_session_that_has_just_begun_is_listed_while_it_is_open(engine: Engine, folder: str) -> None:
    driver, person = engine.connect(name="outer", answers=False), engine.connect(name="ann", answers=True)
    session = (await driver.send(c.CreateSession(cwd=folder, model="demo:scripted"))).session
    (found,) = (await person.ask(q.ListSessions(cwd=folder))).sessions
    assert (found.id, found.state, found.title, found.turns) == (session, "open", "", 0)
    assert (await person.ask(q.ListSessions(cwd="/nowhere"))).sessions == ()
    await driver.send(c.EndSession(session=session))
    assert (await person.ask(q.ListSessions(cwd=folder))).sessions == (), "nothing was said in it"


@pytest.mark.requirement("G22.2")
async def test_claims_without_a_list_of_sessions_cover_all_and_an_empty_list_covers_none(
    engine: Engine, folder: str
) -> None:
    ann = engine.connect(name="ann", answers=True)
    session = (await ann.send(c.CreateSession(cwd=folder, model="demo:scripted"))).session
    await said(ann, session, "violet?")
    everything = Claims(ver=1, jti="t", identity_class="human", exp=2**40)
    whole = engine.connect(name="whole", answers=False, claims=everything)
    none = engine.connect(name="none", answers=False, claims=bound())
    assert [one.id for one in (await whole.ask(q.ListSessions())).sessions] == [session]
    await whole.send(c.AttachSession(session=session))
    assert (await none.ask(q.ListSessions())).sessions == ()
    assert await refused(none.send(c.AttachSession(session=session))) == "UnknownSession"
    assert await refused(none.send(c.CreateSession(cwd=folder, model="demo:scripted"))) == "NotGranted"


@pytest.mark.requirement("G1.8", "G23.5")
async def test_what_is_announced_is_there_and_what_is_not_is_refused(engine: Engine, folder: str) -> None:
    client = engine.connect(name="ann", answers=True)
    assert {"branching", "plan_mode"} <= set(client.hello.features)
    assert "ListSessions" in client.hello.query_kinds
    session = (await client.send(c.CreateSession(cwd=folder, model="demo:scripted"))).session
    await said(client, session, "violet?")
    await client.send(c.EnterPlanMode(session=session))
    await client.send(c.ExitPlanMode(session=session, approve=True))
    assert (await client.send(c.BranchSession(session=session))).session != session
    custom = c.CustomCommand(namespace="x", verb="y", session=session)
    assert await refused(client.send(custom)) == "NotSupported"
