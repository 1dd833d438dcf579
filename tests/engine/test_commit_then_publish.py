"""While the disk holds a commit back nobody hears of it: not a client, not who sent the command, not the model."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bridle.base.clock import SystemClock
from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness
from bridle.engine.bus import RING_BYTES, Bus
from bridle.engine.conversation import Conversation
from bridle.engine.journal import Journal
from bridle.protocol.events import (
    Envelope,
    Notice,
    SessionEnded,
    ToolCallProgress,
    ToolCallStarted,
    ToolResult,
)
from bridle.providers.script import call, say
from bridle.sessions.log.session_log import StoredLog
from bridle.sessions.store import SessionStore
from sessions.session_kit import opened
from sessions.test_room import no_more_pages, room_again, tight_store, until_stuck

PATIENCE_S = 20
MANY_TURNS_OF_THE_LOOP = 300


@contextmanager
def held(store: SessionStore) -> Iterator[None]:
    """The disk takes nothing that is written from now on, until the end of this."""
    go_on = threading.Event()
    store.shelf.writer.change(lambda _connection: (go_on.wait(PATIENCE_S), None)[1])
    try:
        yield
    finally:
        go_on.set()


async def others_had_their_turn() -> None:
    for _ in range(MANY_TURNS_OF_THE_LOOP):
        await asyncio.sleep(0)


class Told:
    """A journal on a real log, and what a reader of its bus has heard so far."""

    def __init__(self, log: StoredLog, *, ring_events: int = 100) -> None:
        self.bus = Bus(1, ring_events=ring_events)
        self.log = log
        self.journal = Journal(
            session=log.session, log=log, clock=SystemClock(), bus=self.bus, conversation=Conversation()
        )

    def note(self, words: str) -> int:
        return self.journal.emit(Notice(reason="Note", message=words))

    def show(self, words: str) -> None:
        self.journal.show(ToolCallProgress(call_id="c", text=words))

    async def heard(self) -> list[str]:
        """Everything a reader hears that begins now, until the bus is closed."""
        return [_words(one) async for one in self.bus.follow(self.log, 0)]

    async def close_later(self) -> None:
        await others_had_their_turn()
        self.bus.close()


def _words(envelope: Envelope) -> str:
    match envelope.event:
        case Notice(message=words) | ToolCallProgress(text=words):
            return words
        case _:
            return envelope.kind


@contextmanager
def journal(folder: Path, **more: int) -> Iterator[tuple[SessionStore, Told]]:
    with opened(folder) as store, closing(store.create("/work", profile="default")) as log:
        yield store, Told(log, **more)


# A client


async def test_a_reader_hears_of_an_event_when_it_is_kept_and_not_before(tmp_path: Path) -> None:
    with journal(tmp_path) as (store, told):
        reading = asyncio.ensure_future(anext(told.bus.follow(told.log, 0)))
        with held(store):
            told.note("one")
            await others_had_their_turn()
            assert not reading.done()
        assert _words(await asyncio.wait_for(reading, PATIENCE_S)) == "one"


async def test_of_two_events_only_the_one_that_is_kept_is_told(tmp_path: Path) -> None:
    """The second is there already when the news of the first comes."""
    with journal(tmp_path) as (store, told):
        following = told.bus.follow(told.log, 0)
        first = told.note("one")
        store.shelf.writer.settle()
        with held(store):
            told.journal.owe(told.note("two"))
            assert (await asyncio.wait_for(anext(following), PATIENCE_S)).id == first
            reading = asyncio.ensure_future(anext(following))
            asking = asyncio.ensure_future(told.journal.outcomes_kept())
            await others_had_their_turn()
            assert (reading.done(), asking.done()) == (False, False)
        assert _words(await asyncio.wait_for(reading, PATIENCE_S)) == "two"
        await asyncio.wait_for(asking, PATIENCE_S)


async def test_what_is_only_shown_comes_behind_what_was_recorded_before_it(tmp_path: Path) -> None:
    with journal(tmp_path) as (_store, told):
        reading = asyncio.ensure_future(told.heard())
        await asyncio.sleep(0)
        for number in range(20):
            told.note(f"kept {number}")
            told.show(f"shown {number}")
        await told.journal.committed()
        told.bus.close()
        both = [(f"kept {number}", f"shown {number}") for number in range(20)]
        assert await asyncio.wait_for(reading, PATIENCE_S) == [words for pair in both for words in pair]


async def test_an_event_that_was_read_from_the_log_before_it_was_told_comes_once(tmp_path: Path) -> None:
    with journal(tmp_path, ring_events=2) as (store, told):
        for number in range(5):
            told.note(f"{number}")
        await told.journal.committed()
        told.note("5")
        store.shelf.writer.settle()  # kept; the news of it waits for this very loop
        closing_it = asyncio.ensure_future(told.close_later())
        assert await told.heard() == ["0", "1", "2", "3", "4", "5"]
        await closing_it


async def test_what_is_kept_in_one_go_and_more_than_the_ring_holds_is_told_without_a_gap(
    tmp_path: Path,
) -> None:
    with journal(tmp_path) as (store, told):
        reading = asyncio.ensure_future(told.heard())
        await asyncio.sleep(0)
        with held(store):
            for number in range(8):
                told.note(f"{number}" + "x" * (RING_BYTES // 3))
        await told.journal.committed()
        told.bus.close()
        heard = await asyncio.wait_for(reading, PATIENCE_S)
        assert [words[:1] for words in heard] == [f"{number}" for number in range(8)]


async def test_the_last_event_of_a_session_is_told_before_its_readers_are_sent_away() -> None:
    async with harness(scripted(say("Hi."))) as session:
        await session.ask("go")
        reading = asyncio.ensure_future(_all(session.connection.events(session.id)))
        await others_had_their_turn()
        with held(session.engine.store):
            closing_it = asyncio.ensure_future(session.engine.close())
            await others_had_their_turn()
        await closing_it
        assert isinstance((await asyncio.wait_for(reading, PATIENCE_S))[-1].event, SessionEnded)


async def _all(stream: AsyncIterator[Envelope]) -> list[Envelope]:
    return [envelope async for envelope in stream]


async def test_what_is_shown_while_the_disk_is_full_has_no_id_and_comes_again_with_it(tmp_path: Path) -> None:
    with (
        closing(tight_store(tmp_path, waits_for_room=True)) as store,
        closing(store.create("/work", profile="default")) as log,
    ):
        told = Told(log)
        heard: list[tuple[int | None, str]] = []

        async def listen() -> None:
            async for one in told.bus.follow(log, 0):
                heard.append((one.id, _words(one)[:3]))
                if "RoomAgain" in one.payload.decode():
                    return

        reading = asyncio.ensure_future(listen())
        no_more_pages(store)
        told.note("one" * 100_000)
        await until_stuck(store)
        await others_had_their_turn()
        told.note("two")
        told.show("now")
        await others_had_their_turn()
        early = [(None, "Deg"), (None, "one"), (None, "two")]
        assert heard == early
        room_again(store)
        await asyncio.wait_for(reading, PATIENCE_S)
        assert heard == [*early, (1, "one"), (2, "two"), (None, "now"), (3, "The")]


# Who sent the command


async def test_a_reply_that_names_an_event_comes_when_that_is_kept() -> None:
    async with harness(scripted(say("Hi."))) as session:
        with held(session.engine.store):
            sending = asyncio.ensure_future(session.send("go"))
            await others_had_their_turn()
            assert not sending.done()
        number = await asyncio.wait_for(sending, PATIENCE_S)
        assert [one.id for one in await session.stored() if one.kind == "InputAccepted"] == [number]


# The model


async def test_the_model_hears_what_a_changing_call_came_to_when_that_is_kept() -> None:
    model = RecordingModel(scripted(call("bash", command="echo x > made; read x < go"), say("Done.")))
    async with harness(model, mode="yolo") as session:
        os.mkfifo(os.path.join(session.folder, "go"))
        number = await session.send("go")
        await session.until(ToolCallStarted, since=number)
        with held(session.engine.store):
            await asyncio.to_thread(Path(session.folder, "go").write_text, "on\n")
            journal = session.engine.live.session(session.id).journal
            while journal.conversation.open_calls:
                await asyncio.sleep(0)
            await others_had_their_turn()
            assert len(model.requests) == 1
        await session.turn_of(number)
        assert len(model.requests) == 2
        assert [one.event.outcome for one in await session.stored() if isinstance(one.event, ToolResult)] == [
            "ok"
        ]
