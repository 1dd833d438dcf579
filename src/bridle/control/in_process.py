"""The connection of a client in this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TYPE_CHECKING, Literal, cast

import msgspec

from bridle.base.ids import Ids
from bridle.control.multiplex import Multiplexer
from bridle.engine.open_questions import Client
from bridle.protocol.commands import Accepted, AnyCommand, BranchSession, CreateSession
from bridle.protocol.events import Envelope, IdentityClass
from bridle.protocol.tokens import with_session

if TYPE_CHECKING:
    from bridle.protocol.handshake import Handshake
    from bridle.protocol.queries import A, AnyQuery, Query
    from bridle.protocol.tokens import Claims


class InProcessConnection:
    """`Connection` without a wire: the same contract, the same objects."""

    def __init__(
        self,
        multiplexer: Multiplexer,
        client: Client,
        claims: Claims | None,
        hello: Callable[[], Handshake],
    ) -> None:
        self._multiplexer = multiplexer
        self._client = client
        self.claims = claims
        self._hello = hello

    @property
    def client(self) -> str:
        return self._client.id

    @property
    def hello(self) -> Handshake:
        return self._hello()

    async def send(self, command: AnyCommand) -> Accepted:
        accepted = await self._multiplexer.handle(self._client, self.claims, command)
        if (
            self.claims is not None
            and self.claims.opens
            and isinstance(command, CreateSession | BranchSession)
        ):
            self.claims = with_session(self.claims, accepted.session)
        return accepted

    async def ask(self, query: Query[A]) -> A:
        return cast("A", await self._multiplexer.ask(self._client, self.claims, cast("AnyQuery", query)))

    def events(self, session: str, *, since: int = 0) -> AsyncIterator[Envelope]:
        return self._multiplexer.follow(self._client, self.claims, session, since)

    def overhear(self, session: str, *, since: int) -> AsyncGenerator[Envelope]:
        return self._multiplexer.overhear(self._client, self.claims, session, since)

    async def close(self) -> None:
        self._multiplexer.live.leave(self._client)


def client_of(
    ids: Ids,
    *,
    name: str,
    identity: IdentityClass,
    answers: bool,
    claims: Claims | None,
    here: Literal["attached", "following"],
    client_id: str | None,
) -> Client:
    """A new client, or with `client_id` one that comes back. Its id, its class and its claims are fixed for as long as
    it stays; claims name its class and its person. Who is here while `following` counts as present only with an open
    stream of events."""
    person, guest = "", False
    if claims is not None:
        identity, person = claims.identity_class, claims.name
        guest = claims.sessions is not msgspec.UNSET
        answers = answers and claims.covers_command("AnswerPermission")
    return Client(
        id=client_id or ids.new("cli"),
        name=name,
        identity=identity,
        answers=answers,
        person=person,
        here=here,
        guest=guest,
    )
