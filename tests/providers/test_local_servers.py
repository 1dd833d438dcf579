"""Finding model servers on this machine, by what they answer and not by their port."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest

from bridle.base.clock import SystemClock
from bridle.base.net.http import HttpConnections, Timeouts
from bridle.conformance.servers import JsonServer, ModelServer, Received
from bridle.providers.endpoints import Endpoint
from bridle.providers.local_servers import LocalServer, find_local_servers
from bridle.providers.model_listing import ModelInfo
from bridle.providers.presets import PRESETS, preset
from bridle.providers.script import say

PATIENT = Timeouts(connect_s=5, write_s=5, first_byte_s=5, idle_s=5)


def ollama_shows(request: Received) -> dict[str, Any]:
    if request.json["model"] == "nomic-embed-text":
        return {"capabilities": ["embedding"], "model_info": {"nomic-bert.context_length": 2048}}
    return {
        "capabilities": ["completion", "tools"],
        "parameters": 'num_ctx                        8192\nstop "x"',
        "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960},
    }


OLLAMA = {
    "GET /api/tags": {
        "models": [
            {"name": "qwen3:8b", "size": 5_200_000_000},
            {"name": "llama3.1:8b", "size": 4_900_000_000},
            {"name": "nomic-embed-text", "size": 274_000_000},
        ]
    },
    "GET /api/ps": {"models": [{"name": "qwen3:8b", "context_length": 4096}]},
    "POST /api/show": ollama_shows,
}
LMSTUDIO = {
    "GET /api/v0/models": {
        "data": [
            {"id": "qwen", "type": "llm", "max_context_length": 32768, "loaded_context_length": 4096},
            {"id": "embed", "type": "embeddings", "max_context_length": 2048},
        ]
    }
}
LLAMACPP = {
    "GET /v1/models": {"data": [{"id": "m.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131072}}]},
    "GET /props": {"default_generation_settings": {"n_ctx": 8192}},
}
VLLM = {"GET /v1/models": {"data": [{"id": "org/model", "owned_by": "vllm", "max_model_len": 16384}]}}


@pytest.fixture
async def connections() -> AsyncIterator[HttpConnections]:
    made = HttpConnections(env={"http_proxy": "http://127.0.0.1:9"}, clock=SystemClock())
    yield made
    await made.close()


def at(name: str, origin: str) -> Endpoint:
    known = preset(name)
    assert known is not None
    return msgspec.structs.replace(known, base_url=f"{origin.replace('127.0.0.1', 'localhost')}/v1")


async def found(connections: HttpConnections, answers: Mapping[str, Mapping[str, Any]]) -> list[LocalServer]:
    async with AsyncExitStack() as stack:
        presets = []
        for name, routes in answers.items():
            server = await stack.enter_async_context(JsonServer(routes))
            presets.append(at(name, server.origin))
        return list(await find_local_servers(connections, presets=presets, timeouts=PATIENT))


async def test_every_kind_of_server_is_found_with_its_models(connections: HttpConnections) -> None:
    answers = {"ollama": OLLAMA, "lmstudio": LMSTUDIO, "llamacpp": LLAMACPP, "vllm": VLLM}
    servers = {server.endpoint.name: server.models for server in await found(connections, answers)}
    assert servers == {
        "ollama": (
            ModelInfo(
                name="qwen3:8b",
                context_tokens=4096,
                longest_context_tokens=40960,
                size_bytes=5_200_000_000,
                tools=True,
                images=False,
            ),
            ModelInfo(
                name="llama3.1:8b",
                context_tokens=8192,
                longest_context_tokens=40960,
                size_bytes=4_900_000_000,
                tools=True,
                images=False,
            ),
            ModelInfo(
                name="nomic-embed-text",
                longest_context_tokens=2048,
                size_bytes=274_000_000,
                can_chat=False,
                tools=False,
                images=False,
            ),
        ),
        "lmstudio": (
            ModelInfo(name="qwen", context_tokens=4096, longest_context_tokens=32768, images=False),
            ModelInfo(name="embed", longest_context_tokens=2048, can_chat=False),
        ),
        "llamacpp": (
            ModelInfo(name="m.gguf", context_tokens=8192, longest_context_tokens=131072, owner="llamacpp"),
        ),
        "vllm": (ModelInfo(name="org/model", context_tokens=16384, owner="vllm"),),
    }


async def test_a_found_server_has_the_address_that_answered(connections: HttpConnections) -> None:
    (server,) = await found(connections, {"vllm": VLLM})
    assert server.endpoint.base_url.startswith("http://127.0.0.1:")
    assert server.endpoint.base_url.endswith("/v1")
    assert server.endpoint.local


@pytest.mark.parametrize("name", ["ollama", "lmstudio", "llamacpp", "vllm"])
@pytest.mark.parametrize(
    "routes",
    [
        {},
        {"GET /v1/models": {"data": [{"id": "x", "owned_by": "somebody"}]}},
        {"GET /v1/models": [1, 2], "GET /api/tags": [], "GET /api/v0/models": "text", "GET /props": 1},
        {"GET /v1/models": {"data": []}, "GET /api/tags": {"models": None}},
    ],
    ids=["nothing", "another", "nonsense", "empty"],
)
async def test_another_program_on_the_port_is_not_taken_for_one(
    connections: HttpConnections, name: str, routes: dict[str, Any]
) -> None:
    assert await found(connections, {name: routes}) == []


async def test_where_nobody_listens_nothing_is_found(connections: HttpConnections) -> None:
    async with JsonServer({}) as server:
        gone = at("ollama", server.origin)
    assert await find_local_servers(connections, presets=[gone]) == ()


async def test_only_this_machine_is_ever_asked(connections: HttpConnections) -> None:
    async with ModelServer.playing(say("Hi.")) as server:
        port = server.origin.rpartition(":")[2]
        far = msgspec.structs.replace(at("vllm", server.origin), base_url=f"http://models.example:{port}/v1")
        remote = msgspec.structs.replace(at("vllm", server.origin), local=False)
        assert await find_local_servers(connections, presets=[far, remote]) == ()
        assert server.connections == 0


def test_the_presets_that_are_looked_for_are_the_local_ones() -> None:
    assert {known.name for known in PRESETS if known.local} == {"ollama", "lmstudio", "llamacpp", "vllm"}
