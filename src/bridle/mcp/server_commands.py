"""The slash command `/mcp`: show servers, restart one, approve its changes, and send its prompts."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import msgspec

from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible
from bridle.base.text.untrusted import neutralise
from bridle.base.threads import in_thread
from bridle.engine.ports import AskPerson
from bridle.engine.slash_command import DescribedSlash, SlashCommand, SlashEvent
from bridle.mcp.server_state import ServerState
from bridle.mcp.session_servers import NAME, SessionServers
from bridle.mcp.shared_server import ServerUnavailable, SharedServer
from bridle.mcp.tool_lists import ListedPrompt
from bridle.protocol.errors import BridleError, UsageError, sentence
from bridle.protocol.events import InputAccepted, Notice
from bridle.protocol.messages import TextBlock
from bridle.protocol.questions import OpenQuestion, WordsAnswer
from bridle.protocol.slash_arguments import SlashArgument, usage_words

_DOES: Final = (
    "the MCP servers of this session; /mcp:restart or approve NAME, /mcp:NAME status, /mcp:NAME:PROMPT"
)
_SEND: Final = "send it"
_PHASES: Final = {
    "untrusted": "not trusted",
    "waiting": "starts when it is needed",
    "connecting": "connecting",
    "up": "up",
    "down": "down, is started again",
    "given up": "given up",
    "changed": "not started, changed",
    "stopped": "stopped",
    "needs sign-in": "not let in",
}


def mcp_command(servers: SessionServers, run: Callable[[str], Awaitable[SlashEvent]]) -> SlashCommand:
    """The slash command of the servers of a session; `run` carries out what is written behind it."""
    takes = (
        SlashArgument(name="what", about="restart, status, or the name of a server; else all of them"),
        SlashArgument(name="more", about="the name of the server; or what is to happen to it"),
    )
    return SlashCommand(name=NAME, does=_DOES, arguments=takes, run=run, others=lambda: _others(servers))


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


async def carry_out(servers: SessionServers, arguments: str, ask: AskPerson) -> SlashEvent:
    """Carry out what was written behind `/mcp` or `/mcp:`. Raises `BridleError`."""
    servers.begin()
    first, _, rest = arguments.partition(" ")
    if not first:
        await in_thread(servers.note_unpinned)
        return _told(servers.states())
    if first in ("restart", "status"):
        return await _carried_out(servers, rest.strip(), first)
    if first == "approve":
        return await _approve(servers, rest.strip())
    name, _, prompt = first.partition(":")
    if prompt:
        return await _prompt(servers, name, prompt, rest, ask)
    return await _carried_out(servers, name, rest.strip() or "status")


async def _carried_out(servers: SessionServers, name: str, verb: str) -> Notice:
    server = _server(servers, name)
    if verb == "restart":
        try:
            await server.restart()
        except ServerUnavailable as problem:
            data = {"name": name, "problem": str(problem), "attempts": str(server.state().failures)}
            raise BridleError("MCPServerUnavailable", **data) from None
    elif verb != "status":
        raise BridleError("UnknownSlash", name=f"{NAME}:{name} {verb}")
    await in_thread(server.pins.note_unpinned)
    return _told((server.state(),))


async def _approve(servers: SessionServers, name: str) -> Notice:
    """Pins anew what the server launches and says of its tools, each after a person saw it."""
    server = _server(servers, name)
    try:
        review = await server.launch_shown()
        if review is not None and not await servers.review(server, review):
            return _said("Not approved.")
        await (server.restart() if review is not None else server.connected())
    except ServerUnavailable as problem:
        data = {"name": name, "problem": str(problem), "attempts": str(server.state().failures)}
        raise BridleError("MCPServerUnavailable", **data) from None
    tools = server.pins.tools_review
    if tools is not None and not await servers.review(server, tools):
        return _said(f"{name} may be started. Not approved: {tools.data['problem']}")
    return _said(f"{name} is pinned as it is now.")


def _said(text: str) -> Notice:
    data = {"text": text}
    return Notice(reason="MCPServers", message=sentence("MCPServers", data), data=data)


async def _prompt(servers: SessionServers, name: str, prompt: str, words: str, ask: AskPerson) -> SlashEvent:
    """The prompt as words of the person: they see them first, for they are the server's."""
    server = _server(servers, name)
    try:
        connection = await server.connected()
        known = {prompt_word(one.name): one for one in reversed(servers.prompts(name))}
        if prompt not in known:
            data = {"name": name, "prompt": prompt, "known": ", ".join(sorted(known)) or "none"}
            raise BridleError("MCPNoPrompt", **data)
        given = prompt_arguments(known[prompt], words)
        if missing := [
            one.name for one in known[prompt].arguments if one.required and not given.get(one.name)
        ]:
            told = described_prompt(name, known[prompt])
            raise UsageError(f"Which {short(missing[0])}? {usage_words(told.name, told.arguments)}")
        result = await connection.prompt(known[prompt].name, given)
    except ServerUnavailable as problem:
        data = {"name": name, "problem": str(problem), "attempts": str(server.state().failures)}
        raise BridleError("MCPServerUnavailable", **data) from None
    except BridleError:
        raise
    except Exception as problem:
        raise BridleError("MCPToolFailed", name=name, tool=prompt, problem=str(problem)) from problem
    text = neutralise(result.text())
    question = OpenQuestion(text=f"Send these words of the server {name}?\n{text}", choices=(_SEND, "no"))
    answer = await ask(f"mcp-prompt-{name}-{prompt}", question)
    if not isinstance(answer, WordsAnswer) or answer.text != _SEND:
        return _said("Not sent.")
    return InputAccepted(content=(TextBlock(text=text), *result.images()), mode="queue", identity="human")


def prompt_arguments(prompt: ListedPrompt, words: str) -> dict[str, str]:
    """What was written behind a prompt, by the names of its arguments: `name=value` as people read the name, up to the
    next one.

    What stands before the first name belongs to the others in their order, a word each; the last takes the rest. Pure.
    """
    own = {short(one.name): one.name for one in reversed(prompt.arguments)}
    names = list(dict.fromkeys(short(one.name) for one in prompt.arguments))
    if not names:
        return {}
    named = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    plain, *pairs = re.split(rf"(?:^|(?<=\s))({named})=", words.strip())
    given = {name: value.strip() for name, value in zip(pairs[::2], pairs[1::2], strict=True)}
    left = [name for name in names if name not in given]
    rest = plain.strip()
    while rest and left:
        word, _, after = rest.partition(" ") if len(left) > 1 else (rest, "", "")
        given[left.pop(0)], rest = word, after.strip()
    return {own[name]: given[name] for name in names if name in given}


def state_data(states: tuple[ServerState, ...]) -> dict[str, Any]:
    return {"servers": [msgspec.to_builtins(state) for state in states]}


def _told(states: tuple[ServerState, ...]) -> Notice:
    text = "\n".join(line for state in states for line in _lines(state)) or "No MCP servers here."
    return Notice(
        reason="MCPServers", message=sentence("MCPServers", {"text": text}), data=state_data(states)
    )


def _lines(state: ServerState) -> Iterator[str]:
    problem = f" ({visible(state.problem, newlines=False)})" if state.problem else ""
    offers = ", ".join(
        (
            counted(state.tools, "tool"),
            *((counted(state.prompts, "prompt"),) if state.prompts else ()),
            *(("resources",) if state.resources else ()),
        )
    )
    how = " (searched)" if state.lazy else " (as kept)" if state.kept else ""
    yield f"{visible(state.name, newlines=False)}  {_PHASES[state.phase]}{problem}  {offers}{how}"
    if state.held_back:
        yield f"    left out until you agree: {visible(', '.join(state.held_back), newlines=False)}"
    if state.unpinned:
        yield f"    {visible(state.unpinned, newlines=False)}"
    facts = [
        *((f"ended {counted(state.ended, 'time')}",) if state.ended else ()),
        *((f"{counted(state.garbage, 'line')} that were no message",) if state.garbage else ()),
        *((f"{counted(state.too_long, 'answer')} too long to read",) if state.too_long else ()),
    ]
    if facts:
        yield f"    {', '.join(facts)}  log: {visible(state.log, newlines=False)}"


def _server(servers: SessionServers, name: str) -> SharedServer:
    server = servers.named(name)
    if server is None:
        raise BridleError("MCPNoServer", name=name, known=", ".join(servers.names))
    return server


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
