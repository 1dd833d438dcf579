"""What is known of the models of a session: what each can do and what it costs.

The catalogue is read when the first question is asked, never at start-up. Only a provider that a person has chosen is
asked anything: a server on this machine for the context it serves, a vendor that publishes prices for them, once a
day.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from bridle.base.clock import Clock, iso_ms
from bridle.base.fs import files
from bridle.protocol.errors import BridleError, CommandRefused, ProviderError
from bridle.protocol.events import CostIncremented, ModelChanged, PrefixSet
from bridle.protocol.messages import Usage
from bridle.providers import DEMO
from bridle.providers.capability_check import ServedModel
from bridle.providers.endpoints import Endpoint
from bridle.providers.model_directory import Models
from bridle.providers.model_listing import FREE, UNKNOWN, ModelFacts, ModelInfo

# The snapshot is data (`catalogue.json`): a few dozen models, each price as of its date. A listing that was
# fetched is kept in the state folder and counts for a day; after that it is still better than nothing, and
# fetched again when somebody asks. Nothing here asks anybody.


TTL_MS: Final = 24 * 3600 * 1000
_MAX_BYTES: Final = 16 * 1024 * 1024


class Snapshot(msgspec.Struct, frozen=True):
    """The models that come with Bridle, by provider; `date` is when their prices were looked up."""

    date: str
    models: Mapping[str, Mapping[str, ModelFacts]]


class KeptListing(msgspec.Struct, frozen=True, kw_only=True):
    """A listing as a provider gave it, and when. Another address is another provider."""

    base_url: str
    fetched_ms: int
    models: tuple[ModelInfo, ...]


class HeardFacts(msgspec.Struct, frozen=True):
    """What providers said: the last listing of each, and what servers on this machine said of a model at an address."""

    kept: dict[str, KeptListing | None] = {}
    looked: dict[tuple[str, str, str], ModelFacts] = {}


@functools.cache
def snapshot() -> Snapshot:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "catalogue.json")
    return msgspec.json.decode(files.read_limited(path, _MAX_BYTES).data, type=Snapshot)


class Catalogue:
    """Facts by provider and model. `folder` is where listings are kept; nothing is written before one is.

    `said` are a person's own words on models, by `provider:model`; `heard` is what others with other words share.
    """

    def __init__(
        self,
        folder: str,
        *,
        now_ms: Callable[[], int],
        said: Mapping[str, ModelFacts] | None = None,
        heard: HeardFacts | None = None,
    ) -> None:
        self._folder = folder
        self._now_ms = now_ms
        self._said = said or {}
        self._heard = heard or HeardFacts()
        self._kept, self._looked = self._heard.kept, self._heard.looked

    def with_settings(self, sections: Mapping[str, Mapping[str, Any]]) -> Catalogue:
        """The same with what a person says in `[models."PROVIDER:MODEL"]` sections; what was listed is shared.

        Raises `ValueError` with one clause for a wrong one.
        """
        said = {name: _said(name, section) for name, section in sections.items()}
        return Catalogue(self._folder, now_ms=self._now_ms, said=said, heard=self._heard)

    def facts(self, endpoint: Endpoint, model: str) -> ModelFacts:
        """What is known of a model. A person's word counts most, then its server's, the listing, the snapshot."""
        known = FREE if endpoint.local else snapshot().models.get(endpoint.name, {}).get(model, UNKNOWN)
        kept = self.kept(endpoint)
        if kept is not None:
            listed = next((info for info in kept.models if info.name == model), None)
            known = known if listed is None else known.behind(listed)
        looked = self._looked.get((endpoint.name, endpoint.base_url, model))
        known = known if looked is None else known.behind(looked)
        said = self._said.get(f"{endpoint.name}:{model}")
        return known if said is None else known.corrected(said)

    def merged(self, endpoint: Endpoint, listed: ModelInfo) -> ModelInfo:
        """A listed model with what else is known of it. What the server says now goes before what it once said."""
        known = self.facts(endpoint, listed.name).behind(listed)
        said = self._said.get(f"{endpoint.name}:{listed.name}")
        return listed.behind(known if said is None else known.corrected(said))

    def models(self, endpoint: Endpoint) -> tuple[ModelInfo, ...]:
        """The models of a provider that are known without asking it, newest listing or else the snapshot."""
        kept = self.kept(endpoint)
        if kept is not None:
            return tuple(self.merged(endpoint, info) for info in kept.models)
        names = dict.fromkeys((*snapshot().models.get(endpoint.name, {}), *endpoint.models))
        return tuple(self.merged(endpoint, ModelInfo(name=name)) for name in names)

    def kept(self, endpoint: Endpoint) -> KeptListing | None:
        """The last listing of a provider at this address, however old."""
        if endpoint.name not in self._kept:
            self._kept[endpoint.name] = self._read(endpoint.name)
        kept = self._kept[endpoint.name]
        return kept if kept is not None and kept.base_url == endpoint.base_url else None

    def is_fresh(self, kept: KeptListing) -> bool:
        return 0 <= self._now_ms() - kept.fetched_ms < TTL_MS

    def keep(self, endpoint: Endpoint, models: Sequence[ModelInfo]) -> None:
        """Keeps a listing for the next time. Where it cannot be written, it holds for this process."""
        kept = KeptListing(base_url=endpoint.base_url, fetched_ms=self._now_ms(), models=tuple(models))
        self._kept[endpoint.name] = kept
        with contextlib.suppress(OSError):
            files.private_folder(self._folder)
            files.write_atomic(self._path(endpoint.name), msgspec.json.encode(kept), durable=False)

    def learn(self, endpoint: Endpoint, model: str, facts: ModelFacts) -> None:
        """What a server on this machine said of a model just now; for this process only."""
        self._looked[endpoint.name, endpoint.base_url, model] = facts

    def _read(self, provider: str) -> KeptListing | None:
        try:
            return msgspec.json.decode(
                files.read_limited(self._path(provider), _MAX_BYTES).data, type=KeptListing
            )
        except (OSError, msgspec.MsgspecError):
            return None

    def _path(self, provider: str) -> str:
        """People choose the names of providers; a file name takes not every one."""
        name = provider if provider.isascii() and provider.isalnum() else None
        return os.path.join(
            self._folder, f"{name or hashlib.sha256(provider.encode()).hexdigest()[:24]}.json"
        )


def _said(name: str, section: Mapping[str, Any]) -> ModelFacts:
    try:
        return msgspec.convert(dict(section), ModelFacts)
    except msgspec.ValidationError as problem:
        raise ValueError(f'[models."{name}"]: {problem}') from None


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
        self, models: Models, shared: Callable[[], Catalogue], sections: Mapping[str, Mapping[str, Any]]
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
