"""What the tests of undo share: a session in a folder, calls that do anything to it, and the tree as it is."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from bridle.base.clock import SystemClock
from bridle.base.fs.files import KEPT_OBJECTS
from bridle.base.memory_budget import MemoryBudget, MemoryCache
from bridle.engine.tools import Subject, Tool, ToolCall, ToolOutput
from bridle.engine.undo_records import CallRow, Seen
from bridle.protocol.events import ToolCallStarted, UndoApplied
from bridle.sessions.log.session_log import StoredLog
from bridle.sessions.store import SessionStore
from bridle.undo.file_tree import USUAL, Limits, Look, WatchedFolders
from bridle.undo.keeper import Begun, Keeper, last_tree
from bridle.undo.undo_plan import Plan
from bridle.undo.undo_service import CutOff, Undo
from sessions.session_kit import new_store, put


def any_cache() -> MemoryCache[Look]:
    return MemoryCache(MemoryBudget(), "", "")


class NoArgs(msgspec.Struct):
    pass


async def nothing(_args, _context) -> ToolOutput:
    return ToolOutput()


ANYTHING = Tool(name="bash", description="", input=NoArgs, risk="shell", run=nothing, side_effect="process")
NAMED = Tool(
    name="write_file", description="", input=NoArgs, risk="write", run=nothing, side_effect="workspace"
)


class Workshop:
    """A session whose calls are Python functions."""

    def __init__(self, folder: Path, log: StoredLog, kept: Path, limits: Limits = USUAL) -> None:
        self.folder = folder
        self.log = log
        self.ground = WatchedFolders(
            roots=(str(folder),), kept_objects=str(kept / KEPT_OBJECTS), limits=limits
        )
        self.turn = 0
        self.keeper = Keeper(
            log.undo_store(),
            ground=self.ground,
            turn=lambda: self.turn,
            clock=SystemClock(),
            trees=any_cache(),
        )
        self.calls = 0

    @property
    def undo(self) -> Undo:
        """The undo; `plan`, `redo_plan`, `calls` … run it to its result."""
        return Undo(
            self.log.undo_store(),
            ground=self.ground,
            may_write=lambda _path: None,
            now_ms=SystemClock().now_ms,
        )

    def plan(self, what: str = "") -> Plan | None:
        return asyncio.run(self.undo.plan(what))

    def redo_plan(self) -> Plan | None:
        return asyncio.run(self.undo.redo_plan())

    def cut_off(self) -> list[CutOff]:
        return asyncio.run(self.undo.cut_off())

    def rows(self) -> list[CallRow]:
        return asyncio.run(self.log.undo_store().calls())

    def known(self) -> dict[str, Seen]:
        return asyncio.run(last_tree(self.log.undo_store()))

    def call(self, work: Callable[[], object], *named: str) -> str:
        """A call that does this; with `named`, one that can change only these files."""
        begun = self.begin(*named)
        work()
        self.end(begun)
        return self._call.id

    def end(self, begun: Begun) -> None:
        asyncio.run(self.keeper.end(begun, ran=True))

    def begin(self, *named: str) -> Begun:
        self.calls += 1
        self.turn += 1
        paths = [os.path.join(self.folder, name) for name in named]
        self._call = ToolCall(
            id=f"call_{self.calls:026}",
            name="write_file" if named else "bash",
            input={"command": f"work {self.calls}"},
            step=1,
            originator="",
            write=lambda _text: None,
            passed_gates=nothing,  # pyright: ignore[reportArgumentType]
            partial=[],
            tool=NAMED if named else ANYTHING,
            subjects=tuple(Subject(kind="path", access="write", value=p, resolved=p) for p in paths),
        )
        begun = asyncio.run(self.keeper.begin(self._call))
        intent = ToolCallStarted(
            call_id=self._call.id, tool=self._call.name, input={}, mutating=True, input_sha256=""
        )
        put(self.log, intent)
        asyncio.run(self.log.durable())
        return begun

    def apply(self, plan, **options) -> UndoApplied:
        applied = asyncio.run(self.undo.apply(plan, **options))
        assert applied is not None
        self.record(applied)
        return applied

    def record(self, applied: UndoApplied) -> None:
        put(self.log, applied)
        asyncio.run(self.log.committed())

    def undo_last(self, what: str = "") -> UndoApplied:
        plan = self.plan(what)
        assert plan is not None
        assert not plan.of("conflict"), plan.of("conflict")
        assert not plan.of("impossible"), plan.of("impossible")
        return self.apply(plan)

    def redo_last(self) -> UndoApplied:
        plan = self.redo_plan()
        assert plan is not None
        assert not plan.of("conflict"), plan.of("conflict")
        return self.apply(plan)

    def tree(self) -> dict[bytes, tuple[object, ...]]:
        return tree_below(self.folder)


@contextmanager
def workshop(data: Path, folder: Path, limits: Limits = USUAL) -> Iterator[Workshop]:
    folder.mkdir(exist_ok=True)
    with closing(new_store(data)) as store, closing(store.create(str(folder), profile="default")) as log:
        yield Workshop(folder, log, data, limits)


@contextmanager
def fresh_workshop(store: SessionStore) -> Iterator[Workshop]:
    """One more session of a store, in a new folder."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.realpath(scratch)
        with closing(store.create(folder, profile="default")) as log:
            yield Workshop(Path(folder), log, Path(store.shelf.folder))


def tree_below(folder: Path) -> dict[bytes, tuple[object, ...]]:
    """Everything there: mode, and content, target or the word folder."""
    found: dict[bytes, tuple[object, ...]] = {}
    for where, folders, files in os.walk(os.fsencode(folder)):
        for name in (*folders, *files):
            path = os.path.join(where, name)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                what: tuple[object, ...] = ("link", os.readlink(path))
            elif stat.S_ISDIR(status.st_mode):
                what = ("folder", stat.S_IMODE(status.st_mode))
            else:
                with open(path, "rb") as file:
                    what = (stat.S_IMODE(status.st_mode), file.read())
            found[os.path.relpath(path, os.fsencode(folder))] = what
    return found


def remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)
