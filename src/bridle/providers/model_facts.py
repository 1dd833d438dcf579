"""Facts about a model: its window, what it can do, what it costs. Pure data; what nobody says is None."""

from typing import Self

import msgspec

from bridle.protocol.messages import Usage

PER = 1_000_000
"""Prices are dollars for so many tokens."""


class Prices(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Dollars for a million tokens. Where a price for cached tokens is missing, they cost as much as others."""

    price_in: float | None = None
    price_out: float | None = None
    price_cache_read: float | None = None
    price_cache_write: float | None = None

    def usd(self, usage: Usage) -> float | None:
        """What this usage costs; None where the price is not known, which is not nothing."""
        paid_in, paid_out = self.price_in, self.price_out
        if paid_in is None or paid_out is None:
            return None
        read = paid_in if self.price_cache_read is None else self.price_cache_read
        write = paid_in if self.price_cache_write is None else self.price_cache_write
        return (
            usage.input_tokens * paid_in
            + usage.output_tokens * paid_out
            + usage.cache_read_tokens * read
            + usage.cache_write_tokens * write
        ) / PER


class PricesBeyond(Prices, frozen=True, kw_only=True):
    """The prices of a request that reads more than so many tokens: of all of it, not of what is beyond."""

    tokens: int


class ModelFacts(Prices, frozen=True, kw_only=True):
    """A model as far as it is known. `context_tokens` is what is served."""

    context_tokens: int | None = None
    max_output_tokens: int | None = None
    tools: bool | None = None
    images: bool | None = None
    beyond: PricesBeyond | None = None

    def cost(self, usage: Usage) -> float | None:
        """What a request with this usage costs, in dollars; None where that is not known."""
        read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        prices = self.beyond if self.beyond is not None and read > self.beyond.tokens else self
        return prices.usd(usage)

    def behind(self, words: "ModelFacts") -> Self:
        """The same with everything `words` says in its place. Prices are taken together, never mixed."""
        changes = _said(words, _ABILITIES)
        if words.price_in is not None or words.price_out is not None:
            changes.update((field, getattr(words, field)) for field in (*_PRICES, "beyond"))
        return msgspec.structs.replace(self, **changes) if changes else self

    def corrected(self, words: "ModelFacts") -> Self:
        """The same with each single thing a person says in its place."""
        changes = _said(words, (*_ABILITIES, *_PRICES))
        if not changes.keys().isdisjoint(_PRICES):
            changes["beyond"] = None
        return msgspec.structs.replace(self, **changes) if changes else self


_ABILITIES = ("context_tokens", "max_output_tokens", "tools", "images")
_PRICES = ("price_in", "price_out", "price_cache_read", "price_cache_write")


def _said(words: ModelFacts, fields: tuple[str, ...]) -> dict[str, object]:
    return {field: value for field in fields if (value := getattr(words, field)) is not None}


UNKNOWN = ModelFacts()
FREE = ModelFacts(price_in=0.0, price_out=0.0)
"""Nobody is paid: it runs on this machine."""
