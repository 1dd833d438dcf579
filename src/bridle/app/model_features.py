"""The request layers about models and money. Each is built, and loaded, where it has something to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.engine.steps import AskModel, Reply, RequestLayer, Step
from bridle.protocol.errors import BridleError
from bridle.providers.known_models import KnownModels
from bridle.providers.model_directory import DEMO, Models

if TYPE_CHECKING:
    from bridle.safety.budget import AskPerson, Budget


def spending_limit(
    cap_usd: float | None, *, models: Models, known: KnownModels, ask: AskPerson
) -> Budget | None:
    """What a session may cost, if that is limited."""
    if cap_usd is None:
        return None
    from bridle.safety.budget import Budget

    return Budget(
        cap_usd,
        price_of=known.price_of,
        answer_limit=known.answer_limit,
        cheaper=known.cheaper,
        named=models.named,
        ask=ask,
    )


def budget(limit: Budget | None) -> RequestLayer:
    """Asks a person about a request that was stopped because it could cost too much."""
    return _straight_on if limit is None else limit.layer


def affordable(limit: Budget | None) -> RequestLayer:
    """Stops a request that could cost more than is left, at the last moment: here all of it is known."""
    return _straight_on if limit is None else limit.gate


def fallback(name: str | None, models: Models) -> RequestLayer:
    """Goes on with another model where the chosen one is overloaded."""
    if name is None:
        return _straight_on
    from bridle.providers.fallback import fallback as layer

    return layer(name, named=models.named)


def capable(models: Models, known: KnownModels) -> RequestLayer:
    """Looks whether a model can do what is asked of it. The scripted one can."""
    made: RequestLayer | None = None

    async def layer(step: Step, proceed: AskModel) -> Reply:
        nonlocal made
        prefix = step.journal.conversation.prefix
        if prefix is None or prefix.provider == DEMO:
            return await proceed(step)
        if made is None:
            from bridle.providers.capability_check import capable as layer

            made = layer(
                look=known.look,
                facts_of=known.facts,
                leaves_images_out=lambda provider: _leaves_images_out(models, provider),
            )
        return await made(step, proceed)

    return layer


def _leaves_images_out(models: Models, provider: str) -> bool:
    """Whether settings say that images are left out for a provider that takes none."""
    try:
        return models.endpoint(provider).quirks.images == "leave_out"
    except BridleError:
        return False


async def _straight_on(step: Step, proceed: AskModel) -> Reply:
    return await proceed(step)
