"""The models a server has, as it lists them itself: read from its JSON, tolerant of what is missing. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, cast

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

    def behind(self, words: ModelFacts) -> Self:
        """The same with everything `words` says in its place. Prices are taken together, never mixed."""
        changes = _said(words, _ABILITIES)
        if words.price_in is not None or words.price_out is not None:
            changes.update((field, getattr(words, field)) for field in (*_PRICES, "beyond"))
        return msgspec.structs.replace(self, **changes) if changes else self

    def corrected(self, words: ModelFacts) -> Self:
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


class ModelInfo(ModelFacts, frozen=True, kw_only=True):
    """One model of a server. What the server does not say is None, and never guessed.

    `context_tokens` is what the server serves, `longest_context_tokens` what the model could have.
    """

    name: str
    longest_context_tokens: int | None = None
    size_bytes: int | None = None
    can_chat: bool = True
    owner: str = ""


def read_listing(body: bytes) -> tuple[ModelInfo, ...] | None:
    """The models of `GET /models` in OpenAI's shape, with what OpenRouter, vLLM and llama.cpp add to it.

    None if it is no such listing.
    """
    try:
        found: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    rows = cast("dict[str, Any]", found).get("data") if isinstance(found, dict) else found
    if not isinstance(rows, list):
        return None
    listed = [cast("dict[str, Any]", row) for row in cast("list[Any]", rows) if isinstance(row, dict)]
    return tuple(_model(row) for row in listed if text_of(row, "id"))


def _model(row: dict[str, Any]) -> ModelInfo:
    meta = mapping_of(row, "meta")
    top = mapping_of(row, "top_provider")
    pricing = mapping_of(row, "pricing")
    return ModelInfo(
        # Gemini lists `models/NAME` and is asked for NAME.
        name=text_of(row, "id").removeprefix("models/"),
        context_tokens=count_of(row, "max_model_len", "context_length", "context_window", "max_input_tokens")
        or count_of(top, "context_length")
        or count_of(meta, "n_ctx"),
        max_output_tokens=count_of(row, "max_completion_tokens", "max_output_tokens")
        or count_of(top, "max_completion_tokens"),
        longest_context_tokens=count_of(meta, "n_ctx_train"),
        can_chat=text_of(row, "type") not in {"embedding", "embeddings", "image", "rerank", "audio"},
        tools=says(row.get("supported_parameters"), "tools"),
        images=says(mapping_of(row, "architecture").get("input_modalities"), "image"),
        price_in=_price(pricing.get("prompt")),
        price_out=_price(pricing.get("completion")),
        price_cache_read=_price(pricing.get("input_cache_read")),
        price_cache_write=_price(pricing.get("input_cache_write")),
        owner=text_of(row, "owned_by"),
    )


def says(listed: Any, word: str) -> bool | None:
    """Whether a list of what a model can do has this word; None where there is no such list."""
    return word in cast("list[Any]", listed) if isinstance(listed, list) else None


def count_of(row: Mapping[str, Any], *names: str) -> int | None:
    """The first of these that is a whole number above zero."""
    for name in names:
        value = row.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def text_of(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def mapping_of(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = row.get(name)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _price(value: Any) -> float | None:
    """Dollars for a million tokens; vendors write those for one, as text. A price below zero means that it varies."""
    try:
        price = float(value)
    except (TypeError, ValueError):
        return None
    return round(price * PER, 6) if 0 <= price < 1 else None
