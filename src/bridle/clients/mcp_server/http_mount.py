"""The door over streamable HTTP: an ASGI application behind the guard of a listening engine, which knows who asks."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from bridle.clients.mcp_server.stdio_streams import LONGEST_LINE

IDLE_S = 1800
MOST_SESSIONS = 256
"""So many connections of the older era are open at once, of all clients together."""
KEPT_MESSAGES = 256
KEPT_BYTES = 1024 * 1024
"""Of what was sent to one connection."""

AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]


@asynccontextmanager
async def mcp_app(server: Server[Any], token_id: Callable[[Any], str]) -> AsyncGenerator[AsgiApp]:
    """The application, for as long as it is used. `token_id` names the token a request came with: a connection of the
    older era is its alone."""
    manager = _Connections(
        server,
        # the guard before it looked at Host and Origin
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        session_idle_timeout=IDLE_S,
        max_sessions=MOST_SESSIONS,
        max_request_body_size=LONGEST_LINE,
    )

    async def app(scope: Any, receive: Any, send: Any) -> None:
        owner = AccessToken(token="", client_id=token_id(scope), scopes=[])  # which one is all it says
        # white space around a value is none of it (RFC 9110, 5.5), and our parser of requests leaves it there
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        told = {**scope, "headers": headers, "user": AuthenticatedUser(owner)}
        await manager.handle_request(told, receive, send)

    async with manager.run():
        yield app


class _Connections(StreamableHTTPSessionManager):
    """The SDK's, but for what was sent: it names streams by the numbers clients give their requests, so of one store
    for all a client would be told what was meant for another."""

    @property
    def event_store(self) -> EventStore:
        return SentMessages()

    @event_store.setter
    def event_store(self, _given: EventStore | None) -> None:
        pass


class _Sent(msgspec.Struct, frozen=True):
    id: str
    stream: str
    message: Any
    size: int


class SentMessages(EventStore):
    """What was sent to one connection lately, for when a stream of it breaks."""

    def __init__(self) -> None:
        self._kept: deque[_Sent] = deque()
        self._size = 0

    async def store_event(self, stream_id: str, message: Any) -> str:
        size = 0 if message is None else len(message.model_dump_json())
        sent = _Sent(os.urandom(16).hex(), stream_id, message, size)
        self._kept.append(sent)
        self._size += size
        while len(self._kept) > KEPT_MESSAGES or (self._size > KEPT_BYTES and len(self._kept) > 1):
            self._size -= self._kept.popleft().size
        return sent.id

    async def replay_events_after(
        self, last_event_id: str, send_callback: Callable[[EventMessage], Awaitable[None]]
    ) -> str | None:
        kept = list(self._kept)
        place = next((at for at, sent in enumerate(kept) if sent.id == last_event_id), None)
        if place is None:
            return None
        stream = kept[place].stream
        for sent in kept[place + 1 :]:
            if sent.stream == stream and sent.message is not None:
                await send_callback(EventMessage(sent.message, sent.id))
        return stream
