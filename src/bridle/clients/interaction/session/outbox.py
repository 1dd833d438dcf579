"""Send commands one after the other, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bridle.protocol.commands import AnyCommand
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError


class Outbox:
    """Sends commands, and does other work that must not overtake them.

    `readdressed` may change a command just before it goes, `refused` hears of one that was not taken, `done` after
    each piece of work.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        readdressed: Callable[[AnyCommand], AnyCommand],
        refused: Callable[[BridleError, AnyCommand | None], None],
        done: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._readdressed = readdressed
        self._refused = refused
        self._done = done
        self._waiting: asyncio.Queue[AnyCommand | Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._busy = False

    @property
    def empty(self) -> bool:
        return not self._busy and self._waiting.empty()

    def put(self, work: AnyCommand | Callable[[], Awaitable[None]]) -> None:
        self._waiting.put_nowait(work)

    async def run(self) -> None:
        """Works for as long as it is not cancelled."""
        while True:
            work = await self._waiting.get()
            self._busy = True
            try:
                if callable(work):
                    await work()
                else:
                    await self._connection.send(self._readdressed(work))
            except BridleError as refusal:
                self._refused(refusal, None if callable(work) else work)
            finally:
                self._busy = False
            self._done()
