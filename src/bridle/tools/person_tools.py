"""`todo`, `ask_user` and `exit_plan_mode`: tools that show the person something or ask them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from bridle.engine.tools import Tool, ToolContext, ToolOutput, never_mutating
from bridle.protocol.events import Mode, ModeChanged, Todo, TodosChanged
from bridle.protocol.questions import OpenQuestion, PlanAnswer, PlanQuestion, WordsAnswer


class TodoItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, Meta(min_length=1, max_length=200)]
    state: Literal["open", "doing", "done"] = "open"


class TodoArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    todos: Annotated[tuple[TodoItem, ...], Meta(max_length=50, description="The whole list, in order.")]


async def todo(args: TodoArgs, context: ToolContext) -> ToolOutput:
    items = tuple(Todo(text=item.text, state=item.state) for item in args.todos)
    context.emit(TodosChanged(todos=items))
    done = sum(item.state == "done" for item in items)
    return ToolOutput(content=f"{done} of {len(items)} done.")


TODO = Tool(
    name="todo",
    description="Show the person your plan for a longer task. Replaces the list; keep one item doing.",
    input=TodoArgs,
    risk="read",
    run=todo,
    mutating=never_mutating,
    side_effect="none",
)


NOBODY = "Nobody is here to answer. Decide yourself, and say at the end what you assumed."


class AskArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    question: Annotated[str, Meta(min_length=1, max_length=2000)]
    choices: Annotated[
        tuple[str, ...], Meta(max_length=9, description="Likely answers, if there are any.")
    ] = ()


async def ask_user(args: AskArgs, context: ToolContext) -> ToolOutput:
    answer = await context.ask(context.call.id, OpenQuestion(text=args.question, choices=args.choices))
    if not isinstance(answer, WordsAnswer):
        return ToolOutput(outcome="error", reason="NoApprover", content=NOBODY)
    return ToolOutput(content=answer.text)


def _as_long_as_it_takes(_args: AskArgs | PlanArgs) -> float:
    return math.inf


ASK_USER = Tool(
    name="ask_user",
    description="Ask the person when only they can decide. Not for permission: calls that need it ask by themselves.",
    input=AskArgs,
    risk="read",
    run=ask_user,
    mutating=never_mutating,
    timeout_s=_as_long_as_it_takes,
    side_effect="none",
)


EXIT_PLAN_MODE = "exit_plan_mode"
NO_PLAN_ANSWER = "Nobody is here to approve the plan. End with the plan as your answer."
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
            return ToolOutput(outcome="error", reason="NoApprover", content=NO_PLAN_ANSWER)
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
