"""What an engine does beside its work, once a day: old content goes. What that takes is loaded when it is time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Mapping

from bridle.base import files
from bridle.base.clock import Clock
from bridle.config.folders import Folders
from bridle.protocol.errors import BridleError
from bridle.sessions.store import SessionStore

GRACE_S = 2.0
"""So long an engine that has nothing else to do waits for old content to go."""
_DAY_MS = 24 * 3600 * 1000


class Housekeeping:
    """Lets old content go while an engine works, at most once a day, in a thread that can be stopped at any time.

    What is cut off goes on with the next engine. The first day there is nothing to do.
    """

    def __init__(self, store: SessionStore, where: Folders, env: Mapping[str, str], clock: Clock) -> None:
        self._store = store
        self._where = where
        self._env = env
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._stop = threading.Event()
        self._marker = os.path.join(where.data, "swept")

    def begin(self, cwd: str) -> None:
        """Starts the work if it is time for it. Nobody waits for it."""
        if self._task is not None:
            return
        last_ms, now_ms = _marked(self._marker), self._clock.now_ms()
        if last_ms is None:
            _mark(self._marker, now_ms)
        elif not 0 <= now_ms - last_ms < _DAY_MS:
            self._task = asyncio.create_task(asyncio.to_thread(self._sweep, cwd))

    async def close(self) -> None:
        """Waits a moment for what is still at work, then stops it between two transactions."""
        if self._task is None:
            return
        await asyncio.wait((self._task,), timeout=GRACE_S)
        self._stop.set()
        with contextlib.suppress(BridleError):  # what failed is tried again
            await self._task

    def _sweep(self, cwd: str) -> None:
        from bridle.app.keeping import days_kept, sweep

        with self._store.shelf.elsewhere() as shelf:
            sweep(shelf, self._where, days_kept(self._where, self._env, cwd), stopped=self._stop.is_set)
        if not self._stop.is_set():
            _mark(self._marker, self._clock.now_ms())


def expiry_notice(
    store: SessionStore, where: Folders, env: Mapping[str, str], *, now_ms: int, cwd: str
) -> str | None:
    """What to say to a person about content that goes soon, once a day."""
    from bridle.app.keeping import NOTICE_DAYS, days_kept, soon

    found = soon(store.shelf, days_kept(where, env, cwd), now_ms=now_ms)
    if not found or not _once_a_day(os.path.join(where.state, "expiry-told"), now_ms):
        return None
    first = found[0]
    name = f'"{first.title}"' if first.title else first.id
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    these = "1 session loses its" if len(found) == 1 else f"{len(found)} sessions lose their"
    when = time.strftime("%Y-%m-%d", time.localtime(first.at_ms / 1000))
    return (
        f"{these} content within {NOTICE_DAYS} days: {name} on {when}{more}. Keep one: bridle sessions pin ID"
    )


def _once_a_day(marker: str, now_ms: int) -> bool:
    """Whether something that is done once a day is due; if so it counts as done."""
    last_ms = _marked(marker)
    if last_ms is not None and 0 <= now_ms - last_ms < _DAY_MS:
        return False
    return _mark(marker, now_ms)


def _marked(marker: str) -> int | None:
    try:
        return int(files.read_limited(marker, 100).data)
    except (OSError, ValueError):
        return None


def _mark(marker: str, now_ms: int) -> bool:
    try:
        files.private_folder(os.path.dirname(marker))
        files.write_atomic(marker, str(now_ms).encode(), durable=False)
    except OSError:
        return False
    return True
