"""A session as a chain of lines, each naming the one before it, for tools that follow a conversation. Pure.

    {"version": 1, "seq": 7, "uuid": "…", "parentUuid": "…", "timestamp": "…", "sessionId": "sess_…",
     "turnId": "turn_2", "cwd": "/work", "event": {"type": "assistant.completed", …}}

Numbers and ids follow from the log alone: they go on where a session goes on, and are the same whenever it is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec

from bridle.base.clock import iso_ms
from bridle.clients.dotted_events import (
    DottedEvents,
    Fields,
    InvocationFields,
    Told,
    given_fields,
    usage_fields,
)
from bridle.protocol import events as e

VERSION = 1
NAMES = {
    "user.message": "user.message",
    "model.text.delta": "assistant.delta",
    "model.text": "assistant.completed",
    "tool.started": "tool.started",
    "permission.requested": "tool.permission",
    "permission.granted": "tool.permission",
    "permission.denied": "tool.permission",
    "tool.completed": "tool.completed",
    "tool.failed": "tool.completed",
}
"""What is told, and how it is called here. Turns are told too, with the tokens they took."""
CHILD_NAMES = {
    "agent.invocation.started": "agent.started",
    "agent.invocation.completed": "agent.completed",
    "agent.invocation.failed": "agent.completed",
    "agent.invocation.cancelled": "agent.completed",
    "model.text": "agent.message",
    "tool.started": "agent.tool.started",
    "tool.completed": "agent.tool.completed",
    "tool.failed": "agent.tool.completed",
}
"""The same of agents that were sent: nothing of theirs has a name that the conversation itself uses."""
_OF_CHILD = frozenset(name for name in CHILD_NAMES if name.startswith("agent."))

_encode = msgspec.json.Encoder().encode


def chain_lines(envelopes: Iterable[e.Envelope]) -> Iterator[bytes]:
    """The transcript of a whole session, each line with its newline."""
    form = ChainForm()
    for envelope in envelopes:
        yield from form.lines(envelope)


class ChainForm:
    """The same for a session as it grows: it takes the events in order, from the first one on."""

    def __init__(self) -> None:
        self._dotted = DottedEvents()
        self._invocations = InvocationFields()
        self._used: Counter[str] = Counter()
        self._seq = 0
        self._parent: UUID | None = None
        self._cwd = ""
        self._created_ms: int | None = None

    def lines(self, envelope: e.Envelope) -> Iterator[bytes]:
        if self._created_ms is None:
            self._created_ms = envelope.ts_ms
        if isinstance(envelope.event, e.SessionCreated):
            self._cwd = envelope.event.cwd
        if isinstance(envelope.event, e.CostIncremented):
            self._used.update(usage_fields(envelope.event.usage))
        whose, is_own = given_fields(self._invocations.of(envelope)), e.concerns(envelope)
        for told in self._dotted.of(envelope):
            if (event := self._event(told, is_own=is_own)) is not None:
                yield _encode({**self._line(event, envelope), **whose}) + b"\n"

    def about(self, envelope: e.Envelope) -> bytes:
        """The session as one object, up to its event `envelope`, for the file beside the transcript."""
        facts = {
            "version": VERSION,
            "sessionId": envelope.session,
            "cwd": self._cwd,
            "createdAt": iso_ms(self._created_ms or envelope.ts_ms),
            "updatedAt": iso_ms(envelope.ts_ms),
            "lastSeq": self._seq,
            "lastUuid": None if self._parent is None else str(self._parent),
        }
        return _encode(facts) + b"\n"

    def _event(self, told: Told, *, is_own: bool) -> Fields | None:
        if told.name == "turn.ended" and is_own:
            return self._turn(told.fields)
        names = NAMES if is_own and told.name not in _OF_CHILD else CHILD_NAMES
        name = names.get(told.name)
        return None if name is None else {"type": name, **given_fields(told.fields)}

    def _turn(self, fields: Fields) -> Fields:
        usage = dict(self._used)
        self._used.clear()
        name = "turn.completed" if fields["stop"] in ("end_turn", "max_tokens") else "turn.failed"
        return {"type": name, **given_fields(fields), "usage": usage}

    def _line(self, event: Fields, envelope: e.Envelope) -> dict[str, Any]:
        self._seq += 1
        parent, self._parent = self._parent, _uuid(envelope.session, self._seq)
        return {
            "version": VERSION,
            "seq": self._seq,
            "uuid": str(self._parent),
            "parentUuid": None if parent is None else str(parent),
            "timestamp": iso_ms(envelope.ts_ms),
            "sessionId": envelope.session,
            "turnId": None if envelope.turn is None else f"turn_{envelope.turn}",
            "cwd": self._cwd,
            "event": event,
        }


def _uuid(session: str, seq: int) -> UUID:
    return uuid5(NAMESPACE_URL, f"bridle:{session}/{seq}")
