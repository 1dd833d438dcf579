"""What works on a goal behind the turns of a session, and the place where it stands while there is one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias

from bridle.engine.turn import Ending
from bridle.protocol.events import Envelope, GoalEnded, IdentityClass, ToolResult

RunCall: TypeAlias = Callable[[str, dict[str, Any], IdentityClass], Awaitable[ToolResult]]
"""A call no model asked for: tool, input, and whose it is."""


class GoalDriver(Protocol):
    """One goal under way. What it finds it records itself, a round that follows as input of the session."""

    @property
    def originator(self) -> str:
        """The client whose goal, and so whose check, it is."""
        ...

    @property
    def steps_left(self) -> int:
        """How many model calls the turn that begins now may have; at least one."""
        ...

    async def check_round(self, ending: Ending, run_call: RunCall) -> None:
        """Looks whether the goal is reached, now that a turn has ended and nobody waits. Cancelled, it stays open."""
        ...

    def closed(self, reason: str = "GoalStopped", **data: str) -> GoalEnded:
        """Its end without its check having passed, for whoever calls this to record. It is gone from its slot."""
        ...

    def hear(self, envelope: Envelope) -> None:
        """An event of the session while it is open."""
        ...


class GoalSlot:
    """The goal of a session, if one is under way. `stop_work` cancels the turn or the check that runs now; the session
    sets it."""

    def __init__(self) -> None:
        self.driver: GoalDriver | None = None
        self.stop_work: Callable[[], object] = lambda: None
