"""The first start without a model: what there is to choose from, asked in plain lines.

Nothing leaves the machine before a person chose. Servers on this machine are looked for, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bridle.base.phrases import counted
from bridle.base.visible import visible
from bridle.clients.interaction.cells import width_of, wrapped
from bridle.protocol.errors import BridleError
from bridle.providers.model_directory import Models

if TYPE_CHECKING:
    from bridle.providers.endpoints import Endpoint
    from bridle.providers.local_servers import LocalServer
    from bridle.providers.model_listing import ModelInfo

DEMO = "demo"
PASTE = "paste"
LEAVE = None
SHOWN_MODELS = 20
_INDENT = " " * 6
SMALL_CONTEXT = 16 * 1024

Ask = Callable[[str], str]
"""Shows a prompt and returns the line that was typed; raises EOFError when there will be none."""
Say = Callable[[str], None]


async def choose_model(models: Models, ask: Ask, show: Say, *, columns: int = 0) -> str | None:
    """`provider:model`, `demo`, or None when the person leaves. Columns of zero mean endless ones."""

    def say(line: str) -> None:
        for row in _rows(line, columns):
            show(row)

    servers = await models.local_servers()
    await models.look_for_stored()
    keyed = models.with_keys()
    usable = [server for server in servers if any(model.can_chat for model in server.models)]
    if len(usable) == 1 and not keyed:  # one way stands open, and it is on this machine
        return _pick_local(usable[0], ask, say)
    options = _options(servers, [(endpoint, models.key_source(endpoint)) for endpoint in keyed])
    say("No model is connected yet, and nothing has been sent anywhere.")
    say("")
    for number, (_, name, detail) in enumerate(options, 1):
        say(f"  {number}  {name:<24} {detail}")
    say("")
    choice = _option(len(options), ask, say)
    if choice is None:
        return LEAVE
    return await _chosen(options[choice - 1][0], models, servers, keyed, ask, say)


def _option(most: int, ask: Ask, say: Say) -> int | None:
    """The number of an option; None when the person leaves. A slip is neither, and is asked about again."""
    while (typed := ask(f"1-{most}, or q to leave [{most}] › ").strip()).lower() not in ("q", "quit"):
        if (number := _number(typed, most, most)) is not None:
            return number
        say(f'"{visible(typed, newlines=False)}" is none of them.')
    return None


def _rows(line: str, columns: int) -> list[str]:
    """A line as it fits: one in columns has what it means below its name."""
    name = re.match(r" +\d+  \S+( \S+)*", line)
    if name is None or columns <= 0 or width_of(line) <= columns:
        return list(wrapped(line, columns))
    detail = "   ".join(re.split(r"  +", line[name.end() :].strip()))
    return [name[0], *wrapped(f"{_INDENT}{detail}", columns, indent=_INDENT)]


def _options(
    servers: Sequence[LocalServer], keyed: Sequence[tuple[Endpoint, str | None]]
) -> list[tuple[str, str, str]]:
    """What can be chosen: a word for it, its name, and what it means."""
    options: list[tuple[str, str, str]] = []
    for server in servers:
        count = counted(sum(model.can_chat for model in server.models), "model")
        name = server.endpoint.name
        options.append((f"local:{name}", f"Use {server.endpoint.title}", f"running here with {count}"))
    options += [
        (f"key:{endpoint.name}", f"Use {endpoint.title or endpoint.name}", f"its key is in {source}")
        for endpoint, source in keyed
    ]
    if not keyed:
        options.append((PASTE, "Paste an API key", "stored encrypted on this machine"))
    if not servers:
        options.append(
            ("local-howto", "Use a local server", "Ollama, LM Studio, llama.cpp, vLLM (none found running)")
        )
    return [
        *options,
        (DEMO, "See the demo", "a scripted model works in a scratch folder: no key, no network"),
    ]


def _pick_local(server: LocalServer, ask: Ask, say: Say) -> str | None:
    say(f"Found {server.endpoint.title} on this machine with {counted(len(server.models), 'model')}.")
    return pick(server.endpoint.name, server.models, ask, say)


async def _chosen(
    choice: str,
    models: Models,
    servers: Sequence[LocalServer],
    keyed: Sequence[Endpoint],
    ask: Ask,
    say: Say,
) -> str | None:
    kind, _, name = choice.partition(":")
    match kind:
        case "local":
            server = next(server for server in servers if server.endpoint.name == name)
            return pick(name, server.models, ask, say)
        case "key":
            try:
                listed = await models.chat(name).models()
            except BridleError as failure:
                say(visible(failure.message))
                return LEAVE
            return pick(name, listed, ask, say)
        case "paste":
            return await _pasted(models, ask, say)
        case "local-howto":
            say("Start one of them (for instance: ollama serve), then start bridle again.")
            return LEAVE
        case _:
            return DEMO


async def _pasted(models: Models, ask: Ask, say: Say) -> str | None:
    """A key that is stored once it has shown that it is good, and a model to use it for."""
    from bridle.cli.connect_provider import chosen_provider, connectable, listed_with, pasted_key

    name = chosen_provider(connectable(models), {}, ask, say)
    if name is None or models.stored is None:
        return LEAVE
    endpoint = models.endpoint(name)
    try:
        key = pasted_key(endpoint)
        listed = await listed_with(models, endpoint, key)
        models.stored.store.put(key)
    except BridleError as failure:
        say(visible(failure.message))
        say("Nothing was stored.")
        return LEAVE
    say("Stored.")
    return pick(name, listed, ask, say)


def pick(provider: str, listed: Sequence[ModelInfo], ask: Ask, say: Say) -> str | None:
    """A model out of a list, by its number or its name. Those that cannot chat stand last."""
    models = sorted(listed, key=lambda model: not model.can_chat)
    if not models or not models[0].can_chat:
        say(f"{provider} lists no model that can chat.")
        return LEAVE
    say("")
    shown = models[:SHOWN_MODELS]
    width = min(max(len(visible(model.name, newlines=False)) for model in shown), 40)
    for number, model in enumerate(shown, 1):
        say(f"  {number:>2}  {visible(model.name, newlines=False):<{width}}   {_facts(model)}".rstrip())
    if len(models) > SHOWN_MODELS:
        say(f"      … {len(models) - SHOWN_MODELS} more; any name will do")
    say("")
    while True:
        typed = ask("Use which? [1] › ").strip()
        if typed.lower() in ("q", "quit"):
            return LEAVE
        number = _number(typed, 1, len(models))
        name = typed if number is None else models[number - 1].name
        if any(model.name == name and not model.can_chat for model in models):
            say(f"{visible(name, newlines=False)} cannot chat.")
            continue
        return f"{provider}:{name}"


def _facts(model: ModelInfo) -> str:
    if not model.can_chat:
        return "cannot chat"
    context, size = model.context_tokens, model.size_bytes
    facts = [
        _context_words(model),
        "" if size is None else f"{f'{size / 1e9:.0f} GB':>6}",
        "small context: long tasks will be summarised often" if context and context < SMALL_CONTEXT else "",
    ]
    return "   ".join(filter(None, facts))


def _context_words(model: ModelInfo) -> str:
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
