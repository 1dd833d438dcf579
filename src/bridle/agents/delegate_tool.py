"""`delegate_agent`: the one tool that has another agent work, whichever there are."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from bridle.agents.definition import AgentDefinition
from bridle.agents.delegation import DELEGATE
from bridle.engine.tools import Subject, Tool, ToolCall, ToolContext, ToolOutput, json_schema, never_mutating
from bridle.protocol.errors import BridleError
from bridle.protocol.events import Handoff


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
