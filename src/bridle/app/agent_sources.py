"""Where the agents of a session come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bridle.agents.agent_registry import AgentRegistry
from bridle.agents.builtin_agents import BUILTIN_AGENTS
from bridle.agents.definition import AgentDefinition
from bridle.config.folders import Folders
from bridle.protocol.events import Notice
from bridle.safety.trust import Approvals

if TYPE_CHECKING:
    from bridle.app.settings import SessionSettings


def session_agents(
    settings: SessionSettings,
    *,
    where: Folders,
    cwd: str,
    env: Mapping[str, str],
    approvals: Approvals,
    code: Sequence[AgentDefinition] = (),
) -> tuple[AgentRegistry, tuple[Notice, ...]]:
    """The agents of a session, and what is to be said."""
    return AgentRegistry((*BUILTIN_AGENTS, *code)), ()
