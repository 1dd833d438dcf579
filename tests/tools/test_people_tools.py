"""`todo` and `ask_user`: what the model tells a person, and what a person tells the model."""

import pytest

from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness, of_kind
from bridle.protocol.commands import AnswerQuestion
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import QuestionAnswered, QuestionAsked, Todo, TodosChanged, ToolResult
from bridle.protocol.questions import OpenQuestion, WordsAnswer
from bridle.providers.script import call, say


async def test_a_todo_list_is_an_event_for_the_person_and_asks_nobody():
    model = scripted(call("todo", todos=[{"text": "read", "state": "done"}, {"text": "fix"}]), say("Ok."))
    async with harness(model) as session:
        events = await session.ask("go")
    (changed,) = of_kind(events, TodosChanged)
    assert changed.todos == (Todo(text="read", state="done"), Todo(text="fix", state="open"))
    assert of_kind(events, ToolResult)[0].content == "1 of 2 done."


async def test_a_persons_answer_reaches_the_model():
    model = RecordingModel(scripted(call("ask_user", question="Which one?", choices=["a", "b"]), say("Ok.")))
    async with harness(model, answers=True) as session:
        number = await session.send("go")
        asked = await session.until(QuestionAsked, since=number)
        assert asked.question == OpenQuestion(text="Which one?", choices=("a", "b"))
        answer = AnswerQuestion(
            session=session.id, question_id=asked.question_id, answer=WordsAnswer(text="b, please")
        )
        await session.connection.send(answer)
        with pytest.raises(CommandRefused):
            await session.connection.send(answer)
        events = await session.turn_of(number)
    assert of_kind(events, QuestionAnswered)[0].answered_by == session.connection.client
    assert b"b, please" in model.bodies[1]


async def test_where_nobody_can_answer_the_model_is_told_to_decide():
    async with harness(scripted(call("ask_user", question="Which one?"), say("Ok."))) as session:
        events = await session.ask("go")
    assert "Decide yourself" in of_kind(events, ToolResult)[0].content
    assert not of_kind(events, QuestionAsked)
