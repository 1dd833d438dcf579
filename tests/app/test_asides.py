"""`/btw` asks beside the conversation and leaves it as it was; `/effort` counts from the next turn on."""

import os
from collections.abc import AsyncIterator

import pytest

from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness, of_kind
from bridle.engine.aside import BESIDE
from bridle.engine.ports import ModelPart, ModelRequest
from bridle.engine.steps import encode
from bridle.protocol import events as e
from bridle.protocol.commands import AskAside, CancelTurn, SetEffort
from bridle.protocol.errors import CommandRefused
from bridle.providers.script import call, fail, say, wait
from bridle.providers.scripted import ScriptedModel


class Beside(RecordingModel):
    """One model for the work, another for what is asked beside it."""

    def __init__(self, work: ScriptedModel, aside: ScriptedModel) -> None:
        super().__init__(work)
        self._aside = aside

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        if request.step != BESIDE:
            return super().stream(request)
        self.requests.append(request)
        return self._aside.stream(request)


async def test_a_question_beside_the_work_leaves_the_conversation_as_it_was() -> None:
    model = Beside(scripted(say("Prices are floats."), say("Done.")), scripted(say("Because of 0.1.")))
    async with harness(model) as session:
        await session.ask("look at the cart")
        wire = model.wire
        before = encode(session.conversation, wire)
        asked = await session.connection.send(AskAside(session=session.id, question="why floats?"))
        answered = await session.until(e.AsideAnswered)
        assert answered == e.AsideAnswered(asked=asked.event or 0, answer="[scripted] Because of 0.1.")
        assert encode(session.conversation, wire) == before
        assert b"Prices are floats." in model.requests[1].body
        assert b"why floats?" in model.requests[1].body
        await session.ask("go on")
        assert b"why floats?" not in model.requests[2].body
        assert b"Because of 0.1." not in model.requests[2].body
        stored = [one.event for one in await session.stored()]
        assert of_kind(stored, e.AsideAsked) == [e.AsideAsked(question="why floats?")]
        assert session.conversation.turn == 2


async def test_a_question_beside_the_work_is_answered_while_a_call_runs() -> None:
    model = Beside(scripted(call("bash", command="read x < gate"), say("Done.")), scripted(say("Soon.")))
    async with harness(model, mode="yolo", sandbox="off") as session:
        os.mkfifo(os.path.join(session.folder, "gate"))
        number = await session.send("wait")
        await session.until(e.ToolCallStarted)
        await session.connection.send(AskAside(session=session.id, question="how long?"))
        assert (await session.until(e.AsideAnswered)).answer == "[scripted] Soon."
        with open(os.path.join(session.folder, "gate"), "w") as gate:
            gate.write("go\n")
        assert (await session.turn_of(number))[-1] == e.TurnEnded(stop="end_turn", steps=2)


async def test_one_question_beside_the_work_at_a_time_and_it_can_be_stopped() -> None:
    clock = FakeClock()
    async with harness(scripted((say("Hm"), wait(60), say(".")), clock=clock), clock=clock) as session:
        send = session.connection.send
        await send(AskAside(session=session.id, question="one?"))
        with pytest.raises(CommandRefused) as refused:
            await send(AskAside(session=session.id, question="two?"))
        assert refused.value.reason == "AsideOpen"
        await send(CancelTurn(session=session.id))
        assert (await session.until(e.AsideAnswered)).reason == "AsideStopped"
        with pytest.raises(CommandRefused):
            await send(CancelTurn(session=session.id))
        with pytest.raises(CommandRefused) as refused:
            await send(AskAside(session=session.id, question="  "))
        assert refused.value.reason == "NothingAsked"


async def test_a_question_beside_the_work_that_fails_says_why() -> None:
    async with harness(scripted(fail("overloaded"), say("Hi."))) as session:
        await session.connection.send(AskAside(session=session.id, question="one?"))
        answered = await session.until(e.AsideAnswered)
        assert (answered.answer, answered.reason) == ("", "Overloaded")
        assert answered.message


async def test_an_effort_counts_from_the_next_turn_on_and_stays_with_the_session() -> None:
    clock = FakeClock()
    model = scripted((say("Hm. "), wait(5), say("1")), say("2"), clock=clock)
    async with harness(model, clock=clock) as session:
        number = await session.send("one")
        await session.until(e.TextDelta)
        await session.connection.send(SetEffort(session=session.id, effort="high"))
        assert session.conversation.effort is None
        await clock.advance(6)
        await session.turn_of(number)
        assert session.conversation.effort == "high"
        events = await session.ask("two")
        (prefix,) = of_kind(events, e.PrefixSet)
        assert prefix.parameters.effort == "high"
        kept = session.conversation.folded()
        assert kept is not None
        assert type(session.conversation).restored(kept).effort == "high"
