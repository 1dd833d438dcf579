"""Plain commands at the line: summarise, stop, leave; and what one may do with sessions without leaving one."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import HarnessSession, harness
from bridle.engine.ports import Provider
from bridle.protocol import events as e
from bridle.protocol.commands import CreateSession
from bridle.providers.script import say, wait
from clients.line.line_kit import DEADLINE_S, Person, at_terminal
from tables import table


@asynccontextmanager
async def conversation(
    model: Provider, written: dict[str, str] | None = None
) -> AsyncIterator[tuple[Person, asyncio.Task[int], HarnessSession]]:
    async with harness(model) as session:
        connection = session.engine.connect(name="line", answers=True)
        create = CreateSession(cwd=session.folder, env={"PATH": os.defpath}, model=f"{model.name}:scripted")
        files = {} if written is None else written

        def save(path: str, text: str) -> str:
            files[path] = text
            return path

        async with at_terminal(connection, create, save=save) as (person, task):
            await person.sees("Type what you want")
            yield person, task, session
        await connection.close()


def events_of(session: HarnessSession) -> list[e.AnyEvent]:
    """Everything stored of the session the person is in: the newest one."""
    store = session.engine.store
    return [envelope.event for envelope in store.events(store.list()[0].id)]


async def turns_ended(session: HarnessSession, count: int, *, of: str | None = None) -> None:
    """Until the person's session, or the one named, has had so many turns, on the disk."""
    store = session.engine.store
    async with asyncio.timeout(DEADLINE_S):
        while (store.list()[0] if of is None else store.find(of)).turns < count:
            store.shelf.writer.settle()
            await asyncio.sleep(0)


@pytest.mark.requirement("D13.22", "D7.23")
@table("leave", ["/exit", "/quit"])
async def test_plain_commands_compact_stop_and_leave_and_are_no_prompts(leave: str) -> None:
    long = "word " * 500
    model = scripted(*[say(long)] * 4, wait(600), say("never"))
    async with conversation(model) as (person, task, session):
        await person.types("/compact\r", then="There is too little to summarise yet.")
        for number in range(4):
            await person.types(f"question {number}\r", then="1 step")
            await turns_ended(session, number + 1)
        await person.types("/compact\r", then="Summarised turns 1-3")
        await person.types("and on\r", then="and on")
        await person.types("/stop\r", then="stopped")
        stored = events_of(session)
        await person.types(f"{leave}\r")
        assert await asyncio.wait_for(task, DEADLINE_S) == 0
    said = [e.text_of(event.content) for event in stored if isinstance(event, e.InputAccepted)]
    assert said == [*(f"question {number}" for number in range(4)), "and on"]


@pytest.mark.requirement("G45.7")
async def test_sessions_are_listed_pinned_branched_exported_and_resumed_from_inside_one() -> None:
    written: dict[str, str] = {}
    model = scripted(say("First answer."), say("Second answer."))
    async with conversation(model, written) as (person, _, session):
        store = session.engine.store
        await person.types("one\r", then="1 step")
        await person.types("two\r", then="Second answer.")
        await turns_ended(session, 2)
        await person.types("/sessions:pin\r", then="★ This session is kept until you unpin it")
        here = next(row for row in store.list() if row.pinned)
        await person.types("/sessions:branch 1\r", then="begins as this session was after turn 1")
        (made,) = [row for row in store.list() if row.branch_of == here.id]
        assert (made.turns, store.find(here.id).turns) == (1, 2)
        await person.types("/sessions:branch 9\r", then="Turn 9 of this session has not ended")
        await person.types("/sessions pin off\r", then="is not pinned any more")
        assert [row.id for row in store.list() if row.pinned] == []
        await person.types("/sessions:export all.md\r", then="Written: all.md")
        assert "Second answer." in written["all.md"]
        await person.types("/sessions:list\r", then="Go to one: /resume")
        await person.sees("this one")
        await person.types(f"/sessions:resume {made.id}\r", then="Another session.")
        await person.types("three\r", then="three")
        await turns_ended(session, 2, of=made.id)


@table("leave", ["exit", "quit"])
async def test_a_lone_word_asks_for_help_or_leaves_and_is_no_prompt(leave: str) -> None:
    async with conversation(scripted(say("never"))) as (person, task, session):
        await person.types("?\r", then="/compact")
        await person.types("help\r", then="/compact")
        await person.types(f"{leave}\r")
        async with asyncio.timeout(DEADLINE_S):
            assert await task == 0
        assert not any(isinstance(event, e.InputAccepted) for event in events_of(session))


async def test_a_file_that_is_pointed_at_and_missing_is_said_at_the_line() -> None:
    async with conversation(scripted(say("Hi."))) as (person, _task, _session):
        await person.types("see @src/none.py\r", then='There is no file "src/none.py" here')
