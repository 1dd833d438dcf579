"""What a turn or a session has used, and how that is said. What is not known is never a number."""

from __future__ import annotations

import msgspec

from bridle.protocol import events as e
from bridle.protocol.messages import Usage


class Tally(msgspec.Struct):
    """What a turn or a session has used. `usd` is None as soon as one price is unknown."""

    usage: Usage = Usage()
    usd: float | None = 0.0

    def add(self, cost: e.CostIncremented) -> None:
        self.usage = Usage(
            input_tokens=self.usage.input_tokens + cost.usage.input_tokens,
            output_tokens=self.usage.output_tokens + cost.usage.output_tokens,
            cache_read_tokens=self.usage.cache_read_tokens + cost.usage.cache_read_tokens,
            cache_write_tokens=self.usage.cache_write_tokens + cost.usage.cache_write_tokens,
        )
        self.usd = None if self.usd is None or cost.usd is None else self.usd + cost.usd


def cost_words(turn: Tally, session: Tally) -> list[str]:
    """Tokens and money; what is not known is not a number."""
    usage = turn.usage
    if usage == Usage():
        return []
    total = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    cached = f" ({round(100 * usage.cache_read_tokens / total)}% cached)" if usage.cache_read_tokens else ""
    words = [f"{_short_number(total)} in{cached}", f"{_short_number(usage.output_tokens)} out"]
    if turn.usd is None:
        return [*words, "cost unknown for this model"]
    words.append(_dollars(turn.usd))
    return words if session.usd is None else [*words, f"session {_dollars(session.usd)}"]


def _short_number(number: int) -> str:
    return str(number) if number < 10_000 else f"{number / 1000:.1f}k"


def _dollars(usd: float) -> str:
    return f"${usd:.2f}" if usd >= 0.005 or usd == 0 else f"${usd:.4f}"
