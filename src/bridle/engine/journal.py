"""The one place where an event comes into being: stamped, redacted, encoded once, appended, folded, published.

The fold sees the event as it was stored, so the model, the log, every client and a resumed session read the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

import msgspec

from bridle.base.clock import Clock
from bridle.base.redact import is_plain_value, redact, redact_values, stored_marker
from bridle.base.secret_openings import might_hold_secret
from bridle.engine.bus import Bus
from bridle.engine.conversation import Conversation
from bridle.engine.ports import SessionLog
from bridle.protocol.codec import encode_payload, kind_of
from bridle.protocol.events import AnyEvent, DurableEvent, Envelope, LiveEvent, PermissionRequested

E = TypeVar("E", bound=AnyEvent)


class Journal:
    """The events of one session, from the holder of its run lock. `watch` hears of those of `watched` kinds."""

    def __init__(
        self,
        *,
        session: str,
        log: SessionLog,
        clock: Clock,
        bus: Bus,
        conversation: Conversation,
        secrets: Callable[[], Iterable[str]] = tuple,
        watched: Collection[str] = (),
        watch: Callable[[Envelope], None] = lambda _envelope: None,
    ) -> None:
        self.session = session
        self.conversation = conversation
        self.originator = ""
        self.opened: int | None = None
        """The id of the `SessionCreated` that this run of the session began with."""
        self._log = log
        self._clock = clock
        self._bus = bus
        self.secrets = secrets
        self._watched = watched
        self._watch = watch

    def emit(self, event: DurableEvent, *, originator: str | None = None) -> int:
        """Records an event and returns its id. Never waits; raises `StoreError` once the log has failed."""
        event, payload = self._clean(event)
        number = self.conversation.last_id + 1
        envelope = self._envelope(event, number, originator)
        self._log.append(envelope, payload)
        self.conversation.apply(envelope)
        self._bus.publish(envelope, payload)
        if envelope.kind in self._watched:
            self._watch(envelope)
        return number

    def show(self, event: LiveEvent) -> None:
        """Sends a live event to whoever is there. It is not stored and may be dropped."""
        event, payload = self._clean(event)
        self._bus.publish(self._envelope(event, None, None), payload)

    def _clean(self, event: E) -> tuple[E, bytes]:
        """The event without secrets, and its bytes: no known shape, and no key in use whatever it looks like."""
        payload = encode_payload(event)
        in_use = [secret for secret in self.secrets() if secret.encode() in payload]
        if in_use or might_hold_secret(payload):
            event = redacted(event, in_use)
            payload = encode_payload(event)
        return event, payload

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


def redacted(event: E, in_use: Iterable[str] = ()) -> E:
    """The event with every secret in its texts replaced. The shape stays; only strings change.

    In a question nothing is masked that could run: the person who is asked reads all of it.
    """
    asks = isinstance(event, PermissionRequested)
    mask = redact_values if asks else redact

    def clean(text: str) -> str:
        for secret in in_use:
            if not asks or is_plain_value(secret):
                text = text.replace(secret, stored_marker("key"))
        return mask(text)

    return msgspec.convert(_changed(msgspec.to_builtins(event), clean), type(event))


def _changed(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list | tuple):
        return [_changed(item, clean) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {_changed(key, clean): _changed(item, clean) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value
