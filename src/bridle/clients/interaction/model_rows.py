"""Models as a list to pick from: the name that commands take, the window, the price. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from bridle.base.phrases import window_words
from bridle.clients.interaction.choice_list import ChoiceList, ChoiceRow
from bridle.protocol.queries import ModelEntry


def model_list(models: Iterable[ModelEntry], current: str) -> ChoiceList:
    """The list, with the model in use first wherever it stands, then those of this machine, as they were given."""
    entries = sorted(models, key=lambda entry: (entry.model != current, not entry.local))
    rows = tuple(ChoiceRow(entry.model, entry.model, _about(entry, current)) for entry in entries)
    return ChoiceList(
        purpose="model",
        title="Models you can use now",
        rows=rows,
        enter="Enter takes it",
        below="Others: /model provider:model   Connect a provider: /login",
    )


def _about(entry: ModelEntry, current: str) -> str:
    window = entry.context_tokens
    facts = (
        "in use" if entry.model == current else "",
        "local" if entry.local else _price(entry),
        f"{window_words(window)} context" if window else "",
        "no tools" if entry.tools is False else "",
        "images" if entry.images else "",
    )
    return " · ".join(filter(None, facts))


def _price(entry: ModelEntry) -> str:
    if entry.price_in is None or entry.price_out is None:
        return "price unknown"
    return f"${entry.price_in:.4g} in, ${entry.price_out:.4g} out per million"
