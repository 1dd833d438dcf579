"""A transport of a plugin: how else clients may talk with an engine that listens, behind the same guard and tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol, TypeAlias

from bridle.protocol.connection import Connection

RequestScope: TypeAlias = MutableMapping[str, Any]
PluginApp: TypeAlias = Callable[
    [
        RequestScope,
        Callable[[], Awaitable[MutableMapping[str, Any]]],
        Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ],
    Awaitable[None],
]
"""An ASGI application. It gets requests below `/v1/plugins/NAME` that came with a good token, and no others."""


class TransportDoor(Protocol):
    """What a transport has of its engine. Raises: nothing; what a client may not do its connection refuses."""

    def connect(self, scope: RequestScope) -> Connection:
        """Whoever sent this request, as a client with what its token lets it do. The caller closes it."""
        ...


MakeTransport: TypeAlias = Callable[[TransportDoor], PluginApp]
