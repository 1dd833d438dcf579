"""What a server wants the session's model to write: put to a person each time, held in a budget, without tools.

Servers are told that this can be had only where the person's own settings say so (`sampling`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import msgspec

from bridle.base.text.token_estimate import estimated_tokens
from bridle.engine.ports import AskPerson
from bridle.protocol.messages import StopReason
from bridle.protocol.questions import SampledMessage, SamplingAnswer, SamplingQuestion

MOST_CHARACTERS: Final = 20_000
"""A request that is longer is not read by anybody, so nobody is asked."""
MOST_MESSAGES: Final = 50


class SampleRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The messages a server has written, and how long the answer may be."""

    system: str = ""
    messages: tuple[SampledMessage, ...] = ()
    max_tokens: int = 0

    @property
    def characters(self) -> int:
        return len(self.system) + sum(len(message.text) for message in self.messages)


class SampleReply(msgspec.Struct, frozen=True, kw_only=True):
    """What the model wrote; or why there is nothing, as `refusal`."""

    text: str = ""
    model: str = ""
    stop: StopReason = "end_turn"
    refusal: str = ""


WriteSample: TypeAlias = Callable[[SampleRequest], Awaitable[SampleReply]]
"""Asks the model of the session, within its cost budget. Raises nothing: a refusal says what went wrong."""

DECLINED: Final = SampleReply(refusal="the person declined")


class SamplingBudget:
    """What all servers of a session may have of its model, in this run of it."""

    def __init__(self, *, requests: int, tokens: int) -> None:
        self.requests_left = requests
        self.tokens_left = tokens

    def room(self, request: SampleRequest) -> int:
        """How many tokens the answer may have; 0 where the budget is used up."""
        if self.requests_left <= 0:
            return 0
        return max(0, min(request.max_tokens, self.tokens_left - estimated_tokens(request.characters)))

    def spend(self, request: SampleRequest, reply: SampleReply) -> None:
        self.tokens_left -= estimated_tokens(request.characters + len(reply.text))


async def sample_for(
    request: SampleRequest,
    *,
    server: str,
    question_id: str,
    ask: AskPerson,
    write: WriteSample,
    budget: SamplingBudget,
) -> SampleReply:
    """Asks a person, and then the model. Nobody answers in the person's place."""
    if not request.messages or request.messages[-1].role != "user":
        return SampleReply(refusal="the last message is not one of the user")
    if request.characters > MOST_CHARACTERS or len(request.messages) > MOST_MESSAGES:
        return SampleReply(refusal=f"more than {MOST_CHARACTERS} characters are put to nobody")
    room = budget.room(request)
    if room <= 0:
        return SampleReply(refusal="the budget for sampling is used up")
    budget.requests_left -= 1  # before anybody is asked: a server must not ask without end
    question = SamplingQuestion(
        server=server,
        system=request.system,
        messages=request.messages,
        max_tokens=room,
        requests_left=budget.requests_left,
        tokens_left=budget.tokens_left,
    )
    answer = await ask(question_id, question)
    if not isinstance(answer, SamplingAnswer) or not answer.allow:
        return DECLINED
    reply = await write(msgspec.structs.replace(request, max_tokens=room))
    budget.spend(request, reply)
    return reply
