"""What is known of the models of one process: what each can do and what it costs.

The catalogue is read when the first question is asked, never at start-up. Only a provider that a person has chosen is
asked anything: a server on this machine for the context it serves, a vendor that publishes prices for those, once a day.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bridle.app.models import DEMO, Models
from bridle.base.clock import Clock
from bridle.protocol.errors import BridleError
from bridle.protocol.events import PrefixSet
from bridle.protocol.messages import Usage

if TYPE_CHECKING:
    from bridle.providers.capable import Served
    from bridle.providers.catalogue import Catalogue
    from bridle.providers.endpoints import Endpoint
    from bridle.providers.facts import ModelFacts

ANSWER_TOKENS = 8192
"""How long an answer may be where nobody says."""


class KnownModels:
    """Facts by provider and model, from settings, listings and the snapshot."""

    def __init__(self, models: Models, *, state: str, clock: Clock) -> None:
        self._models = models
        self._state = state
        self._clock = clock
        self._sections: dict[str, Mapping[str, Any]] = {}
        self._catalogue: Catalogue | None = None

    def configure(self, sections: Mapping[str, Mapping[str, Any]]) -> None:
        """Takes in `[models."PROVIDER:MODEL"]` sections; a later word on a name replaces an earlier one."""
        self._sections.update(sections)
        if self._catalogue is not None:
            self._catalogue.configure(sections)

    @property
    def catalogue(self) -> Catalogue:
        if self._catalogue is None:
            from bridle.providers.catalogue import Catalogue

            folder = os.path.join(self._state, "models")
            self._catalogue = Catalogue(folder, now_ms=self._clock.now_ms)
            self._catalogue.configure(self._sections)
        return self._catalogue

    def facts(self, provider: str, model: str) -> ModelFacts:
        return self.catalogue.facts(self._endpoint(provider), model)

    def price_of(self, provider: str, model: str, usage: Usage) -> float | None:
        """What this usage costs in dollars; None where nobody knows. What runs on this machine costs nothing."""
        return 0.0 if provider == DEMO else self.facts(provider, model).cost(usage)

    def window_of(self, name: str) -> int | None:
        """How many tokens the model `provider:model` takes, where that is known."""
        provider, _, model = name.partition(":")
        return None if provider == DEMO else self.facts(provider, model).context_tokens

    def answer_limit(self, prefix: PrefixSet) -> int:
        """How many tokens an answer may have when the request sets no limit of its own."""
        endpoint = self._endpoint(prefix.provider)
        most = self.catalogue.facts(endpoint, prefix.model).max_output_tokens
        if endpoint.wire == "anthropic":  # its requests always carry a limit
            from bridle.providers.anthropic import default_max_tokens

            sent = default_max_tokens(prefix.parameters.effort)
            return sent if most is None else min(sent, most)
        return most or ANSWER_TOKENS

    def cheaper(self, provider: str, model: str) -> str | None:
        """A model of the same vendor at half the price or less, the dearest of those; None where none is known."""
        endpoint = self._endpoint(provider)
        now = self.catalogue.facts(endpoint, model)
        family = model.rpartition("/")[0]
        best: tuple[float, str] | None = None
        for info in self.catalogue.models(endpoint):
            paid_in, paid_out = info.price_in, info.price_out
            if None in (now.price_in, now.price_out, paid_in, paid_out) or info.tools is False:
                continue
            assert now.price_in is not None and now.price_out is not None  # noqa: PT018  one question
            assert paid_in is not None and paid_out is not None  # noqa: PT018
            fits = paid_in <= now.price_in / 2 and paid_out <= now.price_out / 2
            if fits and info.name.rpartition("/")[0] == family and (best is None or paid_out > best[0]):
                best = (paid_out, info.name)
        return None if best is None else f"{provider}:{best[1]}"

    async def look(self, provider: str, model: str) -> Served | None:
        """Asks whoever can say more about a model that is about to be used; None where nothing new was said."""
        if provider == DEMO:
            return None
        endpoint = self._endpoint(provider)
        if endpoint.local:
            from bridle.providers.capable import Served
            from bridle.providers.local_servers import look_at

            info = await look_at(endpoint, model, self._models.connections)
            if info is None:
                return None
            self.catalogue.learn(endpoint, model, info)
            return Served(title=endpoint.title, info=info, how=endpoint.context_hint)
        if endpoint.lists_prices:
            await self._refresh_prices(endpoint)
        return None

    async def _refresh_prices(self, endpoint: Endpoint) -> None:
        """Once a day. Without a list the price is unknown, and the request goes on."""
        kept = self.catalogue.kept(endpoint)
        if kept is not None and self.catalogue.is_fresh(kept):
            return
        from bridle.providers.remote import HINT_TIMEOUTS

        try:
            listed = await self._models.chat(endpoint.name).models(HINT_TIMEOUTS)
        except BridleError:
            return
        self.catalogue.keep(endpoint, listed)

    def _endpoint(self, provider: str) -> Endpoint:
        """Its endpoint; one without an address for a provider that has none."""
        from bridle.providers.endpoints import Endpoint

        try:
            return self._models.endpoint(provider)
        except BridleError:
            return Endpoint(name=provider, base_url="")
