"""The transports of plugins in an engine that listens: each below its own path, behind the one guard."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from bridle.config.tiers import load
from bridle.control.request_guard import AsgiApp, Receive, Scope, Send, claims_of
from bridle.plugin.loading import LoadedPlugin, bad_plugin, load_plugins
from bridle.protocol.connection import Connection

if TYPE_CHECKING:
    from bridle.app.engine import Engine
    from bridle.plugin.transport import PluginApp

PATH = "/v1/plugins/"


def plugin_mounts(engine: Engine) -> Mapping[str, AsgiApp]:
    """The applications by their paths. Raises `BadPlugin` for a plugin of the person's settings that cannot be used."""
    services = engine.services
    tiers = load(where=services.where, cwd="/", env=services.env)  # no project's word counts for an engine
    loaded = load_plugins(tiers if tiers.get("plugins.enabled") else None, engine.plugins)
    return {f"{PATH}{one.name}": _Mounted(engine, one) for one in _with_transport(loaded)}


def _with_transport(loaded: Sequence[LoadedPlugin]) -> list[LoadedPlugin]:
    return [one for one in loaded if one.transport is not None]


class _Mounted:
    """The application of one plugin. What breaks in it is in the engine's log; whoever asked is told no details."""

    def __init__(self, engine: Engine, plugin: LoadedPlugin) -> None:
        self._engine = engine
        self._name = plugin.name
        assert plugin.transport is not None
        try:
            self._app: PluginApp = plugin.transport(self)
        except Exception as fault:  # noqa: BLE001  the boundary: it is somebody else's code
            problem = f"its transport failed ({type(fault).__name__}: {fault})"
            raise bad_plugin(plugin.where, plugin.name, problem) from None

    def connect(self, scope: Scope) -> Connection:
        claims = claims_of(scope)
        return self._engine.connect(
            name=claims.name or self._name, claims=claims, answers=False, here="following"
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def told(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, told)
        except Exception as fault:  # noqa: BLE001  the boundary
            self._engine.access.note_fault(fault)
            if not begun:
                headers = [(b"content-length", b"0")]
                await send({"type": "http.response.start", "status": 500, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
