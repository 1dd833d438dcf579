"""The open log of a session in memory, and who may append to it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence

import msgspec

from bridle.base.clock import Clock
from bridle.engine.ports import Lease, Record
from bridle.protocol.errors import StoreError
from bridle.protocol.events import Envelope
from bridle.sessions.memory_session import Memory, MemorySession
from bridle.sessions.memory_undo import MemoryUndo


class MemoryLog:
    """Implements `engine.store_ports.OpenLog`. Every append makes its lease last for another `lease_ms`."""

    def __init__(
        self, memory: Memory, kept: MemorySession, *, run: str, clock: Clock, lease_ms: int | None
    ) -> None:
        self._memory = memory
        self._kept = kept
        self._clock = clock
        self._lease_ms = lease_ms
        kept.epoch += 1
        self._lease = kept.lease = Lease(holder=run, epoch=kept.epoch, expires_ms=self._until())
        self._closed = False
        self._lost = False
        self._told = self.last_id
        self._tell: Callable[[], None] | None = None

    @property
    def session(self) -> str:
        return self._kept.row.id

    @property
    def log(self) -> str:
        return self._kept.row.log

    @property
    def lease(self) -> Lease:
        return self._lease

    @property
    def last_id(self) -> int:
        return len(self._kept.records)

    def append(self, envelope: Envelope, payload: bytes) -> None:
        if self._closed:
            raise ValueError(f"the log of {self.session} is closed")
        with self._memory.lock:
            self.refuse_lost()
            if envelope.id != self.last_id + 1:
                raise ValueError(f"event {envelope.id} cannot follow event {self.last_id}")
            if envelope.session != self.session:
                raise ValueError(f"an event of {envelope.session} does not belong to {self.session}")
            self._kept.take_in(Record(envelope, payload))
            if self._lease_ms is not None:
                self._lease = self._kept.lease = msgspec.structs.replace(
                    self._lease, expires_ms=self._until()
                )
        if self._tell is not None:
            self._tell()

    def refuse_lost(self) -> None:
        """Raises `LeaseLost` once another has taken the log, or it was deleted."""
        if not self._lost and self._is_there and self._kept.epoch == self._lease.epoch:
            return
        if not self._lost:
            self._lost = True
            if self._tell is not None:
                self._tell()
        raise self._lease_lost()

    @property
    def _is_there(self) -> bool:
        return self._memory.sessions.get(self.session) is self._kept

    def _lease_lost(self) -> StoreError:
        lease = self._kept.lease
        ended = "which has ended since" if self._is_there else "it was deleted"
        holder = lease.holder if lease is not None else ended
        return StoreError("LeaseLost", session=self.session, holder=holder)

    def listen(
        self, heard: Callable[[int, StoreError | None], None], stuck: Callable[[StoreError], None]
    ) -> None:
        """What is in memory survives nothing, so it is told as kept as soon as the loop comes to it."""
        loop = asyncio.get_running_loop()
        self._told = self.last_id

        def tell() -> None:
            if self._lost:
                heard(0, self._lease_lost())
            elif self._told < self.last_id:
                self._told = self.last_id
                heard(self._told, None)

        self._tell = lambda: loop.call_soon_threadsafe(tell) and None  # undo works in threads

    async def committed(self) -> None:
        self.refuse_lost()
        await asyncio.sleep(0)  # who listens was told by then

    async def durable(self) -> None:
        await self.committed()

    async def since(self, after: int, *, limit: int) -> Sequence[Envelope]:
        await self.committed()
        return [record.envelope for record in self._kept.records[after : after + limit]]

    def records(self, after: int) -> Iterator[Record]:
        return iter(self._kept.records[after:])

    def keep_fold(self, event_id: int, folded: bytes) -> None:
        with self._memory.lock:
            self.refuse_lost()
            self._kept.fold = (event_id, folded)

    def outputs_key(self) -> bytes:
        with self._memory.lock:
            if self._kept.outputs_key is None:
                self._kept.outputs_key = os.urandom(32)
            return self._kept.outputs_key

    def undo_store(self) -> MemoryUndo:
        return MemoryUndo(self._memory, self._kept, self.refuse_lost)

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed, self._tell = True, None
        self.refuse_lost()
        self._kept.lease = None

    def _until(self) -> int | None:
        return None if self._lease_ms is None else self._clock.now_ms() + self._lease_ms
