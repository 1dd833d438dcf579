"""The MCP servers of a session as a feature. Loaded where settings name one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bridle.base.files import repository_root
from bridle.engine.deltas import ProgressWriter
from bridle.engine.features import (
    EventListener,
    Feature,
    FeatureQuery,
    PlacedRequestLayer,
    PlacedToolLayer,
)
from bridle.engine.steps import AskModel, Reply, Step
from bridle.engine.tools import RunTool, ToolCall, ToolOutput
from bridle.mcp.server_commands import mcp_command, state_data
from bridle.mcp.session_servers import NAME, SessionServers, SessionUse
from bridle.mcp.shared_server import LaunchPlace
from bridle.protocol.errors import sentence
from bridle.protocol.events import Notice
from bridle.sandbox.session_border import claimed_spawn

if TYPE_CHECKING:
    from bridle.app.session_parts import SessionParts
    from bridle.app.settings import ServerSettings
    from bridle.protocol.queries import CustomQuery
    from bridle.safety.trust.approvals import Approvals


def mcp(parts: SessionParts) -> Feature:
    """What the servers of its settings add to a session."""
    settings = parts.settings.servers
    opened = parts.opened
    untrusted = frozenset(
        untrusted_servers(settings, cwd=opened.cwd, env=opened.env, approvals=opened.approvals)
    )
    used = [one for one in settings.definitions if one.name not in untrusted]
    servers = SessionServers(used, parts.services.servers(), _use(parts), settings.start_s)

    async def answer(_query: CustomQuery) -> dict[str, Any]:
        return state_data(servers.states())

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
            EventListener(
                kinds=frozenset({"StepStarted"}), hear=lambda _envelope: servers.first_request_is_out()
            ),
        ),
        notices=lambda: map(_left_out, sorted(untrusted)),
        read_mention=servers.mention,
    )


def _waiting(servers: SessionServers):
    """A call to a tool of a server that is still connecting waits for that server."""

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        await servers.wait_for(call.name)
        return await proceed(call)

    return layer


def _use(parts: SessionParts) -> SessionUse:
    services, opened, journal = parts.services, parts.opened, parts.journal

    def weaker(words: Any) -> None:
        services.notes.write("warning", "mcpclient", "weaker sandbox", reason=words.reason)

    is_off = parts.policy.mode == "off"
    prefix = journal.conversation.prefix
    return SessionUse(
        place=LaunchPlace(
            spawn=services.spawn if is_off else claimed_spawn(services.spawn, opened.held_by, weaker),
            policy=parts.policy,
            cwd=opened.cwd,
            env=opened.env,
            roots=(opened.cwd, *parts.settings.options.add_dirs),
        ),
        emit=journal.emit,
        progress_of=lambda call_id: ProgressWriter(journal, services.clock, call_id),
        told=frozenset(tool.name for tool in prefix.tools if tool.name.startswith("mcp__"))
        if prefix is not None
        else frozenset(),
    )


def untrusted_servers(
    settings: ServerSettings, *, cwd: str, env: Mapping[str, str], approvals: Approvals
) -> Iterator[str]:
    """The servers that a project has a say in and that no person has agreed to start."""
    started = [one for one in settings.definitions if one.of_project and one.transport == "stdio"]
    if not started:
        return
    from bridle.safety.trust.trust_items import launch_item, server_launch

    root = repository_root(cwd)
    search_path = env.get("PATH", os.defpath)
    for one in started:
        launch = server_launch(settings.tables[one.name], root=root, search_path=search_path)
        item = launch_item("mcp_server", root, f"mcp_servers.{one.name}", launch, "Bridle starts")
        if not item.is_trusted(approvals):
            yield one.name


def _left_out(name: str) -> Notice:
    data = {"name": name, "problem": "this project starts it, and nobody has agreed to that"}
    return Notice(reason="MCPServerUntrusted", message=sentence("MCPServerUntrusted", data), data=data)
