"""The MCP servers of a session as a feature. Loaded where settings name one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.app.mcp_sampling import sample_writer, sampling_budget
from bridle.app.server_values import ServerValues
from bridle.app.stored_keys import StoredKeys
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
    from bridle.mcp.pin_gate import PinReview
    from bridle.mcp.server_tokens import ServerTokens
    from bridle.protocol.queries import CustomQuery
    from bridle.protocol.questions import TrustQuestion
    from bridle.safety.trust.approvals import Approvals
    from bridle.safety.trust.trust_items import TrustItem


def mcp(parts: SessionParts) -> Feature:
    """What the servers of its settings add to a session."""
    settings = parts.settings.servers
    opened = parts.opened
    place = ServerPlace(cwd=opened.cwd, env=opened.env, state=parts.services.where.state)
    untrusted = frozenset(untrusted_servers(settings, place, opened.approvals))
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
    budget = sampling_budget(parts.settings.servers)
    return SessionUse(
        place=LaunchPlace(
            spawn=services.spawn if is_off else claimed_spawn(services.spawn, opened.held_by, weaker),
            policy=parts.policy,
            cwd=opened.cwd,
            env=opened.env,
            roots=(opened.cwd, *parts.settings.options.add_dirs),
            tokens=_tokens(parts),
            values=ServerValues(opened.env, services.env, services.models.stored),
        ),
        emit=journal.emit,
        review_pin=lambda server, review: _review_pin(parts, server, review),
        write_sample=sample_writer(parts) if budget is not None else None,
        sampling=budget,
        progress_of=lambda call_id: ProgressWriter(journal, services.clock, call_id),
        told=frozenset(tool.name for tool in prefix.tools if tool.name.startswith("mcp__"))
        if prefix is not None
        else frozenset(),
    )


def _tokens(parts: SessionParts) -> Callable[[str], ServerTokens] | None:
    """What people signed in with, where this process keeps credentials at all."""
    from bridle.app.server_sign_ins import stored_tokens

    models = parts.services.models
    stored = models.stored
    if not isinstance(stored, StoredKeys):
        return None
    kept = stored.kept_in(parts.settings.credential_store or stored.back_end)
    return stored_tokens(kept, lambda: models.connections)


async def _review_pin(parts: SessionParts, server: str, review: PinReview) -> bool | None:
    """Puts the question; a yes to the launch of a project's server is kept with the other approvals too."""
    from bridle.protocol.questions import TrustAnswer

    starts = review.launch is not None and not review.launch.is_address
    item = _project_launch(parts, server) if starts else None
    now_ms = parts.services.clock.now_ms()
    question = pin_question(review, now_ms)
    answer = await parts.questions.ask(f"mcp-pin-{question.sha256[:12]}-{now_ms}", question)
    if not isinstance(answer, TrustAnswer):
        return None
    if answer.use and item is not None:
        item.approve(parts.opened.approvals)
    return answer.use


def pin_question(review: PinReview, now_ms: int) -> TrustQuestion:
    """What a person is shown of a server before they agree: all of it, or the change since they did."""
    from bridle.safety.trust.approvals import content_digest
    from bridle.safety.trust.trust_questions import ApprovedBefore, ReviewedText, file_question

    before = None
    if review.agreed_ms is not None:
        before = ApprovedBefore(approved_ms=review.agreed_ms, text=review.before)
    text = ReviewedText(shown=review.subject, text=review.after, kind="mcp_server", before=before)
    digest = content_digest(review.after.encode("utf-8", "surrogateescape"))
    return file_question(text, sha256=digest, now_ms=now_ms)


def _project_launch(parts: SessionParts, server: str) -> TrustItem | None:
    """What a project would have started, if it is the project that has a say in this server."""
    settings, opened = parts.settings.servers, parts.opened
    if not any(one.of_project and one.name == server for one in settings.definitions):
        return None
    place = ServerPlace(cwd=opened.cwd, env=opened.env, state=parts.services.where.state)
    return project_server_item(server, settings.tables[server], place)


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
