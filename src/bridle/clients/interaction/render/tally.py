"""Count tokens, cost and calls of a turn.

What is not known is never a number.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bridle.base.text.phrases import dollars
from bridle.protocol import events as e
from bridle.protocol.messages import Usage

UNKNOWN_COST = "cost unknown for this model"
LOCAL = "local"


class Tally(msgspec.Struct):
    """What a turn or a session has used, `by_model` at whose price. `usd` is None as soon as one price is unknown.

    `local`: something was used, and every request of it stayed on the engine's machine, by what the events say.
    """

    usage: Usage = Usage()
    usd: float | None = 0.0
    by_model: dict[str, float | None] = {}
    local: bool = False

    def add(self, cost: e.CostIncremented) -> None:
        self.usage = Usage(
            input_tokens=self.usage.input_tokens + cost.usage.input_tokens,
            output_tokens=self.usage.output_tokens + cost.usage.output_tokens,
            cache_read_tokens=self.usage.cache_read_tokens + cost.usage.cache_read_tokens,
            cache_write_tokens=self.usage.cache_write_tokens + cost.usage.cache_write_tokens,
        )
        self.local = cost.local and (self.local or not self.by_model)
        self.usd = _sum(self.usd, cost.usd)
        model = f"{cost.provider}:{cost.model}"
        self.by_model[model] = _sum(self.by_model.get(model, 0.0), cost.usd)

    def is_local(self, is_local: Callable[[str], bool]) -> bool:
        """Whether every model that was asked runs on this machine."""
        return bool(self.by_model) and all(map(is_local, self.by_model))


def cost_words(
    turn: Tally,
    session: Tally,
    *,
    local: bool = False,
    context: float | None = None,
    estimated: bool = False,
) -> list[str]:
    """Tokens, money, and how full the context is, each as far as it is known.

    `local` says that the model runs on this machine; `context` is the used share of its window, `estimated` if nobody
    counted it.
    """
    share = [] if context is None else [f"context {'about ' if estimated else ''}{round(100 * context)}%"]
    if turn.usage == Usage():
        return [*([UNKNOWN_COST] if turn.usd is None and not local else []), *share]
    return [*token_words(turn.usage), *money_words(turn, session, local=local), *share]


def token_words(usage: Usage) -> list[str]:
    total = input_tokens(usage)
    cached = f" ({round(100 * usage.cache_read_tokens / total)}% cached)" if usage.cache_read_tokens else ""
    return [f"{short_number(total)} in{cached}", f"{short_number(usage.output_tokens)} out"]


def money_words(turn: Tally, session: Tally, *, local: bool) -> list[str]:
    if local:
        return [LOCAL]
    if turn.usd is None:
        return [UNKNOWN_COST if len(turn.by_model) < 2 else f"cost unknown{_split(turn)}"]
    paid = f"{dollars(turn.usd)}{_split(turn)}"
    return [paid] if session.usd is None else [paid, f"session {dollars(session.usd)}"]


def _split(tally: Tally) -> str:
    """Who got how much, where it was more than one."""
    if len(tally.by_model) < 2:
        return ""
    shares = [f"{model} {paid_words(usd)}" for model, usd in tally.by_model.items()]
    return f" ({', '.join(shares)})"


def paid_words(usd: float | None) -> str:
    return "unknown" if usd is None else dollars(usd)


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def input_tokens(usage: Usage) -> int:
    """Everything that was sent, cached or not."""
    return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens


def short_number(number: int) -> str:
    if number < 10_000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 999_950 else f"{number / 1_000_000:.1f}M"
