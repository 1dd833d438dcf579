"""One HTTP connection: received bytes, pending writes and their time limits.

Knows nothing of HTTP. The socket comes connected; who keeps it between requests is decided elsewhere.
"""

import asyncio
from collections.abc import Callable
from typing import Final, cast

import msgspec

from bridle.base.clock import Clock, Timer
from bridle.base.net.http_dial import FaultKind, HttpFault
from bridle.base.net.http_routes import Proxy

_BUFFER_BYTES: Final = 256 * 1024
"""A server that sends faster than the answer is read is held back from here on."""
_PIECE_BYTES: Final = 64 * 1024
_STEADY_READS: Final = 16
"""So many small reads, each on the heels of the one before, are a stream that comes faster than anyone reads."""
_ON_ITS_HEELS_S: Final = 0.004
_SMALL_BYTES: Final = 4 * 1024
_GATHER_S: Final = 0.016
"""Such a stream is read this often. Nobody sees the difference, and a word costs a fraction of a read of its own."""
_TOLERANCE_S: Final = 0.001
"""A timer may come this much early; arming it again for less would never end."""


class Route(msgspec.Struct, frozen=True):
    """Requests with the same route can share a connection."""

    secure: bool
    host: str
    port: int
    proxy: Proxy | None


class _Watch:
    """One timer for one wait after another. Beginning a wait costs a reading of the clock, not a timer."""

    def __init__(self, clock: Clock, expired: Callable[[], None]) -> None:
        self._clock = clock
        self._expired = expired
        self._waiting = False
        self._until = 0.0
        self._due = 0.0
        self._timer: Timer | None = None

    def start(self, seconds: float) -> None:
        self._waiting = True
        self._until = self._clock.monotonic() + seconds
        if self._timer is not None and self._due > self._until:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._arm(seconds)

    def stop(self) -> None:
        self._waiting = False

    def close(self) -> None:
        self._waiting = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, seconds: float) -> None:
        self._due = self._until
        self._timer = self._clock.call_later(seconds, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        left_s = self._until - self._clock.monotonic()
        if left_s > _TOLERANCE_S:
            self._arm(left_s)
        else:
            self._waiting = False
            self._expired()


class HttpSocket(asyncio.Protocol):
    """One socket and what has arrived on it. One request at a time; no waiting outlasts its limit."""

    def __init__(
        self, clock: Clock, route: Route, origin: str, on_lost: Callable[["HttpSocket"], None]
    ) -> None:
        self.route = route
        self.received = 0  # bytes since the last request began
        self.ended = False  # nothing more will arrive
        self.ended_cleanly = False  # because the server said so
        self._kept = False  # nobody asks for anything now
        self.lost = asyncio.Event()
        self._origin = origin
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._arrived: list[bytes] = []
        self._buffered = 0
        self._reading_paused = False
        self._writing_paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._read_s = 0.0
        self._steady = 0
        self._gathering: asyncio.TimerHandle | None = None
        self._watch = _Watch(clock, self._expire)
        self._expired = False

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # Tell as soon as something has to wait. Not 0: asyncio's TLS transport would pause for good.
        self._transport.set_write_buffer_limits(high=1, low=0)

    def data_received(self, data: bytes) -> None:
        if self._kept:
            self.abort()  # nobody asked for this: whatever it answers, it is not our next request
            return
        self._arrived.append(data)
        self.received += len(data)
        self._buffered += len(data)
        if self._buffered > _BUFFER_BYTES and self._transport is not None and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()
        self._gather(len(data))
        self._wake()

    def _gather(self, size: int) -> None:
        """Reads later when the last reads came quickly one after the other: the system collects meanwhile."""
        now_s = self._loop.time()
        quick = now_s - self._read_s < _ON_ITS_HEELS_S and size <= _SMALL_BYTES
        self._steady = self._steady + 1 if quick else 0
        self._read_s = now_s
        if self._steady > _STEADY_READS and self._transport is not None and not self._reading_paused:
            self._transport.pause_reading()
            self._gathering = self._loop.call_later(_GATHER_S, self._gathered)

    def _gathered(self) -> None:
        self._gathering = None
        self._read_s = self._loop.time()
        self._resume_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused or self._gathering is not None or self._transport is None:
            return
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def eof_received(self) -> None:
        self.ended = True
        self.ended_cleanly = self._end_is_vouched_for()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        self._watch.close()
        if self._gathering is not None:
            self._gathering.cancel()
        self.lost.set()
        self._wake()
        self._on_lost(self)

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._wake()

    def _end_is_vouched_for(self) -> bool:
        """Without TLS there is no telling. With it the server says that it ends; anyone can cut a connection."""
        assert self._transport is not None
        tls = self._transport.get_extra_info("ssl_object")
        if tls is None:
            return True
        try:
            return tls.read(1) == b""
        except OSError:  # it waits for more
            return False

    # What a request does.

    def abort(self) -> None:
        """Close the socket without waiting for anything. May be repeated."""
        self.ended = True
        self.ended_cleanly = False
        self._watch.close()
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    def keep(self, idle_s: float) -> None:
        """For the next request, which has to come within this time."""
        self.received = 0
        self._kept = True
        self._watch.start(idle_s)

    def reuse(self) -> None:
        self._kept = False
        self._watch.stop()

    def take(self) -> bytes:
        """Everything that has arrived and was not taken yet."""
        if not self._arrived:
            return b""
        data = self._arrived[0] if len(self._arrived) == 1 else b"".join(self._arrived)
        self._arrived.clear()
        self._buffered = 0
        if self._reading_paused:
            self._reading_paused = False
            self._resume_reading()
        return data

    async def send(self, head: bytes, body: bytes, write_s: float) -> bool:
        """Hand the request to the system. False: the server answered or went away before it had it all."""
        assert self._transport is not None
        self._steady = 0
        room = max(0, _PIECE_BYTES - len(head))
        self._transport.write(head + body[:room])
        await self._until_written(write_s)
        for start in range(room, len(body), _PIECE_BYTES):
            # Let the loop look for an early answer: writing into a socket whose peer has gone loses it.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if self.received or self.ended:
                return False
            self._transport.write(body[start : start + _PIECE_BYTES])
            await self._until_written(write_s)
        return not self._writing_paused

    async def _until_written(self, write_s: float) -> None:
        while self._writing_paused and not (self.received or self.ended):
            await self.wait(write_s, f"the request was not taken for {write_s:g} s", kind="timeout")

    async def wait(self, seconds: float, problem: str, *, kind: FaultKind = "silent") -> None:
        """Until bytes arrive, there is room to write, or the end. Raises HttpFault with `problem` after `seconds`."""
        self._waiter = self._loop.create_future()
        self._watch.start(seconds)
        try:
            await self._waiter
        finally:
            self._watch.stop()
            self._waiter = None
        if self._expired:
            raise HttpFault(kind, self._origin, problem)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _expire(self) -> None:
        self._expired = True
        self.abort()
