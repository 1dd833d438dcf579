"""MCP servers in a session as a feature."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from bridle.app.features.model_features import asking_aside, refuse_beyond_budget
from bridle.app.features.server_trust import (
    ServerPlace,
    ServerValues,
    pin_question,
    project_server_item,
    untrusted_servers,
)
from bridle.app.session_parts import SessionParts
from bridle.app.user.settings import ServerSettings
from bridle.app.user.stored_keys import StoredKeys
from bridle.base.net.http import HttpConnections
from bridle.base.text.token_estimate import estimated_tokens
from bridle.credentials.records import SignIn
from bridle.engine.deltas import ProgressWriter
from bridle.engine.features import (
    EventListener,
    Feature,
    FeatureQuery,
    PlacedRequestLayer,
    PlacedToolLayer,
)
from bridle.engine.slash_command import SlashEvent
from bridle.engine.steps import AskModel, Reply, Step
from bridle.engine.tools import RunTool, ToolCall, ToolOutput
from bridle.mcp.pin_gate import PinReview
from bridle.mcp.sampling_requests import SampleReply, SampleRequest, SamplingBudget, WriteSample
from bridle.mcp.server_commands import carry_out, mcp_command, state_data
from bridle.mcp.server_run import LaunchPlace
from bridle.mcp.server_tokens import ServerTokens, TokensUnavailable
from bridle.mcp.session_servers import NAME, SessionServers, SessionUse
from bridle.protocol.errors import BridleError, sentence
from bridle.protocol.events import Notice, PrefixSet
from bridle.protocol.messages import Message, Parameters, TextBlock
from bridle.protocol.queries import CustomQuery
from bridle.protocol.questions import TrustAnswer
from bridle.safety.trust.trust_items import TrustItem
from bridle.sandbox.session_border import claimed_spawn


def stored_tokens(
    stored: StoredKeys, connections: Callable[[], HttpConnections]
) -> Callable[[str], ServerTokens]:
    """The tokens of each sign-in, by its name, renewed over these connections."""
    return lambda name: _StoredTokens(name, stored, connections)


class _StoredTokens:
    def __init__(self, name: str, stored: StoredKeys, connections: Callable[[], HttpConnections]) -> None:
        self._name = name
        self._stored = stored
        self._connections = connections
        self._found: SignIn | None = None

    async def current(self, *, refused: str = "") -> str | None:
        try:
            found = await self._stored.server_sign_in(self._name, self._connections, refused=refused)
        except BridleError as problem:
            raise TokensUnavailable(problem.message.rstrip(".")) from None
        self._found = found
        return None if found is None else found.access_token

    async def challenged(self, challenge: str) -> None:
        if self._found is not None:
            with suppress(BridleError):  # the next sign-in finds out anew
                await self._stored.keep_challenge(self._found, challenge)


SAMPLE_TIMEOUT_S: Final = 120.0


def mcp(parts: SessionParts) -> Feature:
    """Return the feature for the servers of the session's settings."""
    settings = parts.settings.servers
    untrusted = frozenset(untrusted_servers(settings, _place(parts), parts.opened.approvals))
    used = [one for one in settings.definitions if one.name not in untrusted]
    prefix = parts.journal.conversation.prefix
    told = (tool.name for tool in prefix.tools) if prefix is not None else ()
    servers = SessionServers(
        used,
        parts.services.servers(),
        session_use(parts),
        told=frozenset(name for name in told if name.startswith("mcp__")),
    )

    async def run_command(arguments: str) -> SlashEvent:
        return await carry_out(servers, arguments, parts.questions.ask)

    async def answer(_query: CustomQuery) -> dict[str, Any]:
        servers.begin()
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
        slash=(mcp_command(servers, run_command),),
        queries=(FeatureQuery(verb="servers", answer=answer),),
        listeners=(
            EventListener(kinds=frozenset({"StepStarted"}), hear=lambda _envelope: servers.request_is_out()),
        ),
        notices=lambda: map(_left_out, sorted(untrusted)),
        read_mention=servers.mention,
    )


def _waiting(servers: SessionServers):
    """Return the layer in which a call to a tool of a server that is still connecting waits for that server."""

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        await servers.wait_for(call.name)
        return await proceed(call)

    return layer


def _left_out(name: str) -> Notice:
    data = {"name": name, "problem": "this project starts it, and nobody has agreed to that"}
    return Notice(reason="MCPServerUntrusted", message=sentence("MCPServerUntrusted", data), data=data)


# What the servers use of their session


def session_use(parts: SessionParts) -> SessionUse:
    """Return what all servers of a session use of it."""
    services, opened, journal = parts.services, parts.opened, parts.journal

    def weaker(words: Any) -> None:
        services.notes.write("warning", "mcpclient", "weaker sandbox", reason=words.reason)

    is_off = parts.policy.mode == "off"
    budget = _sampling_budget(parts.settings.servers)
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
        clock=services.clock,
        emit=journal.emit,
        review_pin=lambda server, review: _review_pin(parts, server, review),
        write_sample=_sample_writer(parts) if budget is not None else None,
        sampling=budget,
        start_s=parts.settings.servers.start_s,
        progress_of=lambda call_id: ProgressWriter(journal, services.clock, call_id),
    )


def _tokens(parts: SessionParts) -> Callable[[str], ServerTokens] | None:
    """Return the tokens of sign-ins, if this process keeps credentials at all."""
    models = parts.services.models
    stored = models.stored
    if not isinstance(stored, StoredKeys):
        return None
    kept = stored.kept_in(parts.settings.credentials.store)
    return stored_tokens(kept, lambda: models.connections)


async def _review_pin(parts: SessionParts, server: str, review: PinReview) -> bool | None:
    """Ask the user. An approval of the launch of a project's server is stored with the other approvals too."""
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


def _project_launch(parts: SessionParts, server: str) -> TrustItem | None:
    """Return what a project asks to start, if this server comes from the project."""
    settings = parts.settings.servers
    if not any(one.of_project and one.name == server for one in settings.definitions):
        return None
    return project_server_item(server, settings.tables[server], _place(parts))


def _place(parts: SessionParts) -> ServerPlace:
    return ServerPlace(cwd=parts.opened.cwd, env=parts.opened.env)


# The session's model for a server


def _sampling_budget(settings: ServerSettings) -> SamplingBudget | None:
    """Return how much of the model servers may use; None if no setting lets one ask."""
    if not any(one.sampling for one in settings.definitions):
        return None
    return SamplingBudget(requests=settings.sampling_requests, tokens=settings.sampling_tokens)


def _sample_writer(parts: SessionParts) -> WriteSample:
    """Return the function that asks the session's model for a server: these messages, no tools, nothing of the
    conversation. The cost counts in the session's budget."""
    ask = asking_aside(parts, "sampling", SAMPLE_TIMEOUT_S)

    async def write(request: SampleRequest) -> SampleReply:
        chosen = parts.journal.conversation.model
        assert chosen is not None, "a session is created with a model"
        prefix = PrefixSet(
            provider=chosen.provider,
            model=chosen.model,
            system=request.system,
            parameters=Parameters(max_tokens=request.max_tokens),
        )
        messages = [
            Message(role=message.role, content=(TextBlock(text=message.text),))
            for message in request.messages
        ]
        try:
            refuse_beyond_budget(parts, prefix, estimated_tokens(request.characters))
            answer = await ask(prefix, messages)
        except BridleError as failure:
            return SampleReply(refusal=failure.message.rstrip("."))
        return SampleReply(text=answer.text, model=f"{chosen.provider}:{chosen.model}", stop=answer.stop)

    return write
