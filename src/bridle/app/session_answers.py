"""Answers to queries about an open session. Loaded with the first one."""

from __future__ import annotations

from bridle.agents.builtin_agents import DEFAULT_AGENT
from bridle.app.composition import ReadySession
from bridle.app.queries.agent_answers import agent_list
from bridle.app.queries.profile_answers import profile_in_force
from bridle.app.queries.query_answers import described_skill, grant_entries, listed_skills, tool_entries
from bridle.app.session_parts import OpenedLog, ProcessServices
from bridle.app.sources.agent_sources import FoundAgents
from bridle.app.sources.gates import promoted
from bridle.control.live import SessionAnswers


def session_answers(
    ready: ReadySession, opened: OpenedLog, found: FoundAgents, services: ProcessServices
) -> SessionAnswers:
    """Return the answers of a session, with the agents that were `found` for it."""
    where, conversation, said = services.where, ready.session.journal.conversation, opened.settings.agents
    chosen = None if said is None else said.agent or (DEFAULT_AGENT if said.mode == "multi" else None)
    return SessionAnswers(
        tools=lambda: tool_entries(ready.registry),
        grants=lambda: grant_entries(ready.grants()),
        promote=lambda grant: promoted(ready.grants(), grant, where=where, cwd=opened.cwd, env=services.env),
        skills=lambda: listed_skills(ready.skills, conversation),
        skill=lambda name: described_skill(ready.skills, name, conversation),
        agents=lambda: agent_list(found, chosen),
        profile=lambda: profile_in_force(opened, ready.registry, where, ready.skills),
    )
