"""The tools of a session's servers as the model is told of them: each tool, or one line for a server and a tool that
searches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias

from bridle.engine.tools import Tool, ToolContext, ToolOutput
from bridle.mcp.presented_tools import RunServerTool, presented, used_tools
from bridle.mcp.server_definitions import ServerDefinition
from bridle.mcp.shared_server import SharedServer
from bridle.mcp.tool_lists import ListedTool, ToolList
from bridle.mcp.tool_search import SearchArgs, SearchedServer, search_tool

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
