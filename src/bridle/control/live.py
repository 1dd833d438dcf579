"""A live session: the one owner of a session's run, from its opening until its lock and its name are free again.

opening → open → ending → ended. Who is attached and who is here are two things: a client that sends single requests is
attached, and only here while it follows the events. Whatever ends it, a person, idleness, a judgement that was put off,
a store that failed or the end of the program, goes through `end`: nothing else gives a log back.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

from bridle.base.clock import Clock, Timer
from bridle.engine.open_questions import Client
from bridle.engine.session import Session
from bridle.protocol.commands import CreateSession
from bridle.protocol.errors import CommandRefused, StoreError
from bridle.protocol.events import (
    EndCause,
    Envelope,
    LiveEvent,
    Notice,
    Presence,
    Present,
    QuestionAnswered,
    QuestionAsked,
)

if TYPE_CHECKING:
    from bridle.engine.features import Joined
    from bridle.protocol.messages import Effort
    from bridle.protocol.tokens import Claims

LiveState: TypeAlias = Literal["opening", "open", "ending", "ended"]


class HeldLog(Protocol):
    """The log of an open session, as its owner sees it."""

    async def is_pinned(self) -> bool:
        """Return whether the session stays open for as long as the engine runs."""
        ...

    async def release(self) -> None:
        """Store what is to be kept of the session and give its log back."""
        ...


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """An opened session. `features` answer its queries and bring commands and prompts; `effort` is that of its
    settings. It ends after `idle_s` without clients and work, unless it is pinned."""

    session: Session
    features: Joined
    effort: Effort | None
    idle_s: float
    log: HeldLog


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """A client in a session: its identity, its claims, and the event it has read up to."""

    client: Client
    claims: Claims | None
    since: int


class LiveSession:
    """One run of a session, opened with `command`. `ended` hears once that it is over; `cause` and `failure` say why
    it ended and why not all of it was kept."""

    def __init__(self, command: CreateSession, *, clock: Clock, ended: Callable[[LiveSession], None]) -> None:
        self.id = command.resume or ""
        self.command = command
        self.state: LiveState = "opening"
        self.cause: EndCause | None = None
        self.failure: StoreError | None = None
        self.attachments: dict[str, Attachment] = {}
        self._streams: Counter[str] = Counter()
        self._private: dict[str, list[Envelope]] = {}
        self._clock = clock
        self._hear_end = ended
        self._run: Run | None = None
        self._settled = asyncio.Event()
        self._timer: Timer | None = None
        self._ending: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None

    async def open(self, opening: Awaitable[Run]) -> None:
        """Takes over what is opened. Where that fails there is nothing to end."""
        try:
            self._run = await opening
        except BaseException:
            self._over()
            raise
        self.id = self.session.id
        self.session.at_over = self.end_soon
        self.state = "open"
        self._settled.set()

    @property
    def run(self) -> Run:
        """What was opened; it is there from the moment the run is open."""
        assert self._run is not None
        return self._run

    @property
    def session(self) -> Session:
        return self.run.session

    async def settled(self) -> None:
        """Returns when it is neither being opened nor being ended."""
        await self._settled.wait()

    def attach(self, client: Client, claims: Claims | None, since: int) -> None:
        if self.state != "open":
            raise CommandRefused("SessionNotOpen", session=self.id)
        was_here = self.is_here(client.id)
        self.attachments[client.id] = Attachment(client=client, claims=claims, since=since)
        self._presence_changed(client, was_here=was_here)
        self._watch()

    def detach(self, client: str) -> None:
        """The client is told nothing more, and the turn goes on. Safe for one that is not attached."""
        was_here = self.is_here(client)
        attachment = self.attachments.pop(client, None)
        if attachment is None:
            return
        self._streams.pop(client, None)
        self._private.pop(client, None)
        self._presence_changed(attachment.client, was_here=was_here)
        self.session.wake_readers()
        self._watch()

    # Who is here

    @property
    def here(self) -> tuple[Client, ...]:
        """Those who see what happens now."""
        return tuple(one.client for one in self.attachments.values() if self.is_here(one.client.id))

    def is_here(self, client: str) -> bool:
        attachment = self.attachments.get(client)
        if attachment is None:
            return False
        return attachment.client.here == "attached" or self._streams[client] > 0

    def begin_stream(self, client: Client) -> None:
        """A client begins to follow the events; it is here from now on."""
        was_here = self.is_here(client.id)
        self._streams[client.id] += 1
        self._presence_changed(client, was_here=was_here)

    def end_stream(self, client: Client) -> None:
        if client.id not in self._streams:  # it has left
            return
        was_here = self.is_here(client.id)
        self._streams[client.id] -= 1
        if not self._streams[client.id]:
            self._private.pop(client.id, None)
        self._presence_changed(client, was_here=was_here)
        self._watch()

    def _presence_changed(self, client: Client, *, was_here: bool) -> None:
        """Those who are here are told who is, where there is somebody else to tell."""
        is_here = self.is_here(client.id)
        if is_here == was_here:
            return
        if is_here:
            self._stop_timer()
            self.session.questions.attach(client)
        else:
            self.session.questions.detach(client.id)
        if self.state == "open" and any(one.id != client.id for one in self.here):
            self.session.journal.show(self.presence)

    def tell_one(self, client: str, event: LiveEvent | QuestionAsked | QuestionAnswered | Notice) -> None:
        """Tells a single client that follows the events; nothing of it is stored."""
        if self._streams[client]:
            told = self._private.setdefault(client, [])
            told.append(self.session.journal.for_one(event))
            self.session.wake_readers()

    def has_private(self, client: str) -> bool:
        return client in self._private

    def take_private(self, client: str) -> list[Envelope]:
        return self._private.pop(client, [])

    def follows(self, client: str) -> bool:
        return self._streams[client] > 0

    @property
    def presence(self) -> Presence:
        return Presence(
            clients=tuple(Present(client=one.id, name=one.called, identity=one.identity) for one in self.here)
        )

    async def end(self, cause: EndCause) -> None:
        """End the run, once; return when its lock and name are free. Raises `StoreError` where not everything could
        be kept; it has ended all the same."""
        self.end_soon(cause)
        if self._ending is not None:
            await asyncio.shield(self._ending)

    def end_soon(self, cause: EndCause) -> None:
        """The same for who cannot wait."""
        if self.state == "open":
            self.state, self.cause = "ending", cause
            self._settled.clear()
            self._stop_timer()
            self._ending = asyncio.get_running_loop().create_task(self._end(cause))
            self._ending.add_done_callback(_heard)

    async def _end(self, cause: EndCause) -> None:
        try:
            await self.session.end(cause)
        finally:
            try:
                await self.run.log.release()
            except StoreError as failure:
                self.failure = failure
                raise
            finally:
                self._over()

    def _over(self) -> None:
        self.state = "ended"
        self._hear_end(self)
        self._settled.set()

    # Idleness

    def _watch(self) -> None:
        """Looks again when a session nobody is attached to may have been idle for long enough."""
        if self.here or self._timer is not None or self.state != "open":
            return
        self._timer = self._clock.call_later(self.run.idle_s, self._look)

    def _look(self) -> None:
        self._timer = None
        if self.session.busy:
            self._watch()
        else:
            self._looking = asyncio.get_running_loop().create_task(self._end_unless_it_stays())

    async def _end_unless_it_stays(self) -> None:
        if await self.run.log.is_pinned():
            self._watch()
        elif not (self.here or self.session.busy):  # somebody may have come meanwhile
            self.end_soon("idle")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _heard(ending: asyncio.Task[None]) -> None:
    """Who waits for the end is told of its failure; where nobody waits, nobody has to be."""
    if not ending.cancelled():
        ending.exception()
