"""The tools of a server as tools of ours: names, words and risks. Pure, but for what runs them.

What a server says is for the model to read and nobody to believe: a tool changes things unless the person trusts the
server to say that it does not.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from bridle.base.text.json_schema import JsonSchema
from bridle.base.text.tool_names import mcp_tool_names
from bridle.base.text.untrusted import neutralise, wrap
from bridle.engine.tools import Tool, ToolContext, ToolOutput, never_mutating
from bridle.mcp.server_definitions import ServerDefinition
from bridle.mcp.tool_lists import ListedTool, ToolHints, ToolList
from bridle.protocol.events import ToolOfServer

DESCRIPTION: Final = "mcp-description"
LIST_RESOURCES: Final = "list_resources"
READ_RESOURCE: Final = "read_resource"
_MOST_DESCRIPTION: Final = 4_000
_WORDS: Final = frozenset({"description", "title"})

RunServerTool = Callable[[ListedTool, dict[str, Any], ToolContext], Awaitable[ToolOutput]]
"""Carries out a call of a tool, as its server lists it."""

_RESOURCE_TOOLS: Final = (
    ListedTool(
        name=LIST_RESOURCES,
        description="Lists what this server has to read: addresses, names, types.",
        input_schema={"type": "object", "properties": {}},
        hints=ToolHints(read_only=True),
    ),
    ListedTool(
        name=READ_RESOURCE,
        description="Reads a resource of this server by its address.",
        input_schema={"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]},
        hints=ToolHints(read_only=True),
    ),
)


def used_tools(definition: ServerDefinition, offer: ToolList) -> dict[str, ListedTool]:
    """What of the offer is used, by the names the model knows. Resources are tools too; the server's own come first."""
    listed = {tool.name: tool for tool in offer.tools if definition.uses(tool.name)}
    names = mcp_tool_names(definition.part, listed)
    found = {names[name]: tool for name, tool in listed.items()}
    if offer.resources:
        for tool in _RESOURCE_TOOLS:
            name = resource_tool_name(definition, tool.name)
            if name not in found and definition.uses(tool.name):
                found[name] = tool
    return found


def resource_tool_name(definition: ServerDefinition, tool: str) -> str:
    return mcp_tool_names(definition.part, [tool])[tool]


def is_of_resources(tool: ListedTool) -> bool:
    """Whether it is one of ours, which no server lists."""
    return any(tool is one for one in _RESOURCE_TOOLS)


def presented(
    name: str,
    listed: ListedTool,
    definition: ServerDefinition,
    run: RunServerTool,
    is_told: Callable[[], bool],
) -> Tool:
    """The tool as the session has it."""
    hints = listed.hints
    harmless = definition.read_only_trusted and hints.read_only is True

    async def call(args: dict[str, Any], context: ToolContext) -> ToolOutput:
        return await run(listed, args, context)

    tool = Tool(
        name=name,
        description=_description(listed),
        input=JsonSchema(listed.input_schema, checked=True),
        input_schema=cast("dict[str, Any]", _neutral(listed.input_schema)),
        risk="read" if harmless else "shell",
        run=call,
        concurrency="parallel_safe" if harmless else "serial",
        timeout_s=_its_own,
        side_effect="external",
        is_told=is_told,
        in_session_folder=definition.is_local and not harmless,
        of_server=ToolOfServer(
            server=definition.name,
            tool=listed.name,
            title=hints.title,
            read_only=hints.read_only,
            destructive=hints.destructive,
            idempotent=hints.idempotent,
            open_world=hints.open_world,
            believed=definition.read_only_trusted,
        ),
    )
    return _harmless(tool) if harmless else tool


def _harmless(tool: Tool) -> Tool:
    from msgspec.structs import replace

    return replace(tool, mutating=never_mutating)


def _description(listed: ListedTool) -> str:
    if is_of_resources(listed):
        return listed.description
    words = listed.description.strip() or listed.hints.title
    if len(words) > _MOST_DESCRIPTION:
        words = f"{words[:_MOST_DESCRIPTION]}…"
    return wrap(DESCRIPTION, words) if words else ""


def _neutral(value: object, *, words: bool = False) -> object:
    """A schema in which no words of its server can pass for the end of something from outside."""
    match value:
        case dict():
            table = cast("dict[str, object]", value)
            return {name: _neutral(one, words=name in _WORDS) for name, one in table.items()}
        case list():
            return [_neutral(one) for one in cast("list[object]", value)]
        case str() if words:
            return neutralise(value)
        case _:
            return value


def _its_own(_args: object) -> float:
    """The time a server has is counted where a person who is asked something can stop it."""
    return math.inf
