"""The one place where an event comes into being: stamped, redacted, encoded once, appended, folded, published.

The fold sees the event as it was stored, so the model, the log, every client and a resumed session read the same text.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from bridle.base.clock import Clock
from bridle.base.redact import might_hold_secret, redact
from bridle.engine.bus import Bus
from bridle.engine.conversation import Conversation
from bridle.engine.ports import SessionLog
from bridle.protocol.codec import encode_payload, kind_of
from bridle.protocol.events import AnyEvent, DurableEvent, Envelope, LiveEvent

E = TypeVar("E", bound=AnyEvent)


class Journal:
    """The events of one session, from the holder of its run lock."""

    def __init__(
        self, *, session: str, log: SessionLog, clock: Clock, bus: Bus, conversation: Conversation
    ) -> None:
        self.session = session
        self.conversation = conversation
        self.originator = ""
        self._log = log
        self._clock = clock
        self._bus = bus

    def emit(self, event: DurableEvent, *, originator: str | None = None) -> int:
        """Records an event and returns its id. Never waits; raises `StoreError` once the log has failed."""
        payload = encode_payload(event)
        if might_hold_secret(payload):
            event = redacted(event)
            payload = encode_payload(event)
        number = self.conversation.last_id + 1
        envelope = self._envelope(event, number, originator)
        self._log.append(envelope, payload)
        self.conversation.apply(envelope)
        self._bus.publish(envelope, payload)
        return number

    def show(self, event: LiveEvent) -> None:
        """Sends a live event to whoever is there. It is not stored and may be dropped."""
        payload = encode_payload(event)
        if might_hold_secret(payload):
            event = redacted(event)
            payload = encode_payload(event)
        self._bus.publish(self._envelope(event, None, None), payload)

    async def durable(self) -> None:
        await self._log.durable()

    async def committed(self) -> None:
        await self._log.committed()

    def _envelope(self, event: AnyEvent, number: int | None, originator: str | None) -> Envelope:
        conversation = self.conversation
        in_turn = conversation.turn_is_open or kind_of(event) == "TurnStarted"
        return Envelope(
            id=number,
            kind=kind_of(event),
            session=self.session,
            originator=self.originator if originator is None else originator,
            ts_ms=self._clock.now_ms(),
            event=event,
            turn=(conversation.turn + (not conversation.turn_is_open)) if in_turn else None,
        )


def redacted(event: E) -> E:
    """The event with every secret in its texts replaced. The shape stays; only strings change."""
    return msgspec.convert(_redacted_value(msgspec.to_builtins(event)), type(event))


def _redacted_value(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list | tuple):
        return [_redacted_value(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {key: _redacted_value(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value
