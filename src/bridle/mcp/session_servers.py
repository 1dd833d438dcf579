"""The MCP servers of one session: a source of tools, and what users are asked and told about its servers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias

from bridle.base.clock import Clock
from bridle.base.text.phrases import counted
from bridle.base.threads import in_thread
from bridle.engine.services import Health, SessionDoor
from bridle.engine.tools import Tool, ToolContext, ToolOrigin, ToolOutput
from bridle.mcp.pin_gate import PinReview
from bridle.mcp.presented_tools import (
    READ_RESOURCE,
    RunServerTool,
    SearchArgs,
    SearchedServer,
    best_matches,
    presented,
    resource_tool_name,
    search_tool,
    used_tools,
)
from bridle.mcp.server_calls import CallUse, call_tool
from bridle.mcp.server_definitions import ServerDefinition
from bridle.mcp.server_run import LaunchPlace
from bridle.mcp.server_state import ServerState
from bridle.mcp.shared_server import ServerPool, ServerUnavailable, SharedServer
from bridle.mcp.tool_lists import ListedPrompt, ListedTool, ToolList
from bridle.protocol.errors import BridleError, StoreError, sentence
from bridle.protocol.events import Degraded, MCPServerDown, Notice

CallTool: TypeAlias = Callable[[str, ListedTool, dict[str, Any], ToolContext], Awaitable[ToolOutput]]
"""Calls a tool of the server with this name."""
FindTools: TypeAlias = Callable[[SearchArgs], Awaitable[Mapping[str, Tool]]]


class OfferedTools:
    """Tools by name. A tool that did not change stays the same object: an approval is for that object.

    `told` are tools that the model was told of before.
    """

    def __init__(self, call: CallTool, find: FindTools, told: Iterable[str]) -> None:
        self.told = set(told)
        self._call = call
        self._find = find
        self._lazy: set[str] = set()
        self._tools: dict[tuple[str, str], tuple[ListedTool, Tool]] = {}
        self._search: tuple[tuple[SearchedServer, ...], Tool] | None = None

    def of_all(self, servers: Iterable[SharedServer]) -> list[Tool]:
        """Return the tools of these servers as they are now."""
        servers = tuple(servers)
        self._lazy = {one.definition.name for one in servers if one.is_lazy}
        tools = [tool for one in servers for tool in self.of_server(one.definition, one.offer).values()]
        searched = [
            one
            for one in servers
            if one.definition.name in self._lazy or (one.offer is None and not one.is_settled)
        ]
        return [*tools, self._searching(searched)] if searched else tools

    def of_server(self, definition: ServerDefinition, offer: ToolList | None) -> dict[str, Tool]:
        found: dict[str, Tool] = {}
        for name, listed in used_tools(definition, offer).items() if offer is not None else ():
            kept = self._tools.get((definition.name, name))
            if kept is None or kept[0] != listed:
                is_told = partial(self._is_told, name, definition.name)
                tool = presented(name, listed, definition, self._runner(definition.name), is_told)
                kept = self._tools[definition.name, name] = (listed, tool)
            found[name] = kept[1]
        return found

    def _is_told(self, name: str, server: str) -> bool:
        return name in self.told or server not in self._lazy

    def _runner(self, server: str) -> RunServerTool:
        async def run(listed: ListedTool, args: dict[str, Any], context: ToolContext) -> ToolOutput:
            self.told.add(context.call.name)
            return await self._call(server, listed, args, context)

        return run

    def _searching(self, servers: Iterable[SharedServer]) -> Tool:
        searched = tuple(
            SearchedServer(
                name=one.definition.name,
                about=one.offer.about if one.offer is not None else "",
                tools=None if one.offer is None else len(used_tools(one.definition, one.offer)),
            )
            for one in servers
        )

        if self._search is None or self._search[0] != searched:
            self._search = (searched, search_tool(searched, self._find))
        return self._search[1]


NAME: Final = "mcp"
BESIDE_S: Final = 0.2
"""The wait before servers are started beside a session or a request, so that they do not hold up the request."""
MOST_REVIEWS: Final = 3
"""The number of times that a session asks or tells the user by itself that one server changed. A server that keeps
changing stays left out; it is in `/mcp` and `/mcp:approve`."""


ReviewPin: TypeAlias = Callable[[str, PinReview], Awaitable[bool | None]]
"""Shows the user what the server of this name is now, beside what was approved. Returns whether the user approves; None
if no user can be asked. An agent never approves."""


class SessionUse(CallUse, frozen=True, kw_only=True):
    """What the servers use of their session. `start_s` is the time that a headless run waits for servers before its
    first request."""

    place: LaunchPlace
    clock: Clock
    review_pin: ReviewPin
    start_s: float


class SessionServers:
    """The servers of a session, in the order of its settings. `told` are tools that the model was told of before this
    run of the session."""

    name = "MCP servers"
    origin = ToolOrigin(scope="user")

    def __init__(
        self,
        definitions: Sequence[ServerDefinition],
        pool: ServerPool,
        use: SessionUse,
        *,
        told: frozenset[str] = frozenset(),
    ) -> None:
        self._pool = pool
        self._use = use
        self._servers = {one.name: pool.server(one, use.place) for one in definitions}
        self._tools = OfferedTools(self._call, self._find, told)
        self._door: SessionDoor | None = None
        self._requested = asyncio.Event()
        self._begun = self._waited = False
        self._said: dict[str, str] = {}
        self._left_out: dict[str, list[tuple[str, ...]]] = {}
        self._reviewed: dict[str, set[tuple[str, str]]] = {}
        self._reviewing: set[str] = set()
        self._reviews: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None

    # A source of tools and its service

    def service(self, door: SessionDoor) -> SessionServers:
        """Offer the tools of kept lists at once."""
        self._door = door
        self._pool.use(tuple(self._servers.values()), self)
        self._offer()
        return self

    async def start(self) -> None:
        """Start the servers without a kept list soon, the others once a request was sent."""
        await self._use.clock.sleep(BESIDE_S)
        self.begin()
        await self._requested.wait()
        await self._use.clock.sleep(BESIDE_S)
        for server in self._servers.values():
            if server.phase != "needs sign-in":
                server.begin()

    def begin(self) -> None:
        """Start the servers without a kept list. Safe to call twice."""
        if self._begun:
            return
        self._begun = True
        for server in self._servers.values():
            if server.offer is None:
                server.begin()
            self.server_changed(server)

    def request_is_out(self) -> None:
        """Note that the model was asked. Try servers again that needed a sign-in."""
        self._requested.set()
        waiting = [one for one in self._servers.values() if one.phase == "needs sign-in"]
        if waiting and (self._looking is None or self._looking.done()):
            self._looking = asyncio.ensure_future(_begin_signed_in(waiting))

    async def stop(self) -> None:
        self._door = None
        for task in tuple(self._reviews):
            task.cancel()
        await asyncio.gather(*self._reviews, return_exceptions=True)
        if self._looking is not None:
            self._looking.cancel()
        self._pool.leave(tuple(self._servers.values()), self)

    def health(self) -> Health:
        """Return the health of the server that is worst."""
        states = self.states()
        down = [one for one in states if one.phase in ("given up", "changed", "down", "needs sign-in")]
        if down:
            worst = next((one for one in down if one.phase != "down"), down[0])
            state = "down" if worst.phase == "down" else "given up"
            return Health(state=state, problem=f"{worst.name}: {worst.problem}")
        starting = [
            one
            for one in self._servers.values()
            if one.phase == "connecting" or (one.phase == "waiting" and one.offer is None)
        ]
        return Health(state="starting" if starting else "up")

    # For users

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._servers)

    def named(self, name: str) -> SharedServer | None:
        return self._servers.get(name)

    def states(self) -> tuple[ServerState, ...]:
        return tuple(server.state() for server in self._servers.values())

    def prompts(self, name: str) -> tuple[ListedPrompt, ...]:
        offer = self._servers[name].offer
        return offer.prompts if offer is not None else ()

    def note_unpinned(self) -> None:
        """Find out what of launches is not pinned, before a server was started. Reads files."""
        for server in self._servers.values():
            server.pins.note_unpinned()

    def mention(self, words: str) -> tuple[str, dict[str, Any]] | None:
        """Return the call that reads `SERVER:URI`; None if it names no server of this session."""
        name, _, uri = words.partition(":")
        server = self._servers.get(name)
        if server is None or not uri:
            return None
        return resource_tool_name(server.definition, READ_RESOURCE), {"uri": uri}

    async def review(self, server: SharedServer, review: PinReview) -> bool:
        """Ask the user now. Raises `BridleError` if no user can be asked."""
        answer = await self._use.review_pin(server.definition.name, review)
        if answer is None:
            raise BridleError("NonInteractiveAckRefused", kind=f"MCP server {server.definition.name}")
        if answer:
            await self._approve(server, review)
        return answer

    async def _approve(self, server: SharedServer, review: PinReview) -> None:
        """Store an approval of what was shown. Raises `BridleError`."""
        agree = server.pins.agree_tools if review.launch is None else server.pins.agree_launch
        try:
            await in_thread(lambda: agree(review))
        except OSError as problem:
            why = problem.strerror or str(problem)
            raise BridleError("TrustUnwritable", path=problem.filename or "the pins", problem=why) from None
        if review.launch is not None:
            server.begin()
        else:
            await server.look_again()

    # Changes of servers

    def server_changed(self, server: SharedServer) -> None:
        """Tell users once of each problem, and the model what is there now."""
        if self._door is None:
            return
        with suppress(StoreError):  # users of the session are told of that; other sessions use the server too
            self._say(server.state())
            self._say_left_out(server)
            self._offer()
            for review in (server.pins.launch_review, server.pins.tools_review):
                if review is not None:
                    self._begin_review(server, review)

    def server_made(self, server: SharedServer, notice: Notice) -> None:
        del server
        if self._door is not None:
            with suppress(StoreError):  # as above
                self._use.emit(notice)

    def _begin_review(self, server: SharedServer, review: PinReview) -> None:
        """Ask the user, once for the same content and one question at a time. Does not wait."""
        name, asked = server.definition.name, (review.reason, review.after)
        before = self._reviewed.setdefault(name, set())
        if asked in before or name in self._reviewing or len(before) >= MOST_REVIEWS:
            return
        before.add(asked)
        self._reviewing.add(name)
        task = asyncio.create_task(self._review_change(server, review))
        self._reviews.add(task)

        def over(done: asyncio.Task[None]) -> None:
            self._reviews.discard(done)
            self._reviewing.discard(name)
            self.server_changed(server)  # it may have changed again

        task.add_done_callback(over)

    async def _review_change(self, server: SharedServer, review: PinReview) -> None:
        """Ask or tell the user. A `sha256` of settings that does not match is told, not asked."""
        name = server.definition.name
        refused = review.reason == "MCPServerSHA256Mismatch"
        with suppress(StoreError):  # users of the session are told of that
            if not refused and await self._use.review_pin(name, review) is True:
                await self._approve(server, review)
            elif self._door is not None:
                data = {"name": name, **review.data}
                self._use.emit(Notice(reason=review.reason, message=review.message, data=data))

    def _say(self, state: ServerState) -> None:
        name, said = state.name, self._said.get(state.name, "")
        data = {"name": name, "problem": state.problem, "attempts": str(state.failures)}
        if state.phase == "given up" and said != "given up":
            self._said[name] = "given up"
            self._use.emit(MCPServerDown(name=name, reason=state.problem, attempts=state.failures))
        elif state.phase == "down" and not said:
            self._said[name] = "down"
            lost = Degraded(
                what=f"MCP server {name}", reason="MCPServerLost", message=sentence("MCPServerLost", data)
            )
            self._use.emit(lost)
        elif state.phase == "needs sign-in" and said != "needs sign-in":
            self._said[name] = "needs sign-in"
            message = sentence("MCPNotLetIn", data)
            self._use.emit(Notice(reason="MCPNotLetIn", message=message, data=data))
        elif state.phase == "up" and said:
            del self._said[name]
            back = {"service": f"MCP server {name}"}
            self._use.emit(Notice(reason="ServiceBack", message=sentence("ServiceBack", back), data=back))

    def _say_left_out(self, server: SharedServer) -> None:
        """Name the tools that cannot be used, once for the same ones."""
        bad = server.offer.left_out if server.offer is not None else ()
        name = server.definition.name
        said = self._left_out.setdefault(name, [])
        if bad and bad not in said and len(said) < MOST_REVIEWS:
            said.append(bad)
            data = {"name": name, "count": counted(len(bad), "tool"), "problem": "; ".join(bad[:3])}
            message = sentence("MCPToolsLeftOut", data)
            self._use.emit(Notice(reason="MCPToolsLeftOut", message=message, data=data))

    def _offer(self) -> None:
        if self._door is not None:
            self._door.offer(self._tools.of_all(self._servers.values()))

    # For the model

    async def wait_for(self, tool: str) -> None:
        """Return when the tools of this tool's server are known, or connecting took too long."""
        for server in self._servers.values():
            if tool.startswith(f"mcp__{server.definition.part}__") and server.offer is None:
                self.begin()
                await _settled(server)
                return

    async def wait_before_first_request(self) -> None:
        """Wait for servers without a kept list: once, and at most `start_s`."""
        if self._waited:
            return
        self._waited = True
        missing = [
            one for one in self._servers.values() if one.offer is None and one.definition.discovery != "lazy"
        ]
        if not missing:
            return
        self.begin()
        names = ", ".join(one.definition.name for one in missing)
        data = {"seconds": f"{self._use.start_s:g}", "names": names}
        self._use.emit(Notice(reason="MCPWaiting", message=sentence("MCPWaiting", data), data=data))
        await asyncio.gather(*(_settled(server, self._use.start_s) for server in missing))

    async def _find(self, args: SearchArgs) -> Mapping[str, Tool]:
        """Return the tools that fit. The model is told of them from the next request on."""
        self.begin()
        wanted = [one for one in self._servers.values() if args.server in ("", one.definition.name)]
        await asyncio.gather(*(_settled(server) for server in wanted if server.offer is None))
        tools: dict[str, Tool] = {}
        for server in wanted:
            tools |= self._tools.of_server(server.definition, server.offer)
        found = best_matches(args.query, tools)
        self._tools.told |= found.keys()
        return found

    async def _call(
        self, server: str, listed: ListedTool, args: dict[str, Any], context: ToolContext
    ) -> ToolOutput:
        self.begin()
        return await call_tool(self._servers[server], listed, args, context, user=self, use=self._use)


async def _begin_signed_in(servers: Sequence[SharedServer]) -> None:
    for server in servers:
        await server.begin_if_signed_in()


async def _settled(server: SharedServer, within_s: float | None = None) -> None:
    """Return when the server is up, or is not going to be in time."""
    with suppress(ServerUnavailable):
        await server.connected(within_s)
