"""Named points at which a run of the engine is killed, set from outside in a process of the harness's own.

The product knows nothing of them. A trap wraps one function of the engine in the process that is about to die, counts
how often the point is passed, and sends SIGKILL to its own process at the wanted time: as exact as a kill can be, and
nothing is flushed, closed or caught on the way.
"""

# The points lie inside: no public door leads to the moment between two writes.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from bridle.base.fs import files
from bridle.engine.journal import Journal
from bridle.sessions.log import database, tips, undo_store, write_ahead, writer
from bridle.sessions.log.log_key import KeyFile
from bridle.sessions.log.session_log import StoredLog


class Trap:
    """Kills its process when it is sprung for the n-th time."""

    def __init__(self, times: int) -> None:
        self._left = times

    def spring(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
            threading.Event().wait()  # another thread may be here before the signal is

    def spring_after(self, seconds: float) -> None:
        """From another thread: at a moment nobody chose."""
        self._left -= 1
        if self._left == 0:
            timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL))
            timer.daemon = True
            timer.start()


Set = Callable[[Trap, float], None]
"""Sets a trap; the number between 0 and 1 is chance, for traps that need some."""


def replace(owner: Any, name: str, made: Callable[[Any], Any]) -> None:
    """Puts `made(inner)` in the place of a function, method or constant."""
    setattr(owner, name, made(getattr(owner, name)))


def _is(event: Any, kind: str) -> bool:
    """`kind` is a class name, or `Intent` for the beginning of a call that changes something."""
    if kind == "Intent":
        return type(event).__name__ == "ToolCallStarted" and event.mutating
    return type(event).__name__ == kind


def before(kind: str, *, of_child: bool = False) -> Set:
    """Just before an event comes into being; `of_child`: one that an agent writes which was sent."""

    def set_trap(trap: Trap, _chance: float) -> None:
        def made(inner: Any) -> Any:
            def emit(self: Journal, event: Any, **more: Any) -> int:
                if _is(event, kind) and (not of_child or self.invocation.id is not None):
                    trap.spring()
                return inner(self, event, **more)

            return emit

        replace(Journal, "emit", made)

    return set_trap


def appended(kind: str, *, of_child: bool = False) -> Set:
    """It is in the queue of the writer and nowhere else."""

    def set_trap(trap: Trap, _chance: float) -> None:
        def made(inner: Any) -> Any:
            def emit(self: Journal, event: Any, **more: Any) -> int:
                number = inner(self, event, **more)
                if _is(event, kind) and (not of_child or self.invocation.id is not None):
                    trap.spring()
                return number

            return emit

        replace(Journal, "emit", made)

    return set_trap


def committed(kind: str, *, of_child: bool = False) -> Set:
    """The transaction is over, its tip is written, nobody has been told."""

    def set_trap(trap: Trap, _chance: float) -> None:
        def made(inner: Any) -> Any:
            def commit(connection: Any, changes: list[Any], rows: list[Any], *more: Any) -> None:
                inner(connection, changes, rows, *more)
                written = (row.envelope for row in rows)
                if any(_is(one.event, kind) and (not of_child or one.invocation) for one in written):
                    trap.spring()

            return commit

        replace(writer, "_commit", made)

    return set_trap


def mid_transaction(trap: Trap, _chance: float) -> None:
    """Rows are written and the transaction is open."""

    def made(inner: Any) -> Any:
        def leave(self: Any, *error: Any) -> None:
            trap.spring()
            inner(self, *error)

        return leave

    replace(writer._Transaction, "__exit__", made)


def before_tip(trap: Trap, _chance: float) -> None:
    """The transaction is over; the tip still says what was before it."""

    def made(inner: Any) -> Any:
        def write(self: Any, event_id: int, link: bytes) -> None:
            if event_id:
                trap.spring()
            inner(self, event_id, link)

        return write

    replace(tips.TipFile, "write", made)


def half_tip(trap: Trap, chance: float) -> None:
    """A part of the new tip stands over the old one."""

    def made(inner: Any) -> Any:
        def write(self: Any, event_id: int, link: bytes) -> None:
            body = tips._LAYOUT.pack(event_id, link)
            os.pwrite(self._fd, body[: 1 + int(chance * (len(body) - 1))], 0)
            trap.spring()
            inner(self, event_id, link)

        return write

    replace(tips.TipFile, "write", made)


def before_sync(trap: Trap, _chance: float) -> None:
    """Committed, and not asked of the disk yet."""

    def made(inner: Any) -> Any:
        def sync(self: Any) -> None:
            trap.spring()
            inner(self)

        return sync

    replace(write_ahead.WriteAheadLog, "sync", made)


def after_sync(trap: Trap, _chance: float) -> None:
    """On the disk; whoever waited is not told yet."""

    def made(inner: Any) -> Any:
        def sync(self: Any) -> None:
            inner(self)
            trap.spring()

        return sync

    replace(write_ahead.WriteAheadLog, "sync", made)


def during_checkpoint(trap: Trap, chance: float) -> None:
    """Every commit is folded back into the database at once, and somewhere in between it ends."""

    def made(inner: Any) -> Any:
        def fold_back(self: Any, connection: Any) -> None:
            trap.spring_after(chance * 0.004)
            inner(self, connection)

        return fold_back

    replace(write_ahead, "FOLD_BACK_PAGES", lambda _usual: 1)
    replace(write_ahead.WriteAheadLog, "fold_back", made)


def output(trap: Trap, _chance: float) -> None:
    """A command has said something and runs on."""

    def made(inner: Any) -> Any:
        def show(self: Journal, event: Any) -> None:
            inner(self, event)
            if _is(event, "ToolCallProgress"):
                trap.spring()

        return show

    replace(Journal, "show", made)


def key_made(trap: Trap, _chance: float) -> None:
    """There is a key and no database."""

    def made(inner: Any) -> Any:
        def make(self: KeyFile) -> None:
            inner(self)
            trap.spring()

        return make

    replace(KeyFile, "make", made)


def database_unnamed(trap: Trap, _chance: float) -> None:
    """The database is made and does not have its name yet."""

    def made(inner: Any) -> Any:
        def migrate(self: Any, connection: Any) -> None:
            inner(self, connection)
            trap.spring()

        return migrate

    replace(database.Database, "migrate", made)


def run_lock_taken(trap: Trap, _chance: float) -> None:
    """The session is there and locked; its log is empty."""

    def made(inner: Any) -> Any:
        def acquire(self: Any, **how: Any) -> bool:
            taken = inner(self, **how)
            if "locks" in self.path.split(os.sep):
                trap.spring()
            return taken

        return acquire

    replace(files.FileLock, "acquire", made)


def undo_kept(trap: Trap, _chance: float) -> None:
    """What a call is about to change is on its way to the disk; so is nothing else, and the call has not begun."""

    def made(inner: Any) -> Any:
        def begin(self: Any, *given: Any, **named: Any) -> Any:
            kept = inner(self, *given, **named)
            trap.spring()
            return kept

        return begin

    replace(undo_store.UndoTables, "begin", made)


def closed(trap: Trap, _chance: float) -> None:
    """The log is closed, everything is synced, the lock is given back."""

    def made(inner: Any) -> Any:
        def close(self: StoredLog) -> None:
            inner(self)
            trap.spring()

        return close

    replace(StoredLog, "close", made)


def fold_kept(trap: Trap, _chance: float) -> None:
    """The fold of the log is being kept for the next time."""

    def made(inner: Any) -> Any:
        def keep(self: StoredLog, event_id: int, folded: bytes) -> None:
            trap.spring()
            inner(self, event_id, folded)

        return keep

    replace(StoredLog, "keep_fold", made)


POINTS: dict[str, Set] = {
    "key made": key_made,
    "database unnamed": database_unnamed,
    "run lock taken": run_lock_taken,
    "session created": appended("SessionCreated"),
    "input appended": appended("InputAccepted"),
    "input committed": committed("InputAccepted"),
    "turn started": appended("TurnStarted"),
    "prefix set": appended("PrefixSet"),
    "step started": committed("StepStarted"),
    "mid-stream": appended("TextDelta"),
    "stream committed": committed("TextDelta"),
    "step ended": appended("StepEnded"),
    "call requested": appended("ToolCallRequested"),
    "call permitted": appended("PermissionDecided"),
    "undo kept": undo_kept,
    "before intent": before("Intent"),
    "intent appended": appended("Intent"),
    "intent committed": committed("Intent"),
    "before sync": before_sync,
    "after sync": after_sync,
    "mid-run": output,
    "before outcome": before("ToolResult"),
    "outcome appended": appended("ToolResult"),
    "outcome committed": committed("ToolResult"),
    "mid-transaction": mid_transaction,
    "before tip": before_tip,
    "half a tip": half_tip,
    "during checkpoint": during_checkpoint,
    "turn ended": appended("TurnEnded"),
    "session ended": appended("SessionEnded"),
    "fold kept": fold_kept,
    "log closed": closed,
}
"""The points in the order a run passes them."""


IN_CHILD: dict[str, Set] = {
    "child, begun": committed("ChildStarted"),
    "child, mid-stream": appended("TextDelta", of_child=True),
    "child, before intent": before("Intent", of_child=True),
    "child, intent committed": committed("Intent", of_child=True),
    "child, outcome appended": appended("ToolResult", of_child=True),
    "child, before memory": before("ChildMemoryUpdated"),
    "child, memory committed": committed("ChildMemoryUpdated"),
    "child, ended": appended("ChildEnded"),
}
"""Points of agents that were sent: each prompt sends one, and it does the work."""

ON_RESUME: dict[str, Set] = {
    "resume, lock taken": run_lock_taken,
    "resume, results written": appended("ToolResult"),
    "resume, turn closed": committed("TurnEnded"),
    "resume, session created": appended("SessionCreated"),
    "court, question asked": committed("QuestionAsked"),
    "court, answer written": appended("QuestionAnswered"),
    "court, judged": committed("ToolResult"),
}
"""Points of the way back: the run is killed while a call runs, and the next one is killed here."""

ONCE = frozenset(
    {
        "key made",
        "database unnamed",
        "run lock taken",
        "session created",
        "prefix set",
        "session ended",
        "fold kept",
    }
    | {"log closed", "mid-run", *ON_RESUME}
)
"""Points that are passed only once."""
