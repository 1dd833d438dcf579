"""The numbers of a session's events, their way into the log, and who hears of them when they are kept.

One per session, whoever writes: every `Journal` of the session, that of the main invocation and those of its children,
hands its events in here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec

from bridle.engine.bus import RING_BYTES, RING_EVENTS, Bus
from bridle.engine.conversation import Conversation
from bridle.engine.ports import SessionLog
from bridle.protocol.errors import StoreError
from bridle.protocol.events import Envelope

_AT_ONCE_BYTES = RING_BYTES // 4


class Publisher:
    """Appends, folds into the main conversation, and publishes what survives the death of this process.

    `full` and `room` are called when rows begin to wait for the disk, and when they do not any more. Without a `bus`
    nobody follows: the events are only stored.
    """

    def __init__(
        self,
        *,
        log: SessionLog,
        bus: Bus | None,
        main: Conversation,
        full: Callable[[], None],
        room: Callable[[], None],
    ) -> None:
        self.log = log
        self.main = main
        self.owed_id = 0
        """The last event that is the outcome of a call which may have changed something."""
        self._bus = bus
        self._full = full
        self._room = room
        self._untold: deque[tuple[Envelope, bytes]] = deque()
        self._kept_id = main.last_id
        self._stuck = self._told_full = self._pauses = False
        self._told_bytes = 0
        self._failure: StoreError | None = None
        self._waiting: list[asyncio.Future[None]] = []
        if bus is not None:
            log.listen(self._heard, self._waits_for_room)

    def add(self, envelope: Envelope, payload: bytes) -> None:
        """Takes the next event, which has the number behind that of the main conversation."""
        self.log.append(envelope, payload)
        self.main.apply(envelope)
        if self._bus is not None:
            self._untold.append((envelope, payload))
            if self._stuck:
                self._show_early(envelope, payload)

    def show(self, envelope: Envelope, payload: bytes) -> None:
        """A live event goes to whoever is there, behind what is told first."""
        if self._bus is None:
            return
        if not self._untold:
            self._bus.publish(envelope, payload)
        elif len(self._untold) < RING_EVENTS:
            self._untold.append((envelope, payload))

    def tell_full(self, envelope: Envelope, payload: bytes) -> None:
        """Tells whoever is there, once, and at once: nothing can be stored, this neither."""
        if not self._told_full and self._bus is not None:
            self._told_full = True
            self._bus.publish(envelope, payload)

    def forget_full(self) -> bool:
        """There is room again. Whether it was said that there is none."""
        told, self._told_full = self._told_full, False
        return told

    def _heard(self, last_id: int, failure: StoreError | None) -> None:
        """Rows up to `last_id` are kept, so they are told, and what was to be shown behind them."""
        self._kept_id = max(self._kept_id, last_id)
        self._failure = self._failure or failure
        self._tell()
        if failure is None and self._stuck:
            self._stuck = False
            self._room()

    def _tell(self) -> None:
        """Tells what is kept. After so much of it readers get their turn first: the bus holds only so much for them."""
        assert self._bus is not None
        while self._has_news and not self._pauses:
            envelope, payload = self._untold.popleft()
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

    def _waits_for_room(self) -> None:
        if not self._stuck:
            self._stuck = True
            self._full()
            for envelope, payload in self._untold:
                self._show_early(envelope, payload)

    def _show_early(self, envelope: Envelope, payload: bytes) -> None:
        assert self._bus is not None
        if envelope.id is not None:
            self._bus.publish(msgspec.structs.replace(envelope, id=None), payload)

    async def committed(self) -> None:
        """Returns when everything so far survives the death of this process, and has been told."""
        await self.log.committed()
        if self._has_news:
            told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(told)
            await told

    async def outcomes_kept(self) -> None:
        """Returns when no owed outcome could be gone after a crash: then the model may hear of it."""
        if self.owed_id > self._kept_id:
            await self.log.committed()
