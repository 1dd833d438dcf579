"""Readers of any pace: each sees the events in order, with every gap marked, and none of them slows another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.engine.bus import Bus
from bridle.protocol.codec import EXPIRED, encode_payload, kind_of, payload_of, with_payload
from bridle.protocol.events import (
    AnyEvent,
    Envelope,
    Presence,
    Present,
    StreamGap,
    TextDelta,
    ToolCallProgress,
    UnknownEvent,
)

RING_EVENTS, RING_BYTES = 6, 300


class Log:
    """What is kept, in memory."""

    def __init__(self) -> None:
        self.kept: list[Envelope] = []

    async def since(self, after: int, *, limit: int) -> Sequence[Envelope]:
        return self.kept[after : after + limit]


class Scene:
    def __init__(self) -> None:
        self.log = Log()
        self.bus = Bus(1, ring_events=RING_EVENTS, ring_bytes=RING_BYTES)
        self.printed = 0

    def publish(self, event: AnyEvent, *, live: bool) -> None:
        number = None if live else len(self.log.kept) + 1
        payload = encode_payload(event)
        envelope = Envelope(id=number, kind=kind_of(event), session="s", originator="", ts_ms=0, event=event)
        if not live:
            self.log.kept.append(with_payload(envelope, payload))
        self.bus.publish(envelope, payload)

    def say(self, size: int) -> None:
        self.publish(TextDelta(text="x" * size), live=False)

    def prints(self) -> None:
        self.printed += 1
        self.publish(ToolCallProgress(call_id="c", text=f"{self.printed},", lines=self.printed), live=True)


class Reader:
    """Reads so many at a time. `seen` are ids, gaps and what was printed."""

    def __init__(self, scene: Scene, since: int) -> None:
        self.since = since
        self.seen: list[Envelope] = []
        self._events = scene.bus.follow(scene.log, since)  # pyright: ignore[reportArgumentType]
        self._next: asyncio.Future[Envelope] | None = None

    async def read(self, count: int) -> None:
        """At most so many, and only what is there."""
        for _ in range(count):
            if self._next is None:
                self._next = asyncio.ensure_future(anext(self._events))  # pyright: ignore
            for _ in range(3):
                await asyncio.sleep(0)
            if not self._next.done():
                return
            done, self._next = self._next, None
            try:
                self.seen.append(done.result())
            except StopAsyncIteration:
                return

    async def close(self) -> None:
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)


def whole(reader: Reader, last: int) -> bool:
    """Every id above `since` was told once and in order, or stands in a gap that was told in its place."""
    at = reader.since
    for envelope in reader.seen:
        if isinstance(envelope.event, StreamGap):
            assert envelope.event.first == at + 1, "a gap begins where the reader was"
            assert envelope.event.last > at
            at = envelope.event.last
        elif envelope.id is not None:
            assert envelope.id == at + 1, "no event is passed over, told twice or told too early"
            at = envelope.id
    return at == max(last, reader.since)


def printed(reader: Reader) -> list[int]:
    texts = [one.event.text for one in reader.seen if isinstance(one.event, ToolCallProgress)]
    return [int(number) for number in "".join(texts).split(",") if number]


publishing = st.one_of(
    st.tuples(st.just("say"), st.integers(0, 2 * RING_BYTES)), st.tuples(st.just("print"), st.just(0))
)
reading = st.tuples(st.integers(0, 2), st.integers(1, 12))


@given(st.integers(0, 5), st.lists(st.one_of(publishing, reading), max_size=80))
def test_any_schedule_of_readers_sees_a_marked_subsequence(before: int, schedule: list[Any]) -> None:
    async def play() -> None:
        scene = Scene()
        for _ in range(before):
            scene.say(10)
        fast = Reader(scene, 0)
        readers = [Reader(scene, 0), Reader(scene, before), Reader(scene, 0)]
        await fast.read(1000)
        for what, amount in schedule:
            if what == "say":
                scene.say(amount)
            elif what == "print":
                scene.prints()
            else:
                await readers[what].read(amount)
            await fast.read(1000)
        scene.bus.close()
        last = len(scene.log.kept)
        for reader in (fast, *readers):
            await reader.read(1000)
            assert whole(reader, last)
            numbers = printed(reader)
            assert numbers == sorted(set(numbers)), "what is printed comes in order and once"
            for one in reader.seen:
                if one.id is not None:
                    assert payload_of(one) is payload_of(scene.log.kept[one.id - 1]), "encoded once, for all"
            await reader.close()
        assert not [one for one in fast.seen if isinstance(one.event, StreamGap)], "others never slow it"
        assert printed(fast) == list(range(1, scene.printed + 1))

    asyncio.run(play())


async def test_what_is_printed_while_a_reader_is_away_comes_as_one() -> None:
    scene = Scene()
    reader = Reader(scene, 0)
    scene.say(1)
    await reader.read(5)
    for _ in range(2):
        scene.prints()
    names = [Present(client="c", name=name, identity="human") for name in "ab"]
    for upto in (0, 1):
        scene.publish(Presence(clients=tuple(names[:upto])), live=True)
    await reader.read(10)
    told = [one.event for one in reader.seen[1:]]
    assert told == [ToolCallProgress(call_id="c", text="1,2,", lines=2), Presence(clients=tuple(names[:1]))]
    await reader.close()


@pytest.mark.requirement("G26.3")
async def test_expired_content_is_one_gap_before_what_follows_however_long_it_is() -> None:
    scene = Scene()
    for number in range(1, 1201):
        event = UnknownEvent(kind="TextDelta", raw=EXPIRED)
        scene.log.kept.append(
            Envelope(id=number, kind="TextDelta", session="s", originator="", ts_ms=0, event=event)
        )
    scene.bus = Bus(1201, ring_events=RING_EVENTS, ring_bytes=RING_BYTES)
    scene.say(1)
    reader = Reader(scene, 100)
    await reader.read(10)
    assert [one.event for one in reader.seen] == [
        StreamGap(first=101, last=1200, reason="ttl"),
        TextDelta(text="x"),
    ]
    await reader.close()


async def test_a_reader_that_never_reads_costs_nothing_more_than_the_ring() -> None:
    scene = Scene()
    idle = Reader(scene, 0)
    scene.say(1)
    await idle.read(1)
    for _ in range(1000):
        scene.say(50)
    assert len(scene.bus._ring) <= RING_EVENTS
    assert scene.bus._bytes <= RING_BYTES
    await idle.read(1)
    gap = idle.seen[-1].event
    assert isinstance(gap, StreamGap)
    assert (gap.first, gap.reason) == (2, "slow")
    await idle.close()
