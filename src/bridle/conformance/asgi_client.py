"""The other end of an ASGI application: requests, streams and WebSockets without a socket, with the same bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from bridle.base.net.websocket_client import SocketClosed, UpgradeRefused
from bridle.conformance.exchanges import HttpAnswer
from bridle.control.request_guard import ORIGIN_STATE, AsgiApp, ConnectionOrigin, Listener

_HOST = "localhost"
LOCAL = ConnectionOrigin(listener=Listener(name="unix", hosts=frozenset({_HOST})), peer="asgi")


def asgi_scope(
    kind: str, target: str, headers: Mapping[str, str], origin: ConnectionOrigin = LOCAL
) -> dict[str, Any]:
    """What a server says of a request, or of a WebSocket, that came from there."""
    path, _, query = target.partition("?")
    return {
        "type": kind,
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http" if kind == "http" else "ws",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [
            (name.lower().encode(), value.encode("latin-1"))
            for name, value in {"Host": _HOST, **headers}.items()
        ],
        "client": None,
        "server": None,
        "state": {ORIGIN_STATE: origin},
        "extensions": {"websocket.http.response": {}},
        "subprotocols": [],
    }


class AsgiExchange:
    """`Exchange` with an application of this process."""

    def __init__(self, app: AsgiApp, origin: ConnectionOrigin = LOCAL) -> None:
        self._app = app
        self._origin = origin

    async def request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
    ) -> HttpAnswer:
        answer = await self._asked(method, target, headers, body)
        try:
            return await answer.whole()
        finally:
            await answer.close()

    async def stream(self, target: str, headers: Mapping[str, str]) -> _AsgiAnswer:
        answer = await self._asked("GET", target, headers, b"")
        if answer.head.status != 200:
            answer.head = await answer.whole()
        return answer

    async def _asked(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> _AsgiAnswer:
        answer = _AsgiAnswer(body)
        await answer.begin(self._app, {**asgi_scope("http", target, headers, self._origin), "method": method})
        return answer


class _AsgiAnswer:
    def __init__(self, body: bytes) -> None:
        self.head = HttpAnswer(0, {})
        self._given: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
        self._left = asyncio.Event()
        self._begun = asyncio.Event()
        self._is_cut = False
        self._running: asyncio.Task[None] | None = None

    async def begin(self, app: AsgiApp, scope: dict[str, Any]) -> None:
        self._running = asyncio.ensure_future(self._run(app, scope))
        await self._begun.wait()
        if self._running.done():
            self._running.result()

    async def _run(self, app: AsgiApp, scope: dict[str, Any]) -> None:
        try:
            await app(scope, self._receive, self._send)
        finally:
            self._begun.set()

    async def _receive(self) -> dict[str, Any]:
        if self._given:
            return self._given.pop()
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
            self.head = HttpAnswer(message["status"], headers)
            self._begun.set()
            return
        if message.get("body"):
            await self._put(message["body"])
        if not message.get("more_body"):
            await self._put(None)

    async def _put(self, piece: bytes | None) -> None:
        """Waits for its reader as a socket does, for as long as there is one."""
        putting = asyncio.ensure_future(self._pieces.put(piece))
        leaving = asyncio.ensure_future(self._left.wait())
        try:
            await asyncio.wait((putting, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            putting.cancel()
            leaving.cancel()

    async def pieces(self) -> AsyncIterator[bytes]:
        while True:
            getting = asyncio.ensure_future(self._pieces.get())
            leaving = asyncio.ensure_future(self._left.wait())
            try:
                await asyncio.wait((getting, leaving), return_when=asyncio.FIRST_COMPLETED)
            finally:
                leaving.cancel()
                if not getting.done():
                    getting.cancel()
            if not getting.done() or getting.cancelled() or self._is_cut:
                raise ConnectionResetError("the connection is gone")
            if (piece := getting.result()) is None:
                return
            yield piece

    async def whole(self) -> HttpAnswer:
        body = b"".join([piece async for piece in self.pieces()])
        return HttpAnswer(self.head.status, self.head.headers, body)

    async def close(self) -> None:
        self._left.set()
        if self._running is not None:
            await asyncio.wait((self._running,))

    def cut(self) -> None:
        self._is_cut = True
        self._left.set()


class AsgiWebSocket:
    """`TextSocket` of an application of this process."""

    def __init__(self) -> None:
        self._given: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._given.put_nowait({"type": "websocket.connect"})
        self._came: asyncio.Queue[bytes | SocketClosed] = asyncio.Queue()
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._denied = 0
        self._over: SocketClosed | None = None
        self._running: asyncio.Task[None] | None = None

    async def open(self, app: AsgiApp, headers: Mapping[str, str]) -> None:
        """Raises `UpgradeRefused`."""
        self._running = asyncio.ensure_future(
            app(asgi_scope("websocket", "/v1/ws", headers), self._receive, self._hear)
        )
        await self._opened

    async def send(self, text: bytes) -> None:
        if self._over is not None:
            raise self._over
        self._given.put_nowait({"type": "websocket.receive", "text": text.decode()})

    async def receive(self) -> bytes:
        if self._over is not None and self._came.empty():
            raise self._over
        came = await self._came.get()
        if isinstance(came, SocketClosed):
            raise came
        return came

    async def close(self) -> None:
        self._end(SocketClosed(1000))
        if self._running is not None:
            await asyncio.wait((self._running,))

    def cut(self) -> None:
        self._end(SocketClosed(1006))

    def _end(self, closed: SocketClosed) -> None:
        if self._over is None:
            self._over = closed
            self._given.put_nowait({"type": "websocket.disconnect", "code": closed.code})
            self._came.put_nowait(closed)

    async def _receive(self) -> dict[str, Any]:
        return await self._given.get()

    async def _hear(self, message: Any) -> None:
        match message["type"]:
            case "websocket.accept":
                self._opened.set_result(None)
            case "websocket.send":
                self._came.put_nowait(message["text"].encode())
            case "websocket.close":
                self._end(SocketClosed(message["code"], message.get("reason") or ""))
            case "websocket.http.response.start":
                self._denied = message["status"]
            case "websocket.http.response.body":
                self._opened.set_exception(UpgradeRefused(self._denied, message["body"]))
            case _:
                pass


async def open_asgi_websocket(app: AsgiApp, token: str) -> AsgiWebSocket:
    """Raises `UpgradeRefused`."""
    socket = AsgiWebSocket()
    await socket.open(app, {"X-Bridle-Token": token})
    return socket
