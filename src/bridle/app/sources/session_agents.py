"""The main agent of a session and the agents it may call."""

from __future__ import annotations

import msgspec

from bridle.agents.agent_settings import AgentSettings
from bridle.agents.builtin_agents import DEFAULT_AGENT
from bridle.agents.definition import AgentDefinition, AgentRegistry, catalogue_text
from bridle.agents.delegation import may_delegate, sees, sendable
from bridle.app.sources.agent_sources import chosen_agent
from bridle.engine.tools import Registry
from bridle.safety.permission_policy import AgentPolicy, Permissions
from bridle.safety.rules import Rule


class WorkingAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent at work in a session, `depth` levels below the main agent, with the agents it knows.

    `is_bounded`: another agent delegated to it, so the limits of subagents and of its parent apply. A subagent that the
    user starts by a command has the limits of the session only. `is_apart`: it works in a worktree.
    """

    definition: AgentDefinition
    registry: AgentRegistry
    settings: AgentSettings
    depth: int = 0
    is_bounded: bool = False
    is_apart: bool = False

    @property
    def delegates(self) -> bool:
        return may_delegate(self.definition, self.depth, self.settings)

    def tools_of(self, whole: Registry) -> Registry:
        """Return the session's tools that this agent sees."""
        return whole.within(
            sees(
                self.definition,
                delegates=self.delegates,
                is_child=self.depth > 0,
                is_apart=self.is_apart,
            )
        )

    def permissions_of(self, session: Permissions) -> Permissions:
        """Narrow the permissions of the session, or of the parent, by this agent's own."""
        agent = self.definition
        rules = tuple(
            Rule(
                tool=rule.tool,
                verdict=rule.verdict,
                path=rule.path,
                command=rule.command,
                reason=rule.reason,
                origin=f"agent {agent.name}",
            )
            for rule in agent.rules
        )
        return session.within(
            AgentPolicy(
                name=agent.name, rules=rules, default=agent.default_verdict, mode=agent.permission_mode
            )
        )

    def words(self) -> str:
        """Return the text after the session's instructions: its own, and the subagents it may call."""
        catalogue = ""
        if self.delegates:
            others = sendable(self.registry, self.definition)
            catalogue = catalogue_text(others, self.settings.catalog_tokens)
        return "\n\n".join(filter(None, (self.definition.append, catalogue)))


def main_agent(settings: AgentSettings, registry: AgentRegistry) -> WorkingAgent:
    """Return the agent the user talks to. Raises `CommandRefused` if there is none."""
    agent = chosen_agent(registry, settings.agent or DEFAULT_AGENT)
    return WorkingAgent(definition=agent, registry=registry, settings=settings)
