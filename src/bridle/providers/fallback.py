"""The request layer that goes on with another model when the chosen one is overloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from bridle.engine.steps import AskModel, Reply, RequestLayer, Step
from bridle.protocol.errors import BridleError, ProviderError, sentence
from bridle.protocol.events import ModelChanged, Notice

OVERLOAD: Final = frozenset({"Overloaded", "StillRateLimited"})
"""What another model may do better at. Every retry was made before."""


def fallback(name: str, *, named: Callable[[str], ModelChanged]) -> RequestLayer:
    """Asks `name` (`provider:model`) once the chosen model is given up on, for the rest of the turn. Once, never back.

    `named` reads the name and may refuse it. Thoughts of the first model are not shown to the other: its wire knows.
    """

    async def layer(step: Step, proceed: AskModel) -> Reply:
        try:
            return await proceed(step)
        except ProviderError as failure:
            if failure.reason not in OVERLOAD:
                raise
            chosen = step.journal.conversation.model
            other = _other(step, name, named)
            if (
                other is None
                or chosen is None
                or (other.provider, other.model) == (chosen.provider, chosen.model)
            ):
                raise
            data = {"provider": chosen.provider, "model": f"{other.provider}:{other.model}"}
            step.emit(Notice(reason="FallbackModel", message=sentence("FallbackModel", data), data=data))
            step.emit(msgspec.structs.replace(other, holds="this_turn"))
        return await proceed(step)

    return layer


def _other(step: Step, name: str, named: Callable[[str], ModelChanged]) -> ModelChanged | None:
    try:
        return named(name)
    except BridleError as refusal:
        step.emit(Notice(reason=refusal.reason, message=f"fallback_model: {refusal.message}"))
        return None
