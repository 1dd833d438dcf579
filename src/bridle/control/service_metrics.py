"""What a listening engine counts, and how it tells it: the text format that Prometheus reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec


class ServiceCounters(msgspec.Struct):
    """Counted since the engine began to listen. `refusals` are by reason, what is `open` and `here` is right now."""

    requests: Counter[str] = msgspec.field(default_factory=Counter[str])
    """By kind of what was asked."""
    refusals: Counter[str] = msgspec.field(default_factory=Counter[str])
    events_sent: int = 0
    connections: int = 0
    open_connections: int = 0


def metrics_text(
    counters: ServiceCounters, *, streams: int, sessions: int, clients: int, uptime_s: float
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
