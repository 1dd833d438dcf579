"""Outer agents as tests play them: the official SDK's client, over the door's own transports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from bridle.app.engine import Engine
from bridle.app.service.mcp_mount import MCP_PATH, McpMount
from bridle.app.service.serving import make_service
from bridle.base.clock import Clock, SystemClock
from bridle.clients.mcp_server.agent_tools import ToolNames
from bridle.conformance.harness import HarnessSession, harness
from bridle.control.http_app import service_app
from bridle.control.request_guard import ORIGIN_STATE, AsgiApp, ConnectionOrigin, Listener
from bridle.control.service import Service, ServiceCounters
from bridle.engine.ports import Provider

HOST = "127.0.0.1:8421"
ERAS = ("legacy", "auto")
"""2025-11-25 with its handshake, and 2026-07-28."""
_LISTENER = Listener(name="tcp", hosts=frozenset({HOST}))


class AsgiTransport(httpx2.AsyncBaseTransport):
    """Requests to an application of this process, whose answers come as they are made."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app
        self.listens = asyncio.Event()
        """The client has its own stream for what comes without a request, in the older era."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        left = asyncio.Event()
        came: asyncio.Queue[bytes | None] = asyncio.Queue()
        start: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        given = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if given:
                return given.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                start.set_result(message)
                return
            came.put_nowait(message.get("body", b""))
            if not message.get("more_body"):
                came.put_nowait(None)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": request.url.path,
            "raw_path": request.url.raw_path,
            "root_path": "",
            "query_string": request.url.query,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8421),
            "state": {ORIGIN_STATE: ConnectionOrigin(listener=_LISTENER, peer="127.0.0.1")},
        }
        running = asyncio.ensure_future(self._app(scope, receive, send))
        try:
            await asyncio.wait((start, running), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            left.set()
            raise
        if not start.done():
            running.result()
        if request.method == "GET":
            self.listens.set()
        return httpx2.Response(
            start.result()["status"], headers=start.result()["headers"], stream=_Answer(came, left, running)
        )


class _Answer(httpx2.AsyncByteStream):
    def __init__(
        self, came: asyncio.Queue[bytes | None], left: asyncio.Event, running: asyncio.Future[None]
    ) -> None:
        self._came, self._left, self._running = came, left, running

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._came.get()) is not None:
            yield piece

    async def aclose(self) -> None:
        self._left.set()
        await asyncio.gather(self._running, return_exceptions=True)


class McpServed:
    """A served engine with one session of a person, and its MCP door."""

    def __init__(self, session: HarnessSession, app: AsgiApp) -> None:
        self.session = session
        self.engine = session.engine
        self.tokens = session.engine.access.tokens
        self.app = app
        self.transport = AsgiTransport(app)

    def mint(self, *sessions: str, life_s: int = 3600, **claims: Any) -> str:
        """A token for these sessions, or for those its bearer opens itself."""
        named = {"identity_class": "agent", "sessions": sessions, "opens": not sessions, **claims}
        return self.tokens.issue(self.tokens.new_claims(life_s=life_s, **named))

    @asynccontextmanager
    async def http(self, token: str) -> AsyncIterator[httpx2.AsyncClient]:
        headers = {"authorization": f"Bearer {token}"}
        self.transport = AsgiTransport(self.app)
        async with httpx2.AsyncClient(transport=self.transport, headers=headers) as http:
            yield http

    @asynccontextmanager
    async def agent(self, token: str, *, era: str = "auto", **options: Any) -> AsyncIterator[Client]:
        async with self.http(token) as http:
            target = streamable_http_client(f"http://{HOST}{MCP_PATH}", http_client=http)
            async with Client(target, mode=era, **options) as client:
                yield client


def served_service(engine: Engine) -> Service:
    """What a listening engine serves."""
    return make_service(
        engine,
        ServiceCounters(),
        clock=engine.services.clock,
        hear=engine.access.note_refusal,
        is_stopping=lambda: False,
    )


@asynccontextmanager
async def mcp_served(
    model: Provider, *, clock: Clock | None = None, names: ToolNames = "underscore", **options: Any
) -> AsyncIterator[McpServed]:
    clock = clock or SystemClock()
    async with harness(model, clock=clock, **options) as session:
        mount = McpMount(session.engine, names=names)
        try:
            yield McpServed(session, service_app(served_service(session.engine), {MCP_PATH: mount}))
        finally:
            await mount.close()
