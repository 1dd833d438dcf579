"""The servers of this process, shared by its sessions: the same launch in the same folder is one process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from bridle.base.clock import Clock
from bridle.mcp.server_definitions import ServerDefinition
from bridle.mcp.server_log import ServerLog, log_path
from bridle.mcp.server_pins import PinStore
from bridle.mcp.server_run import LaunchPlace, server_policy
from bridle.mcp.server_state import ServerState
from bridle.mcp.server_tokens import SignInMarks
from bridle.mcp.shared_server import ServerUser, SharedServer
from bridle.mcp.tool_lists import KeptLists


class ServerPool:
    """The servers of this process. Each runs while a session uses it: the last one to go takes it along."""

    def __init__(self, state_folder: str, clock: Clock) -> None:
        self._kept = KeptLists(state_folder)
        self._pins = PinStore(state_folder, clock)
        self._marks = SignInMarks(state_folder)
        self._state_folder = state_folder
        self._clock = clock
        self._servers: dict[bytes, SharedServer] = {}
        self._leaving: dict[asyncio.Task[None], SharedServer] = {}

    def server(self, definition: ServerDefinition, place: LaunchPlace) -> SharedServer:
        """The server, whoever uses it already. Nothing is started."""
        policy = server_policy(definition, place.policy)
        key = msgspec.json.encode((definition, place.cwd, policy, place.roots, sorted(place.env.items())))
        if key in self._servers:
            return self._servers[key]
        log = ServerLog(log_path(self._state_folder, definition.name))
        return SharedServer(
            definition,
            place,
            key=key,
            clock=self._clock,
            kept=self._kept,
            pins=self._pins,
            marks=self._marks,
            log=log,
        )

    def use(self, servers: Sequence[SharedServer], user: ServerUser) -> None:
        """`user` needs these from here on."""
        for server in servers:
            server.users[user] = None
            self._servers.setdefault(server.key, server)

    def leave(self, servers: Sequence[SharedServer], user: ServerUser) -> None:
        """`user` needs none of these any more. One that nobody needs ends by itself, while nobody waits for it."""
        for server in servers:
            server.users.pop(user, None)
            if not server.users:
                if self._servers.get(server.key) is server:
                    del self._servers[server.key]
                task = asyncio.create_task(server.stop())
                self._leaving[task] = server
                task.add_done_callback(self._leaving.pop)

    def states(self) -> tuple[ServerState, ...]:
        """How those that sessions use are now."""
        return tuple(server.state() for server in self._servers.values())

    async def close(self) -> None:
        """Ends them all."""
        everyone = {*self._servers.values(), *self._leaving.values()}
        await asyncio.gather(*(server.close() for server in everyone))
