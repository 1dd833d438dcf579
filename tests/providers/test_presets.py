"""Vendors as data: addresses, keys, headers, and what a person's own settings change."""

import json

import pytest

from bridle.base.clock import SystemClock
from bridle.base.net.http import HttpConnections
from bridle.conformance.servers import MODELS, ModelServer
from bridle.engine.ports import ModelAlive, ModelDone, ModelRequest, ModelText
from bridle.protocol.events import PrefixSet
from bridle.protocol.messages import Message, Parameters, TextBlock
from bridle.providers.endpoints import API_KEY, BEARER, Auth, Endpoint, Quirks, WireName, inferred_auth
from bridle.providers.model_directory import Models
from bridle.providers.presets import PRESETS, configured, key_variables, preset, with_keys
from bridle.providers.remote import RemoteModel
from bridle.providers.script import say
from bridle.providers.wires import dialect
from tables import table

ADDRESSES = {
    "openai": ("https://api.openai.com/v1/chat/completions", "OPENAI_API_KEY"),
    "gemini": ("https://generativelanguage.googleapis.com/v1beta/openai/chat/completions", "GOOGLE_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1/chat/completions", "OPENROUTER_API_KEY"),
    "zai": ("https://api.z.ai/api/paas/v4/chat/completions", "ZAI_API_KEY"),
    "together": ("https://api.together.xyz/v1/chat/completions", "TOGETHER_API_KEY"),
    "groq": ("https://api.groq.com/openai/v1/chat/completions", "GROQ_API_KEY"),
    "ollama": ("http://localhost:11434/v1/chat/completions", None),
    "lmstudio": ("http://localhost:1234/v1/chat/completions", None),
    "vllm": ("http://localhost:8000/v1/chat/completions", None),
    "llamacpp": ("http://localhost:8080/v1/chat/completions", None),
}


def known(name: str) -> Endpoint:
    found = preset(name)
    assert found is not None
    return found


@pytest.mark.requirement("D8.15")
@table("name", ADDRESSES)
def test_a_preset_knows_its_address_and_where_its_key_is(name: str) -> None:
    endpoint = known(name)
    assert (endpoint.url("chat/completions"), endpoint.key_env) == ADDRESSES[name]
    assert endpoint.wire == "openai_chat"
    assert endpoint.local == (endpoint.key_env is None)
    assert endpoint.needs_key != endpoint.local


def test_presets_have_names_of_their_own() -> None:
    names = [endpoint.name for endpoint in PRESETS]
    assert len(set(names)) == len(names)
    assert {*ADDRESSES, "anthropic", "azure"} == set(names)
    assert all(endpoint.title for endpoint in PRESETS)
    assert preset("nobody") is None


@pytest.mark.requirement("D8.6")
def test_the_table_of_vendors_and_local_servers_is_whole() -> None:
    addresses = {endpoint.name: (endpoint.base_url, endpoint.key_env) for endpoint in PRESETS}
    assert addresses == {
        "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
        "anthropic": ("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
        "gemini": ("https://generativelanguage.googleapis.com/v1beta/openai/", "GOOGLE_API_KEY"),
        "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        "zai": ("https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
        "together": ("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
        "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        "azure": ("", "AZURE_OPENAI_API_KEY"),
        "ollama": ("http://localhost:11434/v1", None),
        "lmstudio": ("http://localhost:1234/v1", None),
        "llamacpp": ("http://localhost:8080/v1", None),
        "vllm": ("http://localhost:8000/v1", None),
    }
    local = [endpoint for endpoint in PRESETS if endpoint.key_env is None]
    assert all(endpoint.local and endpoint.placeholder_key for endpoint in local)
    with pytest.raises(ValueError, match="azure needs a base_url"):
        configured("azure", {})
    azure = configured("azure", {"base_url": "https://mine.openai.azure.com/openai/v1"})
    assert azure.request_headers("the-key")["api-key"] == "the-key"


@pytest.mark.requirement("D8.60")
def test_anthropic_is_a_preset_on_its_own_wire() -> None:
    endpoint = known("anthropic")
    assert (endpoint.wire, endpoint.key_env) == ("anthropic", "ANTHROPIC_API_KEY")
    spoken = dialect(endpoint)
    assert endpoint.url(spoken.path) == "https://api.anthropic.com/v1/messages"
    assert endpoint.url(spoken.models_path) == "https://api.anthropic.com/v1/models?limit=1000"
    assert endpoint.request_headers("the-key")["x-api-key"] == "the-key"
    assert spoken.headers == {"anthropic-version": "2023-06-01"}


@table(
    ("model", "asked"),
    [
        ("claude-3-7-sonnet-20250219", "enabled"),
        ("claude-sonnet-4-20250514", "enabled"),
        ("claude-opus-4-0", "enabled"),
        ("claude-opus-4-1-20250805", "enabled"),
        ("claude-haiku-4-5", "enabled"),
        ("claude-sonnet-4-5-20250929", "enabled"),
        ("claude-opus-4-6", "adaptive"),
        ("claude-sonnet-5", "adaptive"),
    ],
)
def test_a_model_is_asked_to_think_in_the_way_it_knows(model: str, asked: str) -> None:
    prefix = PrefixSet(provider="a", model=model, system="", parameters=Parameters(effort="high"))
    head = json.loads(dialect(known("anthropic")).wire.head(prefix) + b"]}")
    assert head["thinking"]["type"] == asked
    assert ("output_config" in head) == (asked == "adaptive")


@table(
    ("wire", "base_url", "address"),
    [
        ("anthropic", "https://gateway.example/v1", "https://gateway.example/v1/messages"),
        ("anthropic", "https://gateway.example/anthropic/", "https://gateway.example/anthropic/v1/messages"),
        ("anthropic", "https://gateway.example?team=blue", "https://gateway.example/v1/messages?team=blue"),
        ("openai_responses", "https://gateway.example/v1", "https://gateway.example/v1/responses"),
        ("openai_chat", "https://gateway.example/v1", "https://gateway.example/v1/chat/completions"),
    ],
)
def test_a_person_chooses_the_wire_of_an_endpoint(wire: WireName, base_url: str, address: str) -> None:
    endpoint = configured("work", {"wire": wire, "base_url": base_url})
    spoken = dialect(endpoint)
    assert (spoken.wire.name, endpoint.url(spoken.path)) == (wire, address)
    header = "x-api-key" if wire == "anthropic" else "authorization"
    assert header in endpoint.request_headers("the-key")
    bearer = configured("work", {"wire": wire, "base_url": base_url, "auth": "bearer"})
    assert bearer.request_headers("the-key")["authorization"] == "Bearer the-key"


@table("wire", ["openai_chat", "openai_responses", "anthropic"])
async def test_the_settings_of_a_provider_choose_its_wire(wire: WireName) -> None:
    async with ModelServer.playing(say("Hello.")) as server:
        sections = {"work": {"wire": wire, "base_url": server.url, "key_env": "WORK_KEY"}}
        models = Models(env={"WORK_KEY": "k" * 10}, clock=SystemClock()).with_settings(sections)
        chosen = models.choose("work:any-model")
        provider = models.provider(chosen.provider, chosen.model)
        assert provider.wire.name == wire
        assert [model.name for model in await models.chat("work").models()] == list(MODELS)
        await models.close()


@pytest.mark.requirement("G11.2")
def test_zai_is_a_preset_with_its_models() -> None:
    endpoint = known("zai")
    assert endpoint.base_url == "https://api.z.ai/api/paas/v4"
    assert endpoint.models == ("glm-4.6", "glm-4.5-air", "glm-z1")


@pytest.mark.requirement("D8.8")
def test_ollama_is_not_told_a_temperature() -> None:
    assert known("ollama").quirks.omit_temperature
    assert not known("openai").quirks.omit_temperature


def test_openrouter_is_told_which_program_asks() -> None:
    headers = known("openrouter").request_headers("key")
    assert headers["X-Title"] == "Bridle"
    assert headers["HTTP-Referer"]


@pytest.mark.requirement("D8.3", "D8.4")
@table(
    ("base_url", "auth"),
    [
        ("https://api.openai.com/v1", BEARER),
        ("https://team.openai.azure.com/openai/v1", API_KEY),
        ("https://TEAM.services.ai.azure.com:443/models?api-version=1", API_KEY),
        ("https://team.openai.azure.com.evil.example/v1", BEARER),
        ("https://evil.example/.openai.azure.com", BEARER),
        ("https://evil.example?x=.openai.azure.com", BEARER),
    ],
)
def test_the_host_tells_how_the_key_travels(base_url: str, auth: Auth) -> None:
    assert inferred_auth(base_url) == auth
    headers = configured("work", {"base_url": base_url}).request_headers("the-key")
    assert headers[auth.header] == ("Bearer the-key" if auth == BEARER else "the-key")
    explicit = configured("work", {"base_url": base_url, "auth": "bearer"}).request_headers("the-key")
    assert explicit["authorization"] == "Bearer the-key"
    assert "api-key" not in explicit


def test_a_query_stays_at_the_end_of_an_address() -> None:
    endpoint = configured("azure", {"base_url": "https://t.openai.azure.com/openai/v1/?api-version=preview"})
    assert endpoint.url("models") == "https://t.openai.azure.com/openai/v1/models?api-version=preview"


def test_settings_change_a_preset_and_keep_the_rest() -> None:
    changed = configured(
        "openrouter", {"headers": {"X-Team": "blue"}, "quirks": {"omit_max_tokens": True}, "key_env": "OTHER"}
    )
    assert changed.base_url == known("openrouter").base_url
    assert changed.headers == {**known("openrouter").headers, "X-Team": "blue"}
    assert (changed.quirks, changed.key_env) == (Quirks(omit_max_tokens=True), "OTHER")


@table(
    ("name", "settings"),
    [
        ("work", {}),
        ("azure", {}),
        ("work", {"base_url": "models.example/v1"}),
        ("work", {"base_url": "file:///etc/passwd"}),
        ("work", {"base_url": "https://user:password@models.example/v1"}),
        ("work", {"base_url": "https://models.example", "wire": "telepathy"}),
        ("work", {"base_url": "https://models.example", "api_key": "never here"}),
        ("work", {"base_url": "https://models.example", "quirks": {"omit_everything": True}}),
    ],
)
def test_settings_that_cannot_be_used_say_why(name: str, settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"base_url|wire|api_key|quirks") as problem:
        configured(name, settings)
    assert "password@" not in str(problem.value)


def test_keys_are_looked_for_in_the_variables_of_the_presets() -> None:
    assert "OPENAI_API_KEY" in key_variables()
    assert len(key_variables()) == 8
    found = with_keys({"GROQ_API_KEY": "k", "OPENAI_API_KEY": "  ", "AZURE_OPENAI_API_KEY": "k"})
    assert [endpoint.name for endpoint in found] == ["groq"], (
        "an empty key is none; Azure needs an address too"
    )


@pytest.mark.requirement("D8.1")
async def test_a_new_vendor_is_one_entry_and_no_code() -> None:
    async with ModelServer.playing(say("Hello.")) as server:
        vendor = Endpoint(
            name="newcomer",
            title="Newcomer",
            base_url=server.url,
            key_env="NEWCOMER_API_KEY",
            auth=Auth("x-newcomer-key"),
            quirks=Quirks(omit_tool_choice=True, max_tokens_field="max_completion_tokens"),
        )
        presets = (*PRESETS, vendor)
        env = {"NEWCOMER_API_KEY": "k1"}
        (chosen,) = with_keys(env, presets)
        connections = HttpConnections(env={}, clock=SystemClock())
        provider = RemoteModel(chosen, lambda: env["NEWCOMER_API_KEY"], connections)
        prefix = PrefixSet(
            provider="newcomer", model="n-1", system="", parameters=Parameters(max_tokens=5, temperature=0.5)
        )
        message = Message(role="user", content=(TextBlock(text="Hi."),))
        wire = provider.wire
        request = ModelRequest(
            model="n-1",
            body=wire.head(prefix) + wire.message(message) + wire.tail(prefix),
            step=1,
            answers=0,
            purpose="main",
        )
        parts = [part async for part in provider.stream(request)]
        await connections.close()
    assert [part for part in parts if not isinstance(part, ModelAlive)] == [
        ModelText("Hello."),
        ModelDone("end_turn"),
    ]
    assert server.chats[0].headers["x-newcomer-key"] == "k1"
    assert server.chats[0].json["max_completion_tokens"] == 5


def test_no_code_knows_a_vendor_by_name() -> None:
    """A vendor is a row of data. What our code may name are wires and the kinds of server that run on this machine."""
    import ast
    from pathlib import Path

    import bridle

    hosted = {known.name for known in PRESETS if not known.local} - {"anthropic", "openai"}
    root = Path(bridle.__file__).parent
    named = {
        (path.name, node.value)
        for path in root.rglob("*.py")
        if path.name != "presets.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in hosted
    }
    assert named == set()
