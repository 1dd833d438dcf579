"""Questions to people: who may answer, how long they stay open, and what an answer is worth."""

import os

import pytest

from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness, of_kind, outcomes
from bridle.protocol.commands import (
    AnswerPermission,
    AnswerQuestion,
    AttachSession,
    CancelTurn,
    SendInput,
    SetMode,
    ShellRequest,
)
from bridle.protocol.display_values import ShownWait
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import (
    ContextAdded,
    GrantAdded,
    PermissionDecided,
    PermissionRequested,
    QuestionAsked,
    ToolCallRequested,
    ToolCallStarted,
    ToolResult,
    TurnTiming,
)
from bridle.protocol.messages import FileMention, TextBlock
from bridle.protocol.questions import StepLimitAnswer, StepLimitQuestion, WordsAnswer
from bridle.providers.script import answer, call, say


def touching(*names):
    return [call("bash", command=f"touch {name}") for name in names]


async def said(session, request, word, **fields):
    await session.connection.send(
        AnswerPermission(session=session.id, call_id=request.call_id, answer=word, **fields)
    )


@pytest.mark.requirement("G16.3", "H2.2", "D6.8")
async def test_a_yes_lets_the_call_run_and_the_log_says_whose_it_was():
    async with harness(scripted(*touching("a"), say("Done.")), answers=True) as session:
        number = await session.send("go")
        request = await session.until(PermissionRequested, since=number)
        assert request.input == {"command": "touch a"}
        assert os.listdir(session.folder) == []
        await said(session, request, "once", digest=request.digest)
        events = await session.turn_of(number)
        assert os.listdir(session.folder) == ["a"]
    (decided,) = of_kind(events, PermissionDecided)
    assert (decided.verdict, decided.answered_by) == ("allow", session.connection.client)


@pytest.mark.requirement("G47.4")
async def test_a_no_with_a_note_reaches_the_model():
    model = RecordingModel(scripted(*touching("a"), say("I see.")))
    async with harness(model, answers=True) as session:
        number = await session.send("go")
        request = await session.until(PermissionRequested, since=number)
        await said(session, request, "deny", note="use b instead")
        events = await session.turn_of(number)
        assert os.listdir(session.folder) == []
    assert outcomes(events) == ["denied"]
    assert b"use b instead" in model.bodies[1]


@pytest.mark.requirement("G8.1")
async def test_a_yes_for_the_pattern_is_for_that_program_and_lasts_for_the_session():
    model = scripted(*touching("a", "b"), call("bash", command="mkdir c"), say("Done."))
    async with harness(model, answers=True) as session:
        number = await session.send("go")
        first = await session.until(PermissionRequested, since=number)
        await said(session, first, "pattern")
        seen = 0
        async for envelope in session.connection.events(session.id, since=number):
            match envelope.event:
                case PermissionRequested() as request:
                    seen += 1
                    if seen == 2:
                        assert request.input == {"command": "mkdir c"}
                        await said(session, request, "deny")
                        break
        events = await session.turn_of(number)
    assert outcomes(events) == ["ok", "ok", "denied"]
    (grant,) = of_kind(events, GrantAdded)
    assert (grant.pattern, grant.match, grant.life) == ("touch", "key", "session")


@pytest.mark.requirement("G20.6", "C18", "G20.8")
async def test_an_agent_cannot_say_yes_not_even_to_somebody_elses_turn():
    async with harness(scripted(*touching("a"), say("Done.")), answers=True) as session:
        agent = session.engine.connect(name="outer", identity="agent", answers=True)
        await agent.send(AttachSession(session=session.id))
        sent = await agent.send(SendInput(session=session.id, content=(TextBlock(text="go"),)))
        request = await session.until(PermissionRequested, since=sent.event)
        with pytest.raises(CommandRefused) as refused:
            await agent.send(AnswerPermission(session=session.id, call_id=request.call_id, answer="once"))
        assert refused.value.reason == "SelfApproval"
        await said(session, request, "once")
        assert outcomes(await session.turn_of(sent.event)) == ["ok"]


@pytest.mark.requirement("G20.6")
async def test_the_first_answer_counts_and_a_second_changes_nothing():
    async with harness(scripted(*touching("a"), say("Done.")), answers=True) as session:
        number = await session.send("go")
        request = await session.until(PermissionRequested, since=number)
        await said(session, request, "deny")
        with pytest.raises(CommandRefused) as refused:
            await said(session, request, "once")
        assert refused.value.reason == "AlreadyAnswered"
        assert outcomes(await session.turn_of(number)) == ["denied"]


async def test_an_answer_to_a_question_that_was_shown_differently_is_refused():
    async with harness(scripted(*touching("a"), say("Done.")), answers=True) as session:
        number = await session.send("go")
        request = await session.until(PermissionRequested, since=number)
        with pytest.raises(CommandRefused) as refused:
            await said(session, request, "once", digest="0" * 64)
        assert refused.value.reason == "QuestionChanged"
        await said(session, request, "deny")
        await session.turn_of(number)


async def test_the_time_of_a_turn_is_without_the_time_a_person_took_to_answer():
    clock = FakeClock()
    async with harness(scripted(*touching("a"), say("Done.")), answers=True, clock=clock) as session:
        number = await session.send("go")
        request = await session.until(PermissionRequested, since=number)
        await clock.advance(90)
        await said(session, request, "once")
        events = await session.turn_of(number)
    (timing,) = of_kind(events, TurnTiming)
    assert timing.durations_ms["turn.person"] >= 90_000
    assert timing.durations_ms["turn.total"] >= 90_000
    assert timing.work_ms < 90_000


async def test_an_answer_about_something_else_is_refused_and_the_question_stays_open():
    model = scripted(call("ask_user", question="Which?"), say("Done."))
    async with harness(model, answers=True) as session:
        number = await session.send("go")
        asked = await session.until(QuestionAsked, since=number)
        with pytest.raises(CommandRefused) as refused:
            await session.connection.send(
                AnswerQuestion(
                    session=session.id, question_id=asked.question_id, answer=StepLimitAnswer(go_on=True)
                )
            )
        assert refused.value.reason == "WrongAnswer"
        assert refused.value.message.startswith("The question is about words, the answer about step_limit.")
        await session.connection.send(
            AnswerQuestion(
                session=session.id, question_id=asked.question_id, answer=WordsAnswer(text="The first.")
            )
        )
        (result,) = of_kind(await session.turn_of(number), ToolResult)
    assert result.content == "The first."


async def test_where_nobody_can_ever_answer_the_call_is_denied_at_once_with_a_way_out():
    async with harness(scripted(*touching("a"), say("Done."))) as session:
        events = await session.ask("go")
    (result,) = of_kind(events, ToolResult)
    assert (result.outcome, result.reason) == ("denied", "NoApprover")
    assert "--allow 'bash(touch a)'" in result.content
    assert not of_kind(events, PermissionRequested)


@pytest.mark.requirement("G20.7", "G20.9")
async def test_the_clock_of_a_question_runs_only_while_no_person_is_there():
    clock = FakeClock()
    async with harness(
        scripted(*touching("a"), say("Done."), clock=clock), clock=clock, answers=True
    ) as session:
        number = await session.send("go")
        await session.until(PermissionRequested, since=number)
        await clock.advance(3600)
        await session.connection.close()
        await clock.advance(59)
        watcher = session.engine.connect(name="again", answers=True)
        await watcher.send(AttachSession(session=session.id))
        await clock.advance(3600)
        await watcher.close()
        await clock.advance(61)
        await session.connection.send(AttachSession(session=session.id))
        events = await session.turn_of(number)
    (result,) = of_kind(events, ToolResult)
    assert result.reason == "PermissionTimeout"
    assert "within 60s" in result.content


@pytest.mark.requirement("G20.7", "G47.4")
async def test_how_long_a_question_waits_for_nobody_is_a_setting():
    clock = FakeClock()
    async with harness(
        scripted(*touching("a"), say("Done."), clock=clock),
        clock=clock,
        answers=True,
        sets=["permissions.timeout_s=5"],
    ) as session:
        number = await session.send("go")
        await session.until(PermissionRequested, since=number)
        await session.connection.close()
        await clock.advance(6)
        await session.connection.send(AttachSession(session=session.id))
        events = await session.turn_of(number)
    (result,) = of_kind(events, ToolResult)
    assert (result.reason, result.shown) == ("PermissionTimeout", ShownWait(waited_s=5.0))
    assert "within 5s" in result.content


async def test_questions_of_one_step_come_one_at_a_time_and_then_the_calls_run_together():
    calls = answer(call("read_file", path="../outside-1"), call("read_file", path="../outside-2"))
    async with harness(scripted(calls, say("Done.")), answers=True) as session:
        number = await session.send("go")
        first = await session.until(PermissionRequested, since=number)
        await said(session, first, "once")
        asked = []
        async for envelope in session.connection.events(session.id, since=number):
            if isinstance(envelope.event, PermissionRequested):
                asked.append(envelope.event)
            if len(asked) == 2:
                break
        assert asked[0] == first
        assert asked[1].input == {"path": "../outside-2"}
        await said(session, asked[1], "deny")
        events = await session.turn_of(number)
    names = [type(event).__name__ for event in events]
    assert (
        names.index("ToolCallStarted") > [i for i, name in enumerate(names) if name == "PermissionDecided"][1]
    )
    results = {result.call_id: result.outcome for result in of_kind(events, ToolResult)}
    requested = [event.call_id for event in of_kind(events, ToolCallRequested)]
    assert [results[call_id] for call_id in requested] == ["error", "denied"]
    assert len(of_kind(events, ToolCallStarted)) == 1


@pytest.mark.requirement("D13.11")
async def test_yes_answers_questions_and_lifts_no_denial():
    model = scripted(answer(*touching("a"), call("bash", command="touch b")), say("Done."))
    async with harness(model, yes=True, deny=["bash(touch b)"]) as session:
        events = await session.ask("go")
        assert os.listdir(session.folder) == ["a"]
    assert outcomes(events) == ["ok", "denied"]
    assert [decided.decided_by for decided in of_kind(events, PermissionDecided)] == ["yes", "rule"]


async def test_the_mode_can_change_while_a_session_lives():
    async with harness(scripted(*touching("a", "b"), say("Done.")), mode="safe") as session:
        number = await session.send("go")
        await session.turn_of(number)
        assert os.listdir(session.folder) == []
        await session.connection.send(SetMode(session=session.id, mode="auto"))
    model = scripted(*touching("a"), say("Done."), *touching("c"), say("Done."))
    async with harness(model, mode="safe") as session:
        await session.ask("go")
        await session.connection.send(SetMode(session=session.id, mode="auto"))
        await session.ask("again")
        assert os.listdir(session.folder) == ["c"]


async def test_stopping_a_command_a_person_typed_does_not_stop_what_they_say_next():
    async with harness(scripted(say("Hi."))) as session:
        person = session.engine.connect(name="terminal", answers=True)
        await person.send(AttachSession(session=session.id))
        await person.send(ShellRequest(session=session.id, command="sleep 60"))
        await session.until(ToolCallStarted)
        await person.send(CancelTurn(session=session.id))
        await session.until(ToolResult)
        events = await session.ask("hello")
        assert events[-1].stop == "end_turn"


async def test_a_command_a_person_typed_is_not_asked_about_and_stays_out_of_the_conversation():
    async with harness(scripted(say("Hi."))) as session:
        person = session.engine.connect(name="terminal", answers=True)
        await person.send(AttachSession(session=session.id))
        await person.send(ShellRequest(session=session.id, command="echo made > a"))
        result = await session.until(ToolResult)
        assert (result.outcome, os.listdir(session.folder)) == ("ok", ["a"])
        assert session.conversation.messages == []
        await session.ask("go")
        await person.send(ShellRequest(session=session.id, command="cat a", share=True))
        added = await session.until(ContextAdded)
        assert added.content[0].text == "I ran this command:\ncat a\n\nmade\n"


async def test_a_denied_command_stays_denied_when_a_person_types_it():
    async with harness(scripted(say("Hi.")), deny=["bash(touch*)"], answers=True) as session:
        await session.connection.send(ShellRequest(session=session.id, command="touch a"))
        result = await session.until(ToolResult)
        assert (result.outcome, os.listdir(session.folder)) == ("denied", [])


async def test_only_a_person_at_a_terminal_may_type_commands():
    async with harness(scripted(say("Hi."))) as session:
        agent = session.engine.connect(name="outer", identity="agent", answers=True)
        for client in (session.connection, agent):
            with pytest.raises(CommandRefused) as refused:
                await client.send(ShellRequest(session=session.id, command="true"))
            assert refused.value.reason == "NotAPerson"


async def test_a_mentioned_file_joins_the_conversation_behind_the_words():
    model = RecordingModel(scripted(say("I see.")))
    async with harness(model) as session:
        with open(os.path.join(session.folder, "notes.txt"), "w") as file:
            file.write("remember the milk")
        content = (TextBlock(text="look at"), FileMention(path="notes.txt"))
        sent = await session.connection.send(SendInput(session=session.id, content=content))
        events = await session.turn_of(sent.event)
    assert of_kind(events, ContextAdded)[0].source == "mention"
    body = model.bodies[0].decode()
    assert body.index("look at") < body.index("remember the milk")


async def test_at_the_step_limit_a_person_decides_whether_to_go_on():
    answers = [call("bash", command=f"echo {index}") for index in range(9)]
    async with harness(scripted(*answers), mode="auto", max_steps=2, answers=True) as session:
        number = await session.send("go")
        first = await session.until(QuestionAsked, since=number)
        assert first.question == StepLimitQuestion(steps=2, more=2)
        await session.connection.send(
            AnswerQuestion(
                session=session.id, question_id=first.question_id, answer=StepLimitAnswer(go_on=True)
            )
        )
        asked = []
        async for envelope in session.connection.events(session.id, since=number):
            if isinstance(envelope.event, QuestionAsked):
                asked.append(envelope.event)
            if len(asked) == 2:
                break
        await session.connection.send(
            AnswerQuestion(
                session=session.id, question_id=asked[1].question_id, answer=StepLimitAnswer(go_on=False)
            )
        )
        events = await session.turn_of(number)
    assert (events[-1].reason, events[-1].steps) == ("StepLimit", 4)


@pytest.mark.requirement("D9.8")
async def test_a_dry_run_stops_what_would_change_something_and_lets_reading_pass():
    model = scripted(
        answer(*touching("a"), call("write_file", path="b", content="x"), call("read_file", path="c")),
        say("Ok."),
    )
    async with harness(model, mode="auto", dry_run=True) as session:
        events = await session.ask("go")
        assert os.listdir(session.folder) == []
    assert [result.reason for result in of_kind(events, ToolResult)] == ["DryRun", "DryRun", "FileUnreadable"]


async def test_a_question_nobody_can_answer_ends_the_turn_when_asked_to():
    async with harness(scripted(*touching("a"), say("never")), on_ask="fail") as session:
        events = await session.ask("go")
    assert (events[-1].stop, events[-1].reason) == ("error", "NoApprover")


async def test_added_folders_may_be_written(tmp_path):
    model = scripted(call("write_file", path=str(tmp_path / "x"), content="hi"), say("Ok."))
    async with harness(model, mode="auto", add_dirs=[str(tmp_path)]) as session:
        await session.ask("go")
    assert (tmp_path / "x").read_text() == "hi"


async def test_the_duration_of_a_call_does_not_count_the_person_who_was_asked():
    clock = FakeClock()
    async with harness(
        scripted(*touching("a"), say("Done."), clock=clock), clock=clock, answers=True
    ) as session:
        number = await session.send("go")
        request = await session.until(PermissionRequested, since=number)
        await clock.advance(3600)
        await said(session, request, "once")
        events = await session.turn_of(number)
    assert of_kind(events, ToolResult)[0].duration_ms == 0


async def test_a_command_of_a_person_that_prints_much_keeps_as_little_as_one_of_the_model():
    async with harness(scripted(say("Hi.")), answers=True) as session:
        await session.connection.send(
            ShellRequest(session=session.id, command=f"head -c {80 << 20} /dev/zero", share=True)
        )
        result = await session.until(ToolResult)
    assert result.metadata["output_bytes"] == 80 << 20
    assert "shows the first 64000000 of all 83886080 bytes, the rest was not kept]" in result.content
    assert len(result.content) < 40_000
