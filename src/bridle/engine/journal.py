"""The one place where an event comes into being: stamped, redacted, encoded once, appended, folded, published.

The fold sees the event as it was stored, so the model, the log, every client and a resumed session read the same text.
Readers hear of it when its row survives the death of this process, not before: what was told is kept, and an id never
comes back with other content. While the disk is full people see what happens without ids, as nothing that is kept; it
comes again with its id once it is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, TypeVar

import msgspec

from bridle.base.clock import Clock
from bridle.base.redact import is_plain_value, redact, redact_values, stored_marker
from bridle.base.secret_openings import might_hold_secret
from bridle.engine.bus import RING_BYTES, RING_EVENTS, Bus
from bridle.engine.conversation import Conversation
from bridle.engine.ports import SessionLog
from bridle.protocol.codec import encode_payload, kind_of
from bridle.protocol.errors import StoreError, sentence
from bridle.protocol.events import (
    AnyEvent,
    Degraded,
    DurableEvent,
    Envelope,
    LiveEvent,
    Notice,
    PermissionRequested,
)

E = TypeVar("E", bound=AnyEvent)

LONG_BYTES = 4 * 1024
"""Looking for secrets in more than this may take longer than the loop should wait."""


_AT_ONCE_BYTES = RING_BYTES // 4


class Journal:
    """The events of one session, from the holder of its run lock. `watch` hears of those of `watched` kinds.

    Without a `bus` nobody follows: the events are only stored.
    """

    def __init__(
        self,
        *,
        session: str,
        log: SessionLog,
        clock: Clock,
        bus: Bus | None,
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
        self._untold: deque[tuple[Envelope, bytes]] = deque()
        self._kept_id = conversation.last_id
        self._owed_id = 0
        self._stuck: StoreError | None = None
        self._told_full = self._pauses = False
        self._leaving = False
        self._gave_up: asyncio.Future[None] | None = None
        self._told_bytes = 0
        self._failure: StoreError | None = None
        self._waiting: list[asyncio.Future[None]] = []
        if bus is not None:
            log.listen(self._heard, self._waits_for_room)

    async def record(self, event: DurableEvent) -> int:
        """`emit` for what may be long: secrets are looked for apart from the loop, which goes on meanwhile."""
        payload = encode_payload(event)
        if len(payload) <= LONG_BYTES:
            event, payload = self._clean(event, payload)
        else:
            from bridle.base.threads import in_thread  # most events are short

            event, payload = await in_thread(partial(self._clean, event, payload))
        return self.emit(event, clean=payload)

    def emit(self, event: DurableEvent, *, originator: str | None = None, clean: bytes | None = None) -> int:
        """Records an event and returns its id. Never waits; raises `StoreError` once the log has failed.

        `clean` are the bytes of an event in which no secret is left.
        """
        event, payload = self._clean(event, encode_payload(event)) if clean is None else (event, clean)
        number = self.conversation.last_id + 1
        envelope = self._envelope(event, number, originator)
        self._log.append(envelope, payload)
        self.conversation.apply(envelope)
        if self._bus is not None:
            self._untold.append((envelope, payload))
            if self._stuck:
                self._show_early(envelope, payload)
        if envelope.kind in self._watched:
            self._watch(envelope)
        return number

    def show(self, event: LiveEvent) -> None:
        """Sends a live event to whoever is there, behind what is told first. It is not stored and may be dropped."""
        event, payload = self._clean(event, encode_payload(event))
        if self._bus is None:
            return
        envelope = self._envelope(event, None, None)
        if not self._untold:
            self._bus.publish(envelope, payload)
        elif len(self._untold) < RING_EVENTS:
            self._untold.append((envelope, payload))

    def disk_is_full(self) -> None:
        """Tells whoever is there, once, and at once: nothing can be stored, this neither."""
        if not self._told_full and self._bus is not None:
            self._told_full = True
            event = Degraded(what="disk", reason="DiskFull", message=sentence("DiskFull", {}))
            self._bus.publish(self._envelope(event, None, None), encode_payload(event))

    def disk_has_room(self) -> None:
        """Says so where it was said to be full."""
        if self._told_full:
            self._told_full = False
            self.emit(Notice(reason="RoomAgain", message=sentence("RoomAgain", {})))

    def _heard(self, last_id: int, failure: StoreError | None) -> None:
        """Rows up to `last_id` are kept, so they are told, and what was to be shown behind them."""
        self._kept_id = max(self._kept_id, last_id)
        self._failure = self._failure or failure
        self._tell()
        if failure is None and self._stuck:
            self._stuck = None
            self.disk_has_room()

    def _tell(self) -> None:
        """Tells what is kept. After so much of it readers get their turn first: the bus holds only so much for them."""
        assert self._bus is not None
        untold, kept_id = self._untold, self._kept_id
        while not self._pauses and untold and (untold[0][0].id or 0) <= kept_id:
            envelope, payload = untold.popleft()
            self._bus.publish(envelope, payload)
            self._told_bytes += len(payload)
            if self._told_bytes > _AT_ONCE_BYTES:
                self._pauses = True
                asyncio.get_running_loop().call_soon(self._go_on)
        if self._has_news:
            return
        if self._failure is not None:
            self._bus.close(self._failure)
        for told in self._waiting:
            if not told.done():
                told.set_result(None)
        self._waiting.clear()

    def _go_on(self) -> None:
        self._pauses, self._told_bytes = False, 0
        self._tell()

    @property
    def _has_news(self) -> bool:
        return bool(self._untold) and (self._untold[0][0].id or 0) <= self._kept_id

    def _waits_for_room(self, failure: StoreError) -> None:
        if not self._stuck:
            self._stuck = failure
            self.disk_is_full()
            for envelope, payload in self._untold:
                self._show_early(envelope, payload)
            if self._leaving:
                self.leave()

    def _show_early(self, envelope: Envelope, payload: bytes) -> None:
        assert self._bus is not None
        if envelope.id is not None:
            self._bus.publish(msgspec.structs.replace(envelope, id=None), payload)

    def _clean(self, event: E, payload: bytes) -> tuple[E, bytes]:
        """The event without secrets, and its bytes: no known shape, and no key in use whatever it looks like."""
        in_use = [secret for secret in self.secrets() if secret.encode() in payload]
        if in_use or might_hold_secret(payload):
            event = redacted(event, in_use)
            payload = encode_payload(event)
        return event, payload

    async def durable(self) -> None:
        await self._log.durable()

    def leave(self) -> None:
        """The session ends: nobody waits any longer for a disk that is full, or that fills up now."""
        self._leaving = True
        if self._stuck and self._gave_up is not None and not self._gave_up.done():
            self._gave_up.set_result(None)

    async def committed(self) -> None:
        """Returns when everything so far survives the death of this process, and has been told.

        Raises `StoreError("NoSpace")` where the disk is full and the session ends.
        """
        if self._gave_up is None:
            self._gave_up = asyncio.get_running_loop().create_future()
        kept = asyncio.ensure_future(self._log.committed())
        try:
            await asyncio.wait((kept, self._gave_up), return_when=asyncio.FIRST_COMPLETED)
        finally:
            kept.cancel()
        if self._stuck and not kept.done():
            raise StoreError(self._stuck.reason, **self._stuck.data)
        kept.result()
        if self._has_news:
            told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(told)
            await told

    def owe(self, number: int) -> None:
        """Event `number` is the outcome of a call that may have changed something."""
        self._owed_id = number

    async def outcomes_kept(self) -> None:
        """Returns when no such outcome could be gone after a crash: then the model may hear of it."""
        if self._owed_id > self._kept_id:
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
