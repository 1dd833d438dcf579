"""Questions of people beside the conversation (`/btw`): what the model is sent for one, and which are open.

Such a request has everything the conversation has and changes none of it: no message, no step, no call. The question
and the answer are events, so that every client sees them and the log knows what was paid for; no fold takes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from bridle.engine.conversation import Conversation
from bridle.engine.journal import Journal
from bridle.protocol.errors import BridleError, CommandRefused, StoreError, sentence
from bridle.protocol.events import AsideAnswered, AsideAsked, CommandStamp
from bridle.protocol.messages import Message, TextBlock, ToolUseBlock

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
