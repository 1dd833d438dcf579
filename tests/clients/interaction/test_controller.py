"""A person's client without a screen, on a real engine: what every client shares, from the first word to the last."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.test_spending import PRICED, opened, provider
from bridle.clients.interaction.composer.composer import Send
from bridle.clients.interaction.effects import (
    ChooseSession,
    CloseQuestion,
    CopyText,
    Echo,
    EnterSession,
    Leave,
    NextMode,
    PickSession,
    PutQuestion,
    RememberPrompt,
    RunCommand,
    SayWords,
    SessionReady,
    ShowEvent,
    ShowSessions,
    StopTurn,
    Waiting,
    WaitOver,
)
from bridle.clients.interaction.questions.question_card import Decided, Form, PermissionAnswer, Question
from bridle.clients.interaction.session.controller import Controller
from bridle.clients.interaction.session.question_queue import QuestionQueue
from bridle.clients.interaction.view import SessionView
from bridle.conformance.fake_models import SilentModel, scripted
from bridle.conformance.harness import HarnessSession, harness
from bridle.conformance.servers import ModelServer
from bridle.engine.ports import ModelText, Provider
from bridle.protocol import events as e
from bridle.protocol import questions as q
from bridle.protocol.commands import (
    AnswerPermission,
    AnswerQuestion,
    CreateSession,
    SendInput,
    SessionOptions,
)
from bridle.protocol.connection import Connection
from bridle.protocol.errors import CommandRefused
from bridle.protocol.messages import TextBlock
from bridle.protocol.queries import DescribeSession
from bridle.providers.script import call, say
from clients.interaction.headless_kit import Headless, headless
from recovery.test_court import Crashed
from tables import table


@asynccontextmanager
async def conversation(
    model: Provider, *, services: dict[str, Any] | None = None, mode: e.Mode | None = None, **places: Any
) -> AsyncIterator[tuple[Headless, HarnessSession]]:
    """A client in a session of its own; `session` is the engine's door beside it."""
    async with harness(model, **places) as session:
        connection = session.engine.connect(name="me", answers=True)
        create = CreateSession(
            cwd=session.folder, env={"PATH": os.defpath}, model=f"{model.name}:scripted", mode=mode
        )
        async with headless(connection, create, **(services or {})) as client:
            yield client, session
        await connection.close()


def asks_to_touch() -> Provider:
    return scripted(call("bash", command="touch it-ran"), say("Done."))


async def test_a_turn_is_shown_as_it_happens_and_the_view_follows() -> None:
    async with conversation(scripted(say("An answer."))) as (client, _):
        assert client.performed == [EnterSession(), SessionReady()]
        client.writes("a question")
        echo, remember = client.performed[2:4]
        assert (echo, type(remember)) == (Echo("a question"), RememberPrompt)
        assert client.driver.view.running
        await client.shows(e.TurnStarted)
        await client.shows(e.TurnEnded)
        kinds = [type(event).__name__ for event in client.events]
        assert kinds.index("InputAccepted") < kinds.index("TextDelta") < kinds.index("TurnEnded")
        view = client.driver.view
        assert (view.title, view.turns, view.answer) == ("a question", 1, "[scripted] An answer.")
        assert not view.running
        assert await client.driver.way_back() != ""


@table(
    ("key", "outcome", "grants"),
    [
        ("y", "ok", []),
        ("p", "ok", ["session"]),
        ("a", "ok", ["saved"]),
        ("t", "ok", ["session"]),
        ("n", "denied", []),
        ("use a file instead", "denied", []),
    ],
)
async def test_each_answer_to_a_permission_question_does_what_it_says(
    key: str, outcome: str, grants: list[str]
) -> None:
    async with conversation(asks_to_touch()) as (client, session):
        client.writes("go")
        question = await client.question()
        assert (question.form.title, question.form.body[0].text) == ("Run this command?", "touch it-ran")
        client.answers(question, key)
        await client.shows(e.TurnEnded)
        (result,) = [event for event in client.events if isinstance(event, e.ToolResult)]
        assert result.outcome == outcome
        assert Path(session.folder, "it-ran").exists() == (outcome == "ok")
        assert [grant.life for grant in client.driver.view.grants.values()] == grants
        if " " in key:
            (decided,) = [event for event in client.events if isinstance(event, e.PermissionDecided)]
            assert decided.note == key
        assert not [one for one in client.performed if isinstance(one, CloseQuestion)], "answered here"


async def test_stopping_at_a_question_says_no_and_ends_the_turn() -> None:
    async with conversation(asks_to_touch()) as (client, session):
        client.writes("go")
        client.wants(Decided(question=await client.question(), stop=True))
        ended = await client.shows(e.TurnEnded)
        assert ended.stop == "cancelled"
        assert not Path(session.folder, "it-ran").exists()


@pytest.mark.parametrize(("key", "used"), [("u", True), ("n", False)])
async def test_trust_is_asked_for_and_given_or_not(tmp_path: Path, key: str, used: bool) -> None:
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    (work / "AGENTS.md").write_text("Be kind.\n")
    async with conversation(scripted(say("Hi.")), folder=str(work)) as (client, session):
        client.writes("go")
        question = await client.question()
        assert isinstance(question.form.refusal, q.TrustAnswer)
        client.answers(question, key)
        await client.shows(e.TurnEnded)
        prefixes = [
            one.event.system
            for one in session.engine.store.events(client.driver.controller.session)
            if isinstance(one.event, e.PrefixSet)
        ]
        assert any("Be kind." in system for system in prefixes) == used


@pytest.mark.parametrize(("key", "stop"), [("r", "end_turn"), ("n", "error")])
async def test_a_limit_is_raised_or_holds(tmp_path: Path, key: str, stop: str) -> None:
    (tmp_path / "home/config").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    settings = (f'[models."work:m"]\n{PRICED}', "[budget]\nusd_per_session = 0.002")
    async with (
        ModelServer.playing(say("Hi.")) as server,
        opened(tmp_path / "home", "work:m", provider("work", server), *settings, answers=True) as session,
        headless(session.connection, CreateSession(cwd=session.folder, model="work:m")) as client,
    ):
        client.writes("go")
        question = await client.question()
        assert isinstance(question.form.refusal, q.BudgetAnswer)
        client.answers(question, key)
        assert (await client.shows(e.TurnEnded)).stop == stop


async def test_where_the_keys_of_models_come_from_is_asked_of_the_engine(tmp_path: Path) -> None:
    (tmp_path / "home/config").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    async with (
        ModelServer.playing(say("Hi.")) as server,
        opened(tmp_path / "home", "openai:gpt-5", provider("openai", server), answers=True) as session,
    ):
        new = CreateSession(cwd=session.folder, model="openai:gpt-5")
        async with headless(session.connection, new) as client:
            assert client.driver.info.key_words("openai") == (
                "key from OPENAI_API_KEY (also found: OPENROUTER_API_KEY; switch with /model)"
            )
            assert client.driver.info.key_words("nobody") == ""
        resumed = CreateSession(cwd=session.folder, resume=session.id)
        async with headless(session.connection, resumed) as client:
            assert client.driver.info.key_words("openai") == "", "who comes back was told"


@table(("key", "told"), [("y", e.UndoApplied), ("n", e.QuestionAnswered)])
async def test_an_undo_is_asked_for_and_done_or_not(key: str, told: type[e.AnyEvent]) -> None:
    model = scripted(call("write_file", path="new.txt", content="hi"), say("Done."))
    async with conversation(model, mode="auto") as (client, session):
        client.writes("go")
        await client.shows(e.TurnEnded)
        client.wants(RunCommand("undo"))
        question = await client.question()
        assert isinstance(question.form.refusal, q.UndoAnswer)
        client.answers(question, key)
        await client.shows(told)
        assert Path(session.folder, "new.txt").exists() == (key == "n")


@pytest.mark.requirement("G32.3")
async def test_what_a_crash_left_open_is_put_to_the_person_who_resumes(tmp_path: Path) -> None:
    crashed = await Crashed(tmp_path).during(call("bash", command="touch a"))
    create = CreateSession(
        cwd=str(crashed.work), resume=crashed.session, config=SessionOptions(on_orphan="ask")
    )
    async with harness(scripted(say("x"), say("Back.")), **crashed.places) as session:
        connection = session.engine.connect(name="me", answers=True)
        async with headless(connection, create) as client:
            question = await client.question()
            assert isinstance(question.form.refusal, q.OrphanAnswer)
            client.answers(question, "h")
            result = await client.shows(e.ToolResult)
            assert (result.outcome, result.reason) == ("ok", "JudgedHappened")
            client.writes("go on")
            assert (await client.shows(e.TurnEnded)).stop == "end_turn"
        await connection.close()


async def test_who_goes_elsewhere_leaves_the_open_question_behind(tmp_path: Path) -> None:
    crashed = await Crashed(tmp_path).during(call("bash", command="touch a"))
    create = CreateSession(
        cwd=str(crashed.work), resume=crashed.session, config=SessionOptions(on_orphan="ask")
    )
    model = scripted(say("x"))
    async with harness(model, **crashed.places) as session:
        connection = session.engine.connect(name="me", answers=True)
        async with headless(connection, create) as client:
            question = await client.question()
            client.writes("/clear")
            assert await client.gets(CloseQuestion) == CloseQuestion(question.id)
            await client.gets(EnterSession)
            await client.gets(SessionReady)
            late = client.driver.controller.handle(Decided(question=question, answer=question.form.refusal))
            assert late == (), "an answer that comes too late goes nowhere"
        await connection.close()


class SlowConnection:
    """A connection on which descriptions of sessions wait, once somebody says so."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.waits, self.asked, self.go_on = False, asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def ask(self, query: Any) -> Any:
        if self.waits and isinstance(query, DescribeSession):
            self.asked.set()
            await self.go_on.wait()
        return await self._connection.ask(query)


async def test_a_question_that_comes_while_one_goes_elsewhere_does_not_stay_in_front() -> None:
    model = asks_to_touch()
    async with harness(model) as session:
        slow = SlowConnection(session.engine.connect(name="me", answers=True))
        create = CreateSession(cwd=session.folder, env={"PATH": os.defpath}, model=f"{model.name}:scripted")
        async with headless(cast("Connection", slow), create) as client:
            old = client.driver.controller.session
            other = session.engine.connect(name="another", answers=True)
            await other.send(CreateSession(cwd=session.folder, resume=old))
            slow.waits = True
            client.writes("/clear")
            await slow.asked.wait()
            await other.send(SendInput(session=old, content=(TextBlock(text="go"),)))
            question = await client.question()
            slow.go_on.set()
            assert await client.gets(CloseQuestion) == CloseQuestion(question.id)
            await client.gets(EnterSession)
        await slow.close()
        assert not Path(session.folder, "it-ran").exists()


async def test_what_is_written_during_a_turn_waits_or_is_said_at_once() -> None:
    model = SilentModel(ModelText("Hmm."))
    async with conversation(model) as (client, _):
        client.writes("one")
        await client.shows(e.TextDelta)
        client.writes("two")
        client.writes("three", steer=True)
        await client.reads("queued   two")
        await client.reads("now      three")
        client.wants(RunCommand("queue"))
        modes = [await client.shows(e.InputAccepted) for _ in range(2)]
        assert [e.text_of(accepted.content) for accepted in modes] == ["two", "three"]
        await client.reads("1  now      three")
        await client.reads("2  two")
        client.wants(StopTurn())
        assert (await client.shows(e.TurnEnded)).stop == "cancelled"
        await client.reads("› three")


def test_the_queue_is_looked_at_when_all_that_was_sent_is_in_it() -> None:
    controller = Controller(SessionView("cli_me"), "sess_1")
    controller.take(_envelope(1, e.InputAccepted(content=(TextBlock(text="one"),))))
    controller.take(_envelope(2, e.TurnStarted(input=1)))
    sent = controller.handle(Send("two", "two", ()))
    assert not [
        said for said in controller.handle(Send("/queue", "/queue", ())) if isinstance(said, SayWords)
    ]
    accepted = controller.take(_envelope(3, e.InputAccepted(content=(TextBlock(text="two"),))))
    assert next(said.text for said in accepted if isinstance(said, SayWords)) == "1  two"
    controller.handle(Send("three", "three", ()))
    controller.handle(Send("/queue drop 2", "/queue drop 2", ()))
    (command,) = (one for one in sent if isinstance(one, SendInput))
    refused = controller.refused(CommandRefused("NothingAsked"), command)
    assert "Which one?" in refused[-1].text, "it never came into the queue"


async def test_stopping_where_nothing_runs_sends_nothing() -> None:
    controller = Controller(SessionView("cli_me"), "s")
    assert controller.handle(StopTurn()) == ()
    assert controller.handle(RunCommand("stop")) == (SayWords("No turn is running.", "  "),)


async def test_modes_are_switched_by_key_and_by_name() -> None:
    async with conversation(scripted(say("Hi."))) as (client, _):
        client.wants(NextMode())
        assert (await client.shows(e.ModeChanged)).mode == "auto"
        client.wants(NextMode())
        assert (await client.shows(e.ModeChanged)).mode == "plan"
        client.writes("/mode default")
        assert (await client.shows(e.ModeChanged)).mode == "default"
        assert client.driver.view.mode == "default"


@pytest.mark.requirement("G20.6")
async def test_a_question_that_somebody_else_answered_first_goes_away_and_says_so() -> None:
    async with conversation(asks_to_touch()) as (client, session):
        client.writes("go")
        question = await client.question()
        other = session.engine.connect(name="other", answers=True)
        at = client.driver.controller.session
        await other.send(CreateSession(cwd=session.folder, resume=at))
        await other.send(
            AnswerPermission(session=at, call_id=question.id, answer="once", digest=question.digest)
        )
        closed = await client.gets(CloseQuestion)
        assert closed == CloseQuestion(question.id, "Answered elsewhere.")
        client.answers(question, "n")
        await client.shows(e.TurnEnded)
        assert Path(session.folder, "it-ran").exists(), "the first answer counts, a late one is not even sent"
        await other.close()


async def test_a_question_that_was_open_before_a_client_came_is_put_to_it() -> None:
    async with conversation(asks_to_touch()) as (client, session):
        client.writes("go")
        question = await client.question()
        other = session.engine.connect(name="other", answers=True)
        resume = CreateSession(cwd=session.folder, resume=client.driver.controller.session)
        async with headless(other, resume) as late:
            asked = await late.question()
            assert asked == question
            past = [event for event in late.events if not isinstance(event, e.Presence)]
            assert past == [], "the past is read, not shown again"
            late.answers(asked, "y")
            await late.shows(e.TurnEnded)
            assert await client.gets(CloseQuestion) == CloseQuestion(question.id, "Answered elsewhere.")
        assert Path(session.folder, "it-ran").exists()
        await other.close()


async def test_what_another_client_says_is_shown_with_its_name() -> None:
    async with conversation(scripted(say("Hi."))) as (client, session):
        other = session.engine.connect(name="other", answers=True)
        at = client.driver.controller.session
        await other.send(CreateSession(cwd=session.folder, resume=at))
        await other.send(SendInput(session=at, content=(TextBlock(text="and me"),), mode="queue"))
        await client.reads("other: and me")
        await client.shows(e.TurnEnded)
        await other.close()


async def test_a_resumed_session_says_where_one_is_and_shows_nothing_of_its_past_again(
    tmp_path: Path,
) -> None:
    places = {"home": str(tmp_path / "home"), "folder": str(tmp_path)}
    async with harness(scripted(say("One.")), **places) as session:
        await session.ask("hello")
        stored = session.id
    async with harness(scripted(say("One."), say("Two.")), **places) as session:
        connection = session.engine.connect(name="me", answers=True)
        async with headless(connection, CreateSession(cwd=str(tmp_path), resume=stored)) as client:
            ready = client.performed[-1]
            assert isinstance(ready, SessionReady)
            assert ready.back == 'Back in "hello", 1 turn so far.'
            assert [e.text_of(one.event.content) for one in ready.past if one.kind == "InputAccepted"] == [
                "hello"
            ]
            assert (client.driver.view.answer, client.events) == ("[scripted] One.", [])
            client.writes("go on")
            await client.shows(e.TurnEnded)
            assert client.driver.view.turns == 2
        await connection.close()


async def test_commands_of_the_client_and_of_the_engine_come_through_one_door() -> None:
    saved: dict[str, str] = {}

    def save(path: str, text: str) -> str:
        saved[path] = text
        return path

    async with conversation(scripted(say("First."), say("Second.")), services={"save": save}) as (client, _):
        client.writes("/copy")
        await client.reads("There is no answer yet.")
        client.writes("one")
        await client.shows(e.TurnEnded)
        client.writes("/status")
        await client.reads("now      idle")
        client.writes("/copy")
        assert await client.gets(CopyText) == CopyText("[scripted] First.")
        client.writes("/rename a better title")
        await client.reads('This session is now called "a better title".')
        client.writes("/export all.md")
        await client.reads("Written: all.md")
        assert "First." in saved["all.md"]
        client.writes("/sessions")
        assert [one.mark for one in (await client.gets(ShowSessions)).sessions] == ["this one", "● open"]
        client.writes("/diff")
        await client.reads(
            "This session changed no files that undo knows of. The repository itself: /diff git"
        )
        client.writes("/diff git")
        await client.shows(e.Notice)
        client.writes("/satus")
        await client.reads("Close: /status")
        client.wants(RunCommand("permissions", "promote 1"))
        await client.reads("Which one?")


async def test_a_new_session_takes_the_place_of_the_old_one_and_one_goes_back_by_picking() -> None:
    async with conversation(scripted(say("First."), say("Second."))) as (client, session):
        client.writes("one")
        await client.shows(e.TurnEnded)
        first = client.driver.controller.session
        client.writes("/clear")
        client.writes("two")
        await client.reads('A new session. The last one is saved as "one": bridle -r ')
        await client.gets(EnterSession)
        await client.gets(SessionReady)
        assert client.driver.controller.session != first
        await client.shows(e.TurnEnded)
        assert client.driver.view.title == "two", "what was written behind it is for the new one"
        client.writes("/resume")
        assert await client.gets(PickSession) == PickSession()
        listed = (await client.gets(PickSession)).sessions or ()
        assert [one.id for one in listed] == [first, session.id], (
            "the other one is open, with nothing said in it"
        )
        client.wants(ChooseSession(first))
        await client.gets(SessionReady)
        assert client.driver.controller.session == first
        client.writes("/resume " + first)
        await client.reads("This is the session you are in.")


async def test_where_nobody_is_left_every_question_is_answered_with_no() -> None:
    async with conversation(asks_to_touch()) as (client, session):
        client.writes("go")
        question = await client.question()
        client.driver.nobody_is_left()
        assert client.performed[-1] == CloseQuestion(question.id)
        await client.shows(e.TurnEnded)
        assert not Path(session.folder, "it-ran").exists()


async def test_leaving_is_an_effect_of_the_controller_and_ends_the_driver() -> None:
    assert Controller(SessionView("cli_me"), "s").handle(RunCommand("quit")) == (Leave(),)
    async with conversation(scripted(say("Hi."))) as (client, _):
        client.writes("/quit")
        assert client.driver.leaving


def test_a_wait_for_the_next_attempt_begins_and_ends() -> None:
    controller = Controller(SessionView("cli_me"), "s")
    failed = _envelope(
        1, e.StepFailed(step=1, attempt=1, reason="RateLimited", message="Wait.", retry_in_ms=2000)
    )
    assert controller.take(failed) == (Waiting(failed, 2.0),)
    started = _envelope(2, e.StepStarted(step=1, provider="work", model="m"))
    assert controller.take(started) == (WaitOver(failed), ShowEvent(started))


def _envelope(number: int, event: e.AnyEvent) -> e.Envelope:
    kind = type(event).__name__
    return e.Envelope(id=number, kind=kind, session="s", originator="cli_me", ts_ms=0, event=event)


FORM = Form(title="?", refusal=PermissionAnswer("deny"))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["arrived", "decided", "decided late", "settled", "turn ends"]), st.integers(0, 3)
    ),
    max_size=30,
)


@given(STEPS)
def test_one_question_is_in_front_at_a_time_and_is_answered_at_most_once(
    steps: list[tuple[str, int]],
) -> None:
    """Whatever the order in which questions come, are answered here, are answered elsewhere, or end with their turn."""
    queue, front, waiting, number = QuestionQueue("s"), "", list[str](), 0
    sent: list[str] = []
    for what, which in steps:
        match what:
            case "arrived":
                number += 1
                waiting.append(f"call_{number}")
                effects = queue.arrived(Question(id=f"call_{number}", form=FORM))
            case "decided" if front:
                effects = queue.answer(Question(id=front, form=FORM), FORM.refusal)
                waiting.remove(front)
                front = ""
            case "decided late":  # a card that is gone, or was never in front
                late = next((f"call_{one}" for one in range(which, number + 1) if f"call_{one}" != front), "")
                effects = queue.answer(Question(id=late, form=FORM), FORM.refusal)
                assert effects == []
            case "settled" if waiting:
                gone = waiting.pop(which % len(waiting))
                effects = queue.settled(gone)
            case "turn ends":
                waiting.clear()
                effects = queue.forget_all()
            case _:
                effects = []
        for effect in effects:
            match effect:
                case PutQuestion(question=asked):
                    assert front == "", "one at a time"
                    front = asked.id
                case CloseQuestion(question_id=closed):
                    assert closed == front
                    front = ""
                case AnswerPermission(call_id=call_id) | AnswerQuestion(question_id=call_id):
                    assert call_id not in sent
                    sent.append(call_id)
                case _:
                    raise AssertionError(effect)
        assert front == (waiting[0] if waiting else ""), "the oldest open question is in front"
