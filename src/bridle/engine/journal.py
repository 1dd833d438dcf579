"""The one place where an event comes into being: stamped, redacted, encoded once, appended, folded, published.

The fold sees the event as it was stored, so the model, the log, every client and a resumed session read the same text.
Readers hear of it when its row survives the death of this process, not before: what was told is kept, and an id never
comes back with other content. While the disk is full people see what happens without ids, as nothing that is kept; it
comes again with its id once it is.

A session has one `Publisher`, which numbers and tells, and a `Journal` for each of its invocations, which stamps.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable
from copy import copy
from functools import partial
from typing import Any, TypeVar

import msgspec

from bridle.base.clock import Clock
from bridle.base.secrets.redact import is_plain_value, redact, redact_values, stored_marker
from bridle.base.secrets.secret_openings import might_hold_secret
from bridle.base.threads import in_thread
from bridle.engine.bus import RING_BYTES, RING_EVENTS, Bus
from bridle.engine.conversation import MAIN, Conversation
from bridle.engine.ports import SessionLog
from bridle.protocol.codec import encode_payload, kind_of
from bridle.protocol.errors import StoreError, sentence
from bridle.protocol.events import (
    AnyEvent,
    ChildEnded,
    ChildStarted,
    Degraded,
    DurableEvent,
    Envelope,
    LiveEvent,
    Notice,
    PermissionRequested,
    QuestionAnswered,
    QuestionAsked,
)
from bridle.protocol.questions import GitQuestion, TrustQuestion

E = TypeVar("E", bound=AnyEvent)

LONG_BYTES = 4 * 1024
"""Looking for secrets in more than this may take longer than the loop should wait."""
_AT_ONCE_BYTES = RING_BYTES // 4


class Publisher:
    """Numbers the events of a session, stores them and tells readers once they are kept. All journals of a session
    share it. `full` and `room` are called when rows begin and cease to wait for the disk. Without a `bus` events are
    only stored."""

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
        self._stuck: StoreError | None = None
        self._told_full = self._pauses = self._leaving = False
        self._gave_up: asyncio.Future[None] | None = None
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
            self._stuck = None
            self._room()

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
            self._full()
            for envelope, payload in self._untold:
                self._show_early(envelope, payload)
            if self._leaving:
                self.leave()

    def _show_early(self, envelope: Envelope, payload: bytes) -> None:
        assert self._bus is not None
        if envelope.id is not None:
            self._bus.publish(msgspec.structs.replace(envelope, id=None), payload)

    def leave(self) -> None:
        self._leaving = True
        if self._stuck and self._gave_up is not None and not self._gave_up.done():
            self._gave_up.set_result(None)

    async def committed(self) -> None:
        if self._bus is None or self._failure is not None or self._kept_id < self.main.last_id:
            await self._kept_or_given_up()
        if self._has_news:
            told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(told)
            await told

    async def _kept_or_given_up(self) -> None:
        kept = asyncio.ensure_future(self.log.committed())
        try:
            while not kept.done():
                if self._stuck and self._leaving:
                    raise StoreError(self._stuck.reason, **self._stuck.data)
                if self._gave_up is None or self._gave_up.done():  # there has been room since
                    self._gave_up = asyncio.get_running_loop().create_future()
                await asyncio.wait((kept, self._gave_up), return_when=asyncio.FIRST_COMPLETED)
        finally:
            kept.cancel()
        kept.result()

    async def outcomes_kept(self) -> None:
        """Returns when no owed outcome could be gone after a crash: then the model may hear of it."""
        if self.owed_id > self._kept_id:
            await self.log.committed()


class Journal:
    """Writes the events of one invocation, stamped with it, into the log of its session. The holder of the run lock
    makes the main one, `begin_child` those of children."""

    def __init__(
        self,
        *,
        session: str,
        log: SessionLog,
        clock: Clock,
        bus: Bus | None,
        conversation: Conversation,
        secrets: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.session = session
        self.conversation = conversation
        self.invocation = conversation.invocation
        self.originator = ""
        self.opened: int | None = None
        """The id of the `SessionCreated` that this run of the session began with."""
        self._clock = clock
        self.secrets = secrets
        self._watchers: tuple[tuple[Collection[str], Callable[[Envelope], None]], ...] = ()
        self._main = conversation
        self._publisher = Publisher(
            log=log, bus=bus, main=conversation, full=self.disk_is_full, room=self.disk_has_room
        )

    def watch(self, kinds: Collection[str], hear: Callable[[Envelope], None]) -> None:
        """Has `hear` told too of events of these kinds as they are recorded, in children that begin from now on as
        well."""
        self._watchers = (*self._watchers, (kinds, hear))

    def begin_child(self, started: ChildStarted) -> Journal:
        """Records that an agent begins to work on a task, and gives the journal of this invocation: its events are in
        the same log, numbered with the others, and in a conversation of their own."""
        self.emit(started)
        return self.within(self._main.children[started.invocation])

    def end_child(self, child: Journal, *, ok: bool, result: str) -> None:
        """Records what a child of this invocation came to where nobody saw its end. It writes nothing more."""
        assert child.invocation.id is not None
        agent, branch = child.invocation.agent_path[-1], child.conversation.branch
        self.emit(
            ChildEnded(invocation=child.invocation.id, agent=agent, ok=ok, result=result, branch=branch)
        )

    def within(self, conversation: Conversation) -> Journal:
        """The journal of another invocation of this session, as the fold of the log has it."""
        other = copy(self)
        other.conversation, other.invocation = conversation, conversation.invocation
        return other

    async def record(self, event: DurableEvent) -> int:
        """`emit` for what may be long: secrets are looked for apart from the loop, which goes on meanwhile."""
        payload = encode_payload(event)
        if len(payload) <= LONG_BYTES:
            event, payload = self._clean(event, payload)
        else:
            event, payload = await in_thread(partial(self._clean, event, payload))
        return self.emit(event, clean=payload)

    def emit(self, event: DurableEvent, *, originator: str | None = None, clean: bytes | None = None) -> int:
        """Record an event and return its id. Never waits; raises `StoreError` once the log has failed. `clean` are
        the bytes of an event without secrets."""
        event, payload = self._clean(event, encode_payload(event)) if clean is None else (event, clean)
        number = self._main.last_id + 1
        envelope = self._envelope(event, number, originator)
        self._publisher.add(envelope, payload)
        for kinds, hear in self._watchers:
            if envelope.kind in kinds:
                hear(envelope)
        return number

    def show(self, event: LiveEvent) -> None:
        """Sends a live event to whoever is there, behind what is told first. It is not stored and may be dropped."""
        event, payload = self._clean(event, encode_payload(event))
        self._publisher.show(self._envelope(event, None, None), payload)

    def for_one(self, event: LiveEvent | QuestionAsked | QuestionAnswered | Notice) -> Envelope:
        """What a single reader is told, and nobody else: it is not stored."""
        return self._envelope(event, None, "")

    def disk_is_full(self) -> None:
        event = Degraded(what="disk", reason="DiskFull", message=sentence("DiskFull", {}))
        self._publisher.tell_full(self._envelope(event, None, None), encode_payload(event))

    def disk_has_room(self) -> None:
        if self._publisher.forget_full():
            self.emit(Notice(reason="RoomAgain", message=sentence("RoomAgain", {})))

    def _clean(self, event: E, payload: bytes) -> tuple[E, bytes]:
        """The event without secrets, and its bytes: no known shape, and no key in use whatever it looks like."""
        in_use = [secret for secret in self.secrets() if payload.find(secret.encode()) >= 0]
        if in_use or might_hold_secret(payload):
            event = redacted(event, in_use)
            payload = encode_payload(event)
        return event, payload

    async def stored(self, number: int) -> Envelope:
        """The event of this number, as the log has it."""
        (envelope,) = await self._publisher.log.since(number - 1, limit=1)
        return envelope

    async def durable(self) -> None:
        await self._publisher.log.durable()

    def leave(self) -> None:
        self._publisher.leave()

    async def committed(self) -> None:
        """Return when everything so far survives the death of this process and was told. Raises
        `StoreError("NoSpace")` where the disk is full and the session ends."""
        await self._publisher.committed()

    def owe(self, number: int) -> None:
        """Event `number` is the outcome of a call that may have changed something."""
        self._publisher.owed_id = number

    async def outcomes_kept(self) -> None:
        await self._publisher.outcomes_kept()

    def _envelope(self, event: AnyEvent, number: int | None, originator: str | None) -> Envelope:
        """Stamped with its invocation; the turn is the session's, also for what a child does during it."""
        main, invocation, kind = self._main, self.invocation, kind_of(event)
        in_turn = main.turn_is_open or (kind == "TurnStarted" and invocation is MAIN)
        return Envelope(
            id=number,
            kind=kind,
            session=self.session,
            originator=self.originator if originator is None else originator,
            ts_ms=self._clock.now_ms(),
            event=event,
            turn=(main.turn + (not main.turn_is_open)) if in_turn else None,
            agent_path=invocation.agent_path,
            invocation=invocation.id,
        )


def masked(text: str, in_use: Iterable[str] = ()) -> str:
    """A text without secrets: no known shape, and no key in use whatever it looks like."""
    for secret in in_use:
        text = text.replace(secret, stored_marker("key"))
    return redact(text)


def redacted(event: E, in_use: Iterable[str] = ()) -> E:
    """Return the event with every secret in its texts replaced. In a question about what may run or apply later,
    nothing is masked that could run."""
    asks = isinstance(event, PermissionRequested) or _asks_what_may_run(event)

    def clean(text: str) -> str:
        if not asks:
            return masked(text, in_use)
        for secret in filter(is_plain_value, in_use):
            text = text.replace(secret, stored_marker("key"))
        return redact_values(text)

    return msgspec.convert(_changed(msgspec.to_builtins(event), clean), type(event))


def _asks_what_may_run(event: AnyEvent) -> bool:
    if not isinstance(event, QuestionAsked):
        return False
    return isinstance(event.question, GitQuestion | TrustQuestion)


def _changed(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list | tuple):
        return [_changed(item, clean) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {_changed(key, clean): _changed(item, clean) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value
