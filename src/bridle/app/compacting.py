"""The compactor of a session, put together: what the model takes, what may be spent, who is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.app.settings import SessionSettings
from bridle.base.clock import Clock
from bridle.context.compaction_layer import OUTPUT_RESERVE, SUMMARY_TIMEOUT_S, Compactor, Surroundings
from bridle.engine.journal import Journal
from bridle.engine.side_question import ask_aside
from bridle.protocol.events import PrefixSet
from bridle.protocol.messages import Usage
from bridle.providers.known_models import KnownModels
from bridle.providers.model_directory import Models

if TYPE_CHECKING:
    from bridle.safety.hooks.session_hooks import Hooks


def session_compactor(
    settings: SessionSettings,
    journal: Journal,
    *,
    models: Models,
    known: KnownModels,
    clock: Clock,
    hooks: Hooks | None,
) -> Compactor:
    """One compactor for requests, for refusals and for `/compact`."""

    def affordable(prefix: PrefixSet, tokens: int) -> bool:
        """A summary that could go beyond the budget, or whose price nobody knows, is written without the model."""
        cap = settings.usd_per_session
        if cap is None:
            return True
        usage = Usage(input_tokens=tokens, output_tokens=prefix.parameters.max_tokens or OUTPUT_RESERVE)
        could = known.price_of(prefix.provider, prefix.model, usage)
        return could is not None and journal.conversation.spent_usd + could <= cap

    return Compactor(
        journal,
        settings.compaction,
        Surroundings(
            window_of=lambda provider, model: known.window_of(f"{provider}:{model}"),
            ask=ask_aside(
                provider=models.provider,
                clock=clock,
                price_of=known.price_of,
                emit=journal.emit,
                timeout_s=SUMMARY_TIMEOUT_S,
            ),
            affordable=affordable,
            about_to=hooks.compacting if hooks is not None else None,
            warns=settings.options.on_ask == "wait",
        ),
    )
