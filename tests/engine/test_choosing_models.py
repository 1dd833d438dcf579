"""A turn stays with the model it began with; a choice made meanwhile counts from the next one on."""

import os

import pytest

from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness, of_kind
from bridle.engine.conversation import Conversation
from bridle.protocol.commands import CancelTurn, SetModel
from bridle.protocol.events import ModelChanged, PrefixSet, StepStarted, ToolCallProgress
from bridle.providers.script import call, say


def models_asked(events) -> list[str]:
    return [f"{event.provider}:{event.model}" for event in of_kind(events, StepStarted)]


@pytest.mark.requirement("D13.23")
async def test_a_model_chosen_during_a_turn_is_asked_from_the_next_turn_on():
    model = RecordingModel(
        scripted(call("bash", command="echo started; read x < go"), say("First."), say("Second."))
    )
    async with harness(model, mode="auto") as session:
        os.mkfifo(os.path.join(session.folder, "go"))
        number = await session.send("one")
        await session.until(ToolCallProgress, since=number)
        await session.connection.send(SetModel(session=session.id, model=f"{model.name}:other"))
        with open(os.path.join(session.folder, "go"), "w"):
            pass
        first = await session.turn_of(number)
        second = await session.ask("two")
        stored = await session.stored()
    assert models_asked(first) == [f"{model.name}:scripted"] * 2, "a loop of calls has one model"
    assert len(of_kind(first, ModelChanged)) == 1, "the choice is told at once"
    assert of_kind(first, PrefixSet)[-1].model == "scripted"
    assert models_asked(second) == [f"{model.name}:other"]
    again = Conversation.of(stored)
    assert again.model is not None
    assert again.model.model == "other", "a session that is opened again knows the choice"


async def test_a_choice_during_a_turn_that_is_stopped_counts_all_the_same():
    model = RecordingModel(scripted(call("bash", command="echo started; sleep 600"), say("Second.")))
    async with harness(model, mode="auto") as session:
        number = await session.send("one")
        await session.until(ToolCallProgress, since=number)
        await session.connection.send(SetModel(session=session.id, model=f"{model.name}:other"))
        await session.connection.send(CancelTurn(session=session.id))
        await session.turn_of(number)
        assert models_asked(await session.ask("two")) == [f"{model.name}:other"]
