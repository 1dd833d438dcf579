"""The parts of a child, made from those of whoever sent it: the same session, seen by another agent.

Log, people, grants, sandbox, undo and cost stay the session's; for one in a worktree of its own `parent` is the session
as it is there (`child_worktrees`). The child has a conversation, tools, rules and limits of
its own, and none of them reaches further than its parent's session does.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import msgspec

from bridle.agents.agent_settings import ChildContext
from bridle.agents.delegate_ledger import delegate_ledger
from bridle.app.gates import tools_seen
from bridle.app.hook_feature import SessionHooks
from bridle.app.model_features import budget, compaction, models
from bridle.app.session_agents import WorkingAgent
from bridle.app.session_features import calls, hooks, instructions, permissions, sandbox, trust, undo
from bridle.app.session_parts import SessionParts
from bridle.app.tool_layers import approved_edits
from bridle.context.compaction_layer import CompactionSettings
from bridle.engine.features import Feature, Joined, join
from bridle.engine.journal import Journal
from bridle.engine.known_files import KnownFiles
from bridle.engine.stopwatch import Stopwatch
from bridle.safety.hooks.context import Actor


def child_parts(parent: SessionParts, journal: Journal, agent: WorkingAgent) -> SessionParts:
    """What a child works with, whose events go to `journal`."""
    conversation, registry = journal.conversation, agent.tools_of(parent.tools)
    settings = parent.settings
    if agent.is_bounded:
        bounded = _compaction(agent.settings.child, settings.compaction)
        settings = msgspec.structs.replace(settings, compaction=bounded)

    def gates():
        made = parent.gates()
        above = made.permissions if agent.is_bounded else made.permissions.of_session()
        whole = parent.tools if agent.is_apart else None
        seen = msgspec.structs.replace(made, known_and_visible=tools_seen(registry, whole=whole))
        return seen.of_agents(agent.permissions_of(above))

    return msgspec.structs.replace(
        parent,
        opened=msgspec.structs.replace(parent.opened, conversation=conversation, settings=settings),
        journal=journal,
        questions=parent.questions.within(journal),
        stopwatch=Stopwatch(parent.services.clock),
        registry=registry,
        known_files=functools.cache(lambda: KnownFiles(conversation.known_files)),
        gates=functools.cache(gates),
        hooks=_hooks(parent, journal, agent),
        skills=None,
        agent=agent,
    )


def child_layers(parts: SessionParts) -> Joined:
    """What stands around the model and the tools of a child: what stands around those of its session, but for what
    belongs to the conversation with a person."""
    edits = functools.cache(lambda: approved_edits(parts))
    features = (
        *hooks(parts),
        permissions(parts, edits),
        trust(edits),
        calls(parts),
        undo(parts),
        sandbox(parts),
        instructions(parts),
        budget(parts),
        models(parts),
        compaction(parts),
        *_ledger(parts),
    )
    plugged = (*parts.services.features, *parts.opened.plugged)
    return join(features, tuple(map(_looking_on, plugged)))


def _ledger(parts: SessionParts) -> Iterator[Feature]:
    """For a child that sends others itself."""
    if parts.agent is not None and parts.agent.delegates:
        ledger = delegate_ledger(parts.journal, parts.agent.settings.results)
        yield Feature(name="delegate_ledger", request_layers=(ledger,))


def _looking_on(feature: Feature) -> Feature:
    """Of a feature from outside, what looks at every call."""
    return Feature(name=feature.name, tool_layers=feature.tool_layers)


def _hooks(parent: SessionParts, journal: Journal, agent: WorkingAgent) -> SessionHooks | None:
    """The hooks of the session, told on whose behalf things happen."""
    if parent.hooks is None or parent.hooks.hooks is None:
        return None
    counting, invocation = parent.hooks.hooks, journal.invocation
    actor = Actor(
        session=journal.session,
        cwd=parent.opened.cwd if parent.is_apart else counting.actor.cwd,
        root_session=journal.session,
        agent=agent.definition.name,
        agent_path=invocation.agent_path,
        invocation=invocation.id,
    )
    return SessionHooks(counting.acting_as(actor))


def _compaction(child: ChildContext, session: CompactionSettings) -> CompactionSettings:
    return msgspec.structs.replace(
        session,
        max_tokens=child.max_tokens,
        compact_at=child.compact_at,
        recent_turns=child.recent_turns,
        summary_tokens=child.summary_tokens,
    )
