"""The tool layers that are mechanics of the engine itself: look-up, validation, the record, the deadline.

What may say no for the person's sake lives in `safety`; what shapes output lives with the tools.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from typing import Any

import msgspec

from bridle.base.clock import Clock
from bridle.engine.deadline import Deadline
from bridle.engine.journal import Journal
from bridle.engine.ports import Room
from bridle.engine.stopwatch import Stopwatch
from bridle.engine.tools import Registry, RunTool, ToolCall, ToolLayer, ToolOutput
from bridle.protocol.errors import StoreError, sentence
from bridle.protocol.events import ToolCallStarted

LOOK_FOR_ROOM_S = 1.0

Recheck = Callable[[ToolCall], ToolOutput | None]
"""Looks at a call once more just before it runs; an output means it must not."""


def known_and_visible(registry: Registry) -> ToolLayer:
    """An unknown or hidden tool fails closed, and the model is told which ones there are."""

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        tool = registry.visible(call.name)
        if tool is None:
            known = ", ".join(tool.name for tool in registry.schemas()) or "none"
            return _failed("UnknownTool", tool=call.name, known=known)
        return await proceed(msgspec.structs.replace(call, tool=tool))

    return layer


def validated() -> ToolLayer:
    """Validate the input and decide `mutating`. The input continues under the names the tool has, so hooks,
    questions and the record read what the tool reads."""

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        tool = call.definition
        if call.problem is not None:
            return _failed("InvalidInput", tool=call.name, problem=call.problem)
        given = args = call.input
        if not isinstance(tool.input, type):
            problem = tool.input.problem(given)
            if problem is not None:
                return _failed("InvalidInput", tool=call.name, problem=problem)
        else:
            try:
                given = _snake_case(given, tool.input)
                args = msgspec.convert(given, tool.input)
            except msgspec.ValidationError as problem:
                return _failed("InvalidInput", tool=call.name, problem=str(problem))
        return await proceed(
            msgspec.structs.replace(call, input=given, args=args, mutating=tool.mutating(args))
        )

    return layer


def still_offered(registry: Registry) -> ToolLayer:
    """A tool that its source took out, or changed, while somebody thought about the call fails closed."""

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        if not registry.offers(call.definition):
            return _failed("ToolGone", tool=call.name)
        return await proceed(call)

    return layer


def wait_for_disk(room: Room, journal: Journal, clock: Clock) -> ToolLayer:
    """On a full disk, let a call that may change something wait until it can be recorded. Calls that only read
    continue."""

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        if not call.mutating:
            return await proceed(call)
        while True:
            await until_there_is_room()
            try:
                return await proceed(call)
            except StoreError as failure:
                if failure.reason != "NoSpace" or call.begun:
                    raise
                await clock.sleep(LOOK_FOR_ROOM_S)  # what was to be kept for it did not fit; it has not begun

    async def until_there_is_room() -> None:
        if room.enough():
            return
        journal.disk_is_full()
        while not room.enough():
            await clock.sleep(LOOK_FOR_ROOM_S)
        journal.disk_has_room()

    return layer


def recorded(journal: Journal, recheck: Recheck, stopwatch: Stopwatch) -> ToolLayer:
    """Record the intent before the call begins, on disk if the call may change something. The subjects are checked
    once more first. The outcome is the result that the dispatcher writes."""

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        if (refused := recheck(call)) is not None:
            return refused
        await journal.record(
            ToolCallStarted(
                call_id=call.id,
                tool=call.name,
                input=call.input,
                mutating=call.mutating,
                input_sha256=input_digest(call.input),
            )
        )
        if call.mutating:
            with stopwatch.measure("log.durable"):
                await journal.durable()
        call.begun.append(call)
        return await proceed(call)

    return layer


def dry_run() -> ToolLayer:
    """A call that could change something stops here: allowed, and not run."""

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        if call.mutating:
            return ToolOutput(
                outcome="blocked", reason="DryRun", content=sentence("DryRun", {"tool": call.name})
            )
        return await proceed(call)

    return layer


def deadline(clock: Clock) -> ToolLayer:
    """Stop a call that takes too long. Time for questions does not count; an infinite limit is that of a tool that
    waits for a person."""

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        limit_s = call.definition.timeout_s(call.args)
        if limit_s == math.inf:
            return await proceed(call)
        try:
            async with Deadline(clock, limit_s):
                return await proceed(call)
        except TimeoutError:
            text = sentence("ToolTimeout", {"tool": call.name, "timeout_s": f"{limit_s:g}"})
            return ToolOutput(outcome="timeout", reason="ToolTimeout", content="".join((*call.partial, text)))

    return layer


def input_digest(value: dict[str, Any]) -> str:
    """The digest of a call's input, the same whatever the order of its keys."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


def _failed(reason: str, **data: Any) -> ToolOutput:
    return ToolOutput(outcome="error", reason=reason, content=sentence(reason, data))


def _snake_case(value: dict[str, Any], args: type[msgspec.Struct]) -> dict[str, Any]:
    """Accept `timeoutMs` for `timeout_ms`. Of two spellings of one name, the second stays as it is and no tool knows
    it."""
    known_names = args.__struct_fields__
    if all(name in known_names for name in value):
        return value
    folded: dict[str, Any] = {}
    for name, item in value.items():
        snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
        known = snake in known_names and snake not in value and snake not in folded
        folded[snake if known else name] = item
    return folded
