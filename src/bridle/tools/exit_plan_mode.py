"""`exit_plan_mode`: the model shows its plan; if the person agrees, the session leaves plan mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from bridle.engine.tools import Tool, ToolContext, ToolOutput, never_mutating
from bridle.protocol.events import Mode, ModeChanged
from bridle.protocol.questions import PlanAnswer, PlanQuestion

EXIT_PLAN_MODE = "exit_plan_mode"
NOBODY = "Nobody is here to approve the plan. End with the plan as your answer."
NOT_PLANNING = "This session is not in plan mode. Go on with the work."


class PlanArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    plan: Annotated[str, Meta(min_length=1, max_length=20_000, description="What you will do, in steps.")]


def exit_plan_tool(mode: Callable[[], Mode], mode_before: Callable[[], Mode]) -> Tool:
    """The tool of one session. `mode_before` is what held before plan mode, and holds again after a yes."""

    async def exit_plan_mode(args: PlanArgs, context: ToolContext) -> ToolOutput:
        if mode() != "plan":
            return ToolOutput(outcome="error", reason="InvalidInput", content=NOT_PLANNING)
        answer = await context.ask(context.call.id, PlanQuestion(plan=args.plan))
        if not isinstance(answer, PlanAnswer):
            return ToolOutput(outcome="error", reason="NoApprover", content=NOBODY)
        if not answer.approve:
            note = answer.note or "keep planning"
            return ToolOutput(content=f"Not yet. Still in plan mode. They said: {note}\n")
        after = mode_before()
        context.emit(ModeChanged(mode=after))
        return ToolOutput(content=f"Approved. The mode is {after} now: carry it out.\n")

    return Tool(
        name=EXIT_PLAN_MODE,
        description="In plan mode, when the plan is ready: show it to the person, who decides if you carry it out.",
        input=PlanArgs,
        risk="read",
        run=exit_plan_mode,
        mutating=never_mutating,
        timeout_s=_as_long_as_it_takes,
        side_effect="none",
    )


def _as_long_as_it_takes(_args: PlanArgs) -> float:
    return math.inf
