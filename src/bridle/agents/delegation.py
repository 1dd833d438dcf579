"""Whether one agent may send another, and what it takes: decided before any request of a child. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from bridle.agents.agent_settings import AgentSettings
from bridle.agents.definition import AgentDefinition, AgentRegistry
from bridle.engine.tools import Tool
from bridle.protocol.errors import BridleError
from bridle.protocol.events import DELEGATE, Verdict

DELEGATE_NAMES = frozenset({DELEGATE, "Agent", "agent", "subagent", "run_subagent"})
"""What a tool that starts agents is called, by us and by others: no child has one that may not delegate."""
NOT_FOR_CHILDREN = frozenset({"exit_plan_mode", "skill", "memory"})
"""Tools that are about the conversation with the person."""


def check_delegation(
    name: str,
    *,
    registry: AgentRegistry,
    caller: AgentDefinition,
    chain: Sequence[str],
    settings: AgentSettings,
) -> AgentDefinition:
    """The agent of this name, which `caller` may send. `chain` are the names from the main agent to the caller.

    Raises `BridleError` with a reason that names what is wrong.
    """
    target = registry.get(name)
    if target is None or not target.is_callable or target.delegation.invocation == "deny":
        known = ", ".join(agent.name for agent in sendable(registry, caller)) or "none"
        raise BridleError("AgentNotCallable", agent=name, known=known)
    if name in chain:
        raise BridleError("DelegationCycle", chain=" -> ".join((*chain, name)))
    most = settings.max_depth if caller.delegation.max_depth is None else caller.delegation.max_depth
    most = min(most, settings.max_depth)
    if len(chain) > most:
        raise BridleError("DelegationTooDeep", most=str(most))
    if target not in sendable(registry, caller):
        raise BridleError("AgentNotForCaller", agent=name, caller=caller.name)
    return target


def sendable(registry: AgentRegistry, caller: AgentDefinition) -> tuple[AgentDefinition, ...]:
    """The agents that `caller` may send at all."""
    allowed, denied = caller.delegation.allowed_agents, caller.delegation.denied_agents
    return tuple(
        agent
        for agent in registry.callable
        if agent.name != caller.name
        and agent.delegation.invocation != "deny"
        and (allowed is None or agent.name in allowed)
        and agent.name not in denied
    )


def may_delegate(caller: AgentDefinition, depth: int, settings: AgentSettings) -> bool:
    """Whether an agent so deep below the main one sees the tool that sends others."""
    return settings.mode == "multi" and caller.delegation.can_delegate and depth < settings.max_depth


def invocation_verdict(agent: AgentDefinition, settings: AgentSettings, *, same_provider: bool) -> Verdict:
    """Whether sending an agent is a question. What goes to another provider always is, and so is what a project's file
    says of itself."""
    said = agent.delegation.invocation or settings.invocation
    may_say = agent.origin.scope != "project" and same_provider
    return said if said != "allow" or may_say else "ask"


def sees(
    agent: AgentDefinition, *, delegates: bool, is_child: bool, is_apart: bool = False
) -> Callable[[Tool], bool]:
    """Which tools of a session an agent sees; `is_apart`: it works in a worktree of its own."""
    wanted, hidden = agent.tools, agent.hidden_tools

    def sees_tool(tool: Tool) -> bool:
        if tool.name in DELEGATE_NAMES:
            return delegates
        if (is_child and tool.name in NOT_FOR_CHILDREN) or (is_apart and tool.in_session_folder):
            return False
        if any(fnmatchcase(tool.name, pattern) for pattern in hidden):
            return False
        return wanted is None or any(fnmatchcase(tool.name, pattern) for pattern in wanted)

    return sees_tool
