"""What undo adds to a command in the largest workspace it looks at: the first look, a later one, and a named file."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time

import msgspec
from measure import Figure, in_turns, of_rounds, scratch, times

from bridle.base.clock import SystemClock
from bridle.base.ids import Ids
from bridle.base.memory_budget import MemoryBudget, MemoryCache
from bridle.engine.tools import Subject, Tool, ToolCall, ToolContext, ToolOutput
from bridle.sessions.log.session_log import StoredLog
from bridle.sessions.store import SessionStore
from bridle.undo.file_tree import WatchedFolders
from bridle.undo.keeper import Keeper

FOLDERS = 200
FILES = 20_000 - FOLDERS
FILE_BYTES = 2_000
FIRSTS, ROUNDS = 3, 15


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
    with scratch() as scratched, asyncio.Runner() as runner:
        folder = os.path.realpath(scratched)
        work = os.path.join(folder, "work")
        _fill(work)
        changed = os.path.join(work, "0", "0.txt")
        clock, ids = SystemClock(), Ids(SystemClock().now_ms, os.urandom)
        stores: list[SessionStore] = []
        logs: list[StoredLog] = []
        keepers: list[Keeper] = []

        def around(call: ToolCall) -> tuple[float, float]:
            return runner.run(_around(keepers[-1], call, changed))

        def first() -> float:
            """With a store that knows nothing of these files."""
            stores.append(SessionStore(os.path.join(folder, f"data-{len(stores)}"), ids=ids, clock=clock))
            logs.append(stores[-1].create(work, profile="default"))
            keepers.append(_keeper(logs[-1], work, clock))
            return around(_call(COMMAND))[0]

        try:
            read_s, first_s = in_turns(FIRSTS, lambda: _read_all(work), first)
            looked, commands, files = in_turns(
                ROUNDS,
                lambda: (_look_at_all(work), 0.0),
                lambda: around(_call(COMMAND)),
                lambda: around(_call(WRITE, changed)),
            )
            assert len(asyncio.run(logs[-1].undo_store().calls())) == 1 + 2 * (ROUNDS + 1)
        finally:
            for log, store in zip(logs, stores, strict=True):
                log.close()
                store.close()
    looked_s = [took_s for took_s, _ in looked]
    look = f"asking the system about each of {FILES:,} files"
    return [
        times(
            "undo: before the first command",
            first_s,
            read_s,
            of=f"reading and hashing {FILES:,} files",
            target=5,
        ),
        times("undo: before a command", [before for before, _ in commands], looked_s, of=look, target=1.5),
        times("undo: after a command", [after for _, after in commands], looked_s, of=look, target=1.5),
        of_rounds(
            "undo: around a file tool",
            [(before + after) * 1000 for before, after in files],
            "ms",
            4,
            f"{FILES:,} files, one of them changes",
        ),
    ]


def _keeper(log: StoredLog, work: str, clock: SystemClock) -> Keeper:
    return Keeper(
        log.undo_store(),
        ground=WatchedFolders(roots=(work,), kept_objects=f"{work}-objects"),
        turn=lambda: 1,
        clock=clock,
        trees=MemoryCache(MemoryBudget(), "", ""),
    )


def _read_all(work: str) -> float:
    """The least a first look can be: every file read, and a sum of it."""
    begun = time.perf_counter()
    for folder, _, names in os.walk(work):
        for name in names:
            with open(os.path.join(folder, name), "rb", buffering=0) as file:
                hashlib.sha256(file.read()).digest()
    return time.perf_counter() - begun


def _look_at_all(work: str) -> float:
    """The least a later look can be: what the system says of every file."""
    begun, seen = time.perf_counter(), 0
    for place in os.scandir(work):
        for entry in os.scandir(place):
            seen += entry.stat(follow_symlinks=False).st_size > 0
    assert seen == FILES
    return time.perf_counter() - begun


async def _around(keeper: Keeper, call: ToolCall, changed: str) -> tuple[float, float]:
    """Seconds before and after a call that changes one file."""
    began = time.perf_counter()
    begun = await keeper.begin(call)
    before_s = time.perf_counter() - began
    _write(changed, os.urandom(8))
    began = time.perf_counter()
    await keeper.end(begun, ran=True)
    return before_s, time.perf_counter() - began


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
