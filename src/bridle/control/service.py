"""What a listening engine serves over any transport: its clients, its tokens, what it says of itself and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from bridle.base.clock import Clock
from bridle.base.memory_budget import MemoryBudget
from bridle.control.event_batches import OpenStreams
from bridle.control.minting import Minting
from bridle.control.request_guard import TokenReader
from bridle.control.served_clients import ServedClients
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
    """All of it, one line a value."""
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
    """`gauges` are how many sessions are open and how many clients attached.

    `hear_refusal` is told of what is refused at the door, with where it came from: what is refused for its token or for
    who asks is told by those who know. `hear_fault` hears of what nobody foresaw, and of parts that broke. `revoke`
    lets a token go, by the id of the one who wants that.
    """

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
