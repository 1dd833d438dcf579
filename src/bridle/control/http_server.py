"""The HTTP server: uvicorn on sockets we opened, with our own limits, our own look at who connects and our own end.

uvicorn takes no signals here. A head that takes too long or is too long, and a connection too many, are closed before
anything is looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Hashable
from typing import Any

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState, PayloadTooBig

from bridle.control.request_guard import ORIGIN_STATE, AsgiApp, ConnectionOrigin, Listener
from bridle.control.service import ServiceCounters
from bridle.control.websocket_app import GOING_AWAY, MAX_FRAME_BYTES

# A connection that has not sent a whole head yet is pending. There are only so many of those: where one more
# comes, the oldest goes, so that those who send nothing are in nobody's way.


HEAD_S = 10.0
"""So long the head of a request may take."""
HEAD_BYTES = 64 * 1024
MOST_CONNECTIONS = 600
MOST_PENDING = 100
MOST_OF_A_PEER = 300


class ConnectionLimits:
    """Which connections there are, over all listeners."""

    def __init__(
        self,
        *,
        most: int = MOST_CONNECTIONS,
        most_pending: int = MOST_PENDING,
        most_of_a_peer: int = MOST_OF_A_PEER,
        head_s: float = HEAD_S,
    ) -> None:
        self.head_s = head_s
        self._most = most
        self._most_pending = most_pending
        self._most_of_a_peer = most_of_a_peer
        self._pending: OrderedDict[Hashable, Callable[[], None]] = OrderedDict()
        self._peers: Counter[str] = Counter()
        self._of: dict[Hashable, str] = {}

    @property
    def count(self) -> int:
        return len(self._of)

    def admits(self, connection: Hashable, peer: str, shed: Callable[[], None]) -> bool:
        """Takes a connection in, which is pending; False where there is no room. `shed` closes it when its time is up
        for another one."""
        if len(self._pending) >= self._most_pending:
            _, oldest = self._pending.popitem(last=False)
            oldest()
        if len(self._of) >= self._most or self._peers[peer] >= self._most_of_a_peer:
            return False
        self._of[connection] = peer
        self._peers[peer] += 1
        self._pending[connection] = shed
        return True

    def has_asked(self, connection: Hashable) -> None:
        """Its head is whole: it is not pending any more."""
        self._pending.pop(connection, None)

    def gone(self, connection: Hashable) -> None:
        """Safe for one that was never admitted."""
        self._pending.pop(connection, None)
        peer = self._of.pop(connection, None)
        if peer is not None:
            self._peers[peer] -= 1
            if not self._peers[peer]:
                del self._peers[peer]


KEEP_ALIVE_S = 30
END_S = 1
"""So long requests under way have to end when the server does."""
PING_S = 20.0


class ListeningAt(msgspec.Struct, frozen=True, kw_only=True):
    """A socket to serve. `look_at` says who connected."""

    socket: socket.socket
    listener: Listener
    look_at: Callable[[socket.socket | None, Listener], ConnectionOrigin]
    tls_cert: str | None = None
    tls_key: str | None = None


class HttpServer:
    """Serves one application on sockets of its own until `stop`."""

    def __init__(
        self,
        app: AsgiApp,
        listening: ListeningAt,
        limits: ConnectionLimits,
        counters: ServiceCounters,
        shed: Callable[[str, str], None],
    ) -> None:
        http, websocket = _protocol_classes(listening, limits, counters, shed)
        config = uvicorn.Config(
            app,  # pyright: ignore[reportArgumentType]  its own names for the same shapes
            http=http,
            ws=websocket,
            ws_max_size=MAX_FRAME_BYTES,
            ws_ping_interval=PING_S,
            ws_ping_timeout=PING_S,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=END_S,
            ssl_certfile=listening.tls_cert,
            ssl_keyfile=listening.tls_key,
        )
        for name in ("uvicorn", "uvicorn.error"):
            logging.getLogger(name).addHandler(logging.NullHandler())
            logging.getLogger(name).propagate = False
        self._server = _Server(config)
        self._socket = listening.socket
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._serving = asyncio.ensure_future(self._server.serve(sockets=[self._socket]))
        ready = asyncio.ensure_future(self._server.ready.wait())
        await asyncio.wait((self._serving, ready), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._serving.done():
            self._serving.result()

    async def stop(self) -> None:
        """Takes nobody more and ends: what is under way has a moment."""
        self._server.end()
        if self._serving is not None:
            await asyncio.wait((self._serving,))
            self._serving = None


class _Server(uvicorn.Server):
    """uvicorn without its signals and without looking ten times a second whether it should end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self._is_over = asyncio.Event()

    def end(self) -> None:
        self.should_exit = True
        self._is_over.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def main_loop(self) -> None:
        self.ready.set()
        await self._is_over.wait()


def _protocol_classes(
    listening: ListeningAt,
    limits: ConnectionLimits,
    counters: ServiceCounters,
    shed: Callable[[str, str], None],
) -> tuple[type[asyncio.Protocol], type[asyncio.Protocol]]:
    """For HTTP, and for what becomes of it when it is upgraded."""

    def left(transport: Any) -> None:
        limits.gone(transport)
        counters.open_connections = limits.count

    return _http_class(listening, limits, counters, left, shed), _websocket_class(left, shed)


def _websocket_class(
    left: Callable[[Any], None], shed: Callable[[str, str], None]
) -> type[WebSocketsSansIOProtocol]:
    class CountedWebSocketProtocol(WebSocketsSansIOProtocol):
        def connection_lost(self, exc: Exception | None) -> None:
            left(self.transport)
            super().connection_lost(exc)

        def handle_parser_exception(self) -> None:
            """A frame that is too long, or none: it is closed before anybody looks at it."""
            state: dict[str, Any] = self.scope.get("state", {})
            origin: ConnectionOrigin = state[ORIGIN_STATE]
            too_long = isinstance(self.conn.parser_exc, PayloadTooBig)
            shed("TooLarge" if too_long else "BadFrame", origin.peer)
            super().handle_parser_exception()

        def shutdown(self) -> None:
            """Says goodbye, and stays until that is heard: a socket that is closed on something its client just sent
            breaks, and what the client did not read by then is lost. One that says goodbye already is not told."""
            if not self.handshake_complete:
                super().shutdown()
                return
            self.stop_keepalive()
            if self.close_sent:
                return
            try:
                self.conn.send_close(GOING_AWAY)
            except InvalidState:
                self.transport.close()
                return
            self.queue.put_nowait({"type": "websocket.disconnect", "code": GOING_AWAY})
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
            if self.read_paused:
                self.read_paused = False
                self.transport.resume_reading()
            self.close_timer = self.loop.call_later(END_S, self.transport.close)

    return CountedWebSocketProtocol


def _http_class(
    listening: ListeningAt,
    limits: ConnectionLimits,
    counters: ServiceCounters,
    left: Callable[[Any], None],
    shed: Callable[[str, str], None],
) -> type[HttpToolsProtocol]:
    class GuardedHttpProtocol(HttpToolsProtocol):
        """A connection that is known, counted and in time."""

        _head_timer: asyncio.TimerHandle | None = None
        _head_bytes = 0
        _peer = ""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            found: socket.socket | None = transport.get_extra_info("socket")
            origin = listening.look_at(found, listening.listener)
            self._peer = origin.peer
            self.app_state = {**self.app_state, ORIGIN_STATE: origin}
            counters.connections += 1
            if not limits.admits(transport, self._peer, lambda: self._drop("TooSlow")):
                self._drop("TooManyConnections")
                return
            counters.open_connections = limits.count
            self._await_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            left(self.transport)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            self._head_bytes += len(data)
            super().data_received(data)
            if self._head_timer is not None and self._head_bytes > HEAD_BYTES:
                self._drop("TooLarge")

        def on_message_begin(self) -> None:
            super().on_message_begin()
            if self._head_timer is None:
                self._await_head()

        def on_headers_complete(self) -> None:
            self._stop_timer()
            limits.has_asked(self.transport)
            super().on_headers_complete()

        def _await_head(self) -> None:
            self._head_bytes = 0
            self._head_timer = self.loop.call_later(limits.head_s, self._drop, "TooSlow")

        def _stop_timer(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _drop(self, reason: str) -> None:
            self._stop_timer()
            shed(reason, self._peer)
            self.transport.abort()

    return GuardedHttpProtocol
