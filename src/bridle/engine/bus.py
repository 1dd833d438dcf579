"""Events to many readers: one ring, one cursor per reader, bounded memory whatever a reader does.

Publishing never waits. A reader that falls out of the ring is told with `StreamGap` and goes on with what is there;
everything it missed is in the log. Live events of one kind that wait for a reader side by side reach it as one. What is
too large for the ring stands there without content: a reader takes it from the log, where everything durable is before
it is published.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from itertools import groupby

import msgspec

from bridle.engine.ports import SessionLog
from bridle.protocol.codec import is_expired, payload_of, with_payload
from bridle.protocol.events import Envelope, Presence, StreamGap, ToolCallProgress

RING_EVENTS = 5_000
RING_BYTES = 1_500_000
PAGE_EVENTS = 500
MOST_TEXT = 64 * 1024
"""Of what a call printed while a reader was away, so much of the end."""
_COALESCED = (ToolCallProgress, Presence)


_TOO_LARGE = StreamGap(first=0, last=0, reason="slow")
"""Stands in the ring in place of an event that is larger than it."""


class Bus:
    """The ring. `next_id` is the id the next durable event will have."""

    def __init__(self, next_id: int, *, ring_events: int = RING_EVENTS, ring_bytes: int = RING_BYTES) -> None:
        self._ring: deque[Envelope] = deque()
        self._first = 0
        self._next_id = next_id
        self._oldest_id = next_id
        self._bytes = 0
        self._ring_events = ring_events
        self._ring_bytes = ring_bytes
        self._waiting: list[asyncio.Future[None]] = []
        self._closed = False
        self._error: BaseException | None = None
        self.at_close: Callable[[], None] = lambda: None
        """Hears that no more events will come."""
        self._watched: Collection[str] = ()
        self._hear: Callable[[Envelope], None] = lambda _envelope: None

    def watch(self, kinds: Collection[str], hear: Callable[[Envelope], None]) -> None:
        """`hear` hears of durable events of these kinds, before readers do. It returns at once and raises nothing."""
        self._watched, self._hear = kinds, hear

    def publish(self, envelope: Envelope, payload: bytes) -> None:
        if len(payload) <= self._ring_bytes:
            self._ring.append(with_payload(envelope, payload))
            self._bytes += len(payload)
        elif envelope.id is not None:
            self._ring.append(with_payload(msgspec.structs.replace(envelope, event=_TOO_LARGE), b""))
        if envelope.id is not None:
            self._next_id = envelope.id + 1
            if envelope.kind in self._watched:
                self._hear(envelope)
        while len(self._ring) > self._ring_events or self._bytes > self._ring_bytes:
            self._drop_oldest()
        if self._waiting:
            self.wake()

    def close(self, error: BaseException | None = None) -> None:
        """Ends every reader after it has read the ring; `error` is raised to them then."""
        self._closed = True
        self._error = self._error or error
        self.wake()
        self.at_close()

    async def follow(
        self, log: SessionLog, since: int, *, until: Callable[[], bool] = lambda: False
    ) -> AsyncIterator[Envelope]:
        """Yield everything above `since` with its stored bytes: first from the log, then live. End when `until`
        holds; a waiting reader looks again when the bus is woken."""
        last_id = since
        expired: Envelope | None = None
        while last_id + 1 < self._oldest_id and not until():
            page = await log.since(last_id, limit=PAGE_EVENTS)
            if not page:
                break
            for stored in _stored(page):
                together = _one_gap(expired, stored)
                if expired is not None and together is None:
                    yield expired
                expired = together or (stored if stored.kind == "StreamGap" else None)
                if expired is None:
                    yield stored
            last_id = page[-1].id or last_id
        if expired is not None:
            yield expired
        position = self._position_after(last_id)
        while not until():
            if position < self._first:
                gap = self._gap(last_id)
                position = self._first
                if gap is not None:
                    last_id = self._oldest_id - 1
                    yield gap
                    continue  # much may have come meanwhile
            end = self._first + len(self._ring)
            if position == end:
                if self._closed:
                    break
                await self._changed()
                continue
            envelope = self._ring[position - self._first]
            position += 1
            number = envelope.id
            if number is None:
                envelope, position = self._coalesced(envelope, position)
            elif number <= last_id:
                continue  # it was read from the log before it was told
            if envelope.event is _TOO_LARGE:
                for stored in _stored(await log.since(last_id, limit=1)):
                    yield stored
            else:
                yield envelope
            last_id = number or last_id
        if self._error is not None and not until():
            raise self._error

    def _coalesced(self, envelope: Envelope, position: int) -> tuple[Envelope, int]:
        """Join a live event with those right behind it that continue it; return also the position of the next one."""
        kind, start = type(envelope.event), position
        texts: list[str] = []
        while position < self._first + len(self._ring):
            following = self._ring[position - self._first]
            if following.id is not None or type(following.event) is not kind or kind not in _COALESCED:
                break
            if isinstance(envelope.event, ToolCallProgress) and isinstance(following.event, ToolCallProgress):
                if following.event.call_id != envelope.event.call_id:
                    break
                texts.append(envelope.event.text)
            envelope = following
            position += 1
        if position > start and isinstance(envelope.event, ToolCallProgress):
            whole = "".join((*texts, envelope.event.text))[-MOST_TEXT:]
            envelope = msgspec.structs.replace(
                envelope, event=msgspec.structs.replace(envelope.event, text=whole)
            )
        return envelope, position

    def _drop_oldest(self) -> None:
        dropped = self._ring.popleft()
        self._first += 1
        self._bytes -= len(payload_of(dropped))
        if dropped.id is not None:
            self._oldest_id = dropped.id + 1

    def _position_after(self, last_id: int) -> int:
        """Where the first event above `last_id` stands; live events before it belong to the past."""
        for index, envelope in enumerate(self._ring):
            if envelope.id is not None and envelope.id > last_id:
                return self._first + index
        return self._first + len(self._ring)

    def _gap(self, last_id: int) -> Envelope | None:
        """What a reader missed, or None when only live events were dropped."""
        if last_id + 1 >= self._oldest_id:
            return None
        event = StreamGap(first=last_id + 1, last=self._oldest_id - 1, reason="slow")
        return _gap(event, self._ring[0])

    async def _changed(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def wake(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()


def _stored(page: Sequence[Envelope]) -> Iterator[Envelope]:
    """Events from the log. Those whose content has expired are announced as a gap, never passed over."""
    for expired, group in groupby(page, lambda envelope: is_expired(envelope.event)):
        envelopes = list(group)
        if expired:
            first, last = envelopes[0].id or 0, envelopes[-1].id or 0
            yield _gap(StreamGap(first=first, last=last, reason="ttl"), envelopes[0])
        else:
            yield from envelopes


def _one_gap(first: Envelope | None, second: Envelope) -> Envelope | None:
    """Two gaps of expired content side by side as one; None where they are not."""
    if first is None or not isinstance(first.event, StreamGap) or not isinstance(second.event, StreamGap):
        return None
    return _gap(StreamGap(first=first.event.first, last=second.event.last, reason="ttl"), first)


def _gap(event: StreamGap, near: Envelope) -> Envelope:
    return Envelope(
        id=None,
        kind="StreamGap",
        session=near.session,
        originator=near.originator,
        ts_ms=near.ts_ms,
        event=event,
    )
