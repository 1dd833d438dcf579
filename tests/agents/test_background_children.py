"""Agents that work in the background: their questions beside those of whoever sent them, and what becomes of them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.test_compacting import LONG, Model, windows
from bridle.agents.definition import AgentDefinition, AgentDelegation
from bridle.clients.dotted_events import events_lines
from bridle.clients.interaction.effects import CloseQuestion, PutQuestion
from bridle.clients.interaction.questions.question_card import Decided
from bridle.clients.interaction.render.session_pages import Words, passages
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import ScriptedAnswer, scripted
from bridle.conformance.harness import HarnessSession, harness
from bridle.engine.ports import ModelDone, ModelPart, ModelText
from bridle.engine.tools import Tool, ToolOutput, never_mutating
from bridle.protocol import events as e
from bridle.protocol.codec import encode_payload
from bridle.protocol.commands import AnswerPermission, AttachSession, CancelTurn, CreateSession, RunSlash
from bridle.protocol.messages import Usage
from bridle.providers.script import call, say
from bridle.sessions.archive.stored_archive import said_in
from clients.interaction.headless_kit import Headless, headless
from git_kit import Repository
from tables import table

BESIDE = AgentDefinition(
    name="beside", description="x", delegation=AgentDelegation(invocation="allow", background=True)
)
SEND = call("delegate_agent", agent="beside", task="Look.")
CHILD_WRITES = (call("write_file", path="child.txt", content="c"), say("Written."))
ROOT_WRITES = (call("write_file", path="root.txt", content="r"), say("Mine too."))


class Nothing(msgspec.Struct, frozen=True):
    """No arguments."""


class Held:
    """A tool that says that it runs, and waits until it is let go."""

    def __init__(self, name: str = "hold") -> None:
        self.runs, self.let_go = asyncio.Event(), asyncio.Event()
        self.tool = Tool(
            name=name,
            description="Waits.",
            input=Nothing,
            risk="read",
            run=self._run,
            mutating=never_mutating,
        )

    async def _run(self, _args: Nothing, _context: Any) -> ToolOutput:
        self.runs.set()
        await self.let_go.wait()
        return ToolOutput(content="held")


@asynccontextmanager
async def beside(
    *root: ScriptedAnswer, child: Sequence[ScriptedAnswer], clock: FakeClock | None = None, **options: Any
) -> AsyncIterator[HarnessSession]:
    """A session whose agent sends one into the background first."""
    clock = clock or FakeClock()
    model = scripted(SEND, *root, agents={"beside": child}, clock=clock)
    given = {"agent_mode": "multi", "agents": [BESIDE], "answers": True, **options}
    async with harness(model, clock=clock, **given) as session:
        yield session


async def envelopes(session: HarnessSession) -> AsyncIterator[e.Envelope]:
    async for envelope in session.connection.events(session.id, since=0):
        yield envelope


async def asked_in(session: HarnessSession, count: int, **answers: Any) -> list[e.Envelope]:
    """The next questions as they come, each answered before the next one is waited for."""
    asked: list[e.Envelope] = []
    async for one in envelopes(session):
        if isinstance(one.event, e.PermissionRequested):
            asked.append(one)
            await session.connection.send(
                AnswerPermission(
                    session=session.id, call_id=one.event.call_id, **{"answer": "once", **answers}
                )
            )
            if len(asked) == count:
                break
    return asked


async def all_heard(session: HarnessSession) -> list[e.Envelope]:
    """All events until the main agent was told of the child's end, in the turn that ran or in one of its own."""
    seen: list[e.Envelope] = []
    told: int | None = None
    is_heard = False
    async for one in envelopes(session):
        seen.append(one)
        match one.event if one.invocation is None else None:
            case e.InputAccepted(identity="agent"):
                told = one.id
            case e.TurnStarted(input=number) | e.ContextAdded(input=number) if number == told is not None:
                is_heard = True
            case e.TurnEnded() if is_heard:
                break
            case _:
                pass
    return seen


async def both_ask(session: HarnessSession, held: Held) -> None:
    """The child's question is open, then the main agent wants to ask."""
    await session.send("go")
    await held.runs.wait()
    await session.until(e.PermissionRequested)
    held.let_go.set()
    async for one in envelopes(session):
        if isinstance(one.event, e.ToolCallRequested) and one.event.input.get("path") == "root.txt":
            break
    for _ in range(20):  # so far that it would have asked
        await asyncio.sleep(0)


def names(stored: list[e.Envelope], kind: type[e.AnyEvent]) -> list[tuple[str, ...]]:
    return [one.agent_path for one in stored if isinstance(one.event, kind)]


async def test_questions_of_both_are_put_one_at_a_time_in_the_order_they_came(tmp_path: Path) -> None:
    held = Held()
    options = {"folder": str(tmp_path), "tools": [held.tool], "allow": ("hold",)}
    async with beside(call("hold"), *ROOT_WRITES, say("Heard."), child=CHILD_WRITES, **options) as session:
        await both_ask(session, held)
        stored = await session.stored()
        assert names(stored, e.PermissionRequested) == [("beside",)], "the other one waits"
        asked = await asked_in(session, 2)
        assert [one.agent_path for one in asked] == [("beside",), ()]
        stored = await all_heard(session)
    flow = [
        (type(one.event).__name__, one.agent_path)
        for one in stored
        if isinstance(one.event, e.PermissionRequested)
        or (isinstance(one.event, e.PermissionDecided) and one.event.decided_by == "person")
    ]
    assert flow == [
        ("PermissionRequested", ("beside",)),
        ("PermissionDecided", ("beside",)),
        ("PermissionRequested", ()),
        ("PermissionDecided", ()),
    ]
    assert {path.name for path in tmp_path.iterdir()} >= {"child.txt", "root.txt"}


async def test_a_yes_that_covers_what_waits_is_not_asked_for_twice(tmp_path: Path) -> None:
    held = Held()
    options = {"folder": str(tmp_path), "tools": [held.tool], "allow": ("hold",)}
    async with beside(call("hold"), *ROOT_WRITES, say("Heard."), child=CHILD_WRITES, **options) as session:
        await both_ask(session, held)
        await asked_in(session, 1, answer="tool")
        stored = await all_heard(session)
    assert names(stored, e.PermissionRequested) == [("beside",)]
    decided = [one.event for one in stored if isinstance(one.event, e.PermissionDecided)]
    assert [(one.tool, one.decided_by) for one in decided if one.tool == "write_file"] == [
        ("write_file", "person"),
        ("write_file", "grant"),
    ]
    assert {path.name for path in tmp_path.iterdir()} >= {"child.txt", "root.txt"}


@pytest.mark.parametrize("who", ["child", "turn"])
async def test_stopping_one_of_them_leaves_the_question_of_the_other(tmp_path: Path, who: str) -> None:
    held = Held()
    options = {"folder": str(tmp_path), "tools": [held.tool], "allow": ("hold",)}
    async with beside(call("hold"), *ROOT_WRITES, say("Heard."), child=CHILD_WRITES, **options) as session:
        await both_ask(session, held)
        started = await session.until(e.ChildStarted)
        invocation = started.invocation if who == "child" else None
        await session.connection.send(CancelTurn(session=session.id, invocation=invocation))
        await session.until(e.ChildEnded if who == "child" else e.Cancelled)
        async for one in envelopes(session):  # the question that is left
            if isinstance(one.event, e.PermissionRequested) and one.agent_path == (
                () if who == "child" else ("beside",)
            ):
                answer = AnswerPermission(session=session.id, call_id=one.event.call_id, answer="once")
                await session.connection.send(answer)
                break
        stored = await all_heard(session)
    written = {path.name for path in tmp_path.iterdir()}
    assert ("root.txt" in written, "child.txt" in written) == (who == "child", who == "turn")
    assert len(names(stored, e.ChildEnded)) == 1


async def test_where_nobody_comes_the_question_in_front_ends_and_the_next_is_put(tmp_path: Path) -> None:
    held, clock = Held(), FakeClock()
    options = {"folder": str(tmp_path), "tools": [held.tool], "allow": ("hold",), "on_ask": "wait"}
    root = (call("hold"), *ROOT_WRITES, say("Heard."))
    async with beside(*root, child=CHILD_WRITES, clock=clock, **options) as session:
        await both_ask(session, held)
        watching = session.engine.connect(name="watching", answers=False)
        await watching.send(AttachSession(session=session.id))
        await session.connection.close()
        session.connection = watching
        for count in (1, 2):
            while len(names(await session.stored(), e.PermissionRequested)) < count:
                await asyncio.sleep(0)
            await clock.advance(61)
        stored = await all_heard(session)
    decided = [one.event for one in stored if isinstance(one.event, e.PermissionDecided)]
    reasons = [one.reason for one in decided if one.tool == "write_file"]
    assert reasons == ["PermissionTimeout", "PermissionTimeout"]
    assert not list(tmp_path.glob("*.txt"))


@asynccontextmanager
async def client_of(session: HarnessSession, name: str = "second") -> AsyncIterator[Headless]:
    """A person's client of the same session."""
    create = CreateSession(cwd=session.folder, resume=session.id)
    async with headless(session.engine.connect(name=name, answers=True), create) as client:
        yield client


async def test_the_end_of_the_turn_takes_no_question_of_the_background_away(tmp_path: Path) -> None:
    """The client has both in its queue; the turn that ends takes its own."""
    held = Held()
    options = {"folder": str(tmp_path), "tools": [held.tool], "allow": ("hold",)}
    root = (call("hold"), say("Gone on."), say("x"))
    async with beside(*root, child=CHILD_WRITES, **options) as session, client_of(session) as client:
        client.writes("go")
        question = await client.question()
        assert question.form.title.startswith("beside → ")
        held.let_go.set()
        await client.shows(e.TurnEnded)
        assert CloseQuestion(question.id) not in client.performed, "nobody answered it"
        client.answers(question, "y")
        await all_heard(session)
    assert (tmp_path / "child.txt").exists()


async def test_whoever_comes_later_is_asked_what_waits_after_the_turn(tmp_path: Path) -> None:
    async with beside(say("Gone on."), say("Heard."), child=CHILD_WRITES, folder=str(tmp_path)) as session:
        await session.ask("go")
        await session.until(e.PermissionRequested)
        for name in ("second", "third"):  # one who leaves without an answer, and one who gives it
            async with client_of(session, name) as client:
                question = await client.question()
                assert question.form.title.startswith("beside → ")
                if name == "third":
                    client.answers(question, "y")
                    await all_heard(session)
    assert (tmp_path / "child.txt").exists()


async def test_ctrl_c_at_the_question_of_one_in_the_background_stops_that_one_alone(tmp_path: Path) -> None:
    held = Held()
    options = {"folder": str(tmp_path), "tools": [held.tool], "allow": ("hold",)}
    root = (call("hold"), say("Gone on."), say("x"))
    async with beside(*root, child=CHILD_WRITES, **options) as session, client_of(session) as client:
        client.writes("go")
        question = await client.question()
        await held.runs.wait()
        client.wants(Decided(question=question, stop=True))
        ended = await client.shows(e.ChildEnded)
        held.let_go.set()
        stored = await all_heard(session)
    assert (ended.stop, ended.stopped_by) == ("cancelled", "a person")
    stops = [one.event.stop for one in stored if isinstance(one.event, e.TurnEnded) and not one.invocation]
    assert set(stops) == {"end_turn"}
    assert not (tmp_path / "child.txt").exists()


async def test_a_session_that_goes_on_has_no_question_of_an_agent_that_is_gone(tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    kept = {"home": str(tmp_path / "home"), "folder": str(work)}
    async with beside(say("Gone on."), child=CHILD_WRITES, **kept) as session:
        await session.ask("go")
        await session.until(e.PermissionRequested)
        first = session.id
    async with beside(say("x"), child=(), resume=first, **kept) as session:
        async with client_of(session) as client:
            client.writes("what now?")
            await client.shows(e.TurnEnded)
            assert not [one for one in client.performed if isinstance(one, PutQuestion)]
        ends = [one.event for one in await session.stored() if isinstance(one.event, e.ChildEnded)]
    assert [(one.ok, one.stop) for one in ends] == [(False, "cancelled")]


BROKEN = msgspec.structs.replace(BESIDE, name="broken", hidden_tools=(5,))  # of a program that checks nothing
"""An agent whose parts cannot be put together."""


@table("background", [True, False])
async def test_what_breaks_around_an_agent_is_its_result_and_the_log_has_its_end(background: bool) -> None:
    delegation = AgentDelegation(invocation="allow", background=background)
    agent = msgspec.structs.replace(BROKEN, delegation=delegation)
    model = scripted(call("delegate_agent", agent="broken", task="Look."), say("Sent."), say("Heard."))
    async with harness(model, agent_mode="multi", agents=[agent]) as session:
        if background:
            await session.send("go")
            await all_heard(session)
        else:
            await session.ask("go")
        assert session.conversation.children == {}
        assert session.conversation.open_calls == ()
        said = "\n".join(map(str, session.conversation.messages))
        stored = await session.stored()
    (ended,) = (one.event for one in stored if isinstance(one.event, e.ChildEnded))
    assert (ended.ok, ended.stop) == (False, "error")
    assert ended.result.startswith(
        "The agent broken did not finish: Something inside Bridle failed (TypeError"
    )
    assert "The agent broken did not finish" in said
    assert stored[-1].event == e.TurnEnded(stop="end_turn", steps=stored[-1].event.steps)


async def test_an_agent_in_the_background_that_cannot_begin_has_failed_and_its_sender_hears(
    tmp_path: Path,
) -> None:
    """A repository without a commit is not known before git is asked."""
    (folder := tmp_path / "repo").mkdir()
    Repository(folder, tmp_path / "person").git("init", "-q")
    delegation = AgentDelegation(invocation="allow", background=True, worktree=True)
    agent = msgspec.structs.replace(BESIDE, delegation=delegation)
    model = scripted(SEND, say("Sent."), say("Heard."))
    async with harness(model, agent_mode="multi", agents=[agent], folder=str(folder)) as session:
        await session.send("go")
        stored = await all_heard(session)
    (started,) = (one.event for one in stored if isinstance(one.event, e.ChildStarted))
    (ended,) = (one.event for one in stored if isinstance(one.event, e.ChildEnded))
    assert (ended.invocation, ended.ok) == (started.invocation, False)
    assert "there can be none" in ended.result


HELD_CHILD = (call("hold"), say("All is well."))


async def test_one_that_is_done_while_the_conversation_is_compacted_is_heard_afterwards(
    tmp_path: Path,
) -> None:
    held, asked, summarise = Held(), asyncio.Event(), asyncio.Event()

    async def summary() -> AsyncIterator[ModelPart]:
        asked.set()
        await summarise.wait()
        yield ModelText("A summary.")
        yield ModelDone("end_turn", Usage())

    answers = scripted(SEND, *[say("fine")] * 9, agents={"beside": HELD_CHILD})
    options = {"agent_mode": "multi", "agents": [BESIDE], "tools": [held.tool], "allow": ("hold",)}
    async with harness(Model(answers, aside=summary), home=windows(tmp_path), **options) as session:
        for number in range(5):
            await session.ask(f"question {number} {LONG}")
        await session.connection.send(RunSlash(session=session.id, name="compact"))
        await asked.wait()
        held.let_go.set()
        await session.until(e.ChildEnded)
        summarise.set()
        stored = await all_heard(session)
        last = session.conversation.messages[-2].content[0]
    kinds = [one.kind for one in stored if one.kind in ("Compacted", "ChildEnded")]
    assert kinds == ["ChildEnded", "Compacted"]
    assert "All is well." in last.text


@table("ends", ["by itself", "cancelled"])
async def test_one_that_is_done_after_the_turn_begins_one_of_its_own(ends: str) -> None:
    root, child = Held("root_hold"), Held()
    options = {"tools": [root.tool, child.tool], "allow": ("hold", "root_hold")}
    answers = (call("root_hold"), say("Done."), say("Heard."))
    async with beside(*answers, child=HELD_CHILD, **options) as session:
        number = await session.send("go")
        await root.runs.wait()
        if ends == "cancelled":
            await session.connection.send(CancelTurn(session=session.id))
        root.let_go.set()
        events = await session.turn_of(number)
        child.let_go.set()
        stored = await all_heard(session)
    assert events[-1].stop == ("end_turn" if ends == "by itself" else "cancelled")
    started = [one.event for one in stored if isinstance(one.event, e.TurnStarted) and not one.invocation]
    assert len(started) == 2


async def test_what_an_agent_said_in_the_background_is_nowhere_the_words_of_a_person() -> None:
    async with beside(say("Gone on."), say("Heard."), child=[say("CHILD WORDS")]) as session:
        await session.send("go")
        stored = await all_heard(session)
        sources = {
            entry.mark.source
            for entry in session.conversation.entries
            if "CHILD WORDS" in str(entry.message) and entry.message.role == "user"
        }
    assert sources <= {"context", "tool"}
    assert [one.text for one in passages(stored) if isinstance(one, Words) and one.who == "you"] == ["go"]
    lines = [msgspec.json.decode(line) for line in events_lines(stored)]
    assert [line["text"] for line in lines if line["type"] == "user.message"] == ["go"]
    assert [one.text for one in said_in(stored) if one.who == "you"] == ["go"]


async def test_whoever_sent_one_that_ended_with_the_session_knows_when_it_goes_on(tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    kept = {"home": str(tmp_path / "home"), "folder": str(work), "tools": [Held().tool], "allow": ("hold",)}
    async with beside(say("Gone on."), child=HELD_CHILD, **kept) as session:
        await session.ask("go")
        await session.until(e.ChildStarted)
        first = session.id
        whole = await session.stored()
    async with beside(say("x"), child=(), resume=first, **kept) as session:
        assert "was stopped when the session ended" in str(session.conversation.messages[-1])
        log = session.engine.store.create(str(work), profile="default")  # as kill -9 leaves it
        for one in whole:
            log.append(msgspec.structs.replace(one, session=log.session), encode_payload(one.event))
        await log.committed()
        log.close()
    async with beside(say("x"), child=(), resume=log.session, **kept) as session:
        stored = [one.event for one in await session.stored()]
        assert "was stopped when the session ended" in str(session.conversation.messages[-1])
    assert [(one.ok, one.stop) for one in stored if isinstance(one, e.ChildEnded)] == [(False, None)]


async def test_one_that_waits_for_room_is_on_record_and_can_be_stopped() -> None:
    """Whoever sent it was told that it works: a crash, or a person, must find it."""
    held = Held()
    options = {"tools": [held.tool], "allow": ("hold",), "sets": ("delegation.parallel=1",)}
    async with beside(SEND, say("Sent."), *[say("Heard.")] * 2, child=HELD_CHILD, **options) as session:
        await session.ask("go")
        await held.runs.wait()
        stored = await session.stored()
        first, second = (one.event for one in stored if isinstance(one.event, e.ChildStarted))
        assert {one.invocation for one in stored if one.kind == "StepStarted"} == {None, first.invocation}
        await session.connection.send(CancelTurn(session=session.id, invocation=second.invocation))
        ended = await session.until(e.ChildEnded)
        held.let_go.set()
        stored = await all_heard(session)
    assert (ended.invocation, ended.stop, ended.steps) == (second.invocation, "cancelled", 0)
    assert names(stored, e.ChildStarted) == [(), ()]


async def test_a_run_that_nobody_watches_waits_for_it() -> None:
    async with beside(say("It says: fine."), child=[say("Fine.")], headless=True) as session:
        events = await session.ask("go")
    (ended,) = (one for one in events if isinstance(one, e.ChildEnded))
    (result,) = (one for one in events if isinstance(one, e.ToolResult))
    assert ended.ok
    assert "Fine." in result.content
    assert events[-1].stop == "end_turn"
