"""A full disk holds up nobody who leaves; a turn that rests refuses nobody who saw it end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app.test_hooking import Home
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import HarnessSession, harness
from bridle.protocol.commands import AnyCommand, EndSession, RunSlash, SendInput, ShellRequest, Undo
from bridle.protocol.errors import StoreError
from bridle.protocol.events import Notice
from bridle.protocol.messages import TextBlock
from bridle.providers.script import say
from bridle.sessions.archive.kept_fold import FOLD_EVERY
from engine.test_commit_then_publish import PATIENCE_S, held, others_had_their_turn
from sessions.test_room import no_more_pages, room_again, until_stuck


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


# A full disk


def _fill(session: HarnessSession) -> None:
    """From here on nothing more can be stored."""
    session.engine.live.session(session.id).journal.emit(Notice(reason="Note", message="x" * 300_000))


async def test_a_disk_that_fills_up_while_a_session_says_goodbye_does_not_keep_it() -> None:
    async with harness(scripted(say("Hi.")), waits_for_room=True) as session:
        await session.ask("go")
        store = session.engine.store
        no_more_pages(store)
        with held(store):
            _fill(session)
            leaving = asyncio.ensure_future(session.connection.send(EndSession(session=session.id)))
            await others_had_their_turn()
            assert (leaving.done(), store.stuck()) == (False, False), (
                "it waits for the disk, which is not full yet"
            )
        with pytest.raises(StoreError) as failure:
            await asyncio.wait_for(leaving, PATIENCE_S)
        assert failure.value.reason == "NoSpace"


async def test_a_turn_that_rests_on_a_full_disk_does_not_keep_who_leaves(home: Home) -> None:
    """Who is to be told that it has ended is not told before that is kept, and it never will be."""
    home.hook("Stop", "exit 0")
    async with home.session(say("Hi."), waits_for_room=True) as session:
        store = session.engine.store
        no_more_pages(store)
        with held(store):
            sending = asyncio.ensure_future(session.send("go"))
            await others_had_their_turn()
            _fill(session)
            while session.conversation.turn_is_open or session.conversation.turn == 0:
                await asyncio.sleep(0)
        await until_stuck(store)
        leaving = asyncio.ensure_future(session.connection.send(EndSession(session=session.id)))
        with pytest.raises(StoreError):
            await asyncio.wait_for(leaving, PATIENCE_S)
        await asyncio.wait((sending,), timeout=PATIENCE_S)
        assert sending.done()
    assert [one["event"] for one in home.heard()] == []


async def test_who_leaves_a_disk_that_has_room_again_waits_for_what_is_kept() -> None:
    async with harness(scripted(say("Hi.")), waits_for_room=True) as session:
        await session.ask("go")
        journal, store = session.engine.live.session(session.id).journal, session.engine.store
        no_more_pages(store)
        _fill(session)
        waiting = asyncio.ensure_future(journal.committed())
        await until_stuck(store)
        await others_had_their_turn()
        journal.leave()
        with pytest.raises(StoreError):
            await asyncio.wait_for(waiting, PATIENCE_S)
        room_again(store)
        await asyncio.wait_for(journal.durable(), PATIENCE_S)
        await others_had_their_turn()
        with held(store):
            journal.emit(Notice(reason="Note", message="y"))
            waiting = asyncio.ensure_future(journal.committed())
            await others_had_their_turn()
            assert not waiting.done(), waiting.exception()
        await asyncio.wait_for(waiting, PATIENCE_S)


# A turn that rests

COMMANDS: dict[str, Callable[[str], AnyCommand]] = {
    "words": lambda session: SendInput(session=session, content=(TextBlock(text="more"),), mode="reject"),
    "a command of a person": lambda session: ShellRequest(session=session, command="true"),
    "a slash command": lambda session: RunSlash(session=session, name="diff"),
    "an undo": lambda session: Undo(session=session),
}


@pytest.mark.parametrize("what", COMMANDS)
async def test_whoever_saw_a_turn_end_waits_for_what_follows_it_and_is_not_refused(
    home: Home, tmp_path: Path, what: str
) -> None:
    go, once = tmp_path / "go", tmp_path / "once"
    os.mkfifo(go)
    home.hook("Stop", f"[ -e {once} ] || {{ touch {once}; read line < {go}; }}")
    async with home.session(say("Hi."), say("Again."), answers=True) as session:
        await session.ask("go")
        sending = asyncio.ensure_future(session.connection.send(COMMANDS[what](session.id)))
        await others_had_their_turn()
        assert not sending.done(), sending.exception()
        await asyncio.to_thread(go.write_text, "on\n")
        assert (await asyncio.wait_for(sending, PATIENCE_S)).session == session.id


async def test_a_disk_that_fills_up_at_the_end_of_a_turn_ends_no_session() -> None:
    """What a conversation folds to is kept to save time; where there is no room for it, that waits."""
    async with harness(scripted(say("Hi."), say("Again.")), waits_for_room=True) as session:
        journal, store = session.engine.live.session(session.id).journal, session.engine.store
        for _ in range(FOLD_EVERY):
            journal.emit(Notice(reason="Note", message="x"))
        await journal.committed()
        no_more_pages(store)
        with held(store):
            sending = asyncio.ensure_future(session.send("go"))
            await others_had_their_turn()
            _fill(session)
            while session.conversation.turn_is_open or session.conversation.turn == 0:
                await asyncio.sleep(0)
        await until_stuck(store)
        await others_had_their_turn()
        room_again(store)
        await asyncio.wait_for(sending, PATIENCE_S)
        await asyncio.wait_for(journal.durable(), PATIENCE_S)
        assert (await session.ask("go on"))[-1].stop == "end_turn"
