"""The clients behind tokens. All requests of one token are one client; every WebSocket is one of its own.

A request acts through its token's attachment, which lasts as long as the request. Only an open event stream says that
somebody is here: while one is open, and no longer, questions wait for this client.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Protocol

import msgspec

from bridle.protocol.commands import Accepted, AttachSession, DetachSession
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.events import Envelope
from bridle.protocol.handshake import check_version
from bridle.protocol.queries import DescribeSession
from bridle.protocol.tokens import Claims

_CLIENTS_KEPT = 10_000
"""So many ids of WebSocket clients are known after they have gone: who comes back is the same client."""


class Connect(Protocol):
    """Makes a client of the engine. `client_id` is one it had before, or that it shares with another connection."""

    def __call__(
        self, *, name: str, claims: Claims, answers: bool, client_id: str | None = None
    ) -> Connection: ...


class _Presence(msgspec.Struct):
    """How a token's client is in one session: requests under way, streams open, and whether it can be asked."""

    uses: int = 0
    streams: int = 0
    answers: bool = False


class TokenClient:
    """The client of one token. `is_open` says whether a session is open in this engine."""

    def __init__(self, claims: Claims, connect: Connect, is_open: Callable[[str], bool]) -> None:
        self.claims = claims
        self.connection = connect(name=client_name(claims, "rest"), claims=claims, answers=False)
        self._here = connect(
            name=client_name(claims, "rest"), claims=claims, answers=True, client_id=self.connection.client
        )
        self._is_open = is_open
        self._shaken = False
        self._sessions: dict[str, _Presence] = {}

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
        if self._is_open(name):
            return name
        described = await self.connection.ask(DescribeSession(session=name))
        if not self._is_open(described.session.id):
            raise CommandRefused("SessionNotOpen", session=described.session.id)
        return described.session.id

    @asynccontextmanager
    async def within(self, session: str, *, streams: bool = False) -> AsyncGenerator[str]:
        """Attached to a session, which is opened for it; gives its id. With `streams` somebody is here meanwhile."""
        accepted = await self._enter(session, streams=streams)
        try:
            yield accepted
        finally:
            await asyncio.shield(self._leave(accepted, streams=streams))

    def created(self, session: str) -> None:
        """A session was opened by a request, which attached this client to it."""
        self._sessions.setdefault(session, _Presence()).uses += 1

    async def leave_created(self, session: str) -> None:
        """That request is over."""
        await self._leave(session, streams=False)

    def events(self, session: str, since: int) -> AsyncIterator[Envelope]:
        return self._here.events(session, since=since)

    async def _enter(self, name: str, *, streams: bool) -> str:
        known = self._sessions.get(name)
        if known is None or (streams and not known.answers):
            accepted = await self._attach(name, answers=streams)
            name = accepted.session
            known = self._sessions.setdefault(name, _Presence())
            known.answers = known.answers or streams
        known.uses += 1
        known.streams += streams
        return name

    async def _leave(self, session: str, *, streams: bool) -> None:
        known = self._sessions.get(session)
        if known is None:
            return
        known.uses -= 1
        known.streams -= streams
        with suppress(BridleError):  # it ended meanwhile, or was left
            if known.uses == 0:
                del self._sessions[session]
                await self.connection.send(DetachSession(session=session))
            elif known.answers and known.streams == 0:
                known.answers = False
                await self._attach(session, answers=False)

    async def _attach(self, session: str, *, answers: bool) -> Accepted:
        through = self._here if answers else self.connection
        return await through.send(AttachSession(session=session))

    async def close(self) -> None:
        await self.connection.close()


class ServedClients:
    """Everybody who came with a token."""

    def __init__(self, connect: Connect, *, is_open: Callable[[str], bool]) -> None:
        self._connect = connect
        self._is_open = is_open
        self._of_token: dict[str, TokenClient] = {}
        self._sockets: OrderedDict[str, str] = OrderedDict()
        """Ids of WebSocket clients, and the token each came with."""
        self._connected: set[str] = set()

    def of_token(self, claims: Claims) -> TokenClient:
        """The client of all requests of this token."""
        known = self._of_token.get(claims.jti)
        if known is None:
            known = self._of_token[claims.jti] = TokenClient(claims, self._connect, self._is_open)
        return known

    def forget(self, jti: str) -> None:
        """This token is good for nothing any more."""
        self._of_token.pop(jti, None)

    @asynccontextmanager
    async def socket_client(
        self, claims: Claims, *, name: str, answers: bool, before: str = ""
    ) -> AsyncGenerator[Connection]:
        """A client for as long as its socket is open. Who was client `before`, with the same token, is it again."""
        again = before if self._sockets.get(before) == claims.jti and before not in self._connected else None
        connection = self._connect(name=name, claims=claims, answers=answers, client_id=again)
        self._sockets[connection.client] = claims.jti
        self._sockets.move_to_end(connection.client)
        while len(self._sockets) > _CLIENTS_KEPT:
            self._sockets.popitem(last=False)
        self._connected.add(connection.client)
        try:
            yield connection
        finally:
            self._connected.discard(connection.client)
            await connection.close()


def client_name(claims: Claims, otherwise: str) -> str:
    """How a client is called where people see who did what."""
    return getattr(claims, "name", "") or otherwise
