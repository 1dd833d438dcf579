"""One turn, on one screen: from accepted input to its ending.

Ask the model; run what it asks for; tell it the results; until it asks for nothing more. Everything else, what may run,
what is remembered, who is asked, what is retried, lives in the layers behind `ask` and `run_calls`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, TypeAlias

import msgspec

from bridle.engine.loops import LoopDetector
from bridle.engine.steps import Reply
from bridle.protocol.events import ToolResult, TurnStop


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended. `reason` and `data` are set when it ended early."""

    stop: TurnStop
    steps: int
    reason: str | None = None
    data: dict[str, Any] = {}


Ask: TypeAlias = Callable[[], Awaitable[Reply]]
RunCalls: TypeAlias = Callable[[Reply], Awaitable[list[ToolResult]]]
GoOn: TypeAlias = Callable[[int], Awaitable[bool]]


async def run_turn(*, ask: Ask, run_calls: RunCalls, hear: Callable[[], None], go_on: GoOn) -> Ending:
    """Runs steps until the model is done. `hear` lets in what people said meanwhile, between two steps.

    `go_on` says after so many steps whether another may follow. Cancellation passes through; nothing is caught here.
    """
    loops = LoopDetector()
    for steps in count(1):
        reply = await ask()
        match reply.stop:
            case "tool_use":
                results = await run_calls(reply)
            case "end_turn" | "max_tokens" | "content_filter" | "error" as stop:
                return Ending(stop=stop, steps=steps, reason=_REASONS.get(stop))
        if repeats := loops.repeats(reply.calls, results):
            return Ending(stop="error", steps=steps, reason="LoopDetected", data={"times": str(repeats)})
        if reply.yielded:
            return Ending(stop="end_turn", steps=steps)
        if not await go_on(steps):
            return Ending(stop="error", steps=steps, reason="StepLimit", data={"steps": str(steps)})
        hear()
    raise AssertionError("unreachable: count() does not end")


_REASONS = {"content_filter": "ContentFiltered", "max_tokens": "AnswerCut", "error": "BadStream"}
