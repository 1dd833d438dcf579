"""Reasoning that a vendor wants back: kept as it came, with its place in the answer, and given back to its family only.

A step keeps its thinking, its text and its calls apart. Vendors that sign their reasoning want it back in the order it
had, so every thought remembers how much text and how many calls came before it. A thought that was changed on its way
through the log, because a secret was taken out of it, would be refused; it is left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from bridle.engine.ports import ModelThought
from bridle.protocol.messages import AnyBlock, TextBlock, ThinkingBlock, ToolUseBlock
from bridle.providers.answers import encoded

_ENCODER: Final = msgspec.json.Encoder()


class _Opaque(msgspec.Struct, frozen=True, array_like=True):
    text_before: int
    calls_before: int
    digest: str
    item: msgspec.Raw


_OPAQUE: Final = msgspec.json.Decoder(_Opaque)


class AnswerPosition(NamedTuple):
    """Where in an answer: after so many characters of text and so many calls."""

    text: int
    calls: int


def thought(family: str, item: Mapping[str, Any], place: AnswerPosition) -> ModelThought:
    """An item of a vendor's own, to be given back to `family` unchanged."""
    raw = encoded(item)
    opaque = _Opaque(place.text, place.calls, _digest(raw), msgspec.Raw(raw))
    return ModelThought(ThinkingBlock(family=family, opaque=_ENCODER.encode(opaque).decode()))


AnswerPiece: TypeAlias = str | ToolUseBlock | msgspec.Raw
"""A piece of an answer in its order: text, a call, or an item of the vendor's own."""


def pieces(content: Iterable[AnyBlock], family: str) -> Iterator[AnswerPiece]:
    """The pieces of an assistant message, thoughts of `family` at their places and those of others left out."""
    blocks = tuple(content)
    thoughts = [
        opaque
        for block in blocks
        if isinstance(block, ThinkingBlock) and block.family == family and (opaque := _read(block.opaque))
    ]
    text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    calls = [block for block in blocks if isinstance(block, ToolUseBlock)]
    said = made = 0
    for each in thoughts:
        if text[said : each.text_before]:
            yield text[said : each.text_before]
        yield from calls[made : each.calls_before]
        said, made = max(said, each.text_before), max(made, each.calls_before)
        yield each.item
    if text[said:]:
        yield text[said:]
    yield from calls[made:]


def without_last_thoughts(made: list[Any]) -> list[Any]:
    """An encoded answer without the thoughts that nothing follows, as in one that was cut off: no vendor takes them."""
    while made and isinstance(made[-1], msgspec.Raw):
        made.pop()
    return made


def _read(opaque: str) -> _Opaque | None:
    try:
        found = _OPAQUE.decode(opaque)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return found if _digest(bytes(found.item)) == found.digest else None


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:16]
