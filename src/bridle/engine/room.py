"""A disk without room: what changes something waits, what only reads goes on, and people are told once.

A call that waits here has not begun: its intent is written when there is room again. Waiting ends with the turn.
"""

from __future__ import annotations

from typing import Protocol

from bridle.base.clock import Clock
from bridle.engine.journal import Journal
from bridle.engine.tools import RunTool, ToolCall, ToolLayer, ToolOutput
from bridle.protocol.errors import StoreError, sentence
from bridle.protocol.events import Degraded, Notice

LOOK_AGAIN_S = 1.0


class Room(Protocol):
    """How it stands with the disk the log is on."""

    def enough(self) -> bool:
        """Whether there is room for the record of a call, and nothing waits to be written."""
        ...

    def stuck(self) -> bool:
        """Whether events wait in memory because they could not be written."""
        ...


def with_room(room: Room | None, journal: Journal, clock: Clock) -> ToolLayer:
    """Lets a call that may change something wait until it can be recorded. Without a `room` nothing waits."""
    told = False

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        if room is None or not call.mutating:
            return await proceed(call)
        while True:
            await until_there_is_room(room)
            try:
                return await proceed(call)
            except StoreError as failure:
                if failure.reason != "NoSpace" or call.begun:
                    raise
                await clock.sleep(LOOK_AGAIN_S)  # what was to be kept for it did not fit; it has not begun

    async def until_there_is_room(room: Room) -> None:
        nonlocal told
        if room.enough():
            return
        if not told:
            told = True
            journal.emit(Degraded(what="disk", reason="DiskFull", message=sentence("DiskFull", {})))
        while not room.enough():
            await clock.sleep(LOOK_AGAIN_S)
        if told:
            told = False
            journal.emit(Notice(reason="RoomAgain", message=sentence("RoomAgain", {})))

    return layer
