"""The one port a client sees: send a command, ask a query, follow the events, leave.

In process, over a socket or from a browser, a client is written against this and nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from bridle.protocol.commands import Accepted, AnyCommand
from bridle.protocol.events import Envelope
from bridle.protocol.handshake import Handshake
from bridle.protocol.queries import A, Query


class Connection(Protocol):
    """One client's attachment, with one client id for its whole life."""

    @property
    def client(self) -> str:
        """Our id (`cli_…`), fixed at attach."""
        ...

    @property
    def hello(self) -> Handshake:
        """What the other side said of itself."""
        ...

    async def send(self, command: AnyCommand) -> Accepted:
        """Hands a command over.

        Raises: `BridleError` with a stable reason when it is not taken.
        """
        ...

    async def ask(self, query: Query[A]) -> A:
        """What is so right now; nothing changes by it.

        Raises: `BridleError` with a stable reason when this client may not know, or nobody does.
        """
        ...

    def events(self, session: str, *, since: int = 0) -> AsyncIterator[Envelope]:
        """All events with an id above `since`, in order and without gaps, then live ones as they happen.

        Needs an attachment, which `CreateSession` and `AttachSession` make: raises `NotAttached` without one. Ends when
        the session ends, or the client detaches or closes; who was there when it ended may still read how. A reader
        that falls too far behind gets `StreamGap` in place of what it missed; a stored event is never skipped silently.
        """
        ...

    async def close(self) -> None:
        """Detaches. The turn goes on; nothing is lost. Safe to call twice."""
        ...
