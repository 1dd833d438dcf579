"""An engine that is served, driven through its application: no socket, the same bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from bridle.app.serving import make_service
from bridle.base.clock import Clock, SystemClock
from bridle.conformance.harness import HarnessSession, harness
from bridle.control.capability_tokens import Tokens
from bridle.control.http_app import service_app
from bridle.control.request_guard import ORIGIN_STATE, ConnectionOrigin, Listener
from bridle.control.service_metrics import ServiceCounters
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

    def _scope(
        self, kind: str, path: str, headers: Mapping[str, str], listener: Listener, refused: str | None
    ) -> dict[str, Any]:
        path, _, query = path.partition("?")
        given = {"host": f"127.0.0.1:{PORT}", "x-bridle-token": self.token, **headers}
        return {
            "type": kind,
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "scheme": "http" if kind == "http" else "ws",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [
                (name.lower().encode(), value.encode("latin-1"))
                for name, value in given.items()
                if value != "-"
            ],
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", PORT),
            "state": {ORIGIN_STATE: ConnectionOrigin(listener=listener, peer="127.0.0.1", refused=refused)},
            "extensions": {"websocket.http.response": {}},
            "subprotocols": [],
        }

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
        scope = self._scope(
            "http", path, {"content-type": "application/json", **(headers or {})}, listener, refused
        )
        scope["method"] = method
        data = raw if raw is not None else b"" if body is None else msgspec.json.encode(body)
        sent: list[dict[str, Any]] = []
        given = [{"type": "http.request", "body": data, "more_body": False}]
        never = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if given:
                return given.pop()
            await never.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        start, *rest = sent
        found = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], found, b"".join(message.get("body", b"") for message in rest))

    async def shake_hands(self, **options: Any) -> Answer:
        return await self.ask("GET", "/v1/handshake", **options)

    @asynccontextmanager
    async def stream(
        self, session: str, *, since: int | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[SseEvent]]:
        """The events of a session; on the way out the client is gone."""
        scope = self._scope("http", f"/v1/sessions/{session}/events", headers or {}, LOOPBACK, None)
        scope["method"] = "GET"
        if since is not None:
            scope["headers"].append((b"last-event-id", str(since).encode()))
        left = asyncio.Event()
        came: asyncio.Queue[bytes | None] = asyncio.Queue()
        status: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def receive() -> dict[str, Any]:
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                status.set_result(message["status"])
            elif message.get("more_body"):
                await came.put(message["body"])
            else:
                await came.put(None)

        async def events() -> AsyncIterator[SseEvent]:
            rest = b""
            while (piece := await came.get()) is not None:
                rest += piece
                while b"\n\n" in rest:
                    block, _, rest = rest.partition(b"\n\n")
                    if block.startswith(b":"):
                        continue
                    fields = dict(line.split(b": ", 1) for line in block.split(b"\n"))
                    number = int(fields[b"id"]) if b"id" in fields else None
                    yield SseEvent(number, fields[b"event"].decode(), fields[b"data"])

        running = asyncio.ensure_future(self.app(scope, receive, send))
        assert await status == 200
        try:
            yield events()
        finally:
            left.set()
            await running

    @asynccontextmanager
    async def websocket(
        self,
        path: str = "/v1/ws",
        *,
        headers: Mapping[str, str] | None = None,
        greeted: bool = True,
        **greeting: Any,
    ) -> AsyncIterator[Socket]:
        scope = self._scope("websocket", path, headers or {}, LOOPBACK, None)
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
