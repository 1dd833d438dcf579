"""Model servers that run on this machine: found by asking their usual ports, on loopback only.

A port proves nothing: 8000 and 8080 belong to anybody. A server counts when it answers as itself. Nothing is sent but
requests for a list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, cast

import msgspec

from bridle.base.net.http import HttpConnections, HttpFault, Timeouts
from bridle.providers.endpoints import Endpoint
from bridle.providers.model_listing import ModelInfo, count_of, mapping_of, read_listing, says, text_of
from bridle.providers.presets import PRESETS

TIMEOUTS: Final = Timeouts(connect_s=0.3, write_s=1, first_byte_s=1.5, idle_s=1.5)
_MAX_BYTES: Final = 4 * 1024 * 1024
_MAX_SHOWN: Final = 32
"""How many of Ollama's models are asked about one by one."""


class LocalServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that answered, and what it serves. Its endpoint's address is the one that answered."""

    endpoint: Endpoint
    models: tuple[ModelInfo, ...]


LookAtServer: TypeAlias = Callable[["_Door"], Awaitable[tuple[ModelInfo, ...] | None]]


async def find_local_servers(
    connections: HttpConnections, *, presets: Sequence[Endpoint] = PRESETS, timeouts: Timeouts = TIMEOUTS
) -> tuple[LocalServer, ...]:
    """Every local preset whose server answers, in their order, all asked at once.

    Only loopback is asked: a preset with another address is left out. Takes as long as the slowest answer.
    """
    local = [known for known in presets if known.local and known.name in _LOOKS and _port(known) is not None]
    found = await asyncio.gather(*(_look(known, connections, timeouts) for known in local))
    return tuple(server for server in found if server is not None)


async def _look(known: Endpoint, connections: HttpConnections, timeouts: Timeouts) -> LocalServer | None:
    origin = f"http://127.0.0.1:{_port(known)}"
    models = await _LOOKS[known.name](_Door(origin, connections, timeouts))
    if models is None:
        return None
    path = known.base_url.partition("://")[2].partition("/")[2]
    return LocalServer(endpoint=msgspec.structs.replace(known, base_url=f"{origin}/{path}"), models=models)


async def look_at(
    endpoint: Endpoint, model: str, connections: HttpConnections, *, timeouts: Timeouts = TIMEOUTS
) -> ModelInfo | None:
    """What a local server says of one of its models right now; None where it says nothing."""
    port = _port(endpoint)
    if port is None:
        return None
    door = _Door(f"http://127.0.0.1:{port}", connections, timeouts)
    if endpoint.name == "ollama":
        return await _one_of_ollama(door, model)
    look = _LOOKS.get(endpoint.name)
    found = read_listing(await door.get("/v1/models")) if look is None else await look(door)
    return next((info for info in found or () if info.name == model), None)


class _Door:
    """One server's answers as JSON objects. None for everything that is no such answer."""

    def __init__(self, origin: str, connections: HttpConnections, timeouts: Timeouts) -> None:
        self._origin = origin
        self._connections = connections
        self._timeouts = timeouts

    async def get(self, path: str) -> bytes:
        """The body of a successful answer, else nothing."""
        try:
            answer = await self._connections.get(
                self._origin + path,
                headers={"accept": "application/json"},
                limit_bytes=_MAX_BYTES,
                timeouts=self._timeouts,
            )
        except HttpFault:
            return b""
        return answer.body if answer.status == 200 and not answer.truncated else b""

    async def post(self, path: str, asked: dict[str, Any]) -> bytes:
        try:
            response = await self._connections.post_stream(
                self._origin + path,
                headers={"content-type": "application/json"},
                body=msgspec.json.encode(asked),
                timeouts=self._timeouts,
            )
            async with response:
                body = await response.read(_MAX_BYTES)
        except HttpFault:
            return b""
        return body if response.status == 200 and not response.truncated else b""


async def _ollama(door: _Door) -> tuple[ModelInfo, ...] | None:
    tags, running = await asyncio.gather(door.get("/api/tags"), door.get("/api/ps"))
    rows = _rows(tags, "models")
    if rows is None:
        return None
    served = {text_of(row, "name"): count_of(row, "context_length") for row in _rows(running, "models") or ()}
    names = [text_of(row, "name") for row in rows[:_MAX_SHOWN]]
    shown = await asyncio.gather(*(door.post("/api/show", {"model": name}) for name in names))
    details = dict(zip(names, map(_object, shown), strict=True))
    return tuple(
        _ollama_model(row, details.get(text_of(row, "name"), {}), served.get(text_of(row, "name")))
        for row in rows
    )


async def _one_of_ollama(door: _Door, model: str) -> ModelInfo | None:
    running, shown = await asyncio.gather(door.get("/api/ps"), door.post("/api/show", {"model": model}))
    if not shown:
        return None
    names = {model, f"{model}:latest"}
    served = (
        count_of(row, "context_length")
        for row in _rows(running, "models") or ()
        if text_of(row, "name") in names
    )
    return _ollama_model({"name": model}, _object(shown), next(served, None))


def _ollama_model(row: dict[str, Any], shown: dict[str, Any], served: int | None) -> ModelInfo:
    """What Ollama says: the context of a running model is what it serves, else the one set for it."""
    about = mapping_of(shown, "model_info")
    longest = next((count_of(about, name) for name in about if name.endswith(".context_length")), None)
    capabilities = shown.get("capabilities")
    return ModelInfo(
        name=text_of(row, "name"),
        context_tokens=served or _num_ctx(text_of(shown, "parameters")),
        longest_context_tokens=longest,
        size_bytes=count_of(row, "size"),
        can_chat=says(capabilities, "completion") is not False,
        tools=says(capabilities, "tools"),
        images=says(capabilities, "vision"),
    )


def _num_ctx(parameters: str) -> int | None:
    for line in parameters.splitlines():
        name, _, value = line.strip().partition(" ")
        if name == "num_ctx" and value.strip().isdecimal():
            return int(value)
    return None


async def _lmstudio(door: _Door) -> tuple[ModelInfo, ...] | None:
    rows = _rows(await door.get("/api/v0/models"), "data")
    if rows is None:
        return None
    return tuple(
        ModelInfo(
            name=text_of(row, "id"),
            context_tokens=count_of(row, "loaded_context_length"),
            longest_context_tokens=count_of(row, "max_context_length"),
            can_chat=text_of(row, "type") != "embeddings",
            tools=says(row.get("capabilities"), "tool_use"),
            images={"vlm": True, "llm": False}.get(text_of(row, "type")),
        )
        for row in rows
    )


async def _llamacpp(door: _Door) -> tuple[ModelInfo, ...] | None:
    listed, told = await asyncio.gather(door.get("/v1/models"), door.get("/props"))
    models = _owned(listed, "llamacpp")
    if models is None:
        return None
    context = count_of(mapping_of(_object(told), "default_generation_settings"), "n_ctx")
    return tuple(
        msgspec.structs.replace(model, context_tokens=context or model.context_tokens) for model in models
    )


async def _vllm(door: _Door) -> tuple[ModelInfo, ...] | None:
    return _owned(await door.get("/v1/models"), "vllm")


_LOOKS: Final[dict[str, LookAtServer]] = {
    "ollama": _ollama,
    "lmstudio": _lmstudio,
    "llamacpp": _llamacpp,
    "vllm": _vllm,
}


def _owned(listed: bytes, owner: str) -> tuple[ModelInfo, ...] | None:
    """The listing, if every model in it says it belongs to this kind of server."""
    models = read_listing(listed)
    return models if models and all(model.owner == owner for model in models) else None


def _object(body: bytes) -> dict[str, Any]:
    try:
        found: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _rows(body: bytes, name: str) -> list[dict[str, Any]] | None:
    found = _object(body).get(name)
    if not isinstance(found, list):
        return None
    return [cast("dict[str, Any]", row) for row in cast("list[Any]", found) if isinstance(row, dict)]


def _port(known: Endpoint) -> int | None:
    """The port of an address on this machine; None for any other address."""
    host, _, port = known.address.partition("://")[2].rpartition(":")
    return int(port) if host in {"localhost", "127.0.0.1"} and port.isdecimal() else None
