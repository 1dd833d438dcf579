"""Servers that listen, made with the official package: streamable HTTP in both eras, and the older SSE."""

import asyncio
import contextlib
import gzip

import pytest
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import of_kind, outcomes
from bridle.protocol.events import MCPServerDown, ToolResult
from bridle.providers.script import call, say
from mcp_kit import asked_trust, session_with, slash, states, until_phase

ALL = {"allow": ("mcp__*",)}
OPEN = TransportSecuritySettings(enable_dns_rebinding_protection=False)


def made() -> MCPServer:
    server = MCPServer("counter")

    @server.tool()
    def add(a: int, b: int) -> dict[str, int]:
        """Adds."""
        return {"sum": a + b}

    @server.tool()
    def big() -> str:
        """Says too much."""
        return "x" * 6_000_000

    @server.tool()
    async def hang() -> str:
        """Never comes back."""
        await asyncio.Event().wait()
        return ""

    @server.tool()
    async def grow(context: Context) -> str:
        """Has one more tool."""
        server.add_tool(lambda: "more", name="more", description="One more.")
        await context.notify_tools_changed()
        return "grown"

    return server


@contextlib.asynccontextmanager
async def listening(app):
    """The app on a port of this machine, until the test is done."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="on")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        await running


@pytest.mark.requirement("G13.1", "H1.1")
@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_server_that_listens_is_used_like_one_that_is_started(tmp_path, kind):
    server = made()
    app = (
        server.streamable_http_app(transport_security=OPEN)
        if kind == "http"
        else server.sse_app(transport_security=OPEN)
    )
    model = scripted(call("mcp__far__add", a=1, b=2), say("Three."))
    async with listening(app) as origin:
        url = f"{origin}/mcp" if kind == "http" else f"{origin}/sse"
        servers = {"far": {"url": url, "transport": kind, "headers": {"X-Mine": "1"}}}
        async with session_with(model, tmp_path, servers, **ALL) as session:
            state = await until_phase(session, "far", "up")
            events = await session.ask("go")
    (result,) = of_kind(events, ToolResult)
    assert result.outcome == "ok"
    assert '"sum":3' in result.content.replace(" ", "")
    assert state["protocol"] == "2026-07-28"


async def test_a_server_of_the_newer_era_tells_of_its_changes_and_says_not_too_much(tmp_path):
    model = scripted(
        call("mcp__far__grow"), call("mcp__far__big"), say("Ok."), call("mcp__far__more"), say("Ok.")
    )
    async with listening(made().streamable_http_app(transport_security=OPEN)) as origin:
        servers = {"far": {"url": f"{origin}/mcp"}}
        async with session_with(model, tmp_path, servers, answers=True, **ALL) as session:
            await until_phase(session, "far", "up")
            first = await session.ask("go")
            await asked_trust(session, use=True)
            while (await states(session))["far"]["tools"] != 5:
                await asyncio.sleep(0.005)
            second = await session.ask("more")
    assert outcomes(first) == ["ok", "error"]
    assert outcomes(second) == ["ok"]


async def test_a_call_to_a_server_of_the_newer_era_has_the_time_its_settings_give(tmp_path):
    model = scripted(call("mcp__far__hang"), call("mcp__far__add", a=1, b=2), say("Ok."))
    async with listening(made().streamable_http_app(transport_security=OPEN)) as origin:
        servers = {"far": {"url": f"{origin}/mcp", "call_s": 0.3}}
        async with session_with(model, tmp_path, servers, **ALL) as session:
            state = await until_phase(session, "far", "up")
            events = await session.ask("go")
    assert state["protocol"] == "2026-07-28"
    assert outcomes(events) == ["timeout", "ok"]


async def test_a_server_that_is_not_there_is_told_of_and_found_again(tmp_path):
    server = made()
    async with listening(server.streamable_http_app(transport_security=OPEN)) as origin:
        port = int(origin.rpartition(":")[2])
        servers = {"far": {"url": f"{origin}/mcp"}}
    async with session_with(scripted(), tmp_path, servers) as session:
        state = await until_phase(session, "far", "down")
        shown = await slash(session, "mcp")
        stored = [envelope.event for envelope in await session.stored()]
    assert port
    assert "connect" in state["problem"].lower()
    assert "down, is started again" in shown.message
    assert not of_kind(stored, MCPServerDown), "it is not given up yet"


@contextlib.asynccontextmanager
async def relay(port: int, fatal: bytes, broken: asyncio.Event | None = None):
    """A way to a server that breaks whenever these bytes pass; `broken` is set once it is."""
    tasks = set()

    async def serve(reader, writer):
        there, back = await asyncio.open_connection("127.0.0.1", port)

        async def pipe(source, target):
            with contextlib.suppress(ConnectionError):
                while data := await source.read(65536):
                    if fatal in data:
                        target.write(data)
                        await target.drain()
                        break
                    target.write(data)
                    await target.drain()
            for one in (writer, back):
                one.close()
            if broken is not None:
                broken.set()

        for source, target in ((reader, back), (there, writer)):
            task = asyncio.create_task(pipe(source, target))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def of_the_older_era(app):
    """The same server, as one that has never heard of the newer revision."""

    async def asked(scope, receive, send):
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and headers.get(b"mcp-method") == b"server/discover":
            body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}'
            start = {
                "type": "http.response.start",
                "status": 404,
                "headers": [(b"content-type", b"application/json")],
            }
            await send(start)
            await send({"type": "http.response.body", "body": body})
            return
        await app(scope, receive, send)

    return asked


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
async def test_a_stream_that_breaks_in_the_middle_of_a_call_is_no_reason_to_run_it_twice(tmp_path, era):
    ran = []
    broken = asyncio.Event()
    server = made()

    @server.tool()
    async def slow(word: str, context: Context) -> str:
        """Works for a while."""
        ran.append(word)
        broken.clear()
        await context.report_progress(1, 2, "cut" + "-here")
        await broken.wait()
        return "done"

    model = scripted(call("mcp__far__slow", word="a"), call("mcp__far__add", a=1, b=1), say("Done."))
    app = server.streamable_http_app(transport_security=OPEN)
    app = of_the_older_era(app) if era < "2026" else app
    async with listening(app) as origin, relay(int(origin.rpartition(":")[2]), b"cut-here", broken) as port:
        servers = {"far": {"url": f"http://127.0.0.1:{port}/mcp"}}
        async with session_with(model, tmp_path, servers, **ALL) as session:
            state = await until_phase(session, "far", "up")
            lost, second = of_kind(await session.ask("go"), ToolResult)
    assert state["protocol"] == era
    assert (lost.outcome, lost.reason) == ("unknown", "MCPCallLost")
    assert second.outcome == "ok"
    assert ran == ["a"]


async def test_a_call_whose_answer_was_lost_has_an_unknown_outcome_and_is_not_sent_again(tmp_path):
    counted = []
    server = made()

    @server.tool()
    def count(word: str) -> str:
        """Counts."""
        counted.append(word)
        return "counted"

    model = scripted(
        call("mcp__far__count", word="cut-here"), call("mcp__far__count", word="b"), say("Done.")
    )
    app = server.streamable_http_app(transport_security=OPEN)
    async with listening(app) as origin, relay(int(origin.rpartition(":")[2]), b"cut-here") as port:
        servers = {"far": {"url": f"http://127.0.0.1:{port}/mcp"}}
        async with session_with(model, tmp_path, servers, **ALL) as session:
            await until_phase(session, "far", "up")
            events = await session.ask("go")
    lost, second = of_kind(events, ToolResult)
    assert (lost.outcome, lost.reason) == ("unknown", "MCPCallLost")
    assert second.outcome == "ok"
    assert counted in (["cut-here", "b"], ["b"]), "never twice"


def without_types(app):
    """The app, whose results do not say of what type they are."""

    async def answer(scope, receive, send):
        async def sent(message):
            body = message.get("body")
            if body:  # another word of the same length
                message = {**message, "body": body.replace(b'"resultType":', b'"resultTypo":')}
            await send(message)

        await app(scope, receive, sent)

    return answer


async def test_a_result_that_does_not_say_of_what_type_it_is_is_complete(tmp_path):
    model = scripted(call("mcp__far__add", a=1, b=2), say("Three."))
    app = without_types(made().streamable_http_app(transport_security=OPEN))
    async with (
        listening(app) as origin,
        session_with(model, tmp_path, {"far": {"url": f"{origin}/mcp"}}, **ALL) as session,
    ):
        state = await until_phase(session, "far", "up")
        events = await session.ask("go")
    assert (state["protocol"], outcomes(events)) == ("2026-07-28", ["ok"])


async def test_an_answer_that_grows_when_it_is_unpacked_is_not_unpacked(tmp_path):
    small = gzip.compress(b" " * 50_000_000)
    asked = []

    async def packed(scope, receive, send):
        if scope["type"] != "http":
            return
        asked.append(dict(scope["headers"]).get(b"accept-encoding"))
        headers = [(b"content-type", b"application/json"), (b"content-encoding", b"gzip")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": small})

    async with listening(packed) as origin:
        servers = {"far": {"url": f"{origin}/mcp"}}
        async with session_with(scripted(), tmp_path, servers, **ALL) as session:
            state = await until_phase(session, "far", "down")
    assert "it is packed (gzip)" in state["problem"]
    assert set(asked) == {b"identity"}
