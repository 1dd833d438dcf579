"""Events on their way to one client: what has come is sent together, and a client that does not read is not waited for.

At most so much is taken from the session ahead of what was sent: what a slow client misses beyond that, the session's
ring drops and tells with `StreamGap`. An engine that ends waits for its streams: what ended them is the last they say.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress

from bridle.protocol.events import Envelope

AHEAD_BYTES = 256 * 1024
TICK_S = 0.016
"""At most sixty batches a second for each client; the first is sent at once."""


class OpenStreams:
    """The event streams that clients have open, SSE and WebSocket together."""

    def __init__(self) -> None:
        self.count = 0
        self._none_left = asyncio.Event()
        self._none_left.set()

    @contextmanager
    def opened(self) -> Generator[None]:
        """One more, until its last word was sent."""
        self.count += 1
        self._none_left.clear()
        try:
            yield
        finally:
            self.count -= 1
            if not self.count:
                self._none_left.set()

    async def over(self) -> None:
        """Returns when none is open."""
        await self._none_left.wait()


class EventBatches:
    """The events of an iterator as bytes, as many at a time as have come. Use it within `event_batches`."""

    def __init__(self, events: AsyncIterator[Envelope], frame: Callable[[Envelope], bytes]) -> None:
        self._events = events
        self._frame = frame
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._is_over = False
        self._failure: Exception | None = None
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._sent_s = 0.0

    async def take(self) -> list[bytes]:
        """What has come, at least one frame; nothing when there will be no more. Raises what reading raised."""
        loop = asyncio.get_running_loop()
        while not self._waiting and not self._is_over:
            self._changed.clear()
            await self._changed.wait()
        if (early_s := self._sent_s + TICK_S - loop.time()) > 0 and not self._is_over:
            await asyncio.sleep(early_s)
        self._sent_s = loop.time()
        taken, self._waiting, self._bytes = self._waiting, [], 0
        self._room.set()
        if not taken and self._failure is not None:
            raise self._failure
        return taken

    async def fill(self) -> None:
        """Reads until there is nothing more, never far ahead of what is taken."""
        try:
            async for envelope in self._events:
                frame = self._frame(envelope)
                self._waiting.append(frame)
                self._bytes += len(frame)
                self._changed.set()
                while self._bytes > AHEAD_BYTES:
                    self._room.clear()
                    await self._room.wait()
        except Exception as failure:  # noqa: BLE001  handed to whoever takes
            self._failure = failure
        finally:
            self._is_over = True
            self._changed.set()


@asynccontextmanager
async def event_batches(
    events: AsyncIterator[Envelope], frame: Callable[[Envelope], bytes]
) -> AsyncGenerator[EventBatches]:
    """Batches that are filled meanwhile; on the way out reading ends."""
    batches = EventBatches(events, frame)
    filling = asyncio.ensure_future(batches.fill())
    try:
        yield batches
    finally:
        filling.cancel()
        with suppress(asyncio.CancelledError):
            await filling
        if isinstance(events, AsyncGenerator):
            await events.aclose()
