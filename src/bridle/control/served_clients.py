"""The clients behind tokens. All requests of one token are one client; every WebSocket is one of its own.

A request acts through its token's attachment. Only an open event stream says that somebody is here: while one is open,
and no longer, questions wait for this client.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Literal, Protocol

from bridle.protocol.commands import AttachSession
from bridle.protocol.connection import Connection
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import Envelope
from bridle.protocol.handshake import check_version
from bridle.protocol.queries import DescribeSession
from bridle.protocol.tokens import Claims

CLIENT_HEADER = "X-Bridle-Client"
"""The id of a token's client, by which it knows what it did itself among the events."""
_CLIENTS_KEPT = 2_000
"""So many ids of WebSocket clients are known after they have gone: who comes back is the same client."""


class ServedConnection(Connection, Protocol):
    """A client of this very engine."""

    @property
    def claims(self) -> Claims | None:
        """Those of its token, with the sessions it opened since where they are its own."""
        ...

    def overhear(self, session: str, *, since: int) -> AsyncGenerator[Envelope]:
        """The events above an id, for a request that waits for one of them: nobody is here by it."""
        ...


class Connect(Protocol):
    """Makes a client of the engine. `client_id` is one it had before; who is `here` only while `following` is nobody
    who could be asked between two streams."""

    def __call__(
        self,
        *,
        name: str,
        claims: Claims,
        answers: bool,
        client_id: str | None = None,
        here: Literal["attached", "following"] = "attached",
    ) -> ServedConnection: ...


class SessionView(Protocol):
    """What is open in this engine, and who is attached to it."""

    def is_open(self, session: str) -> bool: ...

    def is_attached(self, session: str, client: str) -> bool: ...


class TokenClient:
    """The client of one token. It is attached to what it uses, and here in it only while it follows the events."""

    def __init__(self, claims: Claims, connect: Connect, sessions: SessionView) -> None:
        self.claims = claims
        self.connection = connect(
            name=client_name(claims, "rest"), claims=claims, answers=True, here="following"
        )
        self._sessions = sessions
        self._shaken = False

    def shake_hands(self, version: str | None) -> None:
        """From now on it is heard. Raises `HandshakeVersionMismatch`."""
        if version is not None:
            check_version(version)
        self._shaken = True

    def require_handshake(self) -> None:
        if not self._shaken:
            raise CommandRefused("HandshakeRequired")

    async def open_session(self, name: str) -> str:
        """The id of a session that is open, by any name it has. Raises `SessionNotOpen`: nothing is opened by this."""
        if self._sessions.is_open(name):
            return name
        described = await self.connection.ask(DescribeSession(session=name))
        if not self._sessions.is_open(described.session.id):
            raise CommandRefused("SessionNotOpen", session=described.session.id)
        return described.session.id

    async def attached(self, session: str) -> str:
        """The id of a session it is attached to from now on, opened for it where it was only stored."""
        if not self._sessions.is_attached(session, self.connection.client):
            session = (await self.connection.send(AttachSession(session=session))).session
        return session


class ServedClients:
    """Everybody who came with a token."""

    def __init__(self, connect: Connect, sessions: SessionView, check: Callable[[Claims], None]) -> None:
        """`check` raises `CommandRefused` for claims that hold no more."""
        self._connect = connect
        self._sessions = sessions
        self._check = check
        self._of_token: dict[str, TokenClient] = {}
        self._socket_clients: OrderedDict[str, Claims] = OrderedDict()
        """Ids of WebSocket clients, and the claims each had last."""
        self._connected: set[str] = set()

    def of_token(self, claims: Claims) -> TokenClient:
        known = self._of_token.get(claims.jti)
        if known is None:
            self._forget_ended()
            known = self._of_token[claims.jti] = TokenClient(claims, self._connect, self._sessions)
        return known

    def _forget_ended(self) -> None:
        """Tokens come and go: those that hold no more have no client."""
        for jti, client in list(self._of_token.items()):
            try:
                self._check(client.claims)
            except CommandRefused:
                del self._of_token[jti]

    @asynccontextmanager
    async def socket_client(
        self, claims: Claims, *, name: str, answers: bool, before: str = ""
    ) -> AsyncGenerator[Connection]:
        """A client for as long as its socket is open. Who was client `before`, with the same token, is it again."""
        again = None
        had = self._socket_clients.get(before)
        if had is not None and had.jti == claims.jti and before not in self._connected:
            again = before
            if (had.identity_class, had.opens) == (claims.identity_class, claims.opens):
                claims = had
        connection = self._connect(name=name, claims=claims, answers=answers, client_id=again)
        self._socket_clients[connection.client] = claims
        self._socket_clients.move_to_end(connection.client)
        while len(self._socket_clients) > _CLIENTS_KEPT:
            self._socket_clients.popitem(last=False)
        self._connected.add(connection.client)
        try:
            yield connection
        finally:
            if connection.client in self._socket_clients and connection.claims is not None:
                self._socket_clients[connection.client] = connection.claims
            self._connected.discard(connection.client)
            await connection.close()


def client_name(claims: Claims, otherwise: str) -> str:
    """How a client is called where people see who did what."""
    return claims.name or otherwise
