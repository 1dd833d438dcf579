"""`delegate_agent`, and the check that one agent may send another. Decided before any request of a child."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from bridle.agents.agent_settings import AgentSettings
from bridle.agents.definition import AgentDefinition, AgentRegistry
from bridle.engine.tools import Subject, Tool, ToolCall, ToolContext, ToolOutput, json_schema, never_mutating
from bridle.protocol.errors import BridleError
from bridle.protocol.events import DELEGATE, Handoff, Verdict

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


class DelegateArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    agent: Annotated[str, Meta(description="Who is to work on it.")]
    task: Annotated[
        str,
        Meta(min_length=1, description="What is to be done, whole: it sees nothing of this conversation."),
    ]
    context: Annotated[str, Meta(description="What it has to know besides.")] = ""
    context_refs: Annotated[
        tuple[str, ...], Meta(description="Where it can read more: paths, output:CALL.")
    ] = ()
    relevant_files: Annotated[tuple[str, ...], Meta(description="Paths that matter.")] = ()
    constraints: Annotated[tuple[str, ...], Meta(description="What it must keep to.")] = ()
    expected_output: Annotated[str, Meta(description="What its answer should hold.")] = ""
    max_turns: Annotated[int, Meta(ge=1, description="Model calls it may make at most.")] | None = None
    return_mode: Annotated[Literal["brief", "normal"], Meta(description="How long its answer should be.")] = (
        "normal"
    )


class Delegating(msgspec.Struct, frozen=True, kw_only=True):
    """What the tool needs of its session. `check` raises `BridleError` where an agent cannot be sent by this call;
    `asks_about` is what a person is asked about, None where nobody need be; `run` has the child work."""

    agents: Sequence[AgentDefinition]
    check: Callable[[DelegateArgs, ToolCall], object]
    asks_about: Callable[[DelegateArgs], str | None]
    handoff: Callable[[DelegateArgs, ToolCall], Handoff]
    may_run_beside: Callable[[str], bool]
    run: Callable[[DelegateArgs, ToolContext], Awaitable[ToolOutput]]


def delegate_tool(session: Delegating) -> Tool:
    schema = json_schema(DelegateArgs)
    schema["properties"]["agent"]["enum"] = [agent.name for agent in session.agents]

    def subjects(args: DelegateArgs) -> tuple[Subject, ...]:
        value = session.asks_about(args)
        return () if value is None else (Subject(kind="agent", access="run", value=value),)

    def foresee(args: DelegateArgs, call: ToolCall, *_rest: object) -> tuple[()] | ToolOutput:
        problem = _problem(session, args, call)
        return () if problem is None else problem

    def side_by_side(given: dict[str, Any]) -> bool:
        return isinstance(name := given.get("agent"), str) and session.may_run_beside(name)

    async def run(args: DelegateArgs, context: ToolContext) -> ToolOutput:
        problem = _problem(session, args, context.call)
        return await session.run(args, context) if problem is None else problem

    return Tool(
        name=DELEGATE,
        description=(
            "Has another agent work on a task and gives you what it comes to. It starts with nothing but what you hand "
            "over here. Worth it for work that would fill this conversation; not for a single read or edit."
        ),
        input=DelegateArgs,
        input_schema=schema,
        risk="read",
        run=run,
        mutating=never_mutating,
        subjects=subjects,
        timeout_s=lambda _args: math.inf,
        side_effect="none",
        changes=foresee,
        handoff=session.handoff,
        side_by_side=side_by_side,
    )


def _problem(session: Delegating, args: DelegateArgs, call: ToolCall) -> ToolOutput | None:
    try:
        session.check(args, call)
    except BridleError as problem:
        return ToolOutput(outcome="error", reason=problem.reason, content=problem.message)
    return None
