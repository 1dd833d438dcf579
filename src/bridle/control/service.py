"""What a listening engine serves over any transport: its clients, its tokens, what it says of itself and counts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress

import msgspec

from bridle.base.clock import Clock
from bridle.base.memory_budget import MemoryBudget
from bridle.control.minting import Minting
from bridle.control.request_guard import TokenReader
from bridle.control.served_clients import ServedClients
from bridle.protocol.events import Envelope
from bridle.protocol.handshake import Handshake


class ServiceCounters(msgspec.Struct):
    """Counted since the engine began to listen. `refusals` are by reason, what is `open` and `here` is right now."""

    requests: Counter[str] = msgspec.field(default_factory=Counter[str])
    """By kind of what was asked."""
    refusals: Counter[str] = msgspec.field(default_factory=Counter[str])
    events_sent: int = 0
    connections: int = 0
    open_connections: int = 0


def metrics_text(
    counters: ServiceCounters,
    memory: MemoryBudget,
    *,
    streams: int,
    sessions: int,
    clients: int,
    uptime_s: float,
) -> str:
    return "\n".join(
        [
            *_metric("bridle_uptime_seconds", "gauge", "Since the engine began to listen.", uptime_s),
            *_metric("bridle_sessions_open", "gauge", "Sessions that are open.", sessions),
            *_metric("bridle_clients", "gauge", "Clients that are attached to a session.", clients),
            *_metric("bridle_event_streams", "gauge", "Event streams that are open.", streams),
            *_metric("bridle_connections", "gauge", "Connections that are open.", counters.open_connections),
            *_metric("bridle_connections_total", "counter", "Connections so far.", counters.connections),
            *_metric("bridle_cache_bytes", "gauge", "Memory that caches use.", memory.used_bytes),
            *_metric("bridle_cache_evictions_total", "counter", "Evicted entries.", memory.evictions),
            *_metric("bridle_events_sent_total", "counter", "Events sent to clients.", counters.events_sent),
            *_labelled("bridle_requests_total", "Commands and queries by kind.", "kind", counters.requests),
            *_labelled("bridle_refusals_total", "Refusals by reason.", "reason", counters.refusals),
            "",
        ]
    )


def _metric(name: str, kind: str, does: str, value: float) -> Iterable[str]:
    return (f"# HELP {name} {does}", f"# TYPE {name} {kind}", f"{name} {value:g}")


def _labelled(name: str, does: str, label: str, values: Mapping[str, int]) -> Iterator[str]:
    yield from (f"# HELP {name} {does}", f"# TYPE {name} counter")
    for value, count in sorted(values.items()):
        yield f'{name}{{{label}="{value}"}} {count}'


_AT_THE_DOOR = frozenset(
    {
        "TokenMissing", "HostRefused", "OriginRefused", "NotAClient", "OtherUser", "HandshakeRequired",
        "HandshakeVersionMismatch", "BadFrame", "TooLarge", "TooSlow", "TooManyConnections",
    }
)  # fmt: skip


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a listening engine. `gauges` counts open sessions and attached clients. `hear_refusal` is told of
    refusals at the door, `hear_fault` of unforeseen faults; `revoke` takes the id of the token that asks."""

    clients: ServedClients
    tokens: TokenReader
    hello: Callable[[], Handshake]
    clock: Clock
    counters: ServiceCounters
    memory: MemoryBudget
    streams: OpenStreams
    gauges: Callable[[], tuple[int, int]]
    hear_refusal: Callable[[str, str], None]
    hear_fault: Callable[[BaseException], None]
    is_stopping: Callable[[], bool]
    minting: Callable[[], Minting]
    revoke: Callable[[str, str], None]

    def note_refusal(self, reason: str, peer: str) -> None:
        """Counts a refusal and tells of it."""
        self.counters.refusals[reason] += 1
        if reason in _AT_THE_DOOR:
            self.hear_refusal(reason, peer)


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
