"""One session, put together: its parts, its features joined by slot, and the session around them.

What stands around the model and around a tool, and in which order: `engine/features.py`, as two tuples of slots.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from bridle.app.features.model_features import answer_aside
from bridle.app.features.session_features import BROUGHT, next_prefix, session_features
from bridle.app.session_parts import OpenedLog, ProcessServices, SessionParts, session_parts
from bridle.commands.role_commands import ROLE_COMMANDS
from bridle.engine.dispatch import Dispatcher
from bridle.engine.features import Feature, Joined, join, watch_with
from bridle.engine.ports import RunCall, SpawnPolicy
from bridle.engine.session import Court, Lifecycle, Session, SessionPorts
from bridle.engine.slash_command import SlashCommand, SlashEvent
from bridle.engine.steps import Model, with_layers
from bridle.engine.tools import LeftOut, Registry, RunTool, Tool, ToolCall, ToolOutput
from bridle.engine.turn_runner import InvocationParts, Limits, TurnRunner
from bridle.protocol.events import ModelChanged, Notice, PrefixSet
from bridle.sessions.archive.beside_store import transcripts_of
from bridle.sessions.archive.kept_fold import KeptFold, Transcript
from bridle.tools.output import read_part

if TYPE_CHECKING:
    from bridle.app.subagents.agents_feature import SessionDelegation
    from bridle.app.subagents.child_run import ChildRuns
    from bridle.context.skills.session_skills import SessionSkills
    from bridle.engine.services import Services
    from bridle.engine.slash_command import SessionPrompts
    from bridle.protocol.queries import OutputPart, SessionChanges
    from bridle.safety.grants import Grant
    from bridle.safety.hooks.session_hooks import Hooks


NOT_IN_EVERY_SESSION = frozenset({"memory"})
"""Features with slash commands that only some sessions have: the list of commands learns of theirs from the session."""


class ReadySession(msgspec.Struct, frozen=True, kw_only=True):
    """A session ready to begin. `notices` belong into its log first; `hooks` want to hear that it begins.
    `next_prefix` is what a request would begin with. `added` are features of ours that not every session has."""

    session: Session
    registry: Registry
    grants: Callable[[], tuple[Grant, ...]]
    changes: Callable[[str], Awaitable[SessionChanges]]
    output: Callable[[str, int], Awaitable[OutputPart]]
    fold: KeptFold
    hooks: Hooks | None
    policy: SpawnPolicy
    notices: tuple[Notice, ...]
    next_prefix: Callable[[ModelChanged], Awaitable[PrefixSet]]
    added: tuple[Feature, ...] = ()
    prompts: tuple[SessionPrompts, ...] = ()
    skills: SessionSkills | None = None


def compose(services: ProcessServices, opened: OpenedLog) -> ReadySession:
    """A session of its features. Raises `FeatureConflict` where one from outside collides with another."""
    parts = session_parts(services, opened)
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
    return ReadySession(
        session=session,
        registry=parts.registry,
        grants=lambda: parts.gates().permissions.grants,
        changes=lambda what: parts.undo().changes(what),
        output=functools.partial(_output, parts),
        fold=fold,
        hooks=parts.watching,
        policy=parts.policy,
        next_prefix=functools.partial(next_prefix, parts),
        added=tuple(
            feature
            for feature in ours
            if feature.queries or feature.prompts or feature.name in NOT_IN_EVERY_SESSION
        ),
        prompts=tuple(feature.prompts for feature in joined.features if feature.prompts is not None),
        skills=parts.skills,
        notices=(
            *joined.notices(),
            *_idle_rules(parts, joined),
            *(left.notice() for left in left_out),
        ),
    )


async def _output(parts: SessionParts, call_id: str, offset: int) -> OutputPart:
    return await asyncio.to_thread(read_part, parts.spill(), call_id, offset)


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
        revoke_grant=parts.revoke_grant,
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
        name="roles", slash=tuple(commands), stop_child=lambda child, client: runs().stop(child, client)
    )


def _services(parts: SessionParts, joined: Joined) -> Services | None:
    """What runs beside the session: the services of features, and their sources of tools."""
    if not any(feature.sources or feature.services for feature in joined.features):
        return None
    from bridle.app.features.session_services import session_services

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
    form, log = parts.settings.transcript, parts.opened.log
    if form is None:
        return None
    from bridle.app.records.transcripts import session_transcript

    return session_transcript(log, transcripts_of(parts.services.where.state, log.session), form)


def _idle_rules(parts: SessionParts, joined: Joined) -> Iterator[Notice]:
    """Rules about a tool that is not there. What a source will offer nobody knows yet."""
    if not parts.settings.rules or any(feature.sources for feature in joined.features):
        return
    from bridle.app.sources.settings_use import rules_without_a_tool

    offered = (tool for feature in joined.features for tool in feature.tools)
    names = frozenset(tool.name for tool in (*offered, *_brought(parts)))
    for rule, problem in rules_without_a_tool(parts.settings.rules, names):
        yield Notice(reason="ConfigWarning", message=f"{rule.origin}: {problem}.")
