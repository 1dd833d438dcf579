"""After the end of a process: the same request, nothing run twice, nothing invented."""

import asyncio
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridle.base.clock import SystemClock
from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness, of_kind
from bridle.engine.conversation import Conversation
from bridle.engine.steps import encode
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import SessionCreated, ToolCallProgress, ToolResult, TurnEnded
from bridle.providers.script import answer, call, fail, say, think
from effort import examples

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=40)
STATEMENTS = st.one_of(
    TEXTS.map(say),
    TEXTS.map(think),
    st.builds(
        lambda name, text: call("write_file", path=f"{name}.txt", content=text), st.sampled_from("abc"), TEXTS
    ),
    st.builds(lambda name: call("read_file", path=f"{name}.txt"), st.sampled_from("abcd")),
    st.just(call("nonsense", x=1)),
    st.just(call("bash", command="echo out; echo err >&2; exit 3")),
    st.just(fail("overloaded", times=1)),
)
ANSWERS = st.lists(
    st.lists(STATEMENTS, min_size=1, max_size=3).map(lambda parts: answer(*parts)), min_size=1, max_size=5
)


class Unhurried(SystemClock):
    """Waits between attempts take no time."""

    async def sleep(self, seconds):
        await asyncio.sleep(0)


@pytest.mark.requirement("G6.2", "G1.7")
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(answers=ANSWERS, prompts=st.lists(TEXTS, min_size=1, max_size=3))
async def test_every_request_is_the_encoded_fold_of_the_reopened_log(answers, prompts):
    clock = Unhurried()
    model = RecordingModel(scripted(*answers, clock=clock))
    bodies = []
    async with harness(model, clock=clock, mode="auto") as session:
        for prompt in prompts:
            await session.ask(prompt)
        stored = await session.stored()
    conversation = Conversation()
    for envelope in stored:
        if envelope.kind == "StepStarted":
            bodies.append(encode(conversation, model.wire))
        conversation.apply(envelope)
        if (kept := conversation.folded()) is not None:
            conversation = Conversation.restored(kept)
    assert bodies == model.bodies


async def test_a_long_log_is_resumed_from_its_kept_fold(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    places = {"folder": str(work), "home": str(tmp_path / "home")}
    answers = [call("read_file", path=f"{index}.txt") for index in range(250)]
    model = RecordingModel(scripted(*answers, say("One."), say("Two.")))
    async with harness(model, max_steps=1000, **places) as session:
        await session.ask("first")
        name = session.id
    async with harness(model, resume=name, **places) as session:
        assert Conversation.restored(session.engine.store.fold(name)).last_id > 1000
        await session.ask("second")
        stored = await session.stored()
    last_step = max(index for index, envelope in enumerate(stored) if envelope.kind == "StepStarted")
    assert model.bodies[-1] == encode(Conversation.of(stored[:last_step]), model.wire)


def test_a_fold_of_another_version_is_forgotten():
    kept = Conversation().folded()
    assert Conversation.restored(b"\x90").last_id == 0
    assert Conversation.restored(kept.replace(b"\x01", b"\x63", 1)).messages == []


@pytest.mark.requirement("G34.1", "G1.7", "G26.4", "D7.9")
async def test_a_resumed_session_goes_on_where_it_was(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    places = {"folder": str(work), "home": str(tmp_path / "home")}
    model = RecordingModel(scripted(call("bash", command="echo hi"), say("One."), say("Two.")))
    async with harness(model, mode="auto", **places) as session:
        await session.ask("first")
        before = session.id
    async with harness(model, resume=before, **places) as session:
        assert session.id == before
        events = await session.ask("second")
        assert events[-1].stop == "end_turn"
    last = model.bodies[-1]
    assert last.startswith(model.bodies[1][: -len(model.wire.tail(None))])
    assert b"second" in last
    assert len(model.bodies) == 3


@pytest.mark.requirement("G32.3", "G1.7")
async def test_a_turn_that_was_cut_off_is_closed_and_an_unstarted_call_is_not_run_again(tmp_path):
    places = await _interrupted(tmp_path, drop_from="ToolCallStarted")
    async with harness(scripted(say("x"), say("Back.")), resume=places.pop("session"), **places) as session:
        stored = await session.stored()
        results = [envelope.event for envelope in stored if isinstance(envelope.event, ToolResult)]
        assert [(result.outcome, result.reason) for result in results] == [("cancelled", "Interrupted")]
        assert of_kind([envelope.event for envelope in stored], TurnEnded)[0].stop == "interrupted"
        assert (await session.ask("go on"))[-1].stop == "end_turn"


@pytest.mark.requirement("G32.3")
async def test_a_mutating_call_without_an_end_is_a_persons_to_judge(tmp_path):
    places = await _interrupted(tmp_path, drop_from="ToolResult")
    session_id = places.pop("session")
    with pytest.raises(CommandRefused) as refused:
        async with harness(scripted(say("x")), resume=session_id, **places):
            pass
    assert refused.value.reason == "OrphanedCalls"
    assert refused.value.exit_code == 3
    assert "touch a" in refused.value.message
    async with harness(
        scripted(say("x"), say("I will check.")), resume=session_id, on_orphan="mark-unknown", **places
    ) as session:
        (result,) = [e.event for e in (await session.stored()) if isinstance(e.event, ToolResult)]
        assert result.outcome == "unknown"
        assert (await session.ask("go on"))[-1].stop == "end_turn"


async def _interrupted(tmp_path, *, drop_from):
    """A session whose log ends just before the first event of a kind, as a killed process leaves it."""
    work = tmp_path / "work"
    work.mkdir()
    places = {"folder": str(work), "home": str(tmp_path / "home")}
    async with harness(
        scripted(call("bash", command="touch a"), say("Done.")), mode="auto", **places
    ) as session:
        await session.ask("go")
        whole = await session.stored()
    cut = next(index for index, envelope in enumerate(whole) if envelope.kind == drop_from)
    async with harness(scripted(say("x")), **places) as session:
        log = session.engine.store.create(str(work), profile="default")
        from bridle.protocol.codec import encode_payload

        for envelope in whole[:cut]:
            from msgspec.structs import replace

            log.append(replace(envelope, session=log.session), encode_payload(envelope.event))
        await log.committed()
        name = log.session
        log.close()
    return {**places, "session": name}


async def test_a_session_open_elsewhere_cannot_be_opened_again(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    places = {"folder": str(work), "home": str(tmp_path / "home")}
    async with harness(scripted(say("x")), **places) as session:
        with pytest.raises(CommandRefused) as refused:
            async with harness(scripted(say("x")), resume=session.id, **places):
                pass
    assert refused.value.reason == "SessionBusy"


async def test_accepted_input_that_was_never_heard_is_heard_first_after_a_restart(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    os.mkfifo(work / "go")
    places = {"folder": str(work), "home": str(tmp_path / "home")}
    model = RecordingModel(
        scripted(call("bash", command="echo on; read x < go"), say("One."), say("Two."), say("Three."))
    )
    async with harness(model, mode="auto", **places) as session:
        first = await session.send("first")
        await session.until(ToolCallProgress, since=first)
        await session.send("second")
        name = session.id
    async with harness(model, resume=name, **places) as session:
        assert of_kind([e.event for e in (await session.stored())], SessionCreated)[-1].resumed
        events = await session.ask("third")
        assert events[-1].stop == "end_turn"
    assert b"second" in model.bodies[-1]
    assert model.bodies[-1].index(b"second") < model.bodies[-1].index(b"third")
