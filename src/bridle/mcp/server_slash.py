"""`/mcp` as people find it: its name, its words, and the prompts of servers. What it does is `server_commands`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from bridle.base.visible import visible
from bridle.engine.slash_command import DescribedSlash, SlashCommand, SlashEvent
from bridle.mcp.session_servers import NAME, SessionServers
from bridle.mcp.tool_lists import ListedPrompt
from bridle.protocol.slash_arguments import SlashArgument

DOES: Final = (
    "the MCP servers of this session; /mcp:restart or approve NAME, /mcp:NAME status, /mcp:NAME:PROMPT"
)


def mcp_command(servers: SessionServers, run: Callable[[str], Awaitable[SlashEvent]]) -> SlashCommand:
    """The slash command of the servers of a session; `run` carries out what is written behind it."""
    takes = (
        SlashArgument(name="what", about="restart, status, or the name of a server; else all of them"),
        SlashArgument(name="more", about="the name of the server; or what is to happen to it"),
    )
    return SlashCommand(name=NAME, does=DOES, arguments=takes, run=run, others=lambda: _others(servers))


def _others(servers: SessionServers) -> tuple[DescribedSlash, ...]:
    """What can be said behind `/mcp:` now."""
    which = SlashArgument(name="NAME", about="the server", required=True, choices=servers.names)
    verb = SlashArgument(name="verb", about="what about it; else status", choices=("status", "restart"))
    found = [
        DescribedSlash(
            name=f"{NAME}:restart", does="start an MCP server anew: /mcp:restart NAME", arguments=(which,)
        ),
        DescribedSlash(
            name=f"{NAME}:approve",
            does="agree to what an MCP server is now: /mcp:approve NAME",
            arguments=(which,),
        ),
    ]
    for name in servers.names:
        found.append(
            DescribedSlash(
                name=f"{NAME}:{name}", does="how this MCP server is: status, or restart", arguments=(verb,)
            )
        )
        found += (described_prompt(name, prompt) for prompt in servers.prompts(name))
    return tuple(found)


def described_prompt(server: str, prompt: ListedPrompt) -> DescribedSlash:
    """A prompt of a server. Its arguments may be given by name: `name=value`."""
    return DescribedSlash(
        name=f"{NAME}:{server}:{prompt_word(prompt.name)}",
        does=short(prompt.description) or "a prompt of this MCP server",
        arguments=tuple(
            SlashArgument(name=short(one.name), about=short(one.description), required=one.required)
            for one in prompt.arguments
        ),
    )


def prompt_word(name: str) -> str:
    """The name of a prompt as people read it and write it: one word, in which nothing is obeyed or hidden."""
    return "_".join(short(name).split()) or "_"


def short(words: str) -> str:
    """Words of a server, as people may read them in a line."""
    return visible(words, newlines=False)[:80]
