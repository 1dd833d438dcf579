"""`tool_search`: the tools of servers that have many, found by words. The model is told one line per server instead."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from bridle.base.text.phrases import counted
from bridle.base.text.untrusted import wrap
from bridle.engine.tools import Tool, ToolContext, ToolOutput, never_mutating

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
