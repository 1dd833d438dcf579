"""Present the tools and results of MCP servers to the model, and find tools by words where a server has many."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, cast

import msgspec
from msgspec import Meta

from bridle.base.text.json_schema import JsonSchema
from bridle.base.text.phrases import counted
from bridle.base.text.tool_names import mcp_tool_names
from bridle.base.text.untrusted import neutralise, wrap
from bridle.engine.tools import Tool, ToolContext, ToolOutput, never_mutating
from bridle.mcp.server_definitions import ServerDefinition
from bridle.mcp.tool_lists import ListedTool, ToolHints, ToolList
from bridle.protocol.display_values import ShownServerResult
from bridle.protocol.events import ToolOfServer
from bridle.protocol.messages import ImageBlock

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


RESULT: Final = "mcp-result"
_PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_MOST_PICTURES: Final = 4
_MOST_PICTURE_CHARACTERS: Final = 4 << 20
_MOST_SHOWN: Final = 32 * 1024


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """An image, in base64."""

    kind: str
    data: str


class ResourceText(msgspec.Struct, frozen=True, kw_only=True):
    """A resource as its server lists it. `kind` is its type of content."""

    uri: str
    name: str = ""
    about: str = ""
    kind: str = ""


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a call, a resource or a prompt came to. `structured` is a JSON value, where there is one."""

    texts: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    structured: Any = None
    failed: bool = False

    def text(self) -> str:
        """All that can be said in words. A value that the text says already is not said twice."""
        parts = [*self.texts, *map(_named, self.pictures)]
        if self.structured is not None and not any(_says(text, self.structured) for text in self.texts):
            parts.append(msgspec.json.encode(self.structured).decode())
        return "\n".join(parts)

    def images(self) -> tuple[ImageBlock, ...]:
        """The pictures that a model could look at, a few of them."""
        return tuple(
            ImageBlock(url=f"data:{one.kind};base64,{one.data}") for one in self.pictures if _fits(one)
        )[:_MOST_PICTURES]


def tool_output(result: CallResult, *, server: str, tool: str) -> ToolOutput:
    """The result for the model, as something from outside, and for people."""
    data = "" if result.structured is None else msgspec.json.encode(result.structured).decode()
    shown = ShownServerResult(
        server=server,
        tool=tool,
        pictures=len(result.pictures),
        structured=data if len(data) <= _MOST_SHOWN else "",
    )
    return ToolOutput(
        outcome="error" if result.failed else "ok",
        reason="MCPToolFailed" if result.failed else None,
        content=wrap(RESULT, result.text()),
        shown=shown,
    )


def _named(picture: Picture) -> str:
    size = decoded_bytes(picture.data)
    return f"[{picture.kind}, {size} bytes{'' if _fits(picture) else ': left out'}]"


def decoded_bytes(data: str) -> int:
    return len(data) * 3 // 4 - data[-2:].count("=")


def _fits(picture: Picture) -> bool:
    return picture.kind in _PICTURES and len(picture.data) <= _MOST_PICTURE_CHARACTERS


def _says(text: str, value: Any) -> bool:
    try:
        return msgspec.json.decode(text) == value
    except msgspec.DecodeError:
        return False


NAME: Final = "tool_search"
MOST_FOUND: Final = 8
_ABOUT_CHARACTERS: Final = 60
_DOES: Final = "Finds tools of MCP servers by words. What it finds can be called from then on."
_WORD: Final = re.compile(r"[a-z0-9]+")


class SearchArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(max_length=400, description="What the tool should do, or its name.")]
    server: Annotated[str, Meta(description="Only tools of this server.")] = ""


class SearchedServer(NamedTuple):
    """A server as one line: what it calls itself, and how many tools it has; None while nobody knows."""

    name: str
    about: str
    tools: int | None


def search_tool(
    servers: Sequence[SearchedServer], find: Callable[[SearchArgs], Awaitable[Mapping[str, Tool]]]
) -> Tool:
    """The tool. `find` gives what fits, best first, and has the model told of it from the next request on."""

    async def run(args: SearchArgs, _context: ToolContext) -> ToolOutput:
        found = await find(args)
        if not found:
            return ToolOutput(content="No tool of these servers fits. Try other words.")
        return ToolOutput(content="\n".join(map(_shown, found.values())))

    return Tool(
        name=NAME,
        description=f"{_DOES}\n{wrap('mcp-servers', chr(10).join(map(_line, servers)))}",
        input=SearchArgs,
        risk="read",
        run=run,
        mutating=never_mutating,
        timeout_s=_long_enough,
        side_effect="none",
    )


def best_matches(query: str, tools: Mapping[str, Tool]) -> dict[str, Tool]:
    """The tools that fit the words best. A name that is given stands first. Pure."""
    wanted = _words(query)
    scored = [
        (score, name)
        for name, tool in tools.items()
        if (score := _score(query, wanted, name, tool.description)) > 0
    ]
    best = sorted(scored, key=lambda one: (-one[0], one[1]))[:MOST_FOUND]
    return {name: tools[name] for _score_of, name in best}


def _score(query: str, wanted: Sequence[str], name: str, description: str) -> float:
    if name in query:
        return 1000
    in_name, in_words = _words(name), _words(description)
    score = 0.0
    for word in wanted:
        if word in in_name:
            score += 5
        elif word in in_words:
            score += 3
        elif word in "".join(in_name):
            score += 2
        elif any(one.startswith(word) or (len(one) > 3 and word.startswith(one)) for one in in_words):
            score += 1
    return score


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _line(server: SearchedServer) -> str:
    about = f" ({server.about[:_ABOUT_CHARACTERS]})" if server.about else ""
    what = "connecting" if server.tools is None else counted(server.tools, "tool")
    return f"{server.name}{about}: {what}"


def _shown(tool: Tool) -> str:
    schema = tool.schema()
    return f"{tool.name}\n{schema.description}\ninput: {msgspec.json.encode(schema.input_schema).decode()}\n"


def _long_enough(_args: object) -> float:
    """Servers that are still connecting have limits of their own."""
    return 600.0
