"""Whoever watches a session: told of its moments, allowed to stop an input and nothing else."""

from __future__ import annotations

from typing import Protocol

import msgspec

from bridle.engine.tools import ToolCall
from bridle.protocol.events import EndCause, ToolResult, TurnStop


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an input: stopped by `blocked_by` with its `message`, or let through, and `context` joins it."""

    blocked_by: str = ""
    message: str = ""
    context: str = ""


class Watcher(Protocol):
    """Told of the moments of a session. It may stop an input; everything else it only sees, when it is in the log.

    Raises: nothing. What goes wrong while it watches it says itself.
    """

    async def input_submitted(self, prompt: str) -> Submitted: ...
    async def tool_ended(self, call: ToolCall, result: ToolResult) -> None: ...
    async def turn_ended(self, stop: TurnStop, reason: str | None = None) -> None: ...
    async def session_ended(self, cause: EndCause) -> None: ...
