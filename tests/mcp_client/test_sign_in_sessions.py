"""Sessions with a server that lets in whoever has a token: what they send, renew, say, and never say."""

import asyncio
import os

import msgspec
import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import of_kind
from bridle.mcp.server_definitions import ServerDefinition
from bridle.mcp.server_tokens import sign_in_name
from bridle.protocol.events import MCPServerDown, Notice, ToolResult
from bridle.providers.script import call, say
from mcp_kit import asked_trust, session_with, slash, until, until_phase
from mcp_sign_in_kit import guarded, sign_in, signed_in

ALL = {"allow": ("mcp__*",)}
MARK = call("mcp__far__mark", word="a")


def far(app) -> dict:
    return {"far": {"url": app.url, "transport": "sse" if app.path == "/sse" else "http"}}


def env_of(home) -> dict:
    return {"BRIDLE_HOME": str(home)}


def not_let_in(events) -> list[str]:
    return [one.message for one in of_kind(events, Notice) if one.reason == "MCPNotLetIn"]


async def stored_events(session) -> list:
    return [envelope.event for envelope in await session.stored()]


def nowhere(home, *secrets: str) -> None:
    """The secrets stand in no file below the home, as text."""
    for folder, _folders, names in os.walk(home):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
            assert not [one for one in secrets if one.encode() in data], name


@pytest.mark.requirement("G13.1")
@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_stored_token_is_sent_and_a_server_without_one_says_once_what_to_type(tmp_path, kind):
    async with guarded(kind) as app:
        async with session_with(scripted(say("Hello.")), tmp_path, far(app), **ALL) as session:
            state = await until_phase(session, "far", "needs sign-in")
            await session.ask("go")
            shown = await slash(session, "mcp")
            first = await stored_events(session)
        record = sign_in(env_of(tmp_path), app)
        async with session_with(scripted(MARK, say("Ok.")), tmp_path, far(app), **ALL) as session:
            await until_phase(session, "far", "up")
            (result,) = of_kind(await session.ask("go"), ToolResult)
    assert state["problem"] == "needs sign-in: bridle mcp login far"
    assert not_let_in(first) == ["MCP server 'far' needs sign-in: bridle mcp login far"]
    assert not of_kind(first, MCPServerDown)
    assert "far  not let in (needs sign-in: bridle mcp login far)" in shown.message
    assert (result.outcome, app.calls) == ("ok", ["a"])
    assert app.bearers[-1] == record.access_token
    nowhere(tmp_path, record.access_token, record.refresh_token)


async def test_after_a_sign_in_elsewhere_the_running_session_uses_the_server(tmp_path):
    async with guarded() as app:
        model = scripted(say("Not yet."), say("Soon."), MARK, say("Ok."))
        async with session_with(model, tmp_path, far(app), **ALL) as session:
            await until_phase(session, "far", "needs sign-in")
            await session.ask("go")
            sign_in(env_of(tmp_path), app)
            await session.ask("again")  # its request looks whether somebody signed in
            await until_phase(session, "far", "up")
            (result,) = of_kind(await session.ask("now"), ToolResult)
    assert result.outcome == "ok"


async def test_a_restart_uses_a_sign_in_made_meanwhile(tmp_path):
    async with guarded() as app, session_with(scripted(), tmp_path, far(app)) as session:
        await until_phase(session, "far", "needs sign-in")
        sign_in(env_of(tmp_path), app)
        told = await slash(session, "mcp", "restart far")
        await until_phase(session, "far", "up")
    assert told.message == "MCP server far is running again."


async def test_a_token_that_ends_is_renewed_by_itself_and_the_new_one_is_stored(tmp_path):
    async with guarded() as app:
        before = sign_in(env_of(tmp_path), app, ends_in_s=1)
        async with session_with(scripted(MARK, say("Ok.")), tmp_path, far(app), **ALL) as session:
            await until_phase(session, "far", "up")
            (result,) = of_kind(await session.ask("go"), ToolResult)
        after = signed_in(env_of(tmp_path), app)
    assert result.outcome == "ok"
    assert app.token_forms == [
        {
            "grant_type": "refresh_token",
            "refresh_token": before.refresh_token,
            "client_id": "known",
            "resource": app.url,
        }
    ]
    assert after.access_token == app.bearers[-1] != before.access_token
    assert after.refresh_token != before.refresh_token
    assert after.registration == before.registration


async def test_a_token_revoked_in_the_middle_of_a_session_is_renewed_and_the_call_runs_once(tmp_path):
    async with guarded() as app:
        before = sign_in(env_of(tmp_path), app)
        model = scripted(MARK, say("One."), call("mcp__far__mark", word="b"), say("Two."))
        async with session_with(model, tmp_path, far(app), **ALL) as session:
            await until_phase(session, "far", "up")
            await session.ask("go")
            app.access.discard(before.access_token)
            (result,) = of_kind(await session.ask("again"), ToolResult)
    assert result.outcome == "ok"
    assert app.calls == ["a", "b"]
    assert len(app.token_forms) == 1


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_sign_in_that_was_taken_back_ends_the_call_without_a_doubt_and_is_let_go(tmp_path, kind):
    async with guarded(kind) as app:
        before = sign_in(env_of(tmp_path), app)
        model = scripted(MARK, say("One."), call("mcp__far__mark", word="b"), say("Two."))
        async with session_with(model, tmp_path, far(app), **ALL) as session:
            await until_phase(session, "far", "up")
            await session.ask("go")
            app.access.clear()
            app.renewing.clear()
            (result,) = of_kind(await session.ask("again"), ToolResult)
            await until_phase(session, "far", "needs sign-in")
            events = await stored_events(session)
        after = signed_in(env_of(tmp_path), app)
    assert (result.outcome, result.reason) == ("error", "MCPNotLetIn")
    assert "bridle mcp login far" in result.content
    assert app.calls == ["a"]
    assert len(app.token_forms) == 1, "a refresh token is not tried twice"
    assert after.refresh_token is None
    assert len(not_let_in(events)) == 1
    secrets = (before.access_token, before.refresh_token)
    assert not [one for one in secrets if one in repr(events)]


async def test_an_authorization_server_that_is_away_costs_nobody_their_sign_in(tmp_path):
    async with guarded(answers={"/token": (503, {}, b"")}) as app:
        before = sign_in(env_of(tmp_path), app, ends_in_s=-1)
        async with session_with(scripted(), tmp_path, far(app), **ALL) as session:
            state = await until_phase(session, "far", "needs sign-in")
        assert "cannot be used" in state["problem"]
        assert signed_in(env_of(tmp_path), app) == before


async def test_two_sessions_that_need_the_same_sign_in_say_so_and_renew_once(tmp_path):
    async with guarded() as app:
        async with (
            session_with(scripted(), tmp_path / "a", far(app), **ALL) as one,
            session_with(scripted(), tmp_path / "b", far(app), **ALL) as other,
        ):
            await asyncio.gather(*(until_phase(each, "far", "needs sign-in") for each in (one, other)))
        sign_in(env_of(tmp_path / "a"), app, ends_in_s=1)
        async with (
            session_with(scripted(MARK, say("Ok.")), tmp_path / "a", far(app), **ALL) as one,
            session_with(
                scripted(MARK, say("Ok.")), tmp_path / "a", far(app), folder=str(one.folder), **ALL
            ) as other,
        ):
            await asyncio.gather(*(until_phase(each, "far", "up") for each in (one, other)))
            ended = await asyncio.gather(one.ask("go"), other.ask("go"))
    assert [of_kind(events, ToolResult)[0].outcome for events in ended] == ["ok", "ok"]
    assert len(app.token_forms) == 1


async def test_a_call_that_needs_more_than_was_granted_says_so_and_the_next_sign_in_knows(tmp_path):
    async with guarded(wanted_scope="files:write") as app:
        sign_in(env_of(tmp_path), app)
        async with session_with(scripted(MARK, say("Ok.")), tmp_path, far(app), **ALL) as session:
            await until_phase(session, "far", "up")
            (result,) = of_kind(await session.ask("go"), ToolResult)
            await until(lambda: signed_in(env_of(tmp_path), app).registration.challenge)
            state = await until_phase(session, "far", "up")
        kept = signed_in(env_of(tmp_path), app).registration.challenge
    assert (result.outcome, result.reason, app.calls) == ("error", "MCPNotLetIn", [])
    assert 'scope="files:write"' in kept
    assert state["phase"] == "up", "its other tools are there"


async def test_a_sign_in_is_sent_to_the_address_it_was_made_for_and_to_no_other(tmp_path):
    async with guarded() as app, guarded() as other:
        record = sign_in(env_of(tmp_path), app)
        async with session_with(scripted(), tmp_path, {"far": {"url": other.url}}) as session:
            await until_phase(session, "far", "needs sign-in")
    assert set(other.bearers) == {""}
    assert record.access_token not in other.bearers


async def test_a_header_of_the_settings_goes_before_a_sign_in(tmp_path):
    token = "own-" + "token"
    async with guarded() as app:
        app.access.add(token)
        sign_in(env_of(tmp_path), app)
        servers = {"far": {"url": app.url, "headers": {"Authorization": f"Bearer {token}"}}}
        async with session_with(scripted(), tmp_path, servers) as session:
            await until_phase(session, "far", "up")
    assert set(app.bearers) == {token}


async def test_a_sign_in_does_not_follow_a_variable_in_the_address(tmp_path):
    """The same settings, and a variable that leads elsewhere: nothing of the old place is shown there."""
    async with guarded() as app, guarded() as other:
        written = {"far": {"url": "${FAR_ORIGIN}/mcp"}}
        here = ServerDefinition(name="far", part="far", transport="http", url="${FAR_ORIGIN}/mcp")
        there = msgspec.structs.replace(here, url=app.url)
        record = sign_in(env_of(tmp_path), app, stored_as=sign_in_name(here, there))
        env = {"FAR_ORIGIN": app.origin}
        async with session_with(scripted(), tmp_path, written, env=env) as session:
            await until_phase(session, "far", "up")
        env = {"FAR_ORIGIN": other.origin}
        async with session_with(scripted(), tmp_path, written, answers=True, env=env) as session:
            await asked_trust(session, use=True)
            await until_phase(session, "far", "needs sign-in")
    assert record.access_token in app.bearers
    assert set(other.bearers) == {""}
