"""Features about models and cost: budget, retry, fallback, capability check."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bridle.app.session_parts import SessionParts
from bridle.context.compaction_layer import OUTPUT_RESERVE, SUMMARY_TIMEOUT_S, Compactor, CompactorNeeds
from bridle.context.compaction_layer import compaction as compaction_of
from bridle.engine.aside import aside_messages, ask_aside
from bridle.engine.features import Feature, PlacedRequestLayer
from bridle.engine.sizes import messages_tokens, prefix_tokens
from bridle.engine.steps import AskModel, Reply, RequestLayer, Step
from bridle.protocol.errors import BridleError
from bridle.protocol.events import PrefixSet, RequestPurpose
from bridle.protocol.messages import Usage
from bridle.providers import DEMO
from bridle.providers.capability_check import check_capabilities
from bridle.providers.model_directory import Models
from bridle.providers.retry import retry
from bridle.safety.budget import Budget, BudgetStop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridle.engine.aside import AnswerAside, AsideAnswer, AskAside
    from bridle.protocol.messages import Message
    from bridle.providers.known_models import KnownModels

ASIDE_TIMEOUT_S = 120.0
"""A question beside the work that takes longer than this is given up."""


def budget(parts: SessionParts) -> Feature:
    """What a session may cost, if that is limited: asked about outside of everything, stopped right at the request."""
    known = parts.services.known
    if parts.allowance is None:
        return Feature(name="budget")
    limit = Budget(
        parts.allowance,
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
    services, fallback_model = parts.services, parts.settings.chosen.fallback_model
    layers = [
        PlacedRequestLayer("check_capabilities", _check_capabilities(services.models, services.known)),
        PlacedRequestLayer("retry", retry(clock=services.clock, random=_random)),
    ]
    if fallback_model is not None:
        from bridle.providers.retry import fallback

        layers.append(PlacedRequestLayer("fallback", fallback(fallback_model, named=services.models.named)))
    return Feature(name="models", request_layers=tuple(layers))


def compaction(parts: SessionParts) -> Feature:
    """One compactor for requests, for refusals and for `/compact`."""
    settings, journal, known = parts.settings, parts.journal, parts.services.known
    hooks = parts.watching

    def affordable(prefix: PrefixSet, tokens: int) -> bool:
        """A summary that could go beyond the budget, or whose price nobody knows, is written without the model."""
        cap = settings.budget.usd_per_session
        could = _could_cost(parts, prefix, tokens)
        return cap is None or (could is not None and journal.conversation.spent_usd + could <= cap)

    around = CompactorNeeds(
        window_of=lambda provider, model: known.window_of(f"{provider}:{model}"),
        ask=asking_aside(parts, "summary", SUMMARY_TIMEOUT_S),
        affordable=affordable,
        about_to=hooks.compacting if hooks is not None else None,
        warns=settings.options.on_ask == "wait",
    )
    return compaction_of(Compactor(journal, settings.context, around))


def answer_aside(parts: SessionParts) -> AnswerAside:
    """`/btw`: one request with all of the conversation that leaves it as it is, where the budget has room for it."""
    journal, ask = parts.journal, asking_aside(parts, "side_question", ASIDE_TIMEOUT_S)

    async def answer(question: str) -> str:
        conversation = journal.conversation
        prefix, chosen = conversation.prefix, conversation.model
        assert chosen is not None, "a session is created with a model"
        if prefix is None or (prefix.provider, prefix.model) != (chosen.provider, chosen.model):
            prefix = PrefixSet(
                provider=chosen.provider,
                model=chosen.model,
                system=prefix.system if prefix is not None else "",
                tools=prefix.tools if prefix is not None else (),
            )
        messages = aside_messages(conversation, question)
        refuse_beyond_budget(parts, prefix, messages_tokens(messages) + prefix_tokens(prefix))
        return (await ask(prefix, messages)).text

    return answer


def asking_aside(parts: SessionParts, purpose: RequestPurpose, timeout_s: float) -> AskAside:
    services = parts.services

    async def ask(prefix: PrefixSet, messages: Sequence[Message]) -> AsideAnswer:
        asking = ask_aside(
            provider=services.models.provider,
            clock=services.clock,
            cost_of=services.known.cost_of,
            emit=parts.journal.emit,
            timeout_s=timeout_s,
            purpose=purpose,
        )
        return await asking(prefix, messages)

    return ask


def _could_cost(parts: SessionParts, prefix: PrefixSet, tokens: int) -> float | None:
    """What a request of so many tokens could cost with its answer; None where nobody knows."""
    usage = Usage(input_tokens=tokens, output_tokens=prefix.parameters.max_tokens or OUTPUT_RESERVE)
    return parts.services.known.price_of(prefix.provider, prefix.model, usage)


def refuse_beyond_budget(parts: SessionParts, prefix: PrefixSet, tokens: int) -> None:
    cap, spent = parts.settings.budget.usd_per_session, parts.journal.conversation.spent_usd
    if cap is None:
        return
    could = _could_cost(parts, prefix, tokens)
    if could is None:
        raise BudgetStop("PriceUnknown", prefix=prefix, cap=cap, spent=spent)
    if spent + could > cap:
        raise BudgetStop("BudgetExceeded", prefix=prefix, cap=cap, spent=spent, could=could)


def _check_capabilities(models: Models, known: KnownModels) -> RequestLayer:
    """Return the layer that checks whether a model can do what is asked of it. The scripted one can."""
    check = check_capabilities(
        look=known.look,
        facts_of=known.facts,
        leaves_images_out=lambda provider: _leaves_images_out(models, provider),
    )

    async def layer(step: Step, proceed: AskModel) -> Reply:
        prefix = step.journal.conversation.prefix
        if prefix is None or prefix.provider == DEMO:
            return await proceed(step)
        return await check(step, proceed)

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
