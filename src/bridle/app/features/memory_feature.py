"""Memory in a session as a feature."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

from bridle.app.session_parts import SessionParts
from bridle.base.fs.files import MEMORIES
from bridle.context.memory.memory_files import memory_files
from bridle.context.memory.memory_tool import MemoryTool
from bridle.context.memory.session_memory import MemoryTurns, run_memory_slash
from bridle.engine.features import Feature, PlacedRequestLayer
from bridle.engine.journal import masked
from bridle.engine.slash_command import SlashCommand, SlashEvent
from bridle.engine.steps import AskModel, Reply, RequestLayer, Step
from bridle.engine.tools import BUILTIN
from bridle.tools.patches.foreseen_changes import bounded, file_change

MEMORY_DOES = "what is remembered of earlier sessions: /memory [NAME]"


def memory(parts: SessionParts) -> Feature:
    """Notes that last: the model's tool for them, the person's list, and those that go with what was said."""
    where, journal = parts.services.where, parts.journal

    files = functools.cache(lambda: memory_files(where.data, where.state, parts.opened.cwd))

    async def run(arguments: str) -> SlashEvent:
        return await run_memory_slash(files(), arguments)

    tool = MemoryTool(
        files,
        foresee=lambda name, before, after: bounded((file_change(name, before, after),)),
        mask=lambda text: masked(text, journal.secrets()),
        now_ms=parts.services.clock.now_ms,
    )

    def turns() -> MemoryTurns | None:
        if not os.path.isdir(os.path.join(where.data, MEMORIES)):
            return None
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
