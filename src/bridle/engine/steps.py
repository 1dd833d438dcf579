"""One step: the request goes out, the stream comes in as events, and a reply with its calls comes back.

Request layers stand around `ask`. They never edit a request: they append events, and the request follows from them.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias, assert_never

import msgspec

from bridle.base.clock import Clock
from bridle.base.ids import Ids
from bridle.base.memory_budget import MemoryBudget, MemoryCache
from bridle.engine.conversation import Conversation
from bridle.engine.deadline import Deadline
from bridle.engine.deltas import MAX_CHARACTERS, DeltaWriter
from bridle.engine.journal import Journal
from bridle.engine.ports import (
    PATIENCE,
    ModelAlive,
    ModelCall,
    ModelDone,
    ModelPart,
    ModelRequest,
    ModelText,
    ModelThinking,
    ModelThought,
    ModelYield,
    Patience,
    Provider,
    Wire,
)
from bridle.engine.sizes import CALL, TURN, AnswerRoom
from bridle.engine.stopwatch import Stopwatch
from bridle.protocol.errors import BridleError, ProviderError
from bridle.protocol.events import (
    CostIncremented,
    DurableEvent,
    PrefixSet,
    RequestedCall,
    StepEnded,
    StepStarted,
)
from bridle.protocol.messages import CANONICAL_FORM_VERSION, Message, StopReason, ThinkingBlock, Usage

# `RequestBuffer` and `encode` give the same bytes; the first one remembers what it has encoded already.


class EncodedRequest(msgspec.Struct):
    """The encoded head and messages of a conversation under one prefix, and its tail. `epoch` is that of the
    conversation, `messages` counts the encoded ones."""

    wire: str
    prefix: PrefixSet
    epoch: int
    head: bytearray
    tail: bytes
    messages: int = 0


class RequestBuffer:
    """Keeps the encoded request of one conversation, and encodes only what came since."""

    def __init__(self, cache: MemoryCache[EncodedRequest] | None = None) -> None:
        self._cache = cache or MemoryCache[EncodedRequest](MemoryBudget(), "", "")

    def body(self, conversation: Conversation, wire: Wire) -> bytes:
        prefix = conversation.prefix
        assert prefix is not None, "a request layer sets the prefix before the first request"
        assert wire.canonical_form_version == CANONICAL_FORM_VERSION, f"{wire.name} translates another form"
        epoch, known = conversation.epoch, self._cache.get(self)
        if known is None or known.wire != wire.name or known.prefix is not prefix or known.epoch != epoch:
            head = bytearray(wire.head(prefix))
            known = EncodedRequest(wire.name, prefix, epoch, head, wire.tail(prefix))
        for message in conversation.messages[known.messages :]:
            _append(known.head, message, wire)  # may refuse; what is in the buffer by then is counted
            known.messages += 1
        self._cache.put(self, known, len(known.head))
        return b"".join((known.head, known.tail))


def encode(conversation: Conversation, wire: Wire) -> bytes:
    """The request of a conversation from nothing; what a resumed session sends."""
    return RequestBuffer().body(conversation, wire)


def encode_aside(prefix: PrefixSet, messages: Iterable[Message], wire: Wire) -> bytes:
    buffer = bytearray(wire.head(prefix))
    for message in messages:
        _append(buffer, message, wire)
    return b"".join((buffer, wire.tail(prefix)))


def _append(buffer: bytearray, message: Message, wire: Wire) -> None:
    encoded = wire.message(message)
    if encoded:
        if not buffer.endswith(b"["):
            buffer += b","
        buffer += encoded


WORDS = (ModelText, ModelThinking)
"""What nearly all of an answer consists of."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A model call about to be made. A layer that tries again passes on a step with a higher `attempt`."""

    number: int
    journal: Journal
    attempt: int = 1

    def emit(self, event: DurableEvent) -> None:
        self.journal.emit(event)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a step. `stop` is `tool_use` if and only if there are calls."""

    stop: StopReason
    calls: tuple[RequestedCall, ...] = ()
    yielded: bool = False


AskModel: TypeAlias = Callable[[Step], Awaitable[Reply]]
RequestLayer: TypeAlias = Callable[[Step, AskModel], Awaitable[Reply]]
PriceOf: TypeAlias = Callable[[str, str, Usage], float | None]
CostOf: TypeAlias = Callable[[str, str, Usage], CostIncremented]
"""Both by provider and model: what a usage would cost, and what it did."""


def with_layers(layers: Sequence[RequestLayer], ask: AskModel) -> AskModel:
    for layer in reversed(layers):
        ask = _behind(layer, ask)
    return ask


def _behind(layer: RequestLayer, proceed: AskModel) -> AskModel:
    def ask(step: Step) -> Awaitable[Reply]:
        return layer(step, proceed)

    return ask


class Model:
    """Asks the provider named by the prefix and writes what it says into the journal."""

    def __init__(
        self,
        *,
        provider: Callable[[str, str], Provider],
        ids: Ids,
        clock: Clock,
        stopwatch: Stopwatch,
        cost_of: CostOf,
        requests: MemoryCache[EncodedRequest] | None = None,
    ) -> None:
        self._provider = provider
        self._ids = ids
        self._clock = clock
        self._stopwatch = stopwatch
        self._cost_of = cost_of
        self._buffer = RequestBuffer(requests)

    async def ask(self, step: Step) -> Reply:
        """Raises `ProviderError` where no answer came, and `AnswerTooLong` after the step of one that was cut off."""
        conversation = step.journal.conversation
        prefix = conversation.prefix
        assert prefix is not None, "a request layer sets the prefix before the first request"
        provider, path = self._provider(prefix.provider, prefix.model), conversation.invocation.agent_path
        request = ModelRequest(
            model=prefix.model,
            body=self._buffer.body(conversation, provider.wire),
            step=step.number,
            answers=conversation.answers,
            purpose="subagent" if path else "main",
            agent=path[-1] if path else "",
        )
        step.emit(StepStarted(step=step.number, provider=prefix.provider, model=prefix.model))
        await step.journal.outcomes_kept()
        answer = await self._read(provider, request, step.journal)
        calls = self._calls(step, answer)
        stop = _stop(answer, calls)
        if stop == "content_filter":
            calls = ()
        await step.journal.record(
            StepEnded(
                step=step.number,
                stop=stop,
                text_sha256=answer.text_sha256,
                calls=calls,
                thinking=tuple(answer.thoughts),
                usage=answer.usage,
                yielded=answer.yielded,
            )
        )
        if answer.usage != Usage():
            cost = self._cost_of(prefix.provider, prefix.model, answer.usage)
            step.emit(msgspec.structs.replace(cost, purpose=request.purpose))
        if answer.fault is not None:
            raise answer.fault
        return Reply(stop=stop, calls=calls, yielded=answer.yielded)

    async def _read(self, provider: Provider, request: ModelRequest, journal: Journal) -> _Answer:
        """The stream to its end, as deltas in the journal and an answer in hand."""
        answer = _Answer()
        deltas = DeltaWriter(journal, self._clock)
        patience: Patience = getattr(provider, "patience", PATIENCE)
        most_s = max(patience.alive_s, patience.first_part_s)
        silence = Deadline(self._clock, patience.first_part_s, most_s=most_s)
        stream = provider.stream(request)
        try:
            with self._stopwatch.measure("provider.total"):
                async with silence:
                    first_byte = self._stopwatch.measure("provider.first_byte")
                    async for part in stream:
                        first_byte.end()
                        size = len(part.text) if isinstance(part, WORDS) else -1
                        if size > 0 or (size < 0 and _is_progress(part)):
                            silence.allow(patience.idle_s)
                        else:
                            silence.touch()
                        if size <= MAX_CHARACTERS or not isinstance(part, WORDS):
                            answer.take(part, deltas)
                            continue
                        for piece in _pieces(part):
                            answer.take(piece, deltas)
                            await asyncio.sleep(0)  # looking for secrets in it takes time
        except TimeoutError:
            deltas.abandon()
            raise ProviderError(
                "StreamSilent", retryable=True, provider=provider.name, timeout_s=f"{silence.ran_out_s:g}"
            ) from None
        except ProviderError as failure:
            if failure.reason != "AnswerTooLong":
                deltas.abandon()
                raise
            answer.cut_off(failure)
        except BaseException:
            deltas.finish()
            raise
        finally:
            await _close(stream)
        if answer.stop is None:
            deltas.abandon()
            raise ProviderError(
                "BadStream", retryable=True, provider=provider.name, problem="it ended in the middle"
            )
        deltas.finish()
        answer.text_sha256 = deltas.text_sha256
        return answer

    def _calls(self, step: Step, answer: _Answer) -> tuple[RequestedCall, ...]:
        known = step.journal.conversation.wire_ids
        used: set[str] = set()
        calls: list[RequestedCall] = []
        for index, call in enumerate(answer.calls):
            wire_id = call.wire_id
            own = (f"c{step.number}_{number}" for number in itertools.count(index))
            while not wire_id or wire_id in known or wire_id in used:
                wire_id = next(own)
            used.add(wire_id)
            arguments, problem = _arguments(call.arguments)
            calls.append(
                RequestedCall(
                    call_id=self._ids.new("call"),
                    wire_id=wire_id,
                    tool=call.tool,
                    input=arguments,
                    problem=problem,
                )
            )
        return tuple(calls)


class _Answer:
    """What a stream has said so far."""

    def __init__(self) -> None:
        self.calls: list[ModelCall] = []
        self.thoughts: list[ThinkingBlock] = []
        self.stop: StopReason | None = None
        self.usage = Usage()
        self.yielded = False
        self.text_sha256 = hashlib.sha256().hexdigest()
        self.fault: BridleError | None = None
        """Why it was cut off, for whoever ends the turn. Asking again would bring the same."""
        self._room = AnswerRoom()
        self._kind: type[ModelPart] = ModelText

    def cut_off(self, failure: ProviderError) -> None:
        """It had no end. Its text stays; no call and no thought of it does, for the last may not be whole."""
        self.calls.clear()
        self.thoughts.clear()
        self.stop, self.fault = "error", BridleError(failure.reason, **failure.data)

    def take(self, part: ModelPart, deltas: DeltaWriter) -> None:
        match part:
            case ModelText(text=text):
                if self._kind is not ModelText:
                    self._turn_to(ModelText)
                self._room.take(len(text))
                deltas.text(text)
            case ModelCall(tool=tool, arguments=arguments):
                self._room.take(CALL + len(tool) + len(arguments))
                self.calls.append(part)
            case ModelDone(stop=stop, usage=usage):
                self.stop, self.usage = stop, usage
            case ModelThinking(text=text):
                if self._kind is not ModelThinking:
                    self._turn_to(ModelThinking)
                self._room.take(len(text))
                deltas.thinking(text)
            case ModelThought(block=block):
                self._room.take(len(block.opaque))
                self.thoughts.append(block)
            case ModelAlive():
                pass
            case ModelYield():
                self.yielded = True
            case _:
                assert_never(part)

    def _turn_to(self, kind: type[ModelPart]) -> None:
        self._kind = kind
        self._room.take(TURN)


def _pieces(part: ModelText | ModelThinking) -> Iterable[ModelPart]:
    """Long words in pieces: a server may send a whole answer at once."""
    pieces = range(0, len(part.text), MAX_CHARACTERS)
    return (type(part)(part.text[at : at + MAX_CHARACTERS]) for at in pieces)


def _is_progress(part: ModelPart) -> bool:
    """Whether a part without words is more of the answer. A server that only says that it is there may be stuck."""
    return part.grown if isinstance(part, ModelAlive) else True


def _stop(answer: _Answer, calls: tuple[RequestedCall, ...]) -> StopReason:
    assert answer.stop is not None
    if answer.stop == "content_filter":
        return "content_filter"
    if calls:
        return "tool_use"
    return "end_turn" if answer.stop == "tool_use" else answer.stop


def _arguments(text: str) -> tuple[dict[str, Any], str | None]:
    """The arguments of a call, and what is wrong with them if they cannot be read."""
    if not text.strip():
        return {}, None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as problem:
        return {}, f"the arguments are not valid JSON ({problem})"
    if not isinstance(value, dict):
        return {}, "the arguments are not a JSON object"
    return value, None  # pyright: ignore[reportUnknownVariableType]


async def _close(stream: Any) -> None:
    """Ends the request now; an async generator left to the collector would end it some time."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()
