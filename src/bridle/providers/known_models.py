"""What is known of the models of a session: what each can do and what it costs.

The catalogue is read when the first question is asked, never at start-up. Only a provider that a person has chosen is
asked anything: a server on this machine for the context it serves, a vendor that publishes prices for them, once a
day.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from bridle.base.clock import Clock, iso_ms
from bridle.protocol.errors import BridleError, CommandRefused, ProviderError
from bridle.protocol.events import CostIncremented, ModelChanged, PrefixSet
from bridle.protocol.messages import Usage
from bridle.providers import DEMO
from bridle.providers.capability_check import ServedModel
from bridle.providers.catalogue import Catalogue, snapshot
from bridle.providers.endpoints import Endpoint
from bridle.providers.model_directory import Models
from bridle.providers.model_listing import ModelFacts, ModelInfo

ANSWER_TOKENS = 8192
"""How long an answer may be where nobody says."""


class Listed(msgspec.Struct, frozen=True):
    """The models of a provider. `note` says why they are not its own list of today, where they are not."""

    models: tuple[ModelInfo, ...]
    note: str = ""


class KnownModels:
    """Facts by provider and model, from settings, listings and the snapshot. `models` are those it is about.

    `sections` are the session's own `[models."PROVIDER:MODEL"]`; what is in `shared` is the same for every session.
    """

    def __init__(
        self,
        models: Models,
        shared: Callable[[], Catalogue],
        sections: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self.models = models
        self._shared = shared
        self._sections = sections
        self._endpoints: dict[str, Endpoint] = {}

    def with_models(self, models: Models, sections: Mapping[str, Mapping[str, Any]]) -> KnownModels:
        """What is known of a session's own models, by its own sections."""
        return KnownModels(models, self._shared, sections)

    @functools.cached_property
    def catalogue(self) -> Catalogue:
        return self._shared().with_settings(self._sections)

    def facts(self, provider: str, model: str) -> ModelFacts:
        return self.catalogue.facts(self._endpoint(provider), model)

    def price_of(self, provider: str, model: str, usage: Usage) -> float | None:
        """What this usage costs in dollars; None where nobody knows. What runs on this machine costs nothing."""
        return 0.0 if provider == DEMO else self.facts(provider, model).cost(usage)

    def cost_of(self, provider: str, model: str, usage: Usage) -> CostIncremented:
        """What a request with this usage came to."""
        local = provider == DEMO or self._endpoint(provider).local
        usd = self.price_of(provider, model, usage)
        return CostIncremented(provider=provider, model=model, usage=usage, usd=usd, local=local)

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
        now = _prices(self.catalogue.facts(endpoint, model))
        family = model.rpartition("/")[0]
        fitting = [
            (prices, info.name)
            for info in self.catalogue.models(endpoint)
            if info.tools is not False
            and info.name.rpartition("/")[0] == family
            and now is not None
            and (prices := _prices(info)) is not None
            and all(price <= half / 2 for price, half in zip(prices, now, strict=True))
        ]
        return f"{provider}:{max(fitting)[1]}" if fitting else None

    def choose(self, name: str, *, by_agent: bool = False, by_guest: bool = False) -> ModelChanged:
        """`Models.choose` for a name that may lack its provider."""
        return self.models.choose(self.full_name(name), by_agent=by_agent, by_guest=by_guest)

    def full_name(self, name: str) -> str:
        """`provider:model` for a bare name that one provider has which is set up; any other name as it is.

        Raises `CommandRefused` where several have it, or one that is not set up.
        """
        if name in ("", DEMO) or ":" in name or name in self.models.names():
            return name
        if "/" in name and name.partition("/")[0] in self.models.names():
            return name
        ready = self._having(name, self._set_up())
        if len(ready) == 1:
            return f"{ready[0]}:{name}"
        if ready:
            raise CommandRefused("AmbiguousModel", model=name, providers=", ".join(ready), first=ready[0])
        if others := self._having(name, self.models.names()):
            raise CommandRefused("ModelNotSetUp", model=name, providers=", ".join(others), first=others[0])
        return name

    def _having(self, name: str, providers: Iterable[str]) -> list[str]:
        """Those of the providers that have a model of this name, as far as anybody knows without asking."""
        return [
            provider
            for provider in providers
            if provider != DEMO
            and (f"{provider}:{name}" in self._sections or name in self._names_of(provider))
        ]

    def _names_of(self, provider: str) -> list[str]:
        return [info.name for info in self.catalogue.models(self._endpoint(provider))]

    def _set_up(self) -> list[str]:
        """The providers that somebody has configured, or whose key is at hand, or that run on this machine."""
        names = dict.fromkeys(self.models.configured)
        with contextlib.suppress(BridleError):
            names |= dict.fromkeys(endpoint.name for endpoint in self.models.with_keys())
        names |= dict.fromkeys(name for name in self.models.names() if self._endpoint(name).local)
        return list(names)

    def names_set_up(self) -> list[str]:
        """Every model of the providers that are set up, as far as anybody knows without asking."""
        return [
            *self._sections,
            *(f"{name}:{model}" for name in self._set_up() for model in self._names_of(name)),
        ]

    async def usable(self) -> list[tuple[Endpoint, ModelInfo]]:
        """Every model that can be asked now: those of servers on this machine, which are looked for, first."""
        found = [
            (server.endpoint, info)
            for server in await self.models.local_servers()
            for info in server.models
            if info.can_chat
        ]
        with contextlib.suppress(BridleError):
            await self.models.look_for_stored()
        seen = {endpoint.name for endpoint, _ in found}
        for name in self._set_up():
            endpoint = self._endpoint(name)
            if name not in seen and not endpoint.local and endpoint.base_url:
                found += [(endpoint, info) for info in self.catalogue.models(endpoint) if info.can_chat]
        return found

    async def listing(self, provider: str, *, refresh: bool = False) -> Listed:
        """What a provider lists: asked for once a day, or now with `refresh`. Never a paid call.

        Where it cannot be asked, what is known all the same; with `refresh`, or where that is nothing, the failure.
        """
        endpoint, catalogue = self.models.endpoint(provider), self.catalogue
        kept = catalogue.kept(endpoint)
        if kept is not None and catalogue.is_fresh(kept) and not refresh:
            return Listed(catalogue.models(endpoint))
        try:
            found = await self.models.chat(provider).models()
        except ProviderError as failure:
            known = catalogue.models(endpoint)
            if refresh or not known:
                raise
            return Listed(
                known, f"{failure.message} Not asked; this is what is known since {self._as_of(endpoint)}."
            )
        catalogue.keep(endpoint, found)
        return Listed(tuple(catalogue.merged(endpoint, info) for info in found))

    def _as_of(self, endpoint: Endpoint) -> str:
        kept = self.catalogue.kept(endpoint)
        return snapshot().date if kept is None else iso_ms(kept.fetched_ms)[:10]

    async def look(self, provider: str, model: str) -> ServedModel | None:
        """Asks whoever can say more about a model that is about to be used; None where nothing new was said."""
        if provider == DEMO:
            return None
        endpoint = self._endpoint(provider)
        if endpoint.local:
            from bridle.providers.local_servers import look_at

            info = await look_at(endpoint, model, self.models.connections)
            if info is not None:
                self.catalogue.learn(endpoint, model, info)
            # A server of one model answers to any name, so one that it does not list may still be served.
            served = info or ModelInfo(name=model)
            return ServedModel(title=endpoint.title, info=served, how=endpoint.context_hint)
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
            listed = await self.models.chat(endpoint.name).models(HINT_TIMEOUTS)
        except BridleError:
            return
        self.catalogue.keep(endpoint, listed)

    def _endpoint(self, provider: str) -> Endpoint:
        """Its endpoint; one without an address for a provider that has none."""
        if provider not in self._endpoints:
            try:
                self._endpoints[provider] = self.models.endpoint(provider)
            except BridleError:
                self._endpoints[provider] = Endpoint(name=provider, base_url="")
        return self._endpoints[provider]


def shared_catalogue(state: str, clock: Clock) -> Callable[[], Catalogue]:
    """What all sessions of a process know of models, made with the first question."""

    @functools.cache
    def catalogue() -> Catalogue:
        return Catalogue(os.path.join(state, "models"), now_ms=clock.now_ms)

    return catalogue


def _prices(facts: ModelFacts) -> tuple[float, float] | None:
    """What is paid for answers and for requests, where both are known."""
    if facts.price_in is None or facts.price_out is None:
        return None
    return facts.price_out, facts.price_in
