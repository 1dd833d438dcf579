"""An engine that is served, driven through its application: no socket, the same bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from bridle.app.service.serving import make_service
from bridle.base.clock import Clock, SystemClock
from bridle.conformance.asgi_client import AsgiExchange, asgi_scope
from bridle.conformance.harness import HarnessSession, harness
from bridle.control.capability_tokens import Tokens
from bridle.control.http_app import service_app
from bridle.control.request_guard import ConnectionOrigin, Listener
from bridle.control.service import ServiceCounters
from bridle.engine.ports import Provider

PORT = 8421
LOOPBACK = Listener(
    name="tcp",
    hosts=frozenset({f"127.0.0.1:{PORT}", f"localhost:{PORT}"}),
    origins=frozenset({f"http://127.0.0.1:{PORT}", "https://page.example"}),
)
UNIX = Listener(name="unix", hosts=frozenset({"localhost"}))
LAN = Listener(name="tcp", hosts=frozenset({"192.0.2.7:8421"}), public=True)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        return self.json["reason"]


class SseEvent(NamedTuple):
    id: int | None
    event: str
    data: bytes


class Served:
    """A served engine with one session, and a token that may do everything with it."""

    def __init__(self, session: HarnessSession, tokens: Tokens, counters: ServiceCounters, app: Any) -> None:
        self.session = session
        self.tokens = tokens
        self.counters = counters
        self.app = app
        self.token = tokens.issue_bootstrap()
        self.refused: list[tuple[str, str]] = []

    def mint(self, *, life_s: int = 3600, **claims: Any) -> str:
        claims = {"identity_class": "human", "sessions": (self.session.id,), **claims}
        return self.tokens.issue(self.tokens.new_claims(life_s=life_s, **claims))

    def _headers(self, headers: Mapping[str, str] | None) -> dict[str, str]:
        given = {"Host": f"127.0.0.1:{PORT}", "X-Bridle-Token": self.token}
        names = {name.lower(): name for name in given}
        given.update((names.get(name, name), value) for name, value in (headers or {}).items())
        return {name: value for name, value in given.items() if value != "-"}

    def _exchange(self, listener: Listener, refused: str | None) -> AsgiExchange:
        return AsgiExchange(self.app, ConnectionOrigin(listener=listener, peer="127.0.0.1", refused=refused))

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        listener: Listener = LOOPBACK,
        refused: str | None = None,
        raw: bytes | None = None,
    ) -> Answer:
        """One request. A header whose value is "-" is left out."""
        data = raw if raw is not None else b"" if body is None else msgspec.json.encode(body)
        given = self._headers({"content-type": "application/json", **(headers or {})})
        answer = await self._exchange(listener, refused).request(method, path, given, data)
        return Answer(answer.status, dict(answer.headers), answer.body)

    async def shake_hands(self, **options: Any) -> Answer:
        return await self.ask("GET", "/v1/handshake", **options)

    @asynccontextmanager
    async def stream(
        self, session: str, *, since: int | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[SseEvent]]:
        """The events of a session; on the way out the client is gone."""
        last = {} if since is None else {"last-event-id": str(since)}
        target, given = f"/v1/sessions/{session}/events", self._headers({**(headers or {}), **last})
        stream = await self._exchange(LOOPBACK, None).stream(target, given)
        assert stream.head.status == 200

        async def events() -> AsyncIterator[SseEvent]:
            rest = b""
            async for piece in stream.pieces():
                rest += piece
                while b"\n\n" in rest:
                    block, _, rest = rest.partition(b"\n\n")
                    if block.startswith(b":"):
                        continue
                    fields = dict(line.split(b": ", 1) for line in block.split(b"\n"))
                    number = int(fields[b"id"]) if b"id" in fields else None
                    yield SseEvent(number, fields[b"event"].decode(), fields[b"data"])

        try:
            yield events()
        finally:
            await stream.close()

    @asynccontextmanager
    async def websocket(
        self,
        path: str = "/v1/ws",
        *,
        headers: Mapping[str, str] | None = None,
        greeted: bool = True,
        **greeting: Any,
    ) -> AsyncIterator[Socket]:
        origin = ConnectionOrigin(listener=LOOPBACK, peer="127.0.0.1")
        scope = asgi_scope("websocket", path, self._headers(headers), origin)
        socket = Socket()
        running = asyncio.ensure_future(self.app(scope, socket.receive, socket.send))
        try:
            if greeted:
                await socket.tell({"frame": "handshake", "body": {"protocol_version": "0.2.0", **greeting}})
                socket.hello = await socket.hear()
            yield socket
        finally:
            socket.given.put_nowait({"type": "websocket.disconnect", "code": 1006})
            await running


class Socket:
    """The client's end of a WebSocket."""

    def __init__(self) -> None:
        self.given: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.given.put_nowait({"type": "websocket.connect"})
        self.came: asyncio.Queue[Any] = asyncio.Queue()
        self.hello: Any = None
        self.closed: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        self.denied: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._body = b""

    async def receive(self) -> dict[str, Any]:
        return await self.given.get()

    async def send(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "websocket.send":
                await self.came.put(json.loads(message["text"]))
            case "websocket.close":
                self.closed.set_result((message["code"], message.get("reason") or ""))
                self.given.put_nowait({"type": "websocket.disconnect", "code": message["code"]})
                await self.came.put(None)
            case "websocket.http.response.start":
                self.denied.set_result(message["status"])
            case _:
                pass

    async def tell(self, frame: Any) -> None:
        text = frame if isinstance(frame, str) else json.dumps(frame)
        await self.given.put({"type": "websocket.receive", "text": text})

    async def hear(self) -> Any:
        heard = await self.came.get()
        assert heard is not None, f"the socket was closed: {self.closed.result()}"
        return heard

    async def hear_kind(self, frame: str) -> Any:
        while True:
            heard = await self.hear()
            if heard["frame"] == frame:
                return heard

    async def event(self, kind: str) -> Any:
        """The next event of this kind."""
        while True:
            heard = await self.hear_kind("event")
            if heard["body"]["kind"] == kind:
                return heard["body"]


@asynccontextmanager
async def served(model: Provider, *, clock: Clock | None = None, **options: Any) -> AsyncIterator[Served]:
    clock = clock or SystemClock()
    async with harness(model, clock=clock, **options) as session:
        counters = ServiceCounters()
        refused: list[tuple[str, str]] = []
        service = make_service(
            session.engine,
            counters,
            clock=clock,
            hear=lambda reason, peer: refused.append((reason, peer)),
            is_stopping=lambda: False,
        )
        kit = Served(session, session.engine.access.tokens, counters, service_app(service))
        kit.refused = refused
        yield kit


def text(words: str) -> dict[str, Any]:
    """The body of an input."""
    return {"content": [{"type": "text", "text": words}]}
