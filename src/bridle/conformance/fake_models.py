"""Models to test with: one that plays a script, the ways a real one fails, and a check for every provider.

Nothing here needs a network or a key. `scripted` is what most tests want; each of the others breaks one
promise of the `Provider` port, or keeps it in an unusual way, and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from bridle.base.clock import Clock, SystemClock
from bridle.engine.ports import (
    ChoosableProvider,
    ModelCall,
    ModelDone,
    ModelPart,
    ModelRequest,
    ModelText,
    Provider,
    Wire,
)
from bridle.protocol.errors import ProviderError
from bridle.protocol.events import PrefixSet
from bridle.protocol.messages import (
    FileMention,
    ImageBlock,
    Message,
    Parameters,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolSchema,
    ToolUseBlock,
    YieldBlock,
)
from bridle.providers.script import Script, ScriptAnswer, Statement, say
from bridle.providers.scripted import ScriptedModel, ScriptedWire

ScriptedAnswer: TypeAlias = ScriptAnswer | Statement | tuple[Statement, ...]


def scripted(
    *answers: ScriptedAnswer,
    clock: Clock | None = None,
    name: str = "demo",
    agents: Mapping[str, Sequence[ScriptedAnswer]] | None = None,
) -> ScriptedModel:
    """A model that gives these answers in order: each a statement, several in a tuple, or an `answer(…)`.

    Without a clock, waits and paces take real time. `name` is that of its provider. `agents` are the answers of agents
    that are sent, by name.
    """
    sent = {agent: tuple(map(_as_answer, given)) for agent, given in (agents or {}).items()}
    script = Script("test", tuple(map(_as_answer, answers)), sent)
    return ScriptedModel(script, clock=clock or SystemClock(), name=name)


def _as_answer(given: ScriptedAnswer) -> ScriptAnswer:
    if isinstance(given, ScriptAnswer):
        return given
    return ScriptAnswer(given if isinstance(given, tuple) else (given,))


# Models that go wrong


class _Fake:
    """What the fakes share: a name, and the wire of the scripted model."""

    def __init__(self) -> None:
        self._wire = ScriptedWire()

    @property
    def name(self) -> str:
        return "fake"

    @property
    def wire(self) -> Wire:
        return self._wire


class CutStream(_Fake):
    """Yields its parts and ends without `ModelDone`, like a connection that was cut."""

    def __init__(self, *parts: ModelPart) -> None:
        super().__init__()
        self._parts = parts or (ModelText("half an ans"),)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        for part in self._parts:
            yield part


class SilentModel(_Fake):
    """Yields its parts, then nothing, for ever. `opened` and `closed` count its streams."""

    def __init__(self, *parts: ModelPart) -> None:
        super().__init__()
        self._parts = parts
        self.opened = 0
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        self.opened += 1
        try:
            for part in self._parts:
                yield part
            await asyncio.get_running_loop().create_future()
        finally:
            self.closed += 1


class _CallingFake(_Fake):
    """Makes its calls in the first answer and says `done` in every later one."""

    def __init__(self, *calls: ModelCall) -> None:
        super().__init__()
        self._calls = calls

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        if request.answers:
            yield ModelText("done")
            yield ModelDone("end_turn")
            return
        for call in self._calls:
            yield call
        yield ModelDone("tool_use")


class GarbageCalls(_CallingFake):
    """Calls `tool` once with each of the arguments, which are not JSON, or JSON and not an object."""

    ARGUMENTS: Final = ("{", '{"path": "a.txt"', "[1]", "null", '"text"', "{'path': 1}", "NaN", "[" * 5000)

    def __init__(self, tool: str, *arguments: str) -> None:
        given = arguments or self.ARGUMENTS
        super().__init__(*(ModelCall(tool, text, f"g{number}") for number, text in enumerate(given)))


class RepeatedCallIds(_CallingFake):
    """Makes the same call five times: with an id as Bridle makes them, twice with one, without, with an empty one."""

    def __init__(self, tool: str, arguments: str = "{}") -> None:
        super().__init__(
            *(ModelCall(tool, arguments, wire_id) for wire_id in ("c1_2", "same", "same", None, ""))
        )


class FloodModel(_Fake):
    """Yields `deltas` texts as fast as they are taken, and lets other tasks run only now and then."""

    def __init__(self, deltas: int, text: str = "flood ") -> None:
        super().__init__()
        self._deltas = deltas
        self._text = text

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        for number in range(self._deltas):
            if number % 100 == 0:
                await asyncio.sleep(0)
            yield ModelText(self._text)
        yield ModelDone("end_turn")


class FailingModel:
    """Raises one of the errors for each of the first requests, in order, then answers as `then` does."""

    def __init__(self, *errors: ProviderError, then: Provider | None = None) -> None:
        self._errors = list(errors)
        self._then = then or scripted(say("ok"))

    @property
    def name(self) -> str:
        return self._then.name

    @property
    def wire(self) -> Wire:
        return self._then.wire

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        return _raising(self._errors.pop(0)) if self._errors else self._then.stream(request)


async def _raising(error: ProviderError) -> AsyncIterator[ModelPart]:
    await asyncio.sleep(0)
    raise error
    yield  # makes this a generator


class RecordingModel:
    """Answers as `inner` does and keeps every request, in order."""

    def __init__(self, inner: Provider) -> None:
        self._inner = inner
        self.requests: list[ModelRequest] = []

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def wire(self) -> Wire:
        return self._inner.wire

    @property
    def bodies(self) -> list[bytes]:
        return [request.body for request in self.requests]

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        self.requests.append(request)
        return self._inner.stream(request)


# The check for every provider

_ODD_TEXT: Final = 'quotes " and \\, a line\nbreak, \x00 \x1b \u2028, é, 漢字, 😀, </script>, {"json": [1]}'

SAMPLE_PREFIX: Final = PrefixSet(
    provider="any",
    model="any-model",
    system=_ODD_TEXT,
    tools=(
        ToolSchema(
            name="read_file",
            description=_ODD_TEXT,
            input_schema={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        ),
    ),
    parameters=Parameters(max_tokens=100),
)

SAMPLE_MESSAGES: Final = (
    Message(
        role="user",
        content=(
            TextBlock(text=_ODD_TEXT),
            FileMention(path="src/a b.py"),
            ImageBlock(url="data:image/png;base64,AAAA"),
        ),
    ),
    Message(
        role="assistant",
        content=(
            ThinkingBlock(family="other", opaque=_ODD_TEXT),
            TextBlock(text="I will look."),
            ToolUseBlock(wire_id="c1_0", tool="read_file", input={"path": "a.txt", "odd": _ODD_TEXT}),
            ToolUseBlock(wire_id="c1_1", tool="read_file", input={}),
        ),
    ),
    Message(
        role="user",
        content=(
            ToolResultBlock(wire_id="c1_0", tool="read_file", text=_ODD_TEXT),
            ToolResultBlock(wire_id="c1_1", tool="read_file", text="", failed=True),
            TextBlock(text="Go on."),
        ),
    ),
    Message(role="assistant", content=(YieldBlock(),)),
    Message(role="user", content=(TextBlock(text="And now?"),)),
)
"""A conversation with every kind of block and text that is easily encoded wrong."""


async def check_provider(make_provider: Callable[[], Provider]) -> None:
    """Asserts the contract of `Provider`. `make_provider` gives a fresh one, ready to answer one request.

    A stream ends with exactly one `ModelDone`, whose stop is `tool_use` if and only if there were calls. It
    can be closed before and during its answer, leaves no task behind then, and the next request is answered
    as if nothing had been. The wire passes `check_wire`, and two providers made the same way write the same
    bytes.
    """
    provider = make_provider()
    for count in range(len(SAMPLE_MESSAGES) + 1):
        body = check_wire(provider.wire, SAMPLE_PREFIX, SAMPLE_MESSAGES[:count])
        again = check_wire(make_provider().wire, SAMPLE_PREFIX, SAMPLE_MESSAGES[:count])
        assert body == again, "two providers made the same way write different bytes"
    _check_answer(await _parts(make_provider()))
    tasks = asyncio.all_tasks()
    for taken in (0, 1):
        provider = make_provider()
        await _closed_early(provider, after=taken)
        _check_answer(await _parts(provider))
        assert asyncio.all_tasks() == tasks, "a closed stream left a task behind"


async def check_choosable_provider(make_provider: Callable[[], ChoosableProvider]) -> None:
    """Asserts the contract of `ChoosableProvider`, that of `Provider` included."""
    await check_provider(make_provider)
    provider = make_provider()
    names = [model.name for model in await provider.models()]
    assert names, "it lists the models it has"
    assert all(names), "every model has a name"
    assert len(set(names)) == len(names), "every model is listed once"
    assert [model.name for model in await provider.models()] == names, "and as often as it is asked"
    assert provider.token_count(()) == 0, "no messages have no tokens"
    counts = [provider.token_count(SAMPLE_MESSAGES[:count]) for count in range(len(SAMPLE_MESSAGES) + 1)]
    assert counts == sorted(counts), "more messages never have fewer tokens"
    short, long = (Message(role="user", content=(TextBlock(text="word " * size),)) for size in (10, 1_000))
    assert provider.token_count((short,)) * 10 < provider.token_count((long,)), "a long text has more tokens"
    assert provider.token_count((long,)) == provider.token_count((long,)), "the same messages, the same count"


def check_wire(wire: Wire, prefix: PrefixSet, messages: Sequence[Message]) -> bytes:
    """Asserts that a request is a JSON object, and the same bytes for equal messages. Returns the request.

    A wire may leave a message out by encoding it as nothing.
    """
    body = _body(wire, prefix, messages)
    try:
        decoded: Any = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise AssertionError(f"the request is not JSON ({error}): {body!r}") from error
    assert isinstance(decoded, dict), f"the request is not a JSON object: {body!r}"
    copies = msgspec.json.decode(msgspec.json.encode(messages), type=tuple[Message, ...])
    prefix_copy = msgspec.json.decode(msgspec.json.encode(prefix), type=PrefixSet)
    assert _body(wire, prefix_copy, copies) == body, "equal messages have different bytes"
    return body


def _body(wire: Wire, prefix: PrefixSet, messages: Sequence[Message]) -> bytes:
    body = bytearray(wire.head(prefix))
    for encoded in filter(None, map(wire.message, messages)):
        body += encoded if body.endswith(b"[") else b"," + encoded
    return bytes(body) + wire.tail(prefix)


def _request(provider: Provider) -> ModelRequest:
    body = _body(provider.wire, SAMPLE_PREFIX, SAMPLE_MESSAGES[:1])
    return ModelRequest(model=SAMPLE_PREFIX.model, body=body, step=1, answers=0, purpose="main")


async def _parts(provider: Provider) -> list[ModelPart]:
    return [part async for part in provider.stream(_request(provider))]


def _check_answer(parts: Sequence[ModelPart]) -> None:
    done = [part for part in parts if isinstance(part, ModelDone)]
    assert len(done) == 1, f"a stream ends with exactly one ModelDone, this one had {len(done)}"
    assert parts[-1] is done[0], "nothing comes after ModelDone"
    called = any(isinstance(part, ModelCall) for part in parts)
    assert (done[0].stop == "tool_use") == called, (
        f"stop is {done[0].stop} {'with' if called else 'without'} calls"
    )


async def _closed_early(provider: Provider, *, after: int) -> None:
    stream: Any = provider.stream(_request(provider))
    assert hasattr(stream, "aclose"), "a stream can be closed: it has `aclose`"
    for _ in range(after):
        await anext(stream)
    await stream.aclose()
    await stream.aclose()
    async for part in stream:
        raise AssertionError(f"a closed stream still yields {part}")
