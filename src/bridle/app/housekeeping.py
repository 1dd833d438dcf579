"""What an engine does beside its work, once a day: old content goes. What that takes is loaded when it is time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Mapping

from bridle.base import files
from bridle.base.clock import Clock
from bridle.config.folders import Folders
from bridle.protocol.errors import BridleError
from bridle.sessions.store import SessionStore

_DAY_MS = 24 * 3600 * 1000


class Housekeeping:
    """Lets old content go while an engine works, at most once a day, in a thread that can be stopped at any time.

    What is cut off goes on the next day. The first day there is nothing to do.
    """

    def __init__(self, store: SessionStore, where: Folders, env: Mapping[str, str], clock: Clock) -> None:
        self._store = store
        self._where = where
        self._env = env
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._stop = threading.Event()

    def begin(self, cwd: str) -> None:
        """Starts the work if it is time for it. Nobody waits for it."""
        marker = os.path.join(self._where.data, "swept")
        if self._task is None and daily(marker, now_ms=self._clock.now_ms(), at_first=False):
            self._task = asyncio.create_task(asyncio.to_thread(self._sweep, cwd))

    async def close(self) -> None:
        """Stops what is still at work, between two transactions. A sweep that failed is tried again another day."""
        self._stop.set()
        if self._task is not None:
            with contextlib.suppress(BridleError):
                await self._task

    def _sweep(self, cwd: str) -> None:
        from bridle.app.keeping import days_kept, sweep

        with self._store.shelf.elsewhere() as shelf:
            sweep(shelf, self._where, days_kept(self._where, self._env, cwd), stopped=self._stop.is_set)


def daily(marker: str, *, now_ms: int, at_first: bool) -> bool:
    """Whether something that is done once a day is due; if so it counts as done. `at_first`: where it never was."""
    try:
        last_ms = int(files.read_limited(marker, 100).data)
    except (OSError, ValueError):
        last_ms = None
    if last_ms is not None and 0 <= now_ms - last_ms < _DAY_MS:
        return False
    try:
        files.private_folder(os.path.dirname(marker))
        files.write_atomic(marker, str(now_ms).encode())
    except OSError:
        return False
    return at_first or last_ms is not None
