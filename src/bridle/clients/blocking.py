"""A connection for scripts: the same calls, which return when they are done. It needs no loop around it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import TracebackType

from bridle.clients.remote import Open, RemoteConnection, connect_remote
from bridle.protocol.commands import Accepted, AnyCommand
from bridle.protocol.events import Envelope
from bridle.protocol.handshake import Handshake
from bridle.protocol.queries import A, Query


class BlockingConnection(AbstractContextManager["BlockingConnection"]):
    """`RemoteConnection` without `await`. Nothing happens between two calls; what came meanwhile is there then."""

    def __init__(
        self, open_socket: Open, *, address: str, name: str = "script", answers: bool = False
    ) -> None:
        self._runner = asyncio.Runner()
        try:
            self._connection: RemoteConnection = self._runner.run(
                connect_remote(open_socket, address=address, name=name, answers=answers)
            )
        except BaseException:
            self._runner.close()
            raise

    @property
    def client(self) -> str:
        return self._connection.client

    @property
    def hello(self) -> Handshake:
        return self._connection.hello

    def send(self, command: AnyCommand) -> Accepted:
        return self._runner.run(self._connection.send(command))

    def ask(self, query: Query[A]) -> A:
        return self._runner.run(self._connection.ask(query))

    def events(self, session: str, *, since: int = 0) -> Iterator[Envelope]:
        """As they come, until the session ends or nobody wants more."""
        events = self._connection.events(session, since=since)

        async def following() -> Envelope | None:
            return await anext(events, None)

        while (envelope := self._runner.run(following())) is not None:
            yield envelope

    def close(self) -> None:
        self._runner.run(self._connection.close())
        self._runner.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
