"""An engine with a `MemoryStore` does what one with the database of the machine does."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness, outcomes
from bridle.protocol.commands import (
    AnswerQuestion,
    BranchSession,
    DeleteSession,
    EndSession,
    PinSession,
    RunSlash,
)
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import QuestionAsked, UndoApplied
from bridle.protocol.queries import DescribeSession, ListSessions, SearchSessions
from bridle.protocol.questions import UndoAnswer
from bridle.providers.script import call, say
from bridle.sessions.memory_store import MemoryStore


@pytest.mark.requirement("G1.5")
async def test_a_session_in_memory_is_gone_on_with_and_nothing_of_it_is_on_the_disk(tmp_path: Path):
    kept, home, work = MemoryStore(), tmp_path / "home", tmp_path / "work"
    work.mkdir()
    store = kept.beside()  # an engine closes the store it was given
    model = scripted(call("write_file", path="a.txt", content="one\n"), say("Written."))
    async with harness(model, store=store, home=str(home), folder=str(work), mode="auto") as session:
        assert outcomes(await session.ask("write a file")) == ["ok"]
        first = [envelope.id for envelope in await session.stored()]
        assert first == list(range(1, len(first) + 1))
        with pytest.raises(CommandRefused) as busy:
            await kept.open(session.id)
        assert busy.value.reason == "SessionBusy"
    again = RecordingModel(scripted(say("You asked for a file.")))
    async with harness(again, store=kept, home=str(home), folder=str(work), resume=session.id) as resumed:
        await resumed.ask("what did I ask for?")
        assert b"write a file" in again.bodies[0], "the model reads what was said before"
        stored = await resumed.stored()
        assert [envelope.id for envelope in stored[: len(first)]] == first
    assert (work / "a.txt").read_text() == "one\n"
    assert not list(home.rglob("sessions.*")), "no database was made"


async def test_clients_list_search_branch_pin_and_delete_sessions_in_memory(tmp_path: Path):
    async with harness(
        scripted(say("Rounded to cents.")), store=MemoryStore(), folder=str(tmp_path)
    ) as session:
        await session.ask("round the cart")
        ask, send = session.connection.ask, session.connection.send
        (listed,) = (await ask(ListSessions())).sessions
        assert (listed.id, listed.title, listed.state) == (session.id, "round the cart", "open")
        (hit,) = (await ask(SearchSessions(words="cents", limit=5))).hits
        assert (hit.session, hit.who) == (session.id, "model")
        made = (await send(BranchSession(session=session.id))).session
        described = (await ask(DescribeSession(session=made))).session
        assert (described.branch_of, described.turns, described.state) == (session.id, 1, "stored")
        await send(PinSession(session=made, pinned=True))
        assert (await ask(DescribeSession(session=made))).session.pinned
        with pytest.raises(CommandRefused) as busy:
            await send(DeleteSession(session=session.id))
        assert busy.value.reason == "SessionBusy"
        await send(EndSession(session=session.id))
        await send(DeleteSession(session=session.id))
        assert [one.id for one in (await ask(ListSessions())).sessions] == [made]


async def test_clients_get_the_list_of_sessions_in_pages(tmp_path: Path):
    async with harness(scripted(say("Yes.")), store=MemoryStore(), folder=str(tmp_path)) as session:
        await session.ask("round the cart")
        ask = session.connection.ask
        for _ in range(2):
            await session.connection.send(BranchSession(session=session.id))
        whole = await ask(ListSessions())
        assert (len(whole.sessions), whole.next) == (3, None)
        first = await ask(ListSessions(limit=2))
        rest = await ask(ListSessions(limit=2, after=first.next))
        assert (len(first.sessions), rest.next) == (2, None)
        assert first.sessions + rest.sessions == whole.sessions
        with pytest.raises(CommandRefused) as refused:
            await ask(ListSessions(after="somewhere"))
        assert refused.value.reason == "BadCommand"


async def test_what_a_call_did_to_a_file_is_undone_in_memory_too(tmp_path: Path):
    (tmp_path / "a.txt").write_text("before\n")
    model = scripted(call("bash", command="printf after > a.txt"), say("Done."))
    async with harness(
        model, store=MemoryStore(), folder=str(tmp_path), mode="yolo", answers=True
    ) as session:
        await session.ask("change it")
        assert (tmp_path / "a.txt").read_text() == "after"
        await session.connection.send(RunSlash(session=session.id, name="undo"))
        asked = await session.until(QuestionAsked)
        answer = UndoAnswer(choice="go")
        await session.connection.send(
            AnswerQuestion(session=session.id, question_id=asked.question_id, answer=answer)
        )
        applied = await session.until(UndoApplied)
        assert applied.paths == ("a.txt",)
    assert (tmp_path / "a.txt").read_text() == "before\n"
