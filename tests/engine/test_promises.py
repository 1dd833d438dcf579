"""Promised before anything else: intents on disk first, a last look, secrets nowhere, nothing acknowledged lost."""

import os

import pytest

from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness, of_kind
from bridle.engine.conversation import Conversation
from bridle.engine.journal import Journal
from bridle.engine.layers import recorded
from bridle.engine.stopwatch import Stopwatch
from bridle.engine.tools import ToolCall, ToolOutput
from bridle.protocol.codec import encode_payload
from bridle.protocol.commands import AnswerPermission
from bridle.protocol.errors import StoreError
from bridle.protocol.events import InputAccepted, PermissionRequested, TextDelta, ToolCallStarted, ToolResult
from bridle.providers.script import call, say
from tables import table


class NotingLog:
    """A log that notes what happens to it, and may refuse to be synced."""

    def __init__(self, failure=None):
        self.notes = []
        self.last_id = 0
        self._failure = failure

    def append(self, envelope, payload):
        self.last_id = envelope.id
        self.notes.append(envelope.kind)

    async def durable(self):
        if self._failure is not None:
            raise self._failure
        self.notes.append("durable")


def journal_on(log, **more):
    return Journal(session="s", log=log, clock=FakeClock(), bus=None, conversation=Conversation(), **more)


async def run_recorded(log, *, mutating):
    async def proceed(_call):
        log.notes.append("ran")
        return ToolOutput()

    async def at_once():
        """Nobody to wait for."""

    layer = recorded(journal_on(log), lambda _call: None, Stopwatch(FakeClock()))
    given = ToolCall(
        id="call_1",
        name="bash",
        input={"command": "touch a"},
        step=1,
        originator="cli_1",
        write=log.notes.append,
        passed_gates=at_once,
        partial=[],
        mutating=mutating,
    )
    return await layer(given, proceed)


@pytest.mark.requirement("G32.1")
async def test_the_intent_of_a_mutating_call_is_on_disk_before_the_call_begins():
    log = NotingLog()
    await run_recorded(log, mutating=True)
    assert log.notes == ["ToolCallStarted", "durable", "ran"]


async def test_a_call_that_changes_nothing_waits_for_no_disk():
    log = NotingLog()
    await run_recorded(log, mutating=False)
    assert log.notes == ["ToolCallStarted", "ran"]


@pytest.mark.requirement("G32.1")
async def test_a_mutating_call_whose_intent_cannot_be_written_does_not_run():
    log = NotingLog(StoreError("StoreUnwritable", path="x", problem="disk full"))
    with pytest.raises(StoreError):
        await run_recorded(log, mutating=True)
    assert "ran" not in log.notes


@pytest.mark.requirement("H10.7")
async def test_a_path_that_leads_elsewhere_after_the_question_is_not_the_one_that_was_allowed(tmp_path):
    model = scripted(call("write_file", path="sub/x", content="mine"), say("Ok."))
    async with harness(model, answers=True) as session:
        inside = os.path.join(session.folder, "sub")
        os.mkdir(inside)
        number = await session.send("go")
        request = await session.until(PermissionRequested, since=number)
        os.rmdir(inside)
        os.symlink(tmp_path, inside)
        await session.connection.send(
            AnswerPermission(session=session.id, call_id=request.call_id, answer="once")
        )
        events = await session.turn_of(number)
    assert of_kind(events, ToolResult)[0].outcome == "blocked"
    assert not of_kind(events, ToolCallStarted)
    assert list(tmp_path.iterdir()) == []


async def test_a_file_that_changed_while_the_question_waited_is_not_overwritten():
    model = scripted(call("write_file", path="x", content="mine"), say("Ok."))
    async with harness(model, answers=True) as session:
        path = os.path.join(session.folder, "x")
        _write(path, "as it was shown")
        number = await session.send("go")
        request = await session.until(PermissionRequested, since=number)
        _write(path, "somebody else's")
        await session.connection.send(
            AnswerPermission(session=session.id, call_id=request.call_id, answer="once")
        )
        events = await session.turn_of(number)
        with open(path) as file:
            assert file.read() == "somebody else's"
    (result,) = of_kind(events, ToolResult)
    assert (result.outcome, result.reason) == ("blocked", "ChangedSinceApproval")


def _write(path, text):
    with open(path, "w") as file:
        file.write(text)


@pytest.mark.requirement("G33.2")
async def test_a_secret_in_a_calls_input_runs_as_it_is_and_is_stored_nowhere():
    secret = "AKIA" + "QWERTYUIOPASDFGH"
    model = RecordingModel(scripted(call("bash", command=f"printf %s {secret} > out"), say("Ok.")))
    async with harness(model, mode="auto") as session:
        await session.ask("go")
        with open(os.path.join(session.folder, "out")) as file:
            assert file.read() == secret
        stored = b"".join(encode_payload(envelope.event) for envelope in await session.stored())
    assert secret.encode() not in stored
    assert secret.encode() not in model.bodies[1]


@pytest.mark.requirement("D10.5")
@table("chunk", [1, 7, 400])
async def test_a_secret_the_model_says_is_masked_for_everybody_however_it_streams(chunk):
    secret = "AKIA" + "QWERTYUIOPASDFGH"
    answers = (say(f"The key is {secret}, really.", chunk=chunk), say("Ok."))
    model = RecordingModel(scripted(*answers))
    async with harness(model) as session:
        seen = await session.ask("which key?")
        await session.ask("go on")
        stored = b"".join(encode_payload(envelope.event) for envelope in await session.stored())
    said = "".join(event.text for event in of_kind(seen, TextDelta))
    assert said == "[scripted] The key is «redacted:aws-access-key», really."
    assert secret.encode() not in stored
    assert secret.encode() not in model.bodies[1]


async def test_a_key_in_use_is_masked_whatever_it_looks_like():
    key = "plain" + "words" + "as-a-key"
    kept = []

    class KeepingLog(NotingLog):
        def append(self, envelope, payload):
            kept.append((envelope.event, payload))

    journal_on(KeepingLog(), secrets=lambda: (key,)).emit(TextDelta(text=f"it is {key}, really"))
    ((event, payload),) = kept
    assert event == TextDelta(text="it is «redacted:key», really")
    assert key.encode() not in payload


async def test_input_is_in_the_log_when_its_acknowledgement_arrives():
    async with harness(scripted(say("Hi."))) as session:
        number = await session.send("remember me")
        on_disk = {envelope.id: envelope.event for envelope in session.engine.store.events(session.id)}
        assert isinstance(on_disk[number], InputAccepted)
