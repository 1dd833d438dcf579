"""The models we ship for tests do what they say, and the check for providers finds what is wrong."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.conformance.fake_models import (
    SAMPLE_MESSAGES,
    SAMPLE_PREFIX,
    CutStream,
    FailingModel,
    FloodModel,
    GarbageCalls,
    RecordingModel,
    RepeatedCallIds,
    SilentModel,
    check_provider,
    check_wire,
    scripted,
)
from bridle.engine.ports import ModelCall, ModelDone, ModelPart, ModelRequest, ModelText, Provider
from bridle.protocol.errors import ProviderError
from bridle.protocol.events import PrefixSet
from bridle.protocol.messages import (
    AnyBlock,
    ImageBlock,
    Message,
    Parameters,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolSchema,
    ToolUseBlock,
)
from bridle.providers.script import answer, call, say
from bridle.providers.scripted import ScriptedWire
from tables import table


def request(answers: int = 0) -> ModelRequest:
    return ModelRequest(
        model="any", body=f'{{"answers":{answers}}}'.encode(), step=1, answers=answers, purpose="main"
    )


async def parts(model: Provider, answers: int = 0) -> list[ModelPart]:
    return [part async for part in model.stream(request(answers))]


async def follow(model: Provider, on_part: Callable[[ModelPart], None]) -> None:
    async for part in model.stream(request()):
        on_part(part)


@pytest.mark.requirement("H2.3", "D6.1", "D6.3")
@table(
    "make",
    [
        lambda: scripted(say("a")),
        lambda: scripted((say("a"), call("ls"))),
        lambda: scripted(),
        lambda: FloodModel(250),
        lambda: GarbageCalls("ls"),
        lambda: RepeatedCallIds("ls"),
        lambda: FailingModel(),
        lambda: RecordingModel(scripted(say("a"))),
    ],
)
async def test_models_that_keep_the_contract_pass_its_check(make: Callable[[], Provider]):
    await check_provider(make)


async def test_an_answer_may_be_a_statement_several_or_an_answer():
    model = scripted(say("a"), (say("b"), call("ls")), answer(say("c")))
    assert [len(await parts(model, number)) for number in range(3)] == [2, 3, 2]


async def test_a_cut_stream_has_no_end():
    assert await parts(CutStream()) == [ModelText("half an ans")]
    assert await parts(CutStream(ModelText("a"), ModelCall("ls", "{}"))) == [
        ModelText("a"),
        ModelCall("ls", "{}"),
    ]


async def test_a_silent_model_is_closed_by_a_cancelled_reader():
    model = SilentModel(ModelText("a"), ModelText("b"))
    seen: list[ModelPart] = []

    reading = asyncio.create_task(follow(model, seen.append))
    await asyncio.sleep(0)
    assert seen == [ModelText("a"), ModelText("b")]
    assert (model.opened, model.closed, reading.done()) == (1, 0, False)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert (model.opened, model.closed) == (1, 1)


def is_an_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


async def test_garbage_calls_carry_arguments_no_tool_can_take_and_then_the_turn_can_end():
    model = GarbageCalls("ls")
    calls = [part for part in await parts(model) if isinstance(part, ModelCall)]
    assert len(calls) == len(GarbageCalls.ARGUMENTS)
    assert not [one for one in calls if is_an_object(one.arguments)]
    assert await parts(model, 1) == [ModelText("done"), ModelDone("end_turn")]


async def test_repeated_call_ids_are_repeated_missing_and_empty():
    calls = [part for part in await parts(RepeatedCallIds("ls")) if isinstance(part, ModelCall)]
    assert [one.wire_id for one in calls] == ["c1_2", "same", "same", None, ""]


async def test_a_failing_model_fails_in_order_and_then_answers():
    first, second = ProviderError("Overloaded", retryable=True), ProviderError("BadCredentials")
    model = FailingModel(first, second, then=scripted(say("made it")))
    for expected in (first, second):
        with pytest.raises(ProviderError) as raised:
            await parts(model)
        assert raised.value is expected
    assert await parts(model) == [ModelText("[scripted] made it"), ModelDone("end_turn")]


async def test_a_recording_model_keeps_every_request():
    model = RecordingModel(scripted(say("a")))
    await parts(model, 0)
    await parts(model, 1)
    assert model.bodies == [b'{"answers":0}', b'{"answers":1}']
    assert [kept.answers for kept in model.requests] == [0, 1]


# The check finds what is wrong


class Playing:
    """A provider that yields exactly these parts."""

    def __init__(self, *given_parts: ModelPart) -> None:
        self.name = "playing"
        self.wire = ScriptedWire()
        self._parts = given_parts

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        for part in self._parts:
            yield part


@table(
    ("given_parts", "complaint"),
    [
        ((ModelText("a"),), "this one had 0"),
        ((ModelDone("end_turn"), ModelDone("end_turn")), "this one had 2"),
        ((ModelDone("end_turn"), ModelText("a")), "nothing comes after ModelDone"),
        ((ModelText("a"), ModelDone("tool_use")), "stop is tool_use without calls"),
        ((ModelCall("ls", "{}"), ModelDone("end_turn")), "stop is end_turn with calls"),
    ],
)
async def test_the_check_refuses_a_stream_that_ends_wrong(given_parts: tuple[ModelPart, ...], complaint: str):
    with pytest.raises(AssertionError, match=complaint):
        await check_provider(lambda: Playing(*given_parts))


class Deaf(Playing):
    """Goes on after it was closed, in a task of its own."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        return _Unclosable(super().stream(request))


class _Unclosable:
    def __init__(self, inner: AsyncIterator[ModelPart]) -> None:
        self._inner = inner

    def __aiter__(self) -> AsyncIterator[ModelPart]:
        return self

    async def __anext__(self) -> ModelPart:
        return await anext(self._inner)

    async def aclose(self) -> None:
        pass


async def test_the_check_refuses_a_stream_that_goes_on_after_it_was_closed():
    with pytest.raises(AssertionError, match="a closed stream still yields"):
        await check_provider(lambda: Deaf(ModelText("a"), ModelDone("end_turn")))


class Leaving(Playing):
    """Starts a task for each stream and leaves it behind."""

    left: list[asyncio.Task[Any]]

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        self.left.append(asyncio.create_task(asyncio.Event().wait()))
        yield ModelText("a")
        yield ModelDone("end_turn")


async def test_the_check_refuses_a_stream_that_leaves_a_task_behind():
    left: list[asyncio.Task[Any]] = []

    def make() -> Leaving:
        model = Leaving()
        model.left = left
        return model

    with pytest.raises(AssertionError, match="left a task behind"):
        await check_provider(make)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


class BadTail(ScriptedWire):
    def tail(self, prefix: PrefixSet) -> bytes:
        return b"]"


class Counting(ScriptedWire):
    def __init__(self) -> None:
        self._count = 0

    def message(self, message: Message) -> bytes:
        self._count += 1
        return str(self._count).encode()


def test_the_check_refuses_a_wire_that_writes_no_json():
    with pytest.raises(AssertionError, match="the request is not JSON"):
        check_wire(BadTail(), SAMPLE_PREFIX, SAMPLE_MESSAGES)


def test_the_check_refuses_a_wire_that_remembers():
    with pytest.raises(AssertionError, match="equal messages have different bytes"):
        check_wire(Counting(), SAMPLE_PREFIX, SAMPLE_MESSAGES)


# Any messages

_TEXT = st.text(max_size=20)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=5,
)
_OBJECT = st.dictionaries(_TEXT, _JSON, max_size=3)
_BLOCK: st.SearchStrategy[AnyBlock] = st.one_of(
    st.builds(TextBlock, text=_TEXT),
    st.builds(ImageBlock, url=_TEXT),
    st.builds(ThinkingBlock, family=_TEXT, opaque=_TEXT),
    st.builds(ToolUseBlock, wire_id=_TEXT, tool=_TEXT, input=_OBJECT),
    st.builds(ToolResultBlock, wire_id=_TEXT, tool=_TEXT, text=_TEXT, failed=st.booleans()),
)
_MESSAGE = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant"]),
    content=st.lists(_BLOCK, max_size=3).map(tuple),
)
_PREFIX = st.builds(
    PrefixSet,
    provider=_TEXT,
    model=_TEXT,
    system=_TEXT,
    tools=st.lists(
        st.builds(ToolSchema, name=_TEXT, description=_TEXT, input_schema=_OBJECT), max_size=2
    ).map(tuple),
    parameters=st.builds(Parameters, max_tokens=st.none() | st.integers(1, 10**6)),
)


@pytest.mark.requirement("G12.1")
@given(_PREFIX, st.lists(_MESSAGE, max_size=3))
def test_the_scripted_wire_writes_json_for_any_messages(prefix: PrefixSet, messages: list[Message]):
    check_wire(ScriptedWire(), prefix, messages)
