"""The events of a live session as one client reads them: while it is attached, and for as long as its token holds."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import contextmanager

import msgspec

from bridle.base.clock import Clock
from bridle.control.live import LiveSession
from bridle.control.token_watch import TokenWatch
from bridle.engine.open_questions import Client
from bridle.protocol.events import Envelope, StreamGap
from bridle.protocol.tokens import Claims


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
