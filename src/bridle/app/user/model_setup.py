"""List providers and models, and save the user's choice."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from bridle.app.user.setting_sections import TABLE
from bridle.base.clock import Clock
from bridle.config.folders import Folders
from bridle.credentials.records import ApiKey
from bridle.protocol import queries as q
from bridle.protocol.commands import ConnectProvider, SaveModel
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.providers import DEMO
from bridle.providers.endpoints import Endpoint, is_usable_key
from bridle.providers.known_models import KnownModels
from bridle.providers.model_directory import Models
from bridle.providers.model_listing import ModelFacts, ModelInfo


async def model_entries(known: KnownModels, query: q.ListModels) -> tuple[q.ModelEntry, ...]:
    """What is known of models that were named, and of all of a provider: from its own list, where that is wanted."""
    named: list[tuple[str, str, ModelFacts]] = []
    for name in query.names:
        of, _, model = name.partition(":")
        named.append((name, of, ModelFacts() if of == DEMO else known.facts(of, model)))
    entries = [_entry(known.models, name, of, facts) for name, of, facts in named]
    provider = query.provider
    if provider is not None:
        if query.ask_provider:
            listed: Iterable[ModelInfo] = await known.models.chat(provider).models()
        else:
            listed = known.catalogue.models(known.models.endpoint(provider))
        entries += listed_entries(known.models, provider, listed)
    if query.usable:
        for endpoint, info in await known.usable():
            entries += listed_entries(known.models, endpoint.name, (info,))
    return tuple(entries)


def listed_entries(models: Models, provider: str, listed: Iterable[ModelInfo]) -> Iterator[q.ModelEntry]:
    """A provider's list as clients see it."""
    for info in listed:
        yield _entry(models, f"{provider}:{info.name}", provider, info)


def _entry(models: Models, name: str, provider: str, facts: ModelFacts | ModelInfo) -> q.ModelEntry:
    return q.ModelEntry(
        model=name,
        local=is_local(models, provider),
        context_tokens=facts.context_tokens,
        max_output_tokens=facts.max_output_tokens,
        tools=facts.tools,
        images=facts.images,
        price_in=facts.price_in,
        price_out=facts.price_out,
        price_cache_read=facts.price_cache_read,
        price_cache_write=facts.price_cache_write,
        can_chat=getattr(facts, "can_chat", True),
        longest_context_tokens=getattr(facts, "longest_context_tokens", None),
        size_bytes=getattr(facts, "size_bytes", None),
    )


async def provider_entries(known: KnownModels, query: q.ListProviders) -> tuple[q.ProviderEntry, ...]:
    """The providers a query asks for, each once."""
    models = known.models
    if query.which == "connectable":
        return tuple(_provider(models, endpoint) for endpoint in connectable(models))
    found: dict[str, q.ProviderEntry] = {}
    if query.which == "running":
        for server in await models.local_servers():
            name = server.endpoint.name
            found[name] = _provider(
                models,
                server.endpoint,
                running=True,
                listed=tuple(listed_entries(models, name, server.models)),
            )
        await models.look_for_stored()
    endpoints = [models.endpoint(name) for name in query.names if name != DEMO]
    for endpoint in (*endpoints, *models.with_keys()):
        found.setdefault(endpoint.name, _provider(models, endpoint))
    return tuple(found.values())


def _provider(
    models: Models, endpoint: Endpoint, *, running: bool = False, listed: tuple[q.ModelEntry, ...] = ()
) -> q.ProviderEntry:
    return q.ProviderEntry(
        name=endpoint.name,
        local=endpoint.local,
        key_from=models.key_source(endpoint),
        title=endpoint.title,
        key_env=endpoint.key_env,
        running=running,
        models=listed,
    )


def connectable(models: Models) -> list[Endpoint]:
    """Every provider that a key or an account is for."""
    found: list[Endpoint] = []
    for name in models.names():
        with contextlib.suppress(BridleError):
            found.append(models.endpoint(name))
    return [endpoint for endpoint in found if endpoint.needs_key]


def is_local(models: Models, provider: str) -> bool:
    """Whether a provider runs on this machine, so that nobody is paid for it."""
    try:
        return provider == DEMO or models.endpoint(provider).local
    except BridleError:
        return False


async def connect_provider(models: Models, command: ConnectProvider, clock: Clock) -> None:
    """Stores a key that the provider takes. Raises `BridleError` where it does not, and then nothing is stored."""
    from bridle.providers.remote import RemoteModel

    endpoint = models.endpoint(command.provider)
    if models.stored is None or not endpoint.needs_key:
        raise CommandRefused("NotSupported", what=f"A key for {command.provider}")
    if not is_usable_key(command.key):
        raise CommandRefused("BadCommand", kind="ConnectProvider", problem="no key has such characters")
    await RemoteModel(endpoint, lambda: command.key, models.connections).models()
    models.stored.store.put(
        ApiKey(provider=endpoint.name, secret=command.key, account="", saved_ms=clock.now_ms())
    )


def save_model(models: Models, command: SaveModel, where: Folders) -> None:
    """The model of new sessions, in the person's own settings, once it is there to be used."""
    from bridle.config.settings_writer import set_value

    models.choose(command.model)
    set_value(TABLE, where, "model", command.model)
