"""What undo adds to a command in the largest workspace it looks at: the first look, a later one, and a named file."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable
from typing import TypeVar

import msgspec
from measure import Figure, middle, scratch

from bridle.base.clock import SystemClock
from bridle.base.ids import Ids
from bridle.engine.tools import Subject, Tool, ToolCall, ToolContext, ToolOutput
from bridle.sessions.store import SessionStore
from bridle.undo.keeper import Ground, Keeper

Result = TypeVar("Result")

FOLDERS = 200
FILES = 20_000 - FOLDERS
FILE_BYTES = 2_000
ROUNDS = 15


class NoArgs(msgspec.Struct):
    pass


async def _nothing(_args: NoArgs, _context: ToolContext) -> ToolOutput:
    return ToolOutput()


COMMAND = Tool(name="bash", description="", input=NoArgs, risk="shell", run=_nothing, side_effect="process")
WRITE = Tool(
    name="write_file", description="", input=NoArgs, risk="write", run=_nothing, side_effect="workspace"
)


def undo() -> list[Figure]:
    """Before the first command everything is read; later on only what changed."""
    with scratch() as folder:
        return asyncio.run(_measured(os.path.realpath(folder)))


async def _measured(folder: str) -> list[Figure]:
    work = os.path.join(folder, "work")
    _fill(work)
    clock = SystemClock()
    store = SessionStore(os.path.join(folder, "data"), ids=Ids(clock.now_ms, os.urandom), clock=clock)
    log = store.create(work, profile="default")
    keeper = Keeper(
        log.undo_store(),
        ground=Ground(roots=(work,), kept_objects=f"{work}-objects"),
        turn=lambda: 1,
        clock=clock,
    )
    changed = os.path.join(work, "0", "0.txt")
    try:
        first_ms, _ = await _around(keeper, _call(COMMAND), changed)
        later = [await _around(keeper, _call(COMMAND), changed) for _ in range(ROUNDS)]
        named = [await _around(keeper, _call(WRITE, changed), changed) for _ in range(ROUNDS)]
        assert len(log.undo_store().calls()) == 1 + 2 * ROUNDS
    finally:
        log.close()
        store.close()
    how = f"N={ROUNDS}, {FILES} files, one of them changes"
    return [
        Figure(
            name="undo: before the first command",
            value=first_ms,
            unit="ms",
            target=1_500,
            how=f"{FILES} files read, 40 MB",
        ),
        Figure(
            name="undo: before a command", value=middle([b for b, _ in later]), unit="ms", target=60, how=how
        ),
        Figure(
            name="undo: after a command", value=middle([a for _, a in later]), unit="ms", target=60, how=how
        ),
        Figure(
            name="undo: around a file tool",
            value=middle([b + a for b, a in named]),
            unit="ms",
            target=4,
            how=how,
        ),
    ]


async def _around(keeper: Keeper, call: ToolCall, changed: str) -> tuple[float, float]:
    """Milliseconds before and after a call that changes one file."""
    before_ms, begun = await _timed(keeper.begin(call))
    _write(changed, os.urandom(8))
    after_ms, _ = await _timed(keeper.end(begun, ran=True))
    return before_ms, after_ms


async def _timed(work: Awaitable[Result]) -> tuple[float, Result]:
    begun = time.perf_counter()
    result = await work
    return (time.perf_counter() - begun) * 1000, result


def _call(tool: Tool, *paths: str) -> ToolCall:
    async def open_gate() -> None:
        """Nobody waits."""

    return ToolCall(
        id="call_" + os.urandom(13).hex(),
        name=tool.name,
        input={},
        step=1,
        originator="",
        write=lambda _text: None,
        passed_gates=open_gate,
        partial=[],
        tool=tool,
        subjects=tuple(Subject(kind="path", access="write", value=path, resolved=path) for path in paths),
    )


def _fill(work: str) -> None:
    for number in range(FILES):
        folder = os.path.join(work, str(number % FOLDERS))
        os.makedirs(folder, exist_ok=True)
        _write(os.path.join(folder, f"{number // FOLDERS}.txt"), os.urandom(FILE_BYTES))


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
