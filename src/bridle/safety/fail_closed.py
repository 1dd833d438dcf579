"""A check that breaks is a call that does not run."""

from __future__ import annotations

from bridle.engine.tools import RunTool, ToolCall, ToolLayer, ToolOutput
from bridle.protocol.errors import StoreError, sentence
from bridle.protocol.events import Evidence


def fail_closed(name: str, layer: ToolLayer) -> ToolLayer:
    """The layer, with one promise added: an exception of its own becomes a blocked call.

    What the layers behind it raise passes unchanged, and so does a log that cannot be written: that ends the
    turn.
    """

    async def closed(call: ToolCall, proceed: RunTool) -> ToolOutput:
        decided = False

        async def onward(call: ToolCall) -> ToolOutput:
            nonlocal decided
            decided = True
            return await proceed(call)

        try:
            return await layer(call, onward)
        except StoreError:
            raise
        except Exception as problem:
            if decided:
                raise
            return check_failed(name, call, problem)

    return closed


def check_failed(name: str, call: ToolCall, problem: Exception) -> ToolOutput:
    """The result of a call whose check `name` broke."""
    shown = f"{type(problem).__name__}: {problem}"
    return ToolOutput(
        outcome="blocked",
        reason="CheckFailed",
        content=sentence("CheckFailed", {"tool": call.name, "problem": shown}),
        evidence=Evidence(source=name, rule="fail closed", matched=type(problem).__name__),
    )
