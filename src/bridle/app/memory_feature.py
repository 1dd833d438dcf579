"""Memory in a session, wired: the tool, `/memory`, and what goes with each turn. Loaded where a session has it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from bridle.app.session_parts import SessionParts
from bridle.base.files import MEMORIES
from bridle.context.memory.memory_tool import MemoryTool
from bridle.engine.features import Feature, PlacedRequestLayer
from bridle.engine.slash_command import SlashCommand, SlashEvent
from bridle.engine.steps import AskModel, Reply, RequestLayer, Step
from bridle.engine.tools import BUILTIN
from bridle.protocol.events import FileChange

if TYPE_CHECKING:
    from bridle.context.memory.memory_files import MemoryFiles
    from bridle.context.memory.memory_layer import MemoryTurns

MEMORY_DOES = "what is remembered of earlier sessions: /memory [NAME]"


def memory(parts: SessionParts) -> Feature:
    """Notes that last: the model's tool for them, the person's list, and those that go with what was said."""
    where, journal = parts.services.where, parts.journal

    @functools.cache
    def files() -> MemoryFiles:
        from bridle.context.memory.memory_files import memory_files

        return memory_files(where.data, where.state, parts.opened.cwd)

    def mask(text: str) -> str:
        from bridle.engine.journal import masked

        return masked(text, journal.secrets())

    async def run(arguments: str) -> SlashEvent:
        from bridle.context.memory.memory_slash import run_memory_slash

        return await run_memory_slash(files(), arguments)

    tool = MemoryTool(files, foresee=_foresee, mask=mask, now_ms=parts.services.clock.now_ms)

    def turns() -> MemoryTurns | None:
        if not os.path.isdir(os.path.join(where.data, MEMORIES)):
            return None
        from bridle.context.memory.memory_layer import MemoryTurns

        return MemoryTurns(files())

    return Feature(
        name="memory",
        origin=BUILTIN,
        tools=(tool.tool(),),
        request_layers=(PlacedRequestLayer("memory", _layer(turns)),),
        slash=(SlashCommand(name="memory", does=MEMORY_DOES, run=run),),
    )


def _layer(make_turns: Callable[[], MemoryTurns | None]) -> RequestLayer:
    """Adds what goes with a turn before its first request. Where nothing was ever remembered, nothing is loaded."""
    turns: MemoryTurns | None = None
    last = 0

    async def layer(step: Step, proceed: AskModel) -> Reply:
        nonlocal turns, last
        if (turn := step.journal.conversation.turn) != last:
            last, turns = turn, turns or make_turns()
            if turns is not None:
                await turns.add(step)
        return await proceed(step)

    return layer


def _foresee(name: str, before: str | None, after: str | None) -> tuple[FileChange, ...]:
    from bridle.tools.foreseen_changes import bounded, file_change

    return bounded((file_change(name, before, after),))
