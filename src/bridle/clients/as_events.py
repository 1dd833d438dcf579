"""A session as dotted events, one JSON object a line: who, what, when. A child's stand among the others. Pure.

{"type": "tool.completed", "sessionId": "sess_…", "rootSessionId": "sess_…", "eventId": 17, …, "ts": 1700000000000}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from bridle.clients.dotted_events import DottedEvents, Fields, InvocationFields, Told
from bridle.protocol import events as e

_encode = msgspec.json.Encoder().encode


def events_lines(envelopes: Iterable[e.Envelope]) -> Iterator[bytes]:
    """The transcript of a whole session, each line with its newline."""
    form = EventsForm()
    for envelope in envelopes:
        yield from form.lines(envelope)


class EventsForm:
    """The same for a session as it grows: it takes the events in order, from the first one on."""

    def __init__(self) -> None:
        self._dotted = DottedEvents()
        self._invocations = InvocationFields()

    def lines(self, envelope: e.Envelope) -> Iterator[bytes]:
        whose = self._invocations.of(envelope)
        for told in self._dotted.of(envelope):
            yield _encode(_line(told, envelope, whose)) + b"\n"

    def about(self, envelope: e.Envelope) -> None:
        """Nothing stands beside this transcript."""


def _line(told: Told, envelope: e.Envelope, whose: Fields) -> dict[str, Any]:
    """An agent's own part of the session is named by its path in it."""
    path = envelope.agent_path
    line: dict[str, Any] = {
        "type": told.name,
        "sessionId": envelope.session,
        "rootSessionId": envelope.session,
        "eventId": envelope.id,
        "turn": envelope.turn,
        "agentSessionId": "/".join((envelope.session, *path)) if path else None,
        **whose,
        **told.fields,
        "ts": envelope.ts_ms,
    }
    return {name: value for name, value in line.items() if value is not None}
