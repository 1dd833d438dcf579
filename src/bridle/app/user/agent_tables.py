"""Decode the agent sections of settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import msgspec

from bridle.agents.agent_fields import decode_agent
from bridle.agents.agent_settings import (
    AgentChoice,
    AgentFolders,
    AgentSettings,
    ChildContext,
    DelegateResults,
    DelegationSettings,
    MultiAgent,
)
from bridle.agents.definition import AgentDefinition, AgentOrigin
from bridle.agents.field_reader import FieldProblem
from bridle.config.origins import BadSetting, bundle_folders
from bridle.config.problems import shown
from bridle.config.tiers import Tiers

FOLDERS = "folders"
"""The one key of `agents` that is no agent."""


def settings_of_agents(tiers: Tiers) -> AgentSettings:
    """Raises `BadConfig` for an agent that means nothing."""
    definitions: list[AgentDefinition] = []
    for found in decoded_agents(tiers):
        if isinstance(found, BadSetting):
            raise found.error()
        definitions.append(found)
    return AgentSettings(
        **msgspec.structs.asdict(tiers.section("delegation", DelegationSettings)),
        mode=_mode(tiers),
        agent=tiers.section("", AgentChoice).agent,
        child=tiers.section("context.child", ChildContext),
        results=tiers.section("context.delegates", DelegateResults),
        definitions=tuple(definitions),
        folders=tiers.section("agents", AgentFolders).folders,
        bundles=bundle_folders(tiers.sources),
    )


def decoded_agents(tiers: Tiers) -> Iterator[AgentDefinition | BadSetting]:
    """Every agent of the settings, or the first thing that is wrong with it."""
    tables = cast("Mapping[str, Any]", tiers.get("agents") or {})
    for name, table in tables.items():
        if name == FOLDERS:
            continue
        place = ("agents", name)
        origin = tiers.origin(place)
        assert origin is not None, "somebody wrote it"
        of_project = origin.tier in ("project", "local")
        found = decode_agent(
            table,
            name=name,
            origin=AgentOrigin(scope="project" if of_project else "settings", place=origin.shown),
        )
        if found.agent is not None and found.agent.name == name:
            yield found.agent
            continue
        named = FieldProblem(field="name", clause="name is that of the table, or it is left out")
        problem = (*found.problems, named)[0]
        at = tiers.origin((*place, problem.field)) or origin
        yield BadSetting(f"agents.{shown(name)}", at, problem.clause)


def _mode(tiers: Tiers) -> Literal["single", "multi"]:
    """Return the mode of `agent_mode` in either spelling; without it, that of `multi_agent.enabled`."""
    said = tiers.section("", AgentChoice).agent_mode
    is_multi = tiers.section("multi_agent", MultiAgent).enabled if said is None else said.startswith("multi")
    return "multi" if is_multi else "single"
