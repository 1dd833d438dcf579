"""The MCP servers of a session as a feature. Loaded where settings name one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.base.files import repository_root
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
    from bridle.app.settings import ServerSettings
    from bridle.mcp.running_servers import RunningServers
    from bridle.protocol.queries import CustomQuery
    from bridle.safety.trust.approvals import Approvals
    from bridle.safety.trust.trust_items import TrustItem


def mcp(parts: SessionParts) -> Feature:
    """What the servers of its settings add to a session."""
    settings = parts.settings.servers
    opened = parts.opened
    place = ServerPlace(cwd=opened.cwd, env=opened.env, state=parts.services.where.state)
    untrusted = frozenset(untrusted_servers(settings, place, opened.approvals))
    used = [one for one in settings.definitions if one.name not in untrusted]
    servers = _session_servers(parts, used)

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
        slash=(mcp_command(servers, parts.questions.ask),),
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


class ServerPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where servers would start: the folder of the session, its variables, and the state folder of the person."""

    cwd: str
    env: Mapping[str, str]
    state: str


def untrusted_servers(settings: ServerSettings, place: ServerPlace, approvals: Approvals) -> Iterator[str]:
    """The servers that a project has a say in and that no person has agreed to start."""
    for one in settings.definitions:
        if one.of_project and one.transport == "stdio":
            item = project_server_item(one.name, settings.tables[one.name], place)
            if not item.is_trusted(approvals):
                yield one.name


def project_server_item(name: str, table: Mapping[str, Any], place: ServerPlace) -> TrustItem:
    """A program that a project wants to have started as a server. Of files, those are read that changed since."""
    from bridle.base.file_digests import FileDigests
    from bridle.mcp.server_pins import digests_path
    from bridle.safety.trust.trust_items import launch_item, server_launch

    root = repository_root(place.cwd)
    digests = FileDigests(digests_path(place.state))
    search_path = place.env.get("PATH", os.defpath)
    launch = server_launch(table, root=root, cwd=place.cwd, search_path=search_path, digest=digests.sha256)
    digests.save()
    return launch_item("mcp_server", root, f"mcp_servers.{name}", launch, "Bridle starts")


def _left_out(name: str) -> Notice:
    data = {"name": name, "problem": "this project starts it, and nobody has agreed to that"}
    return Notice(reason="MCPServerUntrusted", message=sentence("MCPServerUntrusted", data), data=data)
