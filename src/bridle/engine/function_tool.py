"""A tool made from a plain typed function: its parameters are what the model is to give, its docstring what it reads.

    @tool(risk="read", mutating=False)
    async def forecast(place: str, days: int = 1) -> str:
        \"\"\"Tells the weather of a place.\"\"\"

A parameter whose type is `ToolContext` gets the context of the call and is not shown to the model. A description of a
parameter stands in its type: `Annotated[str, Meta(description="…")]`. A function that is not async runs in a thread,
which nothing can stop: let it be short.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, get_type_hints, overload

import msgspec

from bridle.engine.tools import Tool, ToolContext, ToolOutput
from bridle.protocol.events import Risk


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *, risk: Risk = ..., mutating: bool = ..., name: str | None = ..., timeout_s: float = ...
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    risk: Risk = "dangerous",
    mutating: bool = True,
    name: str | None = None,
    timeout_s: float = 120.0,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function, or with options a decorator. The default risk is the highest. The function returns
    text or a `ToolOutput`. Raises TypeError for a function that no model could call."""
    if function is None:
        return lambda given: _tool_of(given, risk, mutating, name, timeout_s)
    return _tool_of(function, risk, mutating, name, timeout_s)


def _tool_of(
    function: Callable[..., Any], risk: Risk, mutating: bool, name: str | None, timeout_s: float
) -> Tool:
    name = name or function.__name__
    description = inspect.getdoc(function)
    if not description:
        raise TypeError(f"{name} has no docstring: it is what the model reads of the tool")
    arguments, context_name = _arguments(function, name)
    return Tool(
        name=name,
        description=description,
        input=arguments,
        risk=risk,
        run=_run(function, context_name),
        mutating=lambda _args: mutating,
        timeout_s=lambda _args: timeout_s,
    )


def _arguments(function: Callable[..., Any], name: str) -> tuple[type[msgspec.Struct], str | None]:
    """What the model is to give, as a type; and the parameter that gets the context, if there is one."""
    hints = get_type_hints(function, include_extras=True)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    context_name = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
            raise TypeError(f"{name}: {parameter} cannot be given by name")
        kind = hints.get(parameter.name)
        if kind is None:
            raise TypeError(f"{name}: the parameter {parameter.name} has no type")
        if kind is ToolContext:
            context_name = parameter.name
        elif parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind, parameter.default))
    made = msgspec.defstruct(
        f"{name}_arguments", fields, frozen=True, kw_only=True, forbid_unknown_fields=True
    )
    return made, context_name


def _run(
    function: Callable[..., Any], context_name: str | None
) -> Callable[[msgspec.Struct, ToolContext], Awaitable[ToolOutput]]:
    async def run(args: msgspec.Struct, context: ToolContext) -> ToolOutput:
        given = msgspec.structs.asdict(args)
        if context_name is not None:
            given[context_name] = context
        if inspect.iscoroutinefunction(function):
            answer = await function(**given)
        else:
            answer = await asyncio.to_thread(function, **given)
        return answer if isinstance(answer, ToolOutput) else ToolOutput(content=str(answer))

    return run
