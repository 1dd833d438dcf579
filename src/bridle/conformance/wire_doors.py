"""Ways to a server for the scenarios of the wire: an engine in this process, and any server over its transports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, cast
from urllib.parse import quote, urlencode

import msgspec
from msgspec import UNSET

from bridle.app.engine import Engine
from bridle.base.net.sse import SseFrameBuffer
from bridle.base.net.websocket_client import TextSocket
from bridle.clients.remote import connect_remote, keep_attached, no_engine, problem_to_raise
from bridle.conformance.exchanges import Exchange, HttpAnswer, OpenStream
from bridle.conformance.token_desks import TokenDesk
from bridle.conformance.wire_scenarios import NotOffered
from bridle.control.routes import Route, routes
from bridle.protocol.codec import decode_envelope, encode_command
from bridle.protocol.commands import Accepted, AnyCommand, DetachSession
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.events import Envelope, IdentityClass
from bridle.protocol.handshake import PROTOCOL_VERSION, Handshake
from bridle.protocol.queries import A, AnyQueryAnswer, Query
from bridle.protocol.tokens import TOKEN_CLAIM_VERSION, Claims

# Everything goes through one token, which is one client to the server. A stream of events that breaks is
# opened again behind the last id that came.


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


FAR_AWAY_S = 4_000_000_000
_ONE_PROCESS = "inside one process there is no wire"


class EngineDoor:
    """An engine of this process, without a wire: claims are handed over, not signed."""

    models = "demo:"
    attaches_itself = False
    falls_behind = True

    def __init__(self, engine: Engine, cwd: str) -> None:
        self.cwd = cwd
        self._engine = engine

    async def connect(
        self,
        *,
        name: str,
        identity: IdentityClass = "human",
        sessions: Sequence[str] | None = None,
        commands: Sequence[str] | None = None,
    ) -> Connection:
        claims = Claims(
            ver=TOKEN_CLAIM_VERSION,
            jti=name,
            identity_class=identity,
            exp=FAR_AWAY_S,
            name=name,
            sessions=UNSET if sessions is None else tuple(sessions),
            commands=UNSET if commands is None else tuple(commands),
        )
        return self._engine.connect(name=name, identity=identity, answers=identity == "human", claims=claims)

    async def knock(self, token: str) -> None:
        raise NotOffered("inside one process there are no tokens")

    def tokens(self) -> dict[str, str]:
        raise NotOffered("inside one process there are no tokens")

    async def barge_in(self) -> None:
        raise NotOffered(_ONE_PROCESS)

    def cut(self, connection: Connection) -> None:
        raise NotOffered(_ONE_PROCESS)

    def left(self) -> None:
        """Nothing is kept of a scenario."""


class Way(Protocol):
    """How a transport is used. `attaches_itself` and `falls_behind` as a `Door` has them."""

    attaches_itself: bool
    falls_behind: bool
    one_client_each: bool
    """A token is one client, however often it comes."""

    async def open(self, token: str, *, name: str, answers: bool) -> Connection: ...

    async def barge_in(self, token: str) -> None:
        """Asks for something before hands were shaken. Raises what that is refused with."""
        ...

    def cut(self, connection: Connection) -> None: ...


class RestWay:
    """Requests and server-sent events."""

    attaches_itself = True
    falls_behind = True
    one_client_each = True

    def __init__(self, exchange: Exchange, address: str) -> None:
        self._exchange = exchange
        self._address = address

    async def open(self, token: str, *, name: str, answers: bool) -> Connection:
        return await connect_rest(self._exchange, token, address=self._address)

    async def barge_in(self, token: str) -> None:
        await RestConnection(self._exchange, token, address=self._address).ask_plainly("GET", "/v1/sessions")

    def cut(self, connection: Connection) -> None:
        assert isinstance(connection, RestConnection)
        connection.cut()


class CuttableSocket(TextSocket, Protocol):
    def cut(self) -> None: ...


class SocketWay:
    """A WebSocket for each client. Its client reads ahead, so that nobody falls behind."""

    attaches_itself = False
    falls_behind = False
    one_client_each = False

    def __init__(self, open_socket: Callable[[str], Awaitable[CuttableSocket]], address: str) -> None:
        self._open_socket = open_socket
        self._address = address
        self._sockets: dict[str, list[CuttableSocket]] = {}

    async def open(self, token: str, *, name: str, answers: bool) -> Connection:
        opened: list[CuttableSocket] = []

        async def open_one() -> TextSocket:
            opened.append(await self._open_socket(token))
            return opened[-1]

        connection = await connect_remote(open_one, address=self._address, name=name, answers=answers)
        self._sockets[connection.client] = opened
        return connection

    async def barge_in(self, token: str) -> None:
        socket = await self._open_socket(token)
        try:
            await socket.send(b'{"frame":"query","id":1,"body":{"kind":"ListSessions"}}')
            answer = msgspec.json.decode(await socket.receive(), type=dict[str, msgspec.Raw])
            if bytes(answer["frame"]) == b'"error"':
                raise problem_to_raise(bytes(answer["body"]))
        finally:
            await socket.close()

    def cut(self, connection: Connection) -> None:
        self._sockets[connection.client][-1].cut()


class ServedDoor:
    """A server over one of its transports, with tokens from a desk."""

    def __init__(self, way: Way, desk: TokenDesk, *, cwd: str, models: str = "demo:") -> None:
        self.cwd = cwd
        self.models = models
        self.attaches_itself = way.attaches_itself
        self.falls_behind = way.falls_behind
        self._way = way
        self._desk = desk

    async def connect(
        self,
        *,
        name: str,
        identity: IdentityClass = "human",
        sessions: Sequence[str] | None = None,
        commands: Sequence[str] | None = None,
    ) -> Connection:
        if sessions is None and commands is None:
            token = self._desk.token(name, identity, alone=self._way.one_client_each)
        else:
            token = self._desk.bound_token(name, identity, sessions, commands)
        return await self._way.open(token, name=name, answers=identity == "human")

    def left(self) -> None:
        self._desk.left()

    async def knock(self, token: str) -> None:
        await (await self._way.open(token, name="stranger", answers=False)).close()

    def tokens(self) -> dict[str, str]:
        return self._desk.bad_tokens()

    async def barge_in(self) -> None:
        await self._way.barge_in(
            self._desk.fresh_token() if self._way.one_client_each else self._desk.any_token()
        )

    def cut(self, connection: Connection) -> None:
        self._way.cut(connection)
