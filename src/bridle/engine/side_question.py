"""A question to the model beside the conversation: one request of its own, whose answer is text for us."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, assert_never

import msgspec

from bridle.base.clock import Clock
from bridle.engine.deadline import Deadline
from bridle.engine.ports import (
    ModelAlive,
    ModelCall,
    ModelDone,
    ModelRequest,
    ModelText,
    ModelThinking,
    ModelThought,
    ModelYield,
    Provider,
)
from bridle.engine.sizes import AnswerRoom
from bridle.engine.steps import CostOf, encode_aside
from bridle.protocol.errors import ProviderError
from bridle.protocol.events import DurableEvent, PrefixSet, RequestPurpose
from bridle.protocol.messages import Message, StopReason, Usage

BESIDE = 0
"""The step of a request that belongs to no step."""


class AsideAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the model said. Only with `stop` at `end_turn` did it say all of it."""

    text: str
    stop: StopReason


AskAside: TypeAlias = Callable[[PrefixSet, Sequence[Message]], Awaitable[AsideAnswer]]
"""Asks the model of the prefix once. Raises `ProviderError` where no whole answer came, in time or at all."""


def ask_aside(
    *,
    provider: Callable[[str, str], Provider],
    clock: Clock,
    cost_of: CostOf,
    emit: Callable[[DurableEvent], object],
    timeout_s: float,
    purpose: RequestPurpose,
) -> AskAside:
    """Asks without the layers, and once: nothing is retried, nothing streams to anybody. What it cost is an event."""

    async def ask(prefix: PrefixSet, messages: Sequence[Message]) -> AsideAnswer:
        asked = provider(prefix.provider, prefix.model)
        body = encode_aside(prefix, messages, asked.wire)
        request = ModelRequest(model=prefix.model, body=body, step=BESIDE, answers=0, purpose=purpose)
        try:
            async with Deadline(clock, timeout_s):
                answer, usage = await _read(asked, request)
        except TimeoutError:
            raise ProviderError("StreamSilent", provider=asked.name, timeout_s=f"{timeout_s:g}") from None
        if usage != Usage():
            cost = cost_of(prefix.provider, prefix.model, usage)
            emit(msgspec.structs.replace(cost, purpose=purpose))
        return answer

    return ask


async def _read(provider: Provider, request: ModelRequest) -> tuple[AsideAnswer, Usage]:
    text: list[str] = []
    room = AnswerRoom()
    done: ModelDone | None = None
    stream = provider.stream(request)
    try:
        async for part in stream:
            match part:
                case ModelText():
                    room.take(len(part.text))
                    text.append(part.text)
                case ModelDone():
                    done = part
                case ModelThinking() | ModelThought() | ModelCall() | ModelAlive() | ModelYield():
                    pass
                case _:
                    assert_never(part)
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
    if done is None:
        raise ProviderError("BadStream", provider=provider.name, problem="it ended in the middle")
    return AsideAnswer(text="".join(text), stop=done.stop), done.usage
