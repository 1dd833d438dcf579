"""Connect a provider: ask for one and its key, and offer the choices of a first start without a model.

Nothing leaves the machine before the user chose. Servers on this machine are looked for, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol

from bridle.base.clock import SystemClock
from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible, visible_line
from bridle.cli.stdin import secret_from
from bridle.cli.verbs.rows import Env
from bridle.clients.interaction.cells import width_of, wrapped
from bridle.credentials.records import ApiKey, Credential, secret_of
from bridle.protocol.commands import ConnectProvider, CreateSession, SaveModel
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError, UsageError
from bridle.protocol.queries import ListModels, ListProviders, ModelEntry, ProviderEntry, ProviderList
from bridle.providers import DEMO
from bridle.providers.endpoints import Endpoint, is_usable_key
from bridle.providers.model_directory import Models
from bridle.providers.model_listing import ModelInfo
from bridle.providers.remote import RemoteModel


class Connectable(Protocol):
    """A provider that a key is for, as a list shows it."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def key_env(self) -> str | None: ...


def chosen_provider(endpoints: Sequence[Connectable], env: Env, ask: Ask, say: Say) -> str | None:
    """The provider a person picks from a list, by number, by name or by a part of it that fits only one.

    None when they leave.
    """
    shown = list(endpoints)
    while True:
        width = max((len(endpoint.name) for endpoint in shown), default=0)
        for number, endpoint in enumerate(shown, 1):
            variable = endpoint.key_env or ""
            note = f"{variable} (set)" if variable and env.get(variable) else variable
            name = visible_line(endpoint.name)
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
            say(f'No provider has "{visible_line(typed)}" in its name.')
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


DEMO_MODEL = ModelEntry(model=DEMO, local=True)
SHOWN_MODELS = 20
_INDENT = " " * 6
SMALL_CONTEXT = 16 * 1024

Ask = Callable[[str], str]
"""Shows a prompt and returns the line that was typed; raises EOFError when there will be none."""
Say = Callable[[str], object]


async def choose_model(
    connection: Connection,
    create: CreateSession,
    found: ProviderList,
    ask: Ask,
    show: Say,
    *,
    columns: int = 0,
) -> ModelEntry | None:
    """The model for a session like this, saved for later ones, or None when the person leaves.

    `found` are the servers and keys there are. `DEMO_MODEL` stands for the demo. Columns of zero mean endless ones.
    """

    def say(line: str) -> None:
        for row in _rows(line, columns):
            show(row)

    return await _FirstChoice(connection, create, ask, say).made(found)


class _FirstChoice:
    """What there is, and what a person does about it, through a connection alone."""

    def __init__(self, connection: Connection, create: CreateSession, ask: Ask, say: Say) -> None:
        self._connection = connection
        self._create = create
        self._ask = ask
        self._say = say

    async def made(self, found: ProviderList) -> ModelEntry | None:
        servers = [one for one in found.providers if one.running]
        keyed = [one for one in found.providers if one.key_from is not None]
        usable = [server for server in servers if any(model.can_chat for model in server.models)]
        if len(usable) == 1 and not keyed:  # one way stands open, and it is on this machine
            return await self._local(usable[0])
        options = _options(servers, keyed)
        self._say("No model is connected yet, and nothing has been sent anywhere.")
        self._say("")
        for number, (_, name, detail) in enumerate(options, 1):
            self._say(f"  {number}  {name:<24} {detail}")
        self._say("")
        choice = _option(len(options), self._ask, self._say)
        return None if choice is None else await self._chosen(options[choice - 1][0], servers)

    async def _chosen(self, choice: str, servers: Sequence[ProviderEntry]) -> ModelEntry | None:
        kind, _, name = choice.partition(":")
        match kind:
            case "local":
                server = next(server for server in servers if server.name == name)
                return await self._picked(name, server.models)
            case "key":
                return await self._listed(name)
            case "paste":
                return await self._pasted()
            case "local-howto":
                self._say("Start one of them (for instance: ollama serve), then start bridle again.")
                return None
            case _:
                return DEMO_MODEL

    async def _local(self, server: ProviderEntry) -> ModelEntry | None:
        self._say(f"Found {server.title} on this machine with {counted(len(server.models), 'model')}.")
        return await self._picked(server.name, server.models)

    async def _listed(self, provider: str) -> ModelEntry | None:
        try:
            listed = await self._connection.ask(
                ListModels(provider=provider, ask_provider=True, create=self._create)
            )
        except BridleError as failure:
            self._say(visible(failure.message))
            return None
        return await self._picked(provider, listed.models)

    async def _pasted(self) -> ModelEntry | None:
        """A key that is stored once it has shown that it is good, and a model to use it for."""
        found = await self._connection.ask(ListProviders(which="connectable", create=self._create))
        name = chosen_provider(found.providers, {}, self._ask, self._say)
        if name is None:
            return None
        try:
            key = pasted_secret()
            await self._connection.send(ConnectProvider(provider=name, key=key, create=self._create))
        except BridleError as failure:
            self._say(visible(failure.message))
            self._say("Nothing was stored.")
            return None
        self._say("Stored.")
        return await self._listed(name)

    async def _picked(self, provider: str, listed: Sequence[ModelEntry]) -> ModelEntry | None:
        """A model out of a list, which is that of later sessions too."""
        model = pick(provider, listed, self._ask, self._say)
        if model is not None:
            await self._connection.send(SaveModel(model=model.model, create=self._create))
        return model


def _option(most: int, ask: Ask, say: Say) -> int | None:
    """The number of an option; None when the person leaves. A slip is neither, and is asked about again."""
    while (typed := ask(f"1-{most}, or q to leave [{most}] › ").strip()).lower() not in ("q", "quit"):
        if (number := _number(typed, most, most)) is not None:
            return number
        say(f'"{visible_line(typed)}" is none of them.')
    return None


def _rows(line: str, columns: int) -> list[str]:
    """A line as it fits: one in columns has what it means below its name."""
    name = re.match(r" +\d+  \S+( \S+)*", line)
    if name is None or columns <= 0 or width_of(line) <= columns:
        return list(wrapped(line, columns))
    detail = "   ".join(re.split(r"  +", line[name.end() :].strip()))
    return [name[0], *wrapped(f"{_INDENT}{detail}", columns, indent=_INDENT)]


def _options(servers: Sequence[ProviderEntry], keyed: Sequence[ProviderEntry]) -> list[tuple[str, str, str]]:
    """What can be chosen: a word for it, its name, and what it means."""
    options: list[tuple[str, str, str]] = []
    for server in servers:
        count = counted(sum(model.can_chat for model in server.models), "model")
        options.append((f"local:{server.name}", f"Use {server.title}", f"running here with {count}"))
    options += [
        (f"key:{one.name}", f"Use {one.title or one.name}", f"its key is in {one.key_from}") for one in keyed
    ]
    if not keyed:
        options.append(("paste", "Paste an API key", "stored encrypted on this machine"))
    if not servers:
        options.append(
            ("local-howto", "Use a local server", "Ollama, LM Studio, llama.cpp, vLLM (none found running)")
        )
    return [
        *options,
        (DEMO, "See the demo", "a scripted model works in a scratch folder: no key, no network"),
    ]


def pick(provider: str, listed: Sequence[ModelEntry], ask: Ask, say: Say) -> ModelEntry | None:
    """A model out of a list, by its number or its name. Those that cannot chat stand last."""
    models = sorted(listed, key=lambda model: not model.can_chat)
    if not models or not models[0].can_chat:
        say(f"{provider} lists no model that can chat.")
        return None
    say("")
    shown = models[:SHOWN_MODELS]
    width = min(max(len(_name(model)) for model in shown), 40)
    for number, model in enumerate(shown, 1):
        say(f"  {number:>2}  {_name(model):<{width}}   {_facts(model)}".rstrip())
    if len(models) > SHOWN_MODELS:
        say(f"      … {len(models) - SHOWN_MODELS} more; any name will do")
    say("")
    while True:
        typed = ask("Use which? [1] › ").strip()
        if typed.lower() in ("q", "quit"):
            return None
        number = _number(typed, 1, len(models))
        named = ModelEntry(model=f"{provider}:{typed}", local=models[0].local)
        chosen = named if number is None else models[number - 1]
        known = next((model for model in models if model.model == chosen.model), chosen)
        if not known.can_chat:
            say(f"{_name(known)} cannot chat.")
            continue
        return known


def _name(model: ModelEntry) -> str:
    return visible_line(model.model.partition(":")[2])


def _facts(model: ModelEntry) -> str:
    if not model.can_chat:
        return "cannot chat"
    context, size = model.context_tokens, model.size_bytes
    facts = [
        _context_words(model),
        "" if size is None else f"{f'{size / 1e9:.0f} GB':>6}",
        "small context: long tasks will be summarised often" if context and context < SMALL_CONTEXT else "",
    ]
    return "   ".join(filter(None, facts))


def _context_words(model: ModelEntry) -> str:
    """What is served, else what the model could have."""
    if model.context_tokens is not None:
        return f"{f'{model.context_tokens // 1024}k context':>12}"
    longest = model.longest_context_tokens
    return "" if longest is None else f"up to {longest // 1024}k context"


def _number(typed: str, default: int, most: int) -> int | None:
    """The number typed, the default for nothing; None for anything that is neither."""
    text = typed.strip()
    if not text:
        return default
    return int(text) if text.isascii() and text.isdigit() and 1 <= int(text) <= most else None
