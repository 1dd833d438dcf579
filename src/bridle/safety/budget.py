"""What a session may cost: a request that could go beyond the limit is not sent.

Two layers of one object. `gate` stands right around the request, where everything that will be sent is known, and stops
it; `layer` stands outside of everything and asks a person what to do. What a request could cost is an estimate:
nothing of it comes from a cache, and the answer is as long as it may be. Where the rest of the budget pays for a
shorter answer, the request says so; below `LEAST_ANSWER` tokens it is not worth sending.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec

from bridle.base.text.phrases import dollars
from bridle.engine.conversation import Conversation
from bridle.engine.ports import AskPerson
from bridle.engine.sizes import request_tokens
from bridle.engine.steps import AskModel, PriceOf, Reply, Step
from bridle.protocol.errors import BridleError
from bridle.protocol.events import ModelChanged, PrefixSet
from bridle.protocol.messages import Usage
from bridle.protocol.questions import BudgetAnswer, BudgetQuestion

LEAST_ANSWER: Final = 1024
_MILLION: Final = 1_000_000

_Why: TypeAlias = Literal["BudgetExceeded", "PriceUnknown"]


class BudgetStop(BridleError):
    """A request that was not sent, with the numbers a person is asked about."""

    def __init__(self, why: _Why, *, prefix: PrefixSet, cap: float, spent: float, could: float = 0.0) -> None:
        self.why: _Why = why
        self.prefix = prefix
        self.cap = cap
        self.spent = spent
        self.could = could
        model = f"{prefix.provider}:{prefix.model}"
        super().__init__(
            why,
            model=model,
            cap=dollars(cap),
            spent=dollars(spent),
            could=dollars(could),
            next=_NEXT[why].format(model=model),
        )


_NEXT: Final = {
    "BudgetExceeded": " Raise --max-cost or budget.usd_per_session to go on.",
    "PriceUnknown": ' Say what it costs, in dollars for a million tokens: models."{model}".price_in and price_out. '
    "Or leave the limit out.",
}


class Allowance(msgspec.Struct, kw_only=True):
    """What a session may cost and what a person said about it: one for all who work in it."""

    cap_usd: float
    unlimited: set[tuple[str, str]] = set()


class Budget:
    """The limit of one session, as one who works in it obeys it.

    `ask` puts a question to a person and gives None where nobody can answer.
    `answer_limit` is how long an answer may be, `cheaper` names a model that costs less, `named` reads such a name.
    A limit that a person raises holds until the session is closed.
    """

    def __init__(
        self,
        allowance: Allowance,
        *,
        price_of: PriceOf,
        answer_limit: Callable[[PrefixSet], int],
        cheaper: Callable[[str, str], str | None],
        named: Callable[[str], ModelChanged],
        ask: AskPerson,
    ) -> None:
        self._allowance = allowance
        self._price_of = price_of
        self._answer_limit = answer_limit
        self._cheaper = cheaper
        self._named = named
        self._ask = ask
        self._asked = 0

    async def layer(self, step: Step, proceed: AskModel) -> Reply:
        """Asks a person about a request that was stopped, and goes on as they say."""
        while True:
            try:
                return await proceed(step)
            except BudgetStop as stop:
                await self._settle(step, stop)

    async def gate(self, step: Step, proceed: AskModel) -> Reply:
        """Lets a request through that cannot cost more than is left."""
        conversation = step.journal.conversation
        prefix = conversation.prefix
        assert prefix is not None, "an outer layer sets the prefix"
        wanted = self._limited(prefix, conversation)
        if wanted != prefix.parameters.max_tokens:
            parameters = msgspec.structs.replace(prefix.parameters, max_tokens=wanted)
            step.emit(msgspec.structs.replace(prefix, parameters=parameters))
        return await proceed(step)

    def _limited(self, prefix: PrefixSet, conversation: Conversation) -> int | None:
        """The most tokens the answer may have; None where the budget pays for any answer."""
        if (prefix.provider, prefix.model) in self._allowance.unlimited:
            return None
        tokens = request_tokens(conversation)
        read = self._worst(prefix, Usage(input_tokens=tokens), Usage(cache_write_tokens=tokens))
        spent = conversation.spent_usd
        if read is None:
            raise BudgetStop("PriceUnknown", prefix=prefix, cap=self._allowance.cap_usd, spent=spent)
        whole = self._worst(
            prefix,
            Usage(input_tokens=tokens, output_tokens=_MILLION),
            Usage(cache_write_tokens=tokens, output_tokens=_MILLION),
        )
        a_token = ((whole or 0.0) - read) / _MILLION
        most, left = self._answer_limit(prefix), self._allowance.cap_usd - spent
        if read + most * a_token <= left:
            return None
        limit = LEAST_ANSWER
        if read + min(limit, most) * a_token > left:
            could = read + min(limit, most) * a_token
            raise BudgetStop(
                "BudgetExceeded", prefix=prefix, cap=self._allowance.cap_usd, spent=spent, could=could
            )
        while read + 2 * limit * a_token <= left:  # in steps, so that the limit seldom changes
            limit *= 2
        return limit

    def _worst(self, prefix: PrefixSet, *usages: Usage) -> float | None:
        prices = [self._price_of(prefix.provider, prefix.model, usage) for usage in usages]
        known = [price for price in prices if price is not None]
        return max(known) if len(known) == len(prices) else None

    async def _settle(self, step: Step, stop: BudgetStop) -> None:
        """Returns when the request may be tried again; raises when this is the end."""
        self._asked += 1
        number = f"budget-{step.journal.conversation.step}-{self._asked}"
        model = (stop.prefix.provider, stop.prefix.model)
        question = BudgetQuestion(
            reason=stop.why,
            model=":".join(model),
            cap_usd=stop.cap,
            spent_usd=stop.spent,
            could_usd=stop.could,
        )
        raised, cheaper = self._raised(stop.spent + stop.could), self._cheaper(*model)
        if stop.why == "BudgetExceeded":
            question = msgspec.structs.replace(question, raise_to_usd=raised, cheaper=cheaper)
        answer = await self._ask(number, question)
        match answer.choice if isinstance(answer, BudgetAnswer) else "stop":
            case "raise" if question.raise_to_usd is not None:
                self._allowance.cap_usd = raised
            case "cheaper" if question.cheaper is not None:
                step.emit(msgspec.structs.replace(self._named(question.cheaper), holds="from_now"))
            case "unlimited" if stop.why == "PriceUnknown":
                self._allowance.unlimited.add(model)
            case _:
                raise stop

    def _raised(self, needed: float) -> float:
        raised = self._allowance.cap_usd * 2
        while raised < needed:
            raised *= 2
        return raised
