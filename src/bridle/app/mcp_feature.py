"""The MCP servers of a session as a feature. Loaded where settings name one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bridle.app.project_servers import ServerPlace, untrusted_servers
from bridle.engine.features import (
    EventListener,
    Feature,
    FeatureQuery,
    PlacedRequestLayer,
    PlacedToolLayer,
)
from bridle.engine.steps import AskModel, Reply, Step
from bridle.engine.tools import RunTool, ToolCall, ToolOutput
from bridle.mcp.offered_tools import OfferedTools, OfferingServer
from bridle.mcp.pin_files import foreign_root, kept_part, pins_folder
from bridle.mcp.server_definitions import ServerDefinition, launch_hash
from bridle.mcp.server_slash import mcp_command
from bridle.mcp.session_servers import NAME, SessionServers
from bridle.mcp.tool_lists import KeptLists
from bridle.protocol.errors import sentence
from bridle.protocol.events import Notice

if TYPE_CHECKING:
    from bridle.app.session_parts import SessionParts
    from bridle.engine.slash_command import SlashEvent
    from bridle.mcp.running_servers import RunningServers
    from bridle.protocol.queries import CustomQuery


def mcp(parts: SessionParts) -> Feature:
    """What the servers of its settings add to a session."""
    settings = parts.settings.servers
    opened = parts.opened
    place = ServerPlace(cwd=opened.cwd, env=opened.env, state=parts.services.where.state)
    untrusted = frozenset(untrusted_servers(settings, place, opened.approvals))
    used = [one for one in settings.definitions if one.name not in untrusted]
    servers = _session_servers(parts, used)

    async def carry_out(arguments: str) -> SlashEvent:
        from bridle.mcp.server_commands import carry_out  # not before somebody gives one

        return await carry_out(servers.open(), arguments, parts.questions.ask)

    async def answer(_query: CustomQuery) -> dict[str, Any]:
        from bridle.mcp.server_commands import state_data

        return state_data(servers.open().states())

    async def wait(step: Step, proceed: AskModel) -> Reply:
        await servers.wait_before_first_request()
        return await proceed(step)

    waits = PlacedRequestLayer("wait_for_servers", wait)
    return Feature(
        name=NAME,
        sources=(servers,),
        request_layers=(waits,) if parts.settings.options.headless else (),
        tool_layers=(PlacedToolLayer("wait_for_tool", lambda: _waiting(servers)),),
        slash=(mcp_command(servers, carry_out),),
        queries=(FeatureQuery(verb="servers", answer=answer),),
        listeners=(
            EventListener(kinds=frozenset({"StepStarted"}), hear=lambda _envelope: servers.request_is_out()),
        ),
        notices=lambda: map(_left_out, sorted(untrusted)),
        read_mention=servers.mention,
    )


def _session_servers(parts: SessionParts, used: list[ServerDefinition]) -> SessionServers:
    """The servers as an earlier run left them. Nothing is put off in an engine that listens or has servers already; a
    run that nobody watches waits for what is not known."""

    def open_servers(tools: OfferedTools) -> RunningServers:
        from bridle.app.server_use import session_use
        from bridle.mcp.running_servers import RunningServers

        pool = parts.services.servers()
        return RunningServers(used, pool, session_use(parts), tools, parts.settings.servers.start_s)

    known = list(_kept_offers(parts, used))
    prefix = parts.journal.conversation.prefix
    told = (tool.name for tool in prefix.tools) if prefix is not None else ()
    return SessionServers(
        known,
        open_servers,
        parts.services.clock,
        told=frozenset(name for name in told if name.startswith("mcp__")),
        at_once=parts.services.listening
        or parts.services.has_servers()
        or (parts.settings.options.headless and any(one.offer is None for one in known)),
    )


def _kept_offers(parts: SessionParts, used: list[ServerDefinition]) -> Iterator[OfferingServer]:
    """What of each an earlier run kept, as far as it was agreed to."""
    services, opened = parts.services, parts.opened
    lists, pins = KeptLists(services.where.state), pins_folder(services.where.state)
    now_ms, root = services.clock.now_ms(), foreign_root(opened.cwd, {**opened.env, **parts.policy.variables})
    for one in used:
        kept = lists.read(launch_hash(one, opened.cwd), now_ms)
        agreed = kept_part(kept, one, pins, root) if kept is not None else None
        yield OfferingServer(one, agreed.offer if agreed is not None else None)


def _waiting(servers: SessionServers):
    """A call to a tool of a server that is still connecting waits for that server."""

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        await servers.wait_for(call.name)
        return await proceed(call)

    return layer


def _left_out(name: str) -> Notice:
    data = {"name": name, "problem": "this project starts it, and nobody has agreed to that"}
    return Notice(reason="MCPServerUntrusted", message=sentence("MCPServerUntrusted", data), data=data)
