"""`Connection` over requests and server-sent events: what a script with any HTTP client can do, and no more.

Everything goes through one token, which is one client to the server. A stream of events that breaks is opened again
behind the last id that came.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, cast
from urllib.parse import quote, urlencode

import msgspec

from bridle.base.net.sse import SseFrameBuffer
from bridle.clients.remote import keep_attached, no_engine, problem_to_raise
from bridle.conformance.exchanges import Exchange, HttpAnswer, OpenStream
from bridle.control.routes import Route, routes
from bridle.protocol.codec import decode_envelope, encode_command
from bridle.protocol.commands import Accepted, AnyCommand, DetachSession
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.events import Envelope
from bridle.protocol.handshake import PROTOCOL_VERSION, Handshake
from bridle.protocol.queries import A, AnyQueryAnswer, Query

TRIES = 5
"""So often a broken stream is opened again without anything having come."""
_ROUTES = {kind: route for route in routes() for kind in route.kinds}


class RestConnection:
    """One token's client. Made by `connect_rest`."""

    def __init__(self, exchange: Exchange, token: str, *, address: str) -> None:
        self._exchange = exchange
        self._token = {"X-Bridle-Token": token}
        self._address = address
        self._client = ""
        self._hello = Handshake()
        self._attached: set[str] = set()
        self._streams: set[OpenStream] = set()
        self._closed = False

    @property
    def client(self) -> str:
        return self._client

    @property
    def hello(self) -> Handshake:
        return self._hello

    async def shake_hands(self) -> None:
        answer = await self.ask_plainly("GET", f"/v1/handshake?protocol_version={PROTOCOL_VERSION}")
        self._hello = msgspec.json.decode(answer.body, type=Handshake)
        self._client = answer.headers.get("x-bridle-client", "")

    async def send(self, command: AnyCommand) -> Accepted:
        kind = type(command)
        route = _ROUTES[kind]
        fields = msgspec.json.decode(encode_command(command), type=dict[str, Any])
        body = {name: value for name, value in fields.items() if name in route.beside}
        answer = await self.ask_plainly(route.method, _target(route, fields), msgspec.json.encode(body))
        accepted = msgspec.json.decode(answer.body, type=Accepted)
        keep_attached(self._attached, command, accepted)
        return accepted

    async def ask(self, query: Query[A]) -> A:
        route = _ROUTES[type(query)]
        fields = msgspec.json.decode(msgspec.json.encode(query), type=dict[str, Any])
        given = [
            (name, value)
            for name in route.beside
            if name in fields
            for value in _in_query_string(fields[name])
        ]
        target = _target(route, fields) + (f"?{urlencode(given)}" if given else "")
        answer = await self.ask_plainly("GET", target)
        return cast("A", msgspec.json.decode(answer.body, type=AnyQueryAnswer))

    async def events(self, session: str, *, since: int = 0) -> AsyncIterator[Envelope]:
        last, tries = since, 0
        while True:
            stream = await self._stream(session, last)
            self._streams.add(stream)
            try:
                async for envelope in _read_events(stream):
                    last, tries = max(last, envelope.id or 0), 0
                    yield envelope
                return
            except OSError:
                tries += 1
                if self._closed or tries > TRIES:
                    raise CommandRefused("ConnectionLost", address=self._address) from None
            finally:
                self._streams.discard(stream)
                await stream.close()

    async def _stream(self, session: str, since: int) -> OpenStream:
        self._refuse_when_closed()
        headers = {**self._token, "Accept": "text/event-stream", "Last-Event-ID": str(since)}
        stream = await self._exchange.stream(f"/v1/sessions/{quote(session, safe='')}/events", headers)
        if stream.head.status != 200:
            raise _refusal(stream.head)
        return stream

    def cut(self) -> None:
        """Breaks what is open, as when a cable is pulled."""
        for stream in tuple(self._streams):
            stream.cut()

    async def close(self) -> None:
        if self._closed:
            return
        for session in tuple(self._attached):
            with suppress(BridleError, OSError):
                await self.send(DetachSession(session=session))
        self._closed = True
        for stream in tuple(self._streams):
            await stream.close()

    async def ask_plainly(self, method: str, target: str, body: bytes = b"") -> HttpAnswer:
        """One request. Raises what it was refused with."""
        self._refuse_when_closed()
        headers = {**self._token, **({"Content-Type": "application/json"} if body else {})}
        try:
            answer = await self._exchange.request(method, target, headers, body)
        except OSError as problem:
            raise no_engine(self._address, problem) from None
        if answer.status >= 300:
            raise _refusal(answer)
        return answer

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise CommandRefused("ConnectionLost", address=self._address)


def _refusal(answer: HttpAnswer) -> BridleError:
    try:
        return problem_to_raise(answer.body)
    except msgspec.DecodeError:
        return BridleError("BadFrame", problem=f"it answered {answer.status} without a problem in JSON")


async def _read_events(stream: OpenStream) -> AsyncIterator[Envelope]:
    frames = SseFrameBuffer()
    async for piece in stream.pieces():
        for frame in frames.feed(piece):
            if frame.event == "problem":
                raise problem_to_raise(frame.data.encode())
            yield decode_envelope(frame.data.encode())


def _target(route: Route, fields: dict[str, Any]) -> str:
    return route.path.format(**{name: quote(str(fields[name]), safe="") for name in route.in_path})


def _in_query_string(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for one in cast("list[Any]", value) for text in _in_query_string(one)]
    return [value if isinstance(value, str) else msgspec.json.encode(value).decode()]


async def connect_rest(exchange: Exchange, token: str, *, address: str) -> RestConnection:
    """The client of this token. Raises `CommandRefused`: `NoEngine` where nobody answers, or what the server said."""
    connection = RestConnection(exchange, token, address=address)
    await connection.shake_hands()
    return connection
