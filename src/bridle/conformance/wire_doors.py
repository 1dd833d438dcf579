"""Ways to a server for the scenarios of the wire: an engine in this process, and any server over its transports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec
from msgspec import UNSET

from bridle.app.engine import Engine
from bridle.base.net.websocket_client import TextSocket
from bridle.clients.remote import connect_remote, problem_to_raise
from bridle.conformance.exchanges import Exchange
from bridle.conformance.rest_connection import RestConnection, connect_rest
from bridle.conformance.token_desks import TokenDesk
from bridle.conformance.wire_scenarios import NotOffered
from bridle.protocol.connection import Connection
from bridle.protocol.events import IdentityClass
from bridle.protocol.tokens import TOKEN_CLAIM_VERSION, Claims

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
