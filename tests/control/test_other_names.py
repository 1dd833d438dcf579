"""A session that is open is meant by every name it has, as a stored one is; for a bound client no other is there."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import pytest

from bridle.app.engine import Engine
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.protocol import commands as c
from bridle.protocol import queries as q
from bridle.protocol.errors import CommandRefused
from bridle.protocol.messages import TextBlock
from bridle.providers.script import say
from served_kit import Served, served

ALIAS = "ticket/4711"
HELLO = (TextBlock(text="hello"),)


async def opened(kit: Served, folder: Path) -> str:
    """A session that others know by a name of theirs."""
    create = c.CreateSession(cwd=str(folder), model="demo:x", aliases=(ALIAS, "nightly"))
    return (await kit.session.connection.send(create)).session


def person(engine: Engine, name: str = "other"):
    return engine.connect(name=name, identity="human", answers=True)


@pytest.mark.requirement("C23")
async def test_commands_queries_and_events_of_an_open_session_take_its_alias(tmp_path: Path) -> None:
    async with harness(scripted(say("Hi."))) as kit:
        create = c.CreateSession(cwd=str(tmp_path), model="demo:x", aliases=("nightly",))
        session = (await kit.connection.send(create)).session
        other = person(kit.engine)
        assert (await other.send(c.AttachSession(session="nightly"))).session == session
        accepted = await other.send(c.SendInput(session="nightly", content=HELLO))
        assert (accepted.session, accepted.event is not None) == (session, True)
        assert (await other.ask(q.ListTools(session="nightly"))).tools
        async with aclosing(other.events("nightly")) as events:
            async for envelope in events:
                if envelope.id == accepted.event:
                    break
        resumed = await person(kit.engine).send(c.CreateSession(cwd=str(tmp_path), resume="nightly"))
        assert resumed.session == session
        await other.send(c.DetachSession(session="nightly"))
        with pytest.raises(CommandRefused) as refused:
            await other.send(c.SendInput(session="nightly", content=HELLO))
        assert refused.value.reason == "NotAttached"


async def test_a_command_id_is_one_whichever_name_of_the_session_comes_with_it(tmp_path: Path) -> None:
    async with harness(scripted(say("Hi."))) as kit:
        create = c.CreateSession(cwd=str(tmp_path), model="demo:x", aliases=("nightly",))
        session = (await kit.connection.send(create)).session
        by_id = await kit.connection.send(c.SendInput(session=session, content=HELLO, id="once"))
        by_name = await kit.connection.send(c.SendInput(session="nightly", content=HELLO, id="once"))
        assert by_name == by_id


@pytest.mark.parametrize("name", ["nightly", "beginning"])
async def test_an_agent_loosens_no_open_session_by_another_name_of_it(tmp_path: Path, name: str) -> None:
    async with harness(scripted()) as kit:
        create = c.CreateSession(cwd=str(tmp_path), model="demo:x", aliases=("nightly",))
        session = (await kit.connection.send(create)).session
        await kit.connection.send(c.SetMode(session=session, mode="plan"))
        agent = kit.engine.connect(name="agent", identity="agent", answers=True)
        meant = name if name == "nightly" else session[:-1]
        for resume in (session, meant):
            with pytest.raises(CommandRefused) as refused:
                await agent.send(c.CreateSession(cwd=str(tmp_path), resume=resume, mode="default"))
            assert refused.value.reason == "OnlyStricter"


@pytest.mark.requirement("C23")
async def test_requests_take_an_alias_in_the_path(tmp_path: Path) -> None:
    async with served(scripted(say("Hi."))) as kit:
        session = await opened(kit, tmp_path)
        await kit.shake_hands()
        at = "/v1/sessions/nightly"
        assert (await kit.ask("GET", at)).json["session"]["id"] == session
        said = {"content": [{"type": "text", "text": "hi"}]}
        told = await kit.ask("POST", f"{at}/input?wait=turn", said)
        assert (told.json["session"], told.json["text"]) == (session, "[scripted] Hi.")
        async with kit.stream("nightly") as events:
            async for event in events:
                if event.id == told.json["event"]:
                    break


@pytest.mark.requirement("C23")
async def test_a_token_for_one_session_takes_the_aliases_of_that_one_and_of_no_other(tmp_path: Path) -> None:
    async with served(scripted()) as kit:
        session = await opened(kit, tmp_path)
        other = c.CreateSession(cwd=str(tmp_path), model="demo:x", aliases=("of-others",))
        await kit.session.connection.send(other)
        watching = {
            "x-bridle-token": kit.mint(
                sessions=(session,), commands=("AttachSession", "FollowEvents", "DescribeSession")
            )
        }
        await kit.shake_hands(headers=watching)
        assert (await kit.ask("POST", "/v1/sessions/nightly/attach", headers=watching)).json[
            "session"
        ] == session
        assert (await kit.ask("GET", "/v1/sessions/nightly", headers=watching)).status == 200
        for name in ("of-others", "nobody-has-this", session[:-1]):
            for method, path in (("GET", f"/v1/sessions/{name}"), ("POST", f"/v1/sessions/{name}/attach")):
                answer = await kit.ask(method, path, headers=watching)
                assert (answer.status, answer.json["data"]) == (404, {"session": name})
