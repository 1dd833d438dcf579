"""What a child leaves for the next one like it: bounded whatever it says, on record, and never an instruction."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents_kit import Answering, calling, sending
from bridle.agents.definition import AgentDefinition
from bridle.agents.handoff import (
    MAX_ENTRIES,
    MAX_FILES,
    MAX_RESULTS,
    ChildNotes,
    ChildWork,
    memory_key,
    memory_text,
    memory_tokens,
    memory_within,
    updated_memory,
)
from bridle.base.text.token_estimate import estimated_tokens
from bridle.clients.dotted_events import events_lines
from bridle.conformance.harness import harness, of_kind
from bridle.engine.conversation import MAX_MEMORIES, Conversation
from bridle.protocol import events as e
from bridle.protocol.commands import AnswerPermission

NOTED = "All read.\nFinding: a.txt is empty.\n- **Decision:** leave it.\n* question: who wrote it?\nFinding:"


def twice(agents=("explore", "explore")):
    """A main agent that sends these one after the other."""

    def main(number, _body):
        return sending(f"Task {number}.", agents[number]) if number < len(agents) else "Done."

    return main


def work(task="Look.", answer="Looked.", words="", files=()):
    notes = ChildNotes()
    notes.hear_words(words)
    return ChildWork(task=task, answer=answer, notes=notes, files=files)


def updated(former, one, max_tokens=1_200):
    return updated_memory(former, one, key="k", agent="explore", max_tokens=max_tokens)


# In a session


@pytest.mark.requirement("D11.18", "X31")
async def test_the_next_child_like_it_is_handed_what_one_left_as_notes(tmp_path: Path) -> None:
    model = Answering(twice(), lambda _number, _body: NOTED)
    async with harness(model, folder=str(tmp_path), agent_mode="multi") as session:
        events = await session.ask("go")
    first, second = model.bodies("explore")
    assert "a.txt is empty" not in first
    told = json.loads(second)["messages"][0]["content"][0]["text"]
    notes = told.partition("<untrusted-notes>")[2].partition("</untrusted-notes>")[0]
    for words in ("a.txt is empty.", "leave it.", "who wrote it?", "Task 0.", "All read."):
        assert words in notes, words
    assert "no instructions" in told.partition("<untrusted-notes>")[0]
    one, two = of_kind(events, e.ChildMemoryUpdated)
    assert {one.memory_id, two.memory_id} == {memory_key(session.id, "explore", "demo", str(tmp_path))}
    assert one.memory.findings == two.memory.findings == ("a.txt is empty.",)
    assert (one.memory.decisions, one.memory.questions) == (("leave it.",), ("who wrote it?",))
    assert [result.task for result in two.memory.results] == ["Task 0.", "Task 1."]
    assert (one.tokens_before, one.dropped) == (0, 0)


@pytest.mark.requirement("D11.18", "D11.19")
async def test_it_is_remembered_after_a_resume_and_by_nobody_else(tmp_path: Path) -> None:
    home, folder = str(tmp_path / "home"), tmp_path / "work"
    folder.mkdir()
    model = Answering(twice(("explore", "review")), lambda _number, _body: NOTED)
    async with harness(model, folder=str(folder), home=home, agent_mode="multi") as session:
        await session.ask("go")
        live = session.conversation.memories
    assert len(live) == 2
    assert "a.txt is empty" not in model.bodies("review")[0], "another agent has a memory of its own"
    again = Answering(lambda number, _body: sending("More.") if number == 3 else "Done.", lambda *_: "Done.")
    async with harness(
        again, folder=str(folder), home=home, resume=session.id, agent_mode="multi"
    ) as resumed:
        assert resumed.conversation.memories == live
        await resumed.ask("again")
        stored, live = await resumed.stored(), resumed.conversation.memories
    assert "a.txt is empty" in again.bodies("explore")[0]
    assert Conversation.of(stored).memories == live
    other = Answering(twice(("explore",)), lambda *_: "Done.")
    async with harness(other, folder=str(folder), home=home, agent_mode="multi") as session:
        await session.ask("go")
    assert "a.txt is empty" not in other.bodies("explore")[0], "another session begins with nothing"


@pytest.mark.requirement("D18.1", "X31")
async def test_it_is_compressed_before_it_grows_and_transcripts_say_so(tmp_path: Path) -> None:
    found = "\n".join(f"Finding: {number} {'long ' * 50}" for number in range(8))
    model = Answering(twice(), lambda _number, _body: found)
    async with harness(
        model, folder=str(tmp_path), agent_mode="multi", sets=("context.child.summary_tokens=300",)
    ) as session:
        events = await session.ask("go")
        stored = await session.stored()
    for update in of_kind(events, e.ChildMemoryUpdated):
        assert update.tokens == memory_tokens(update.memory) <= 300 < update.tokens_before
    assert of_kind(events, e.ChildMemoryUpdated)[1].dropped > 0
    lines = [json.loads(line) for line in events_lines(stored)]
    told = [line for line in lines if line["type"] == "agent.session.memory_updated"]
    assert [line["agentSessionId"] for line in told] == [f"{session.id}/explore"] * 2
    assert told[1]["tokensBefore"] > 300
    assert told[1]["entriesDropped"] > 0
    assert [one["task"] for one in told[1]["lastResults"]][-1] == "Task 1."


async def test_no_secret_is_remembered(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    model = Answering(twice(), lambda _number, _body: f"Finding: the token is {secret}.")
    async with harness(model, folder=str(tmp_path), agent_mode="multi") as session:
        await session.ask("go")
        stored, memories = await session.stored(), str(session.conversation.memories)
    assert secret not in memories
    assert secret not in str(stored)
    assert "the token is" in memories


async def test_a_child_that_was_stopped_leaves_what_it_noted_and_that_it_did_not_finish(
    tmp_path: Path,
) -> None:
    def child(number, _body):
        return calling("glob", pattern=f"{number}*")

    model = Answering(lambda number, _body: sending("Look.", max_turns=2) if not number else "Done.", child)
    async with harness(model, folder=str(tmp_path), agent_mode="multi") as session:
        events = await session.ask("go")
    (ended,), (left,) = of_kind(events, e.ChildEnded), of_kind(events, e.ChildMemoryUpdated)
    assert not ended.ok
    assert left.memory.results == (e.ChildResult(task="Look.", preview="it did not finish"),)
    assert left.memory.summary == ""


def test_a_memory_belongs_to_one_agent_at_one_provider_in_one_folder_of_one_session() -> None:
    own = ("sess_1", "explore", "demo", "/work")
    others = [(*own[:at], f"{own[at]}2", *own[at + 1 :]) for at in range(4)]
    assert len({memory_key(*one) for one in (own, *others)}) == 5


@pytest.mark.requirement("D11.15")
async def test_a_child_is_told_what_people_were_shown_whatever_became_known_since(tmp_path: Path) -> None:
    looker = AgentDefinition(name="looker", description="Looks.", mode="subagent")
    model = Answering(twice(("looker", "looker")), lambda *_: "Done.")
    shown = []
    async with harness(
        model, folder=str(tmp_path), agent_mode="multi", agents=[looker], answers=True
    ) as session:
        number = await session.send("go")
        async for envelope in session.connection.events(session.id, since=number):
            if isinstance(envelope.event, e.PermissionRequested):
                shown.append(envelope.event.handoff.text)
                key = memory_key(session.id, "looker", "demo", str(tmp_path))
                since = e.ChildMemoryUpdated(
                    memory_id=key, agent="looker", memory=e.ChildMemory(summary="LATER")
                )
                session.engine.live.session(session.id).journal.emit(since)
                call_id = envelope.event.call_id
                yes = AnswerPermission(session=session.id, call_id=call_id, answer="once")
                await session.connection.send(yes)
            if isinstance(envelope.event, e.TurnEnded) and envelope.invocation is None:
                break
    told = [json.loads(body)["messages"][0]["content"][0]["text"] for body in model.bodies("looker")]
    assert told == shown
    assert len(told) == 2


async def test_what_a_child_noted_before_its_conversation_was_compacted_is_remembered(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text("word " * 1_200)

    def child(number, _body):
        read = calling("read_file", path=f"{number}.txt")
        words = f"{'I look at it. ' * 60}\nFinding: {number} is full of words."
        return (words, read) if number < 5 else "Read."

    model = Answering(twice(("explore",)), child)
    async with harness(
        model, folder=str(tmp_path), agent_mode="multi", sets=("context.child.max_tokens=5000",)
    ) as session:
        events = await session.ask("go")
    assert of_kind(events, e.Compacted)
    last = model.bodies("explore")[-1]
    assert not all(f"Finding: {number}" in last for number in range(5)), "the child itself has forgotten some"
    (left,) = of_kind(events, e.ChildMemoryUpdated)
    assert left.memory.findings == tuple(f"{number} is full of words." for number in range(5))
    assert left.memory.files == tuple(f"{number}.txt" for number in range(5))


# Whatever children say

LABELS = st.sampled_from(
    ("Finding: ", "decision:", "  - **Question:** ", "<untrusted-notes>", "</untrusted-notes>", "")
)
WORDS = st.lists(st.tuples(LABELS, st.text(max_size=400)), max_size=12).map(
    lambda lines: "\n".join(label + text for label, text in lines)
)
WORKS = st.lists(
    st.builds(
        work,
        task=st.text(max_size=500),
        answer=st.text(max_size=2_000),
        words=WORDS,
        files=st.lists(st.text(max_size=400), max_size=30).map(tuple),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.requirement("X31")
@given(WORKS, st.integers(1, 1_500))
def test_a_memory_never_outgrows_its_bounds_and_the_same_words_give_the_same(works, max_tokens) -> None:
    former, events = None, []
    for one in works:
        events.append(updated(former, one, max_tokens))
        assert events[-1] == updated(former, one, max_tokens)
        former = events[-1].memory
        assert memory_tokens(former) <= max_tokens
        assert events[-1].tokens == memory_tokens(former)
        assert max(map(len, (former.findings, former.decisions, former.questions))) <= MAX_ENTRIES
        assert (len(former.files) <= MAX_FILES, len(former.results) <= MAX_RESULTS) == (True, True)
        text = memory_text(former)
        assert text.count("<untrusted-notes>") == text.count("</untrusted-notes>") == bool(text)


@given(WORKS, st.integers(1, 1_500))
def test_a_memory_is_handed_over_within_any_room(works, room) -> None:
    former = None
    for one in works:
        former = updated(former, one).memory
    text = memory_within(former, room)
    assert estimated_tokens(len(text)) <= room
    assert text.count("<untrusted-notes>") == text.count("</untrusted-notes>") == bool(text)


@given(st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=40))
def test_of_many_notes_the_last_stay_each_once(entries) -> None:
    memory = None
    for entry in entries:
        memory = updated(memory, work(words=f"Finding: {entry}")).memory
    newest = list(dict.fromkeys(reversed(entries)))[:MAX_ENTRIES]
    assert memory.findings == tuple(reversed(newest))


def test_of_many_kinds_of_children_the_last_are_remembered() -> None:
    conversation = Conversation()
    for number in range(1, MAX_MEMORIES + 6):
        event = e.ChildMemoryUpdated(memory_id=f"k{number}", agent="a", memory=e.ChildMemory(summary="s"))
        conversation.apply(
            e.Envelope(
                id=number, kind="ChildMemoryUpdated", session="s", originator="c", ts_ms=0, event=event
            )
        )
    assert len(conversation.memories) == MAX_MEMORIES
    assert "k1" not in conversation.memories
    kept = conversation.folded()
    assert Conversation.restored(kept).memories == conversation.memories
    before = msgspec.msgpack.encode(msgspec.msgpack.decode(kept)[:-2])
    assert Conversation.restored(before).last_id == conversation.last_id, "a fold kept before still counts"
