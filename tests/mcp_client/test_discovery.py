"""What the model is told of servers before they are there, and where they have many tools."""

import msgspec
import pytest

from bridle.base.clock import SystemClock
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import of_kind, outcomes
from bridle.mcp.session_servers import BESIDE_S
from bridle.protocol.errors import BridleError
from bridle.protocol.events import Notice, PrefixSet, ToolResult
from bridle.providers.script import call, say
from mcp_kit import server, session_with, states, until, until_phase

ALL = {"allow": ("mcp__*",)}


def prefixes(events) -> list[list[str]]:
    """The tools of servers in each request that had others than the one before."""
    return [
        [tool.name for tool in prefix.tools if tool.name.startswith(("mcp__", "tool_search"))]
        for prefix in of_kind(events, PrefixSet)
    ]


def search_words(events) -> str:
    (found,) = [
        tool.description for tool in of_kind(events, PrefixSet)[0].tools if tool.name == "tool_search"
    ]
    return found


@pytest.mark.requirement("G13.2", "G13.3", "P2")
async def test_many_tools_are_searched_for_and_told_of_once_they_are_found(tmp_path):
    model = scripted(
        call("tool_search", query="number 7", server="many"),
        call("mcp__many__t7"),
        call("mcp__many__t9"),
        say("Done."),
    )
    servers = {"many": server({"tools": 30, "named": [], "name": "Many things"})}
    async with session_with(model, tmp_path, servers, **ALL) as session:
        await until_phase(session, "many", "up")
        events = await session.ask("go")

    assert search_words(events) == (
        "Finds tools of MCP servers by words. What it finds can be called from then on.\n"
        "<untrusted-mcp-servers>many (Many things): 32 tools</untrusted-mcp-servers>"
    )
    first, second, *_third = prefixes(events)
    assert first == ["tool_search"]
    assert "mcp__many__t7" in second
    assert len(second) <= 9
    assert outcomes(events) == ["ok", "ok", "ok"], (
        "one that was not found can be called by its name all the same"
    )
    found = of_kind(events, ToolResult)[0].content
    assert found.startswith(
        "mcp__many__t7\n<untrusted-mcp-description>The tool number 7.</untrusted-mcp-description>\n"
        'input: {"type":"object"}'
    )


@pytest.mark.requirement("P2")
async def test_two_hundred_tools_of_five_servers_take_little_room_in_a_request(tmp_path):
    sizes = []
    many = {f"server{number}": server({"tools": 40, "name": "A server of things"}) for number in range(5)}
    for servers in ({}, many):
        async with session_with(scripted(say("Hi.")), tmp_path, servers) as session:
            for name in servers:
                await until_phase(session, name, "up")
            await session.ask("go")
            sizes.append(len(msgspec.json.encode(session.conversation.prefix.tools)))
    assert 0 < sizes[1] - sizes[0] <= 1536


async def test_a_kept_list_is_told_of_before_the_server_is_there(tmp_path):
    started = tmp_path / "started"
    servers = {"files": server({"started": str(started), "tools": 2, "named": []})}
    folder = tmp_path / "work"
    folder.mkdir()
    async with session_with(scripted(), tmp_path, servers, folder=str(folder)) as session:
        await until_phase(session, "files", "up")
    before = len(started.read_text().split())
    model = scripted(call("mcp__files__t1"), say("Done."))
    async with session_with(model, tmp_path, servers, folder=str(folder), **ALL) as session:
        await states(session)
        state = (await states(session))["files"]
        assert (state["phase"], state["tools"], state["kept"]) == ("waiting", 2, True)
        assert len(started.read_text().split()) == before, "nobody has asked anything yet"
        events = await session.ask("go")
    tools = ["mcp__files__t0", "mcp__files__t1", "mcp__files__list_resources", "mcp__files__read_resource"]
    assert prefixes(events) == [tools]
    assert outcomes(events) == ["ok"]


@pytest.mark.requirement("H1.1")
@pytest.mark.parametrize("kept", [False, True], ids=["cold", "kept"])
async def test_nothing_of_a_server_starts_before_the_first_request_has_left(tmp_path, kept):
    started = tmp_path / "started"
    servers = {"files": server({"started": str(started), "tools": 2, "named": []})}
    folder = tmp_path / "work"
    folder.mkdir()
    if kept:
        async with session_with(scripted(), tmp_path, servers, folder=str(folder)) as session:
            await until_phase(session, "files", "up")
        started.unlink()
    clock = FakeClock(start_ms=SystemClock().now_ms())
    async with session_with(
        scripted(say("Hi.")), tmp_path, servers, folder=str(folder), clock=clock
    ) as session:
        events = await session.ask("go")
        assert not started.exists()
        await clock.advance(BESIDE_S)
        if kept:
            await states(session)
            assert (await states(session))["files"]["phase"] == "waiting", (
                "a kept list is enough for the request"
            )
            await clock.advance(BESIDE_S)
        await until(started.exists)
    assert ("mcp__files__t1" in prefixes(events)[0]) == kept


async def test_a_session_that_nobody_asks_anything_has_its_servers_started_all_the_same(tmp_path):
    started, clock = tmp_path / "started", FakeClock()
    servers = {"files": server({"started": str(started)})}
    async with session_with(scripted(), tmp_path, servers, clock=clock):
        await clock.advance(BESIDE_S)
        await until(started.exists)


async def test_without_a_kept_list_the_first_request_names_who_is_connecting_and_a_call_waits(tmp_path):
    model = scripted(call("mcp__files__t1"), say("Done."))
    servers = {"files": server({"tools": 2, "named": []})}
    async with session_with(model, tmp_path, servers, **ALL) as session:
        events = await session.ask("go")
    assert prefixes(events)[0] == ["tool_search"]
    assert "files: connecting" in search_words(events)
    assert outcomes(events) == ["ok"]


async def test_a_search_waits_for_servers_that_are_connecting(tmp_path):
    model = scripted(call("tool_search", query="number 1"), say("Done."))
    async with session_with(model, tmp_path, {"files": server({"tools": 2, "named": []})}, **ALL) as session:
        events = await session.ask("go")
    assert of_kind(events, ToolResult)[0].content.startswith("mcp__files__t1\n")


async def test_a_run_that_nobody_watches_waits_for_its_servers_and_says_so(tmp_path):
    servers = {"files": server({"tools": 2, "named": []}), "lazy": server(discovery="lazy")}
    async with session_with(scripted(say("Hi.")), tmp_path, servers, headless=True) as session:
        events = await session.ask("go")
    waited = [one for one in of_kind(events, Notice) if one.reason == "MCPWaiting"]
    assert [one.data["names"] for one in waited] == ["files"]
    assert "mcp__files__t0" in prefixes(events)[0]


async def test_a_run_waits_no_longer_than_it_was_told(tmp_path):
    servers = {"files": server({"silent": True})}
    settings = {"mcp": {"start_s": 0.2}}
    async with session_with(
        scripted(say("Hi.")), tmp_path, servers, settings=settings, headless=True
    ) as session:
        events = await session.ask("go")
    assert prefixes(events) == [["tool_search"]]


async def test_what_a_session_was_told_of_it_is_told_of_when_it_goes_on(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    servers = {"many": server({"tools": 30, "named": []})}
    model = scripted(call("tool_search", query="mcp__many__t7"), say("Found."))
    async with session_with(model, tmp_path, servers, folder=str(folder)) as session:
        await until_phase(session, "many", "up")
        await session.ask("go")
        told = [tool.name for tool in session.conversation.prefix.tools]
        name = session.id
    async with session_with(
        scripted(say("Hi.")), tmp_path, servers, folder=str(folder), resume=name
    ) as session:
        await session.ask("again")
        assert [tool.name for tool in session.conversation.prefix.tools] == told
    assert "mcp__many__t7" in told


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"command": ["x"], "url": "http://127.0.0.1:9/"}, "mcp_servers.files: it has both command and url."),
        (
            {"command": ["x"], "transport": "sse"},
            "mcp_servers.files.transport: a server with a command speaks stdio.",
        ),
    ],
)
async def test_what_settings_say_of_a_server_is_refused_with_its_place_and_key(tmp_path, table, problem):
    with pytest.raises(BridleError) as refused:
        async with session_with(scripted(), tmp_path, {"files": table}):
            pass
    assert refused.value.message == f"user config, line 1: {problem}"
