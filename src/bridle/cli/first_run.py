"""The first start without a model: what there is to choose from, asked in plain lines.

Nothing leaves the machine before a person chose. Servers on this machine are looked for, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bridle.app.models import Models
from bridle.base.visible import visible
from bridle.protocol.errors import BridleError

if TYPE_CHECKING:
    from bridle.providers.endpoints import Endpoint
    from bridle.providers.listing import ModelInfo
    from bridle.providers.local_servers import LocalServer

DEMO = "demo"
LEAVE = None
SHOWN_MODELS = 20

Ask = Callable[[str], str]
"""Shows a prompt and returns the line that was typed; raises EOFError when there will be none."""
Say = Callable[[str], None]


async def choose_model(models: Models, ask: Ask, say: Say) -> str | None:
    """`provider:model`, `demo`, or None when the person leaves."""
    servers = await models.local_servers()
    keyed = [endpoint for endpoint in models.with_keys() if endpoint.wire == "openai_chat"]
    say("No model is connected yet, and nothing has been sent anywhere.")
    say("")
    options: list[tuple[str, str, str]] = []
    for server in servers:
        chatting = [model for model in server.models if model.can_chat]
        count = f"{len(chatting)} model" + ("" if len(chatting) == 1 else "s")
        options.append(
            (f"local:{server.endpoint.name}", f"Use {server.endpoint.title}", f"running here with {count}")
        )
    options += [
        (f"key:{endpoint.name}", f"Use {endpoint.title}", f"its key is in {endpoint.key_env}")
        for endpoint in keyed
    ]
    if not keyed:
        options.append(("howto", "Use a key", "put it into the environment and start again"))
    if not servers:
        options.append(
            ("local-howto", "Use a local server", "Ollama, LM Studio, llama.cpp, vLLM (none found running)")
        )
    options.append((DEMO, "See the demo", "a scripted model works in a scratch folder: no key, no network"))
    for number, (_, name, detail) in enumerate(options, 1):
        say(f"  {number}  {name:<24} {detail}")
    say("")
    choice = _number(ask(f"1-{len(options)}, or q to leave [{len(options)}] › "), len(options), len(options))
    if choice is None:
        return LEAVE
    return await _chosen(options[choice - 1][0], models, servers, keyed, ask, say)


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
            return _pick(name, server.models, ask, say)
        case "key":
            try:
                listed = await models.chat(name).models()
            except BridleError as failure:
                say(visible(failure.message))
                return LEAVE
            return _pick(name, listed, ask, say)
        case "howto":
            variables = ", ".join(endpoint.key_env for endpoint in _presets() if endpoint.key_env)
            say(f"Set one of these and start bridle again: {variables}")
            return LEAVE
        case "local-howto":
            say("Start one of them (for instance: ollama serve), then start bridle again.")
            return LEAVE
        case _:
            return DEMO


def _presets() -> Sequence[Endpoint]:
    from bridle.providers.presets import PRESETS

    return PRESETS


def _pick(provider: str, listed: Sequence[ModelInfo], ask: Ask, say: Say) -> str | None:
    """A model out of a list, by its number or its name."""
    chatting = [model for model in listed if model.can_chat]
    if not chatting:
        say(f"{provider} lists no model that can chat.")
        return LEAVE
    say("")
    for number, model in enumerate(chatting[:SHOWN_MODELS], 1):
        say(f"  {number:>2}  {visible(model.name, newlines=False):<36} {_facts(model)}".rstrip())
    if len(chatting) > SHOWN_MODELS:
        say(f"      … {len(chatting) - SHOWN_MODELS} more; any name will do")
    say("")
    typed = ask("Use which? [1] › ").strip()
    if typed.lower() in ("q", "quit"):
        return LEAVE
    if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(chatting):
        return f"{provider}:{chatting[int(typed) - 1].name}"
    return f"{provider}:{typed or chatting[0].name}"


def _facts(model: ModelInfo) -> str:
    facts: list[str] = []
    if model.context_tokens is not None:
        facts.append(f"{model.context_tokens // 1024}k context")
    if model.size_bytes is not None:
        facts.append(f"{model.size_bytes / 1e9:.0f} GB")
    return "   ".join(facts)


def _number(typed: str, default: int, most: int) -> int | None:
    """The number typed, the default for nothing; None for anything that is neither."""
    text = typed.strip()
    if not text:
        return default
    return int(text) if text.isascii() and text.isdigit() and 1 <= int(text) <= most else None
