"""The events of a live session as one client reads them: while it is attached, and for as long as its token holds."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import contextmanager

import msgspec

from bridle.base.clock import Clock, Timer
from bridle.control.live import LiveSession
from bridle.engine.open_questions import Client
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import Envelope, StreamGap, TokenExpiring
from bridle.protocol.tokens import Claims

# A stream may drain for a minute past the end of its token. One that was revoked ends when that is found out,
# within seconds, also where another process revoked it.


NOTICE_S = 300
DRAIN_S = 60
LOOK_S = 5.0

CheckClaims = Callable[[Claims], None]
"""Raises `CommandRefused` for claims that do not hold any more."""


class TokenWatch:
    """Looks at one token every few seconds. `wake` is called when there is something to say."""

    def __init__(self, claims: Claims, *, clock: Clock, check: CheckClaims, wake: Callable[[], None]) -> None:
        self.over: CommandRefused | None = None
        """Why the stream ends now."""
        self._claims = claims
        self._clock = clock
        self._check = check
        self._wake = wake
        self._told = self._due = False
        self._timer: Timer | None = None
        self._look()

    @property
    def has_news(self) -> bool:
        return self._due or self.over is not None

    def notice(self) -> TokenExpiring | None:
        """That it expires soon, once."""
        if not self._due:
            return None
        self._due, self._told = False, True
        return TokenExpiring(jti=self._claims.jti, expires_ms=self._claims.exp * 1000)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        left_s = self._claims.exp - self._clock.now_ms() / 1000
        try:
            self._check(self._claims)
        except CommandRefused as refusal:
            if refusal.reason != "TokenExpired" or left_s <= -DRAIN_S:
                self.over = refusal
        self._due = self._due or (not self._told and left_s <= NOTICE_S)
        if self.over is None:
            self._timer = self._clock.call_later(LOOK_S, self._look)
        if self.has_news:
            self._wake()


class EventReader(msgspec.Struct, frozen=True, kw_only=True):
    """One client reading the events of a session it is attached to. `check` raises `CommandRefused` for claims that
    hold no more."""

    live: LiveSession
    client: Client
    claims: Claims | None
    clock: Clock
    check: Callable[[Claims], None]

    async def follow(self, since: int) -> AsyncIterator[Envelope]:
        """The events above an id; the client is here while it reads them.

        First come the questions that wait, where they were put before `since`, and who else is here.
        """
        self.live.begin_stream(self.client)
        try:
            async for envelope in self._stream(since):
                yield envelope
        finally:
            self.live.end_stream(self.client)

    async def overhear(self, since: int) -> AsyncGenerator[Envelope]:
        """The events above an id, for a request that waits for one of them: nobody is here by it. It ends as a stream
        does when its token holds no more."""
        attachment = self.live.attachments[self.client.id]
        with self._watched() as watch:

            def is_over() -> bool:
                has_left = self.live.attachments.get(self.client.id) is not attachment
                return has_left or (watch is not None and watch.over is not None)

            async for envelope in self.live.session.follow(since, until=is_over):
                yield envelope
            if watch is not None and watch.over is not None:
                raise watch.over

    async def _stream(self, since: int) -> AsyncIterator[Envelope]:
        live, client = self.live, self.client
        session, attachment = live.session, live.attachments[client.id]
        for envelope in await session.questions.pending(since):
            yield envelope
        if len(live.here) > 1:
            yield session.journal.for_one(live.presence)
        last_id = since
        with self._watched() as watch:

            def is_over() -> bool:
                has_news = watch is not None and watch.has_news
                has_left = live.attachments.get(client.id) is not attachment
                return has_news or has_left or live.has_private(client.id)

            while True:
                async for envelope in session.follow(last_id, until=is_over):
                    yield envelope
                    last_id = _read_up_to(envelope, last_id)
                told = live.take_private(client.id)
                if watch is not None:
                    if watch.over is not None:
                        raise watch.over
                    if (notice := watch.notice()) is not None:
                        told.append(session.journal.for_one(notice))
                if not told:
                    return
                for envelope in told:
                    yield envelope

    @contextmanager
    def _watched(self) -> Generator[TokenWatch | None]:
        """Looks after the token of whoever reads; most clients have none."""
        if self.claims is None:
            yield None
            return
        wake = self.live.session.wake_readers
        watch = TokenWatch(self.claims, clock=self.clock, check=self.check, wake=wake)
        try:
            yield watch
        finally:
            watch.close()


def _read_up_to(envelope: Envelope, last_id: int) -> int:
    if envelope.kind == "StreamGap" and isinstance(envelope.event, StreamGap):
        return envelope.event.last
    return envelope.id or last_id
