"""The servers of one session, a source of tools. What the first request needs of them is what an earlier run kept.

Everything that starts, watches and asks them is `running_servers`: loaded once the first request has left, or when
somebody needs it before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from bridle.base.clock import Clock
from bridle.base.threads import in_thread
from bridle.engine.services import Health, SessionDoor
from bridle.engine.tools import ToolOrigin
from bridle.mcp.offered_tools import OfferedTools, OfferingServer
from bridle.mcp.presented_tools import READ_RESOURCE, resource_tool_name
from bridle.mcp.tool_lists import ListedPrompt

if TYPE_CHECKING:
    from bridle.mcp.running_servers import RunningServers

NAME: Final = "mcp"
BESIDE_S: Final = 0.2
"""So long after a request was made servers are looked after beside it: by then it has left, and what that takes of
this process does not hold it up."""
UNASKED_S: Final = 1.0
"""Where nobody asks anything, they are looked after so long behind the beginning of a session."""

OpenServers = Callable[[OfferedTools], "RunningServers"]


class SessionServers:
    """The servers of a session, in the order of its settings.

    `known` is what an earlier run kept of each, as far as it was agreed to. `at_once`: nothing is put off. `told` are
    tools the model was told of before this run of the session.
    """

    name = "MCP servers"
    origin = ToolOrigin(scope="user")

    def __init__(
        self,
        known: Sequence[OfferingServer],
        open_servers: OpenServers,
        clock: Clock,
        *,
        told: frozenset[str] = frozenset(),
        at_once: bool = False,
    ) -> None:
        self._known = {one.definition.name: one for one in known}
        self._open_servers = open_servers
        self._clock = clock
        self._tools = OfferedTools(self.open, told)
        self._at_once = at_once
        self._running: RunningServers | None = None
        self._door: SessionDoor | None = None
        self._requested = asyncio.Event()
        self._requested_s = 0.0

    # A source of tools

    def service(self, door: SessionDoor) -> SessionServers:
        """Offers at once what is known from before."""
        self._door = door
        if self._at_once:
            self._running = self._open_servers(self._tools)
            self._running.attach(door)
        else:
            door.offer(self._tools.of_all(self._known.values()))
        return self

    async def start(self) -> None:
        """Has the servers looked after when nobody waits for what that takes of this machine. Those of which nothing is
        known are started then, the others once a request is out."""
        if not self._at_once:
            await self._requested_within(UNASKED_S)
            await self._let_request_leave()
            await in_thread(_load)
        self.open()
        await self._requested.wait()
        await self._let_request_leave()
        self.open().begin_known()

    def open(self) -> RunningServers:
        """The same servers with everything that runs them."""
        if self._running is None:
            self._running = self._open_servers(self._tools)
            if self._door is not None:
                self._running.attach(self._door)
        self._running.begin()
        return self._running

    def request_is_out(self) -> None:
        """Another one may find that somebody has signed in; it starts nothing else by itself."""
        if not self._requested.is_set():
            self._requested.set()
            self._requested_s = self._clock.monotonic()
        if self._running is not None:
            self._running.look_for_sign_ins()

    async def stop(self) -> None:
        self._door = None
        if self._running is not None:
            await self._running.stop()

    def health(self) -> Health:
        if self._running is not None:
            return self._running.health()
        return Health(
            state="up" if all(one.offer is not None for one in self._known.values()) else "starting"
        )

    async def _requested_within(self, seconds: float) -> None:
        unasked = asyncio.ensure_future(self._clock.sleep(seconds))
        requested = asyncio.ensure_future(self._requested.wait())
        try:
            await asyncio.wait((unasked, requested), return_when=asyncio.FIRST_COMPLETED)
        finally:
            unasked.cancel()
            requested.cancel()

    async def _let_request_leave(self) -> None:
        left_s = self._requested_s + BESIDE_S - self._clock.monotonic()
        if self._requested.is_set() and left_s > 0:
            await self._clock.sleep(left_s)

    # For the model

    async def wait_for(self, tool: str) -> None:
        """Returns when what the server of this tool offers is known, or it took too long."""
        if self._running is not None or any(
            one.offer is None and tool.startswith(f"mcp__{one.definition.part}__")
            for one in self._known.values()
        ):
            await self.open().wait_for(tool)

    async def wait_before_first_request(self) -> None:
        """Lets a run that nobody watches have its tools: once, and not for long."""
        if self._running is not None or any(one.offer is None for one in self._known.values()):
            await self.open().wait_before_first_request()

    # For people

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._known)

    def prompts(self, name: str) -> tuple[ListedPrompt, ...]:
        """Those that a server is known to have."""
        server = self._known[name] if self._running is None else self._running.named(name)
        return server.offer.prompts if server is not None and server.offer is not None else ()

    def mention(self, words: str) -> tuple[str, dict[str, Any]] | None:
        """The call that reads `SERVER:URI`, as a person points at it; None where it names no server of this session."""
        name, _, uri = words.partition(":")
        server = self._known.get(name)
        if server is None or not uri:
            return None
        return resource_tool_name(server.definition, READ_RESOURCE), {"uri": uri}


def _load() -> None:
    import_module("bridle.mcp.running_servers")
