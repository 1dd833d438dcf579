"""One session, put together: its parts, its features joined by slot, and the session around them.

What stands around the model and around a tool, and in which order: `engine/features.py`, as two tuples of slots.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from bridle.app.features.model_features import answer_aside
from bridle.app.features.session_features import BROUGHT, session_features
from bridle.app.session_parts import OpenedLog, SessionParts, session_parts
from bridle.base.memory_budget import MemoryCache
from bridle.commands.described_commands import ROLE_COMMANDS
from bridle.engine.dispatch import Dispatcher
from bridle.engine.features import Feature, Joined, join, watch_with
from bridle.engine.foreign_output import checked_event
from bridle.engine.ports import RunCall
from bridle.engine.services import Service, Services, SessionDoor, ToolSource, UnusableService
from bridle.engine.session import Court, GrantActions, Lifecycle, Session, SessionPorts
from bridle.engine.slash_command import SlashCommand, SlashEvent
from bridle.engine.steps import Model, with_layers
from bridle.engine.tools import LeftOut, RunTool, Tool, ToolCall, ToolOutput
from bridle.engine.turn_runner import InvocationParts, Limits, TurnRunner
from bridle.protocol.events import DurableEvent, Notice
from bridle.protocol.queries import ListAgents
from bridle.sessions.archive.beside_store import transcripts_of
from bridle.sessions.archive.kept_fold import KeptFold, Transcript

if TYPE_CHECKING:
    from bridle.app.subagents.agents_feature import SessionDelegation
    from bridle.app.subagents.child_run import ChildRuns
    from bridle.engine.store_ports import OpenLog
    from bridle.protocol.queries import AgentList
    from bridle.sessions.archive.transcript_file import Format, KeptTranscript


def session_services(parts: SessionParts, features: Sequence[Feature]) -> Services:
    """Return the services of these features."""
    running = [service for feature in features for service in feature.services]
    sources = [source for feature in features for source in feature.sources]
    everyone = [*running, *(_service(parts, source) for source in sources)]
    return Services(everyone, parts.journal.emit, parts.services.clock)


def _service(parts: SessionParts, source: ToolSource) -> Service:
    journal, opened = parts.journal, parts.opened

    def emit(event: DurableEvent) -> object:
        return journal.emit(checked_event(event))

    def offer(tools: Iterable[Tool]) -> None:
        for left in parts.registry.replace(source.name, tools, source.origin):
            journal.emit(left.notice())

    door = SessionDoor(
        offer=offer,
        spawn=parts.spawn,
        policy=parts.policy,
        cwd=opened.cwd,
        env=opened.env,
        clock=parts.services.clock,
        emit=emit,
    )
    try:
        return source.service(door)
    except (Exception, SystemExit) as fault:  # noqa: BLE001  the boundary: a session opens whatever a source does
        return UnusableService(source.name, fault)


class ComposedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session with its parts and its features. `notices` are reported when it begins."""

    session: Session
    parts: SessionParts
    features: Joined
    fold: KeptFold
    notices: tuple[Notice, ...]


def compose(opened: OpenedLog) -> ComposedSession:
    """A session of its features. Raises `FeatureConflict` where one from outside collides with another."""
    services, parts = opened.services, session_parts(opened)
    fold = KeptFold(
        opened.log,
        opened.conversation,
        opened.kept_until,
        transcript=_transcript(parts),
        say=parts.journal.emit,
    )
    delegation = _delegation(parts)
    agents = () if delegation is None else (delegation.feature(),)
    ours = (*session_features(parts, fold), *agents, _roles(parts, delegation))
    outside = (*services.features, *opened.plugged)
    joined = join(ours, outside)
    parts.journal.watch(*watch_with(ours, parts.journal.emit, services.clock))
    parts.bus.watch(*watch_with(outside, parts.journal.emit, services.clock))  # they hear what is stored
    left_out = _offer_tools(parts, joined)
    session = _session(parts, joined, fold)
    if delegation is not None:
        delegation.wake = session.wake
    left = (one.notice() for one in left_out)
    return ComposedSession(
        session=session,
        parts=parts,
        features=joined,
        fold=fold,
        notices=(*joined.notices(), *_idle_rules(parts, joined), *left),
    )


def _offer_tools(parts: SessionParts, joined: Joined) -> tuple[LeftOut, ...]:
    """Offers what features bring, then what an embedder does; returns what cannot be offered."""
    registry = parts.registry
    left_out = [
        left
        for feature in joined.features
        if feature.tools
        for left in registry.replace(feature.name, feature.tools, feature.origin)
    ]
    return (*left_out, *registry.replace(BROUGHT.scope, _brought(parts), BROUGHT))


def _brought(parts: SessionParts) -> tuple[Tool, ...]:
    return tuple(tool for tool in parts.services.tools if isinstance(tool, Tool))


def _session(parts: SessionParts, joined: Joined, fold: KeptFold) -> Session:
    services, settings = parts.services, parts.settings
    limits = Limits(max_steps=settings.max_steps, stop_unanswered=settings.options.on_ask == "fail")
    return Session(
        TurnRunner(
            invocation_parts(parts, joined),
            ids=services.ids,
            limits=limits,
            watcher=parts.watching,
            read_mention=next((one.read_mention for one in joined.features if one.read_mention), None),
        ),
        ports=SessionPorts(log=parts.opened.log, clock=services.clock, room=services.room),
        bus=parts.bus,
        lifecycle=Lifecycle(
            court=_court(parts),
            goals=parts.goals,
            at_rest=fold.after_turn,
            at_end=functools.partial(joined.end, parts.journal.emit, services.clock),
            stop_child=next((one.stop_child for one in joined.features if one.stop_child), None),
        ),
        grants=GrantActions(parts.revoke_grant, parts.promote_grant),
        slash=joined.slash,
        aside=answer_aside(parts),
        services=_services(parts, joined),
    )


def invocation_parts(parts: SessionParts, joined: Joined) -> InvocationParts:
    """What an invocation works with: the model and the tools, each behind its layers."""
    services, journal, stopwatch = parts.services, parts.journal, parts.stopwatch
    model = Model(
        provider=services.models.provider,
        ids=services.ids,
        clock=services.clock,
        stopwatch=stopwatch,
        cost_of=services.known.cost_of,
        requests=MemoryCache(services.memory, parts.opened.log.session, "requests"),
    )
    dispatcher = Dispatcher(
        journal=journal,
        clock=services.clock,
        stopwatch=stopwatch,
        run_tool=_run_tool(
            parts,
            joined,
            lambda tool, given, who: dispatcher.run_alone(services.ids.new("call"), tool, given, who),
        ),
        concurrency=parts.registry.concurrency,
        watcher=parts.watching,
    )
    return InvocationParts(
        journal=journal,
        questions=parts.questions,
        stopwatch=stopwatch,
        ask=with_layers(joined.request_layers, model.ask),
        dispatcher=dispatcher,
    )


def _run_tool(parts: SessionParts, joined: Joined, run_beside: RunCall) -> RunTool:
    """Runs a call through the tool layers, which are built with the first call."""

    @functools.cache
    def layered() -> RunTool:
        from bridle.app.features.tool_layers import execute  # the door of tool calls

        return joined.tool_layers().around(execute(parts, run_beside))

    async def run(call: ToolCall) -> ToolOutput:
        return await layered()(call)

    return run


def _delegation(parts: SessionParts) -> SessionDelegation | None:
    """Other agents that may be sent, in a session that has more than one."""
    if parts.agent is None or parts.agent.settings.mode != "multi":
        return None
    from bridle.app.subagents.agents_feature import session_delegation  # they stand on all the others

    return session_delegation(parts, invocation_parts)


def _roles(parts: SessionParts, delegation: SessionDelegation | None) -> Feature:
    """`/plan`, `/solve`, `/code`, `/auto`: a person has an agent work by itself."""

    def role_run():
        from bridle.app.subagents import role_run  # the door of subagents

        return role_run

    @functools.cache
    def runs() -> ChildRuns:
        return role_run().role_runs(parts, invocation_parts) if delegation is None else delegation.children

    async def run(name: str, arguments: str) -> SlashEvent:
        return await role_run().run_role(parts, runs(), name, arguments.strip())

    commands = (SlashCommand.of(one, functools.partial(run, one.name)) for one in ROLE_COMMANDS)
    return Feature(
        name="roles",
        slash=tuple(commands),
        answers={ListAgents: functools.partial(_list_agents, parts)},
        stop_child=lambda child, client: runs().stop(child, client),
    )


async def _list_agents(parts: SessionParts, _query: ListAgents) -> AgentList:
    from bridle.app.queries.agent_answers import session_agents  # the door of queries

    return session_agents(parts.opened.agents, parts.settings.agents)


def _services(parts: SessionParts, joined: Joined) -> Services | None:
    """What runs beside the session: the services of features, and their sources of tools."""
    if not any(feature.sources or feature.services for feature in joined.features):
        return None

    return session_services(parts, joined.features)


def _court(parts: SessionParts) -> Court | None:
    if parts.opened.unjudged is None:
        return None
    from bridle.recovery.court import CrashCourt  # only after a crash

    return CrashCourt(
        parts.journal,
        run=parts.opened.unjudged,
        ask=lambda journal, name, question: parts.questions.within(journal).ask_whom(name, question),
        undo_work=parts.undo().work_in,
    ).sit


def _transcript(parts: SessionParts) -> Transcript | None:
    """The transcript of this session; None where settings want none."""
    form, log = parts.settings.transcript.format, parts.opened.log
    if form == "off":
        return None
    return session_transcript(log, transcripts_of(parts.services.where.state, log.session), form)


def session_transcript(log: OpenLog, folder: str, form: Format) -> KeptTranscript:
    """Return the transcript of a log in a folder."""
    from bridle.clients.dotted_events import ChainForm, EventsForm  # the door of transcripts
    from bridle.sessions.archive.transcript_file import KeptTranscript

    forms = {"events": EventsForm, "chain": ChainForm}
    return KeptTranscript(log, folder, form, forms.get(form, lambda: None))


def _idle_rules(parts: SessionParts, joined: Joined) -> Iterator[Notice]:
    """Rules about a tool that is not there. What a source will offer nobody knows yet."""
    if not parts.settings.rules or any(feature.sources for feature in joined.features):
        return
    from bridle.app.sources.settings_use import rules_without_a_tool

    offered = (tool for feature in joined.features for tool in feature.tools)
    names = frozenset(tool.name for tool in (*offered, *_brought(parts)))
    for rule, problem in rules_without_a_tool(parts.settings.rules, names):
        yield Notice(reason="ConfigWarning", message=f"{rule.origin}: {problem}.")
