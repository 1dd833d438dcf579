"""Who wants to be told when something happened in a session: one task for each address, and not too many of them.

What is told is only that there is more to read. The parts of an answer as they come in are no news: its end is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress

import msgspec

from bridle.clients.mcp_server.resource_uris import read_uri
from bridle.protocol import events as e
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.queries import DescribeSession

MOST = 64
"""So many addresses of one client are watched at once."""
_NO_NEWS = (e.TextDelta, e.ThinkingDelta, e.ToolCallProgress, e.Presence, e.TokenExpiring)

News = Callable[[str], Awaitable[None]]
"""Is told the address, as the client wrote it, whenever something is new there."""


class EventWatch:
    """What one outer agent follows. `attached` gives the id of a session it is attached to from then on."""

    def __init__(self, connection: Connection, attached: Callable[[str], Awaitable[str]]) -> None:
        self._connection = connection
        self._attached = attached
        self._count = 0

    @asynccontextmanager
    async def watching(self, uris: Collection[str], news: News) -> AsyncGenerator[None]:
        """Tells of news at these addresses meanwhile. Raises why one of them cannot be watched, before anything is."""
        wanted = list(dict.fromkeys(uris))
        if self._count + len(wanted) > MOST:
            raise CommandRefused("TooManyWatched", most=MOST)
        self._count += len(wanted)
        tasks: list[asyncio.Future[None]] = []
        try:
            sessions = [(uri, await self._session(uri)) for uri in wanted]
            tasks = [
                asyncio.ensure_future(self._tell(uri, session, since, news))
                for uri, found in sessions
                if found is not None
                for session, since in (found,)
            ]
            yield
        finally:
            self._count -= len(wanted)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _session(self, uri: str) -> tuple[str, int] | None:
        """The session whose events say that there is news at an address, and its last event; None where none does."""
        address = read_uri(uri)
        if not address.kind.startswith("session/") and address.kind != "session":
            return None
        session = await self._attached(address.name)
        details = await self._connection.ask(DescribeSession(session=session, events=1))
        return session, last_event(details.events)

    async def _tell(self, uri: str, session: str, since: int, news: News) -> None:
        with suppress(BridleError):
            async for envelope in self._connection.events(session, since=since):
                if not isinstance(envelope.event, _NO_NEWS):
                    await news(uri)


class _Numbered(msgspec.Struct, frozen=True):
    id: int = 0


def last_event(events: Sequence[bytes], otherwise: int = 0) -> int:
    """The id of the last of these stored events."""
    return msgspec.json.decode(events[-1], type=_Numbered).id if events else otherwise
