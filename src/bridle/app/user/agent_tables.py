"""Decode the agent sections of settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import msgspec

from bridle.agents.agent_fields import decode_agent
from bridle.agents.agent_settings import AgentSettings, ChildContext, DelegateResults
from bridle.agents.definition import AgentDefinition, AgentOrigin
from bridle.agents.field_reader import FieldProblem
from bridle.config.origins import ValueOrigin, bundle_folders
from bridle.config.problems import shown
from bridle.config.tiers import Tiers
from bridle.protocol.errors import BridleError

FOLDERS = "folders"
"""The one key of `agents` that is no agent."""


class BadAgentTable(msgspec.Struct, frozen=True):
    """An agent of the settings that means nothing, where that stands and why, as a clause."""

    key: str
    origin: ValueOrigin
    clause: str


def settings_of_agents(tiers: Tiers) -> AgentSettings:
    """Raises `BadConfig` for an agent that means nothing."""
    definitions: list[AgentDefinition] = []
    for found in decoded_agents(tiers):
        if isinstance(found, BadAgentTable):
            raise BridleError("BadConfig", where=found.origin.shown, problem=f"{found.key}: {found.clause}")
        definitions.append(found)
    return AgentSettings(
        mode=_mode(tiers),
        agent=tiers.get("agent"),
        max_depth=tiers.get("delegation.max_depth"),
        invocation=tiers.get("delegation.invocation"),
        max_steps=tiers.get("delegation.max_steps"),
        parallel=tiers.get("delegation.parallel"),
        catalog_tokens=tiers.get("delegation.catalog_tokens"),
        child=ChildContext(
            **{name: tiers.get(f"context.child.{name}") for name in ChildContext.__struct_fields__}
        ),
        results=DelegateResults(
            **{name: tiers.get(f"context.delegates.{name}") for name in DelegateResults.__struct_fields__}
        ),
        definitions=tuple(definitions),
        folders=tuple(tiers.get("agents.folders") or ()),
        bundles=bundle_folders(tiers.sources),
    )


def decoded_agents(tiers: Tiers) -> Iterator[AgentDefinition | BadAgentTable]:
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
        yield BadAgentTable(f"agents.{shown(name)}", at, problem.clause)


def _mode(tiers: Tiers) -> Literal["single", "multi"]:
    """What `agent_mode` says in whichever spelling; else whether `multi_agent.enabled`."""
    said = tiers.get("agent_mode") or ("multi" if tiers.get("multi_agent.enabled") else "single")
    return "multi" if said.startswith("multi") else "single"
