"""Known vendors, as data: one entry is one vendor, and adding one changes no code.

Nothing here is a default: a preset is used when a person names it, or when its key is in the environment.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from bridle.base.net.http_routes import parse_url
from bridle.providers.endpoints import API_KEY, BEARER, X_API_KEY, Auth, Endpoint, Quirks
from bridle.providers.provider_settings import EndpointSettings

_EFFORT: Final = {"low": "low", "medium": "medium", "high": "high", "max": "high"}
_BUDGET_MODELS: Final = (
    "claude-3*",
    "claude-*-4",
    "claude-*-4-[015]",
    "claude-*-4-[015]-*",
    "claude-*-4-20*",
)
"""Models from before the vendor let them choose how long they think; every later one chooses itself."""

_SCHEMALESS_MODELS: Final = ("gpt-3*", "gpt-4", "gpt-4-*", "chatgpt-*", "o1-mini*", "o1-preview*")
"""Models from before the vendor held answers to a schema."""
_SCHEMALESS_CLAUDES: Final = ("claude-[123]*", "claude-*-4-0", "claude-*-4-20*", "claude-*-4-0-*")

PRESETS: Final[tuple[Endpoint, ...]] = (
    Endpoint(
        name="openai",
        title="OpenAI",
        base_url="https://api.openai.com/v1",
        key_env="OPENAI_API_KEY",
        quirks=Quirks(
            max_tokens_field="max_completion_tokens",
            effort_words={**_EFFORT, "off": "minimal"},
            schemaless_models=_SCHEMALESS_MODELS,
        ),
    ),
    Endpoint(
        name="anthropic",
        title="Anthropic",
        wire="anthropic",
        base_url="https://api.anthropic.com",
        key_env="ANTHROPIC_API_KEY",
        auth=X_API_KEY,
        quirks=Quirks(budget_models=_BUDGET_MODELS, schemaless_models=_SCHEMALESS_CLAUDES),
    ),
    Endpoint(
        name="gemini",
        title="Google Gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai/",
        key_env="GOOGLE_API_KEY",
        quirks=Quirks(effort_words={**_EFFORT, "off": "none"}),
    ),
    Endpoint(
        name="openrouter",
        title="OpenRouter",
        base_url="https://openrouter.ai/api/v1",
        key_env="OPENROUTER_API_KEY",
        # How OpenRouter learns which program asks; it names the program, never the person.
        headers={"HTTP-Referer": "http://localhost/bridle", "X-Title": "Bridle"},
        quirks=Quirks(effort_words={**_EFFORT, "off": "none"}, cache_system=True),
        lists_prices=True,
    ),
    Endpoint(
        name="zai",
        title="Z.AI",
        base_url="https://api.z.ai/api/paas/v4",
        key_env="ZAI_API_KEY",
        models=("glm-4.6", "glm-4.5-air", "glm-z1"),
        quirks=Quirks(content_beside_calls="empty"),
    ),
    Endpoint(
        name="together", title="Together", base_url="https://api.together.xyz/v1", key_env="TOGETHER_API_KEY"
    ),
    Endpoint(
        name="groq",
        title="Groq",
        base_url="https://api.groq.com/openai/v1",
        key_env="GROQ_API_KEY",
        quirks=Quirks(effort_words=_EFFORT),
    ),
    # The address of an Azure resource is its owner's; `configured` fills it in.
    Endpoint(
        name="azure",
        title="Azure OpenAI",
        base_url="",
        key_env="AZURE_OPENAI_API_KEY",
        auth=API_KEY,
        quirks=Quirks(
            max_tokens_field="max_completion_tokens",
            effort_words={**_EFFORT, "off": "minimal"},
            schemaless_models=_SCHEMALESS_MODELS,
        ),
    ),
    Endpoint(
        name="ollama",
        title="Ollama",
        base_url="http://localhost:11434/v1",
        local=True,
        placeholder_key="ollama",
        start_hint="ollama serve",
        context_hint="OLLAMA_CONTEXT_LENGTH=32768, then restart Ollama",
        pull_hint="ollama pull {model}",
        quirks=Quirks(omit_temperature=True, omit_tool_choice=True, content_beside_calls="empty"),
    ),
    Endpoint(
        name="lmstudio",
        title="LM Studio",
        base_url="http://localhost:1234/v1",
        local=True,
        placeholder_key="lm-studio",
        start_hint="lms server start",
        context_hint="load the model again with a longer context",
    ),
    Endpoint(
        name="llamacpp",
        title="llama.cpp",
        base_url="http://localhost:8080/v1",
        local=True,
        placeholder_key="llamacpp",
        start_hint="llama-server -m MODEL.gguf",
        context_hint="llama-server -c 32768",
    ),
    Endpoint(
        name="vllm",
        title="vLLM",
        base_url="http://localhost:8000/v1",
        local=True,
        placeholder_key="vllm",
        start_hint="vllm serve MODEL",
        context_hint="vllm serve MODEL --max-model-len 32768",
    ),
)


USUAL_MODELS: Final[Mapping[str, str]] = {
    "anthropic": "claude-sonnet-4-5",
    "openai": "gpt-5.2",
    "gemini": "gemini-2.5-pro",
    "zai": "glm-4.6",
    "groq": "openai/gpt-oss-120b",
    "together": "meta-llama/Llama-3.3-70B-Instruct-Turbo",
}
"""What a person starts with who has a key and chose nothing; of several keys the first here."""


def preset(name: str, presets: Iterable[Endpoint] = PRESETS) -> Endpoint | None:
    return next((known for known in presets if known.name == name), None)


def key_variables(presets: Iterable[Endpoint] = PRESETS) -> tuple[str, ...]:
    """The environment variables a key may be in, in the order of the presets."""
    return tuple(dict.fromkeys(known.key_env for known in presets if known.key_env))


def with_keys(env: Mapping[str, str], presets: Iterable[Endpoint] = PRESETS) -> tuple[Endpoint, ...]:
    """The presets whose key is in this environment. An empty value is no key."""
    return tuple(
        known for known in presets if known.base_url and known.key_env and env.get(known.key_env, "").strip()
    )


def configured(name: str, settings: Mapping[str, object], presets: Iterable[Endpoint] = PRESETS) -> Endpoint:
    """The endpoint of a `[providers.NAME]` section, on top of the preset of that name if there is one.

    Raises `ValueError` with one clause that says what is wrong.
    """
    try:
        given = msgspec.convert(dict(settings), EndpointSettings)
    except msgspec.ValidationError as problem:
        raise ValueError(str(problem)) from None
    known = preset(name, presets) or Endpoint(name=name, title=name, base_url="")
    changes: dict[str, object] = {
        field: value
        for field in ("wire", "base_url", "key_env", "local", "first_part_s", "idle_s", "alive_s")
        if (value := getattr(given, field)) is not None
    }
    if given.quirks is not None:
        changes["quirks"] = _decode_quirks(given.quirks)
    if given.headers:
        changes["headers"] = {**known.headers, **given.headers}
    if given.auth is not None:
        changes["auth"] = BEARER if given.auth == "bearer" else Auth(given.auth)
    made = msgspec.structs.replace(known, **changes)
    try:
        parse_url(made.base_url)
    except ValueError as problem:
        raise ValueError(f"provider {name} needs a base_url: {problem}") from None
    return made


def _decode_quirks(table: Mapping[str, Any]) -> Quirks:
    try:
        return msgspec.convert(table, Quirks)
    except msgspec.ValidationError as problem:
        raise ValueError(f"quirks: {problem}") from None
