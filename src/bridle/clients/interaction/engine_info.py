"""Facts of the engine for drawing: its models and commands, cached, and short ids of sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import msgspec

from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.queries import (
    DescribeSession,
    ListModels,
    ListProfiles,
    ListProviders,
    ListSlash,
    ModelEntry,
    ProviderEntry,
    SlashEntry,
)

PATIENCE_S: Final = 2.0
"""How long something that is only good to know may be waited for."""


class EngineInfo(msgspec.Struct):
    """The commands the engine has, the profiles, the models that were asked about, and the providers with keys."""

    prompts: tuple[SlashEntry, ...] = ()
    profiles: tuple[str, ...] = ()
    models: dict[str, ModelEntry] = {}
    providers: tuple[ProviderEntry, ...] = ()

    async def learn_commands(self, connection: Connection, session: str) -> None:
        """What `/` offers; nothing where that is not for this client, which may be there to answer alone."""
        with suppress(CommandRefused):
            self.prompts = (await connection.ask(ListSlash(session=session))).commands

    async def learn_profiles(self, connection: Connection, session: str) -> None:
        """What Tab offers behind `/profiles:`."""
        with suppress(CommandRefused):
            self.profiles = (await connection.ask(ListProfiles(session=session))).profiles

    async def learn_models(self, connection: Connection, session: str, names: Iterable[str]) -> None:
        """Asks anew: what a server says of its models may be known since the last request only."""
        wanted = tuple(sorted(set(filter(None, names))))
        if wanted:
            with suppress(CommandRefused, TimeoutError):  # it has ended meanwhile, or is out of reach
                async with asyncio.timeout(PATIENCE_S):
                    found = await connection.ask(ListModels(session=session, names=wanted))
                self.models.update((entry.model, entry) for entry in found.models)

    async def learn_providers(self, connection: Connection, session: str, names: Iterable[str]) -> None:
        """Where the keys of these providers and of others come from; nothing where that cannot be seen."""
        with suppress(BridleError):
            found = await connection.ask(ListProviders(session=session, names=tuple(names)))
            self.providers = found.providers

    def key_words(self, provider: str) -> str:
        """Where the key of a provider comes from, and which others are there to switch to; empty without one."""
        sources = {entry.name: entry.key_from for entry in self.providers if entry.key_from}
        own = sources.pop(provider, None)
        if own is None:
            return ""
        others = ", ".join(dict.fromkeys(sources.values()))
        return f"key from {own}" + (f" (also found: {others}; switch with /model)" if others else "")

    def is_local(self, model: str) -> bool:
        """Whether the model runs on this machine, so that nobody is paid for it."""
        return model in self.models and self.models[model].local

    def window_of(self, model: str) -> int | None:
        return self.models[model].context_tokens if model in self.models else None


async def short_id(connection: Connection, session: str) -> str:
    """Return a beginning of a session's id that names no other, or all of it where the engine does not answer."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return (await connection.ask(DescribeSession(session=session))).session.short_id
    except (BridleError, TimeoutError):
        return session.removeprefix("sess_")
