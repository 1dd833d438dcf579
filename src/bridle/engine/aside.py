"""Questions of users beside the conversation (`/btw`), and single requests that belong to no step.

The question and its answer are events. No fold takes them, so the conversation stays as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, assert_never

import msgspec

from bridle.base.clock import Clock
from bridle.engine.conversation import Conversation
from bridle.engine.deadline import Deadline
from bridle.engine.journal import Journal
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
from bridle.protocol.errors import BridleError, CommandRefused, ProviderError, StoreError, sentence
from bridle.protocol.events import (
    AsideAnswered,
    AsideAsked,
    CommandStamp,
    DurableEvent,
    PrefixSet,
    RequestPurpose,
)
from bridle.protocol.messages import Message, StopReason, TextBlock, ToolUseBlock, Usage

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


AnswerAside: TypeAlias = Callable[[str], Awaitable[str]]
"""Asks the model beside the conversation. Raises `BridleError` where no whole answer came."""

_LEAD = """\
A question beside the work. Answer it briefly from what you know and from this conversation; call no tool. Neither \
this question nor your answer will be part of the conversation.

"""


def aside_messages(conversation: Conversation, question: str) -> Sequence[Message]:
    """The conversation so far and the question. Calls that have no results yet are left out with their message."""
    messages = list(conversation.messages)
    if messages and any(isinstance(block, ToolUseBlock) for block in messages[-1].content):
        messages.pop()
    return (*messages, Message(role="user", content=(TextBlock(text=f"{_LEAD}{question}"),)))


class Asides:
    """The open question beside the conversation: one at a time, whatever else runs."""

    def __init__(self, journal: Journal, answer: AnswerAside) -> None:
        self._journal = journal
        self._answer = answer
        self._open: asyncio.Task[None] | None = None

    def ask(self, question: str, *, originator: str, stamp: CommandStamp | None = None) -> int:
        """Returns the event of the question; its answer is another event, later."""
        if self._open is not None:
            raise CommandRefused("AsideOpen")
        if not question.strip():
            raise CommandRefused("NothingAsked")
        number = self._journal.emit(AsideAsked(question=question, stamp=stamp), originator=originator)
        self._open = asyncio.create_task(self._run(number, question, originator))
        return number

    def cancel(self) -> bool:
        """Gives up the open question; False where there is none."""
        if self._open is None:
            return False
        self._open.cancel()
        return True

    async def end(self) -> None:
        if self.cancel() and self._open is not None:
            await asyncio.wait((self._open,))

    async def _run(self, asked: int, question: str, originator: str) -> None:
        try:
            answered = AsideAnswered(asked=asked, answer=await self._answer(question))
        except asyncio.CancelledError:
            answered = AsideAnswered(asked=asked, reason="AsideStopped", message=sentence("AsideStopped", {}))
        except StoreError:  # whoever follows the session is told of that
            return
        except BridleError as failure:
            answered = AsideAnswered(asked=asked, reason=failure.reason, message=failure.message)
        except Exception as fault:  # noqa: BLE001  the crash boundary: a broken answer must not end the session
            told = sentence("EngineFault", {"problem": f"{type(fault).__name__}: {fault}"})
            answered = AsideAnswered(asked=asked, reason="EngineFault", message=told)
        finally:
            self._open = None
        try:
            self._journal.emit(answered, originator=originator)
        except StoreError:
            return
