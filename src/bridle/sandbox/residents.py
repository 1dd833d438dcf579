"""Processes that stay while people work in the same folders, such as servers, and what they made that later runs obey.

Nothing stands in their way there: neither people nor our own tools could write it then. What they made is looked for
instead: soon after they wrote, before and after whatever they are asked for, before a command begins, at their end.
What is found is judged only if one of them may have written since the look before; what came while none did is
somebody else's, and counts as it is from then on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from bridle.base.stand_ins import CLOCK_TICK_NS
from bridle.sandbox.adapters import Launch
from bridle.sandbox.cut_off_note import CutOffNote
from bridle.sandbox.lookout import Lookout, MadeFile
from bridle.sandbox.thread_limits import HeldThread
from bridle.sandbox.write_listener import WriteListener, can_listen

SOON_S = 0.05
"""So long after the first of several writes the top of the folders is looked at."""
QUIET_S = 0.4
"""So long after the last look everything is, when nothing can be on its way any more."""


class Resident:
    """One such process. `found` is told what it made, and since when that was looked for; it says whether there was
    anything to put aside or back."""

    def __init__(self, found: Callable[[Sequence[MadeFile], int], bool]) -> None:
        self.found = found
        self.listener = WriteListener(self._hear)
        self._heard: Callable[[], None] | None = None
        self._held: dict[str, tuple[int, int] | None] = {}

    def heard_from(self, launch: Launch) -> Launch:
        """The launch, by which every write of it is heard of; as it is where that cannot be."""
        if launch.privileged or not can_listen():
            return launch
        self.listener.begin()
        if isinstance(launch.within, HeldThread):
            launch.within.also(self.listener.enter)
            return launch
        thread = HeldThread(self.listener.enter)

        def ended() -> None:
            launch.ended()
            thread.end()

        return launch._replace(within=thread, ended=ended)

    def settle(self, held: Iterable[str], heard: Callable[[], None]) -> None:
        """It runs from here on. `held` it cannot change as long as they are the same files and folders."""
        self._held = {path: _identity(path) for path in held}
        self._heard = heard

    def still_held(self) -> set[str]:
        """Whoever replaced one took the border around it away with the old one."""
        return {path for path, known in self._held.items() if known == _identity(path)}

    def _hear(self) -> None:
        if self._heard is not None:
            self._heard()


class Residents:
    """Those in the folders of one lookout. `agreed` are paths that somebody may change meanwhile; None: any.

    `notes` is the folder for a note that says since when nobody looked, should we be killed; empty: none is made.
    """

    def __init__(
        self, lookout: Lookout, folder: str, agreed: Callable[[], Collection[str] | None], notes: str
    ) -> None:
        self._lookout = lookout
        self._agreed = agreed
        self._here: dict[Resident, None] = {}
        self._top_ns = self._all_ns = 0
        self._note = CutOffNote(notes, folder)
        self._noting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._soon: asyncio.TimerHandle | None = None
        self._quiet: asyncio.TimerHandle | None = None
        self._is_heard = False

    def enter(self, resident: Resident, held: Collection[str]) -> None:
        """It is about to run."""
        if self._here:
            self.look()
        else:
            self._loop = asyncio.get_running_loop()
            self._lookout.learn_all(held)
            self._top_ns = self._all_ns = time.time_ns() - CLOCK_TICK_NS
        self._here[resident] = None
        resident.settle(held, self._hear)
        self._write_note()  # nobody knows yet whether it will be heard
        self._look_later()

    def leave(self, resident: Resident) -> None:
        """Nothing of it runs any more. Harmless when it never entered."""
        if resident in self._here:
            self.look()
            del self._here[resident]
        if not self._here:
            for timer in (self._soon, self._quiet):
                if timer is not None:
                    timer.cancel()
            with self._noting:
                self._note.drop()

    def look(self) -> bool:
        """Looks at the top of the folders, and at everything where one of them may have written since that was done.
        Whether anything was put aside or back."""
        if not self._here or (agreed := self._agreed()) is None:
            return False
        found = self._look_at_top(agreed)
        since_ns, self._all_ns = self._all_ns, time.time_ns() - CLOCK_TICK_NS
        if writers := self._writers(since_ns):
            found |= self._judge(writers, since_ns, agreed, top_only=False)
        with self._noting, contextlib.suppress(OSError):
            self._note.drop()
            if self._writers(self._all_ns):
                self._note.write(self._all_ns)
        return found

    def _look_at_top(self, agreed: Collection[str]) -> bool:
        """The time is taken first: who writes from here on is judged by the next look."""
        since_ns, self._top_ns = self._top_ns, time.time_ns() - CLOCK_TICK_NS
        self._is_heard = False
        if writers := self._writers(since_ns):
            return self._judge(writers, since_ns, agreed, top_only=True)
        self._lookout.learn_top(self._top_ns, held=_held_by_all(self._here))
        return False

    def _judge(
        self, writers: Sequence[Resident], since_ns: int, agreed: Collection[str], *, top_only: bool
    ) -> bool:
        came = self._lookout.look(since_ns, held=_held_by_all(writers), agreed=agreed, top_only=top_only)
        found = False
        for one in writers:
            found |= one.found(came, since_ns)
            came = []
        return found

    def _writers(self, since_ns: int) -> list[Resident]:
        return [one for one in self._here if one.listener.may_have_written(since_ns)]

    # What is heard, in a thread of the listener

    def _hear(self) -> None:
        if self._is_heard:
            return
        self._is_heard = True
        self._write_note()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._look_soon)

    def _write_note(self) -> None:
        with self._noting, contextlib.suppress(OSError):  # a full disk keeps nobody from writing elsewhere
            self._note.write(self._all_ns)

    def _look_soon(self) -> None:
        if self._here and self._loop is not None:
            self._soon = self._loop.call_later(SOON_S, self._look_while_written)

    def _look_while_written(self) -> None:
        if not self._here:
            return
        agreed = self._agreed()
        if agreed is not None:
            self._look_at_top(agreed)
        else:
            self._is_heard = False
        self._look_later()

    def _look_later(self) -> None:
        if self._quiet is not None:
            self._quiet.cancel()
        if self._loop is not None:
            self._quiet = self._loop.call_later(QUIET_S, self.look)


def _held_by_all(residents: Iterable[Resident]) -> set[str]:
    first, *others = (one.still_held() for one in residents)
    return first.intersection(*others)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
