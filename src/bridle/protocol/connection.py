"""The one port a client sees: send a command, follow the events, leave.

In process, over a socket or from a browser, a client is written against this and nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from bridle.protocol.commands import Accepted, AnyCommand
from bridle.protocol.events import Envelope
from bridle.protocol.handshake import Handshake


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
        """Hands a command over. Raises `BridleError` with a stable reason when it is not taken."""
        ...

    def events(self, session: str, *, since: int = 0) -> AsyncIterator[Envelope]:
        """All events with an id above `since`, in order and without gaps, then live ones as they happen.

        Ends when the session ends or the connection closes. A reader that falls too far behind gets
        `StreamGap` in place of what it missed; a stored event is never skipped silently.
        """
        ...

    async def close(self) -> None:
        """Detaches. The turn goes on; nothing is lost. Safe to call twice."""
        ...
