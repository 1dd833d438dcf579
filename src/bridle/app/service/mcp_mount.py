"""The MCP endpoint of a listening engine, at `/mcp`."""

from __future__ import annotations

import asyncio
import importlib
from collections import OrderedDict
from typing import TYPE_CHECKING

from bridle.base.process.installation import install_command
from bridle.clients.mcp_server.agent_door import AgentDoor, Tell
from bridle.control.request_guard import AsgiApp, Receive, Scope, Send, claims_of
from bridle.protocol.errors import CommandRefused
from bridle.protocol.tokens import Claims, for_agent, only_session

if TYPE_CHECKING:
    from bridle.app.engine import Engine
    from bridle.clients.mcp_server.agent_tools import ToolNames
    from bridle.clients.mcp_server.sdk_server import OuterAgent

MCP_PATH = "/mcp"
MOST_DOORS = 256
"""So many tokens have a door at once; whoever comes back later begins anew."""


class McpMount:
    """The application at `/mcp`. Every token is one outer agent, whatever else its bearer is."""

    def __init__(self, engine: Engine, *, names: ToolNames) -> None:
        self._engine = engine
        self._names: ToolNames = names
        self._doors: OrderedDict[str, AgentDoor] = OrderedDict()
        self._ready: asyncio.Future[AsgiApp] | None = None
        self._serving: asyncio.Task[None] | None = None
        self._over = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._serving = asyncio.ensure_future(self._serve(self._ready))
        app = await asyncio.shield(self._ready)
        await app(scope, receive, send)

    async def close(self) -> None:
        """Ends every connection. Safe where nobody ever came."""
        self._over.set()
        if self._serving is not None:
            await asyncio.wait((self._serving,))
        for door in self._doors.values():
            await door.close()
        self._doors.clear()

    async def _serve(self, ready: asyncio.Future[AsgiApp]) -> None:
        try:
            http_mount = await asyncio.to_thread(
                importlib.import_module, "bridle.clients.mcp_server.http_mount"
            )
            from bridle.clients.mcp_server.sdk_server import mcp_server

            server = mcp_server(self._door, names=self._names, hear_fault=self._engine.access.note_fault)
        except ImportError:
            ready.set_exception(
                CommandRefused("ExtraMissing", what="Serving MCP", install=install_command("mcp"))
            )
            return

        def token_id(scope: Scope) -> str:
            return claims_of(scope).jti

        async with http_mount.mcp_app(server, token_id) as app:
            ready.set_result(app)
            await self._over.wait()

    async def _door(self, agent: OuterAgent, _tell: Tell) -> AgentDoor:
        claims = for_agent(claims_of(agent.request.scope))
        door = self._doors.get(claims.jti)
        if door is None:
            door = self._doors[claims.jti] = self._new_door(claims, agent)
            if len(self._doors) > MOST_DOORS:
                _, gone = self._doors.popitem(last=False)
                await gone.close()
        self._doors.move_to_end(claims.jti)
        return door

    def _new_door(self, claims: Claims, agent: OuterAgent) -> AgentDoor:
        name = claims.name or agent.name or "mcp"
        connection = self._engine.connect(name=name, claims=claims, answers=False, here="following")
        return AgentDoor(connection, bound=only_session(claims))
