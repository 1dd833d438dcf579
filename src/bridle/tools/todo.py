"""`todo`: the model's list of what it is about to do, for the person to see."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from bridle.engine.tools import Tool, ToolContext, ToolOutput, never_mutating
from bridle.protocol.events import Todo, TodosChanged


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
