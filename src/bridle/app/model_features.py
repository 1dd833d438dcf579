"""The features about models and money. What they need is loaded where it has something to do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bridle.app.session_parts import SessionParts
from bridle.context.compaction_layer import OUTPUT_RESERVE, SUMMARY_TIMEOUT_S, Compactor, CompactorNeeds
from bridle.context.compaction_layer import compaction as compaction_of
from bridle.engine.features import Feature, PlacedRequestLayer
from bridle.engine.side_question import ask_aside
from bridle.engine.steps import AskModel, Reply, RequestLayer, Step
from bridle.protocol.errors import BridleError
from bridle.protocol.events import PrefixSet
from bridle.protocol.messages import Usage
from bridle.providers.model_directory import DEMO, Models
from bridle.providers.retry import retry

if TYPE_CHECKING:
    from bridle.providers.known_models import KnownModels


def budget(parts: SessionParts) -> Feature:
    """What a session may cost, if that is limited: asked about outside of everything, stopped right at the request."""
    cap_usd, known = parts.settings.usd_per_session, parts.services.known
    if cap_usd is None:
        return Feature(name="budget")
    from bridle.safety.budget import Budget

    limit = Budget(
        cap_usd,
        price_of=known.price_of,
        answer_limit=known.answer_limit,
        cheaper=known.cheaper,
        named=parts.services.models.named,
        ask=parts.questions.ask,
    )
    return Feature(
        name="budget",
        request_layers=(
            PlacedRequestLayer("budget", limit.layer),
            PlacedRequestLayer("stop_over_budget", limit.gate),
        ),
    )


def models(parts: SessionParts) -> Feature:
    """Goes on with another model where the chosen one is overloaded, looks what it can do, and tries again."""
    services, fallback_model = parts.services, parts.settings.fallback_model
    layers = [
        PlacedRequestLayer("check_capabilities", _check_capabilities(services.models, services.known)),
        PlacedRequestLayer("retry", retry(clock=services.clock, random=_random)),
    ]
    if fallback_model is not None:
        from bridle.providers.fallback import fallback

        layers.append(PlacedRequestLayer("fallback", fallback(fallback_model, named=services.models.named)))
    return Feature(name="models", request_layers=tuple(layers))


def compaction(parts: SessionParts) -> Feature:
    """One compactor for requests, for refusals and for `/compact`."""
    settings, journal, known = parts.settings, parts.journal, parts.services.known
    hooks = parts.watching

    def affordable(prefix: PrefixSet, tokens: int) -> bool:
        """A summary that could go beyond the budget, or whose price nobody knows, is written without the model."""
        cap = settings.usd_per_session
        if cap is None:
            return True
        usage = Usage(input_tokens=tokens, output_tokens=prefix.parameters.max_tokens or OUTPUT_RESERVE)
        could = known.price_of(prefix.provider, prefix.model, usage)
        return could is not None and journal.conversation.spent_usd + could <= cap

    around = CompactorNeeds(
        window_of=lambda provider, model: known.window_of(f"{provider}:{model}"),
        ask=ask_aside(
            provider=parts.services.models.provider,
            clock=parts.services.clock,
            cost_of=known.cost_of,
            emit=journal.emit,
            timeout_s=SUMMARY_TIMEOUT_S,
        ),
        affordable=affordable,
        about_to=hooks.compacting if hooks is not None else None,
        warns=settings.options.on_ask == "wait",
    )
    return compaction_of(Compactor(journal, settings.compaction, around))


def _check_capabilities(models: Models, known: KnownModels) -> RequestLayer:
    """Looks whether a model can do what is asked of it. The scripted one can."""
    made: RequestLayer | None = None

    async def layer(step: Step, proceed: AskModel) -> Reply:
        nonlocal made
        prefix = step.journal.conversation.prefix
        if prefix is None or prefix.provider == DEMO:
            return await proceed(step)
        if made is None:
            from bridle.providers.capability_check import check_capabilities as layer

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


def _random() -> float:
    """Uniform in [0, 1). The `random` module would cost more to import than it gives here."""
    return int.from_bytes(os.urandom(6), "big") / 2**48
