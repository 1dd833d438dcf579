"""Queries about agents."""

from __future__ import annotations

from collections.abc import Mapping

from bridle.agents.agent_settings import AgentSettings
from bridle.agents.builtin_agents import DEFAULT_AGENT
from bridle.agents.definition import AgentDefinition
from bridle.app.sources.agent_sources import OTHER_NAMES, FoundAgents, find_agents, own_bundles
from bridle.base.text.terminal_text import visible
from bridle.config.folders import Folders
from bridle.protocol.queries import AgentEntry, AgentList
from bridle.safety.trust import Approvals


def agent_list(found: FoundAgents, chosen: str | None = None) -> AgentList:
    """All that count and all that wait; `chosen` is the one a session talks with."""
    chosen = OTHER_NAMES.get(chosen, chosen) if chosen else None
    waiting = (
        AgentEntry(
            name=visible(one.stem, newlines=False),
            source="project",
            place=visible(one.shown, newlines=False),
            trusted=False,
            selectable=False,
            callable=False,
        )
        for one in found.waiting
    )
    return AgentList(
        agents=(*(agent_entry(one, chosen) for one in found.registry.list()), *waiting),
        problems=tuple(one.message for one in found.notices if one.reason != "NotTrusted"),
    )


def session_agents(found: FoundAgents, settings: AgentSettings | None) -> AgentList:
    """Return the agents of a session, with the one it talks with marked."""
    if settings is None:
        return agent_list(found)
    return agent_list(found, settings.agent or (DEFAULT_AGENT if settings.mode == "multi" else None))


def agent_entry(agent: AgentDefinition, chosen: str | None = None) -> AgentEntry:
    return AgentEntry(
        name=agent.name,
        description=visible(agent.description, newlines=False),
        display_name=visible(agent.display_name, newlines=False),
        mode=agent.mode,
        source=agent.origin.scope,
        place=visible(agent.origin.place, newlines=False),
        hidden=agent.hidden,
        selectable=agent.is_selectable,
        callable=agent.is_callable,
        provider=agent.provider.profile or "",
        category=agent.catalog.category,
        cost=agent.catalog.cost,
        tools=agent.tools,
        chosen=agent.name == chosen,
    )


def own_agents(where: Folders, env: Mapping[str, str]) -> AgentList:
    """Those that are there whatever the session: Bridle's, the person's own files, and those of their bundles."""
    settings = AgentSettings(bundles=own_bundles(where))
    return agent_list(
        find_agents(settings, where=where, cwd=None, env=env, approvals=Approvals(where.config))
    )
