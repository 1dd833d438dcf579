"""Over every wire, too, a request is the encoded fold of the reopened log, byte for byte."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridle.base.clock import SystemClock
from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness
from bridle.engine.conversation import Conversation
from bridle.engine.ports import ModelPart, ModelRequest, Provider, Wire
from bridle.engine.steps import encode
from bridle.protocol.events import Envelope
from bridle.providers.anthropic import AnthropicWire
from bridle.providers.endpoints import Quirks
from bridle.providers.openai_chat import ChatWire
from bridle.providers.openai_responses import ResponsesWire
from bridle.providers.script import ScriptAnswer, ScriptCall, answer, call, fail, say, think
from effort import examples


def write(name: str, text: str) -> ScriptCall:
    return call("write_file", path=f"{name}.txt", content=text)


def read(name: str) -> ScriptCall:
    return call("read_file", path=f"{name}.txt")


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=40)
STATEMENTS = st.one_of(
    TEXTS.map(say),
    TEXTS.map(think),
    st.builds(write, st.sampled_from("abc"), TEXTS),
    st.builds(read, st.sampled_from("abcd")),
    st.just(call("nonsense", zebra=1, ape={"nested": [1.5, None, True]})),
    st.just(call("bash", command="echo out; echo err >&2; exit 3")),
    st.just(fail("overloaded", times=1)),
)
ANSWERS = st.lists(
    st.lists(STATEMENTS, min_size=1, max_size=3).map(lambda parts: answer(*parts)), min_size=1, max_size=5
)
QUIRKS = st.builds(
    Quirks, omit_tool_choice=st.booleans(), content_beside_calls=st.sampled_from(["null", "empty"])
)
WIRES = st.one_of(
    st.builds(wire, QUIRKS, streaming=st.booleans()) for wire in (ChatWire, ResponsesWire, AnthropicWire)
)


class Unhurried(SystemClock):
    """Waits between attempts take no time."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class OverWire:
    """Answers as `inner` does, and is asked over another wire."""

    def __init__(self, inner: Provider, wire: Wire) -> None:
        self._inner = inner
        self._wire = wire

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def wire(self) -> Wire:
        return self._wire

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        return self._inner.stream(request)


@pytest.mark.requirement("G1.7")
@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(answers=ANSWERS, prompts=st.lists(TEXTS, min_size=1, max_size=3), wire=WIRES)
async def test_every_request_is_the_encoded_fold_of_the_reopened_log(
    answers: list[ScriptAnswer], prompts: list[str], wire: Wire
) -> None:
    clock = Unhurried()
    model = RecordingModel(OverWire(scripted(*answers, clock=clock), wire))
    async with harness(model, clock=clock, mode="auto") as session:
        for prompt in prompts:
            await session.ask(prompt)
        stored = await session.stored()
    assert model.bodies
    assert requests_of(stored, wire) == model.bodies


def requests_of(stored: list[Envelope], wire: Wire) -> list[bytes]:
    """The requests that a log asks for, one for every step that began, from folds that were kept and taken up again."""
    bodies: list[bytes] = []
    conversation = Conversation()
    for envelope in stored:
        if envelope.kind == "StepStarted":
            bodies.append(encode(conversation, wire))
        conversation.apply(envelope)
        if (kept := conversation.folded()) is not None:
            conversation = Conversation.restored(kept)
    return bodies


class OldWire(ChatWire):
    canonical_form_version = 0


@pytest.mark.requirement("G12.4")
async def test_a_wire_for_another_form_of_messages_is_not_used() -> None:
    model = OverWire(scripted(say("hi")), OldWire(Quirks(), streaming=True))
    async with harness(model) as session:
        events = await session.ask("go")
    assert events[-1].stop == "error"
