"""Ask for a provider and its key, and check the key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from bridle.base.clock import SystemClock
from bridle.base.text.terminal_text import visible
from bridle.cli.hidden_input import secret_from
from bridle.credentials.records import ApiKey, Credential, secret_of
from bridle.protocol.errors import UsageError
from bridle.providers.endpoints import Endpoint, is_usable_key
from bridle.providers.model_directory import Models
from bridle.providers.model_listing import ModelInfo
from bridle.providers.remote import RemoteModel

Ask = Callable[[str], str]
"""Shows a prompt and returns the line that was typed; raises EOFError when there will be none."""
Say = Callable[[str], None]


class Connectable(Protocol):
    """A provider that a key is for, as a list shows it."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def key_env(self) -> str | None: ...


def chosen_provider(
    endpoints: Sequence[Connectable], env: Mapping[str, str], ask: Ask, say: Say
) -> str | None:
    """The provider a person picks from a list, by number, by name or by a part of it that fits only one.

    None when they leave.
    """
    shown = list(endpoints)
    while True:
        width = max((len(endpoint.name) for endpoint in shown), default=0)
        for number, endpoint in enumerate(shown, 1):
            variable = endpoint.key_env or ""
            note = f"{variable} (set)" if variable and env.get(variable) else variable
            name = visible(endpoint.name, newlines=False)
            say(f"  {number:>2}  {name:<{width}}   {endpoint.title or name:<16} {note}".rstrip())
        typed = ask("Which provider? (number, name or a part of it; q leaves) › ").strip()
        if typed.lower() in ("q", "quit", ""):
            return None
        if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(shown):
            return shown[int(typed) - 1].name
        fitting = [one for one in endpoints if typed.lower() in f"{one.name} {one.title}".lower()]
        exact = [one for one in fitting if one.name == typed]
        if exact or len(fitting) == 1:
            return (exact or fitting)[0].name
        if not fitting:
            say(f'No provider has "{visible(typed, newlines=False)}" in its name.')
        shown = fitting or list(endpoints)


def pasted_key(endpoint: Endpoint, *, account: str = "") -> ApiKey:
    """A key that a person pasted or piped in. Raises `UsageError` for what can be none."""
    secret = pasted_secret()
    return ApiKey(provider=endpoint.name, secret=secret, account=account, saved_ms=SystemClock().now_ms())


def pasted_secret() -> str:
    """The same, by itself."""
    secret = secret_from("Key (hidden) › ", what="key")
    if not is_usable_key(secret):
        raise UsageError("That is no key: it holds characters that no key has. Nothing was stored")
    return secret


async def listed_with(models: Models, endpoint: Endpoint, credential: Credential) -> tuple[ModelInfo, ...]:
    """The provider's models, asked for with this credential: what shows that it is good, and costs nothing."""
    secret = secret_of(credential)
    return await RemoteModel(endpoint, lambda: secret, models.connections).models()
