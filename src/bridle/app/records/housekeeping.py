"""Daily retention of stored sessions."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping
from functools import cache

from bridle.app.records.operational_log import Notes
from bridle.app.user.setting_sections import load
from bridle.base.clock import Clock
from bridle.base.fs import files
from bridle.config.folders import Folders
from bridle.engine.store_ports import Archive, DaysOf
from bridle.protocol.errors import BridleError
from bridle.sessions.archive.beside_store import forget_beside
from bridle.sessions.stored_session_settings import StoredSessionSettings

GRACE_S = 2.0
"""Longest wait for the sweep when the engine closes."""
_DAY_MS = 24 * 3600 * 1000
LONG_MS = 7 * _DAY_MS
"""After a longer pause a sweep waits one more day: users were not warned, or the clock is wrong."""
NOTICE_DAYS = 7
"""Users are warned this long before content expires."""
NOTICE_MS = NOTICE_DAYS * 24 * 3600 * 1000


def days_kept(where: Folders, env: Mapping[str, str], cwd: str) -> DaysOf:
    """Return the days that each profile keeps its sessions. With unreadable settings nothing expires."""

    @cache
    def days_of(profile: str) -> int | None:
        named = None if profile == "default" else profile
        tiers = load(where=where, cwd=cwd, env=env, profile=named)
        if any(problem.severity == "error" for problem in tiers.problems):
            return None
        days = tiers.section("sessions", StoredSessionSettings).retention_days
        return days if isinstance(days, int) else None

    return days_of


class Housekeeping:
    """The daily sweep of expired content. It can stop at any time; the next engine continues it.

    The first sweep and one after a long pause delete nothing. They leave a negative time in the marker, and
    content that is due goes a day later.
    """

    def __init__(
        self,
        archive: Archive,
        where: Folders,
        env: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self._notes: Notes | None = None
        self._archive = archive
        self._where = where
        self._env = env
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._stop = threading.Event()
        self._marker = os.path.join(where.data, "swept")

    def begin(self, cwd: str, notes: Notes | None = None) -> None:
        """Start the sweep in the background if it is due. `notes` record its result."""
        if self._task is not None:
            return
        self._notes = notes
        last_ms, now_ms = files.marked_ms(self._marker), self._clock.now_ms()
        if last_ms is None or (last_ms >= 0 and now_ms - last_ms > LONG_MS):
            files.mark_ms(self._marker, -now_ms)
        elif self._is_due():
            self._task = asyncio.create_task(self._sweep_alone(cwd))

    def _is_due(self) -> bool:
        last_ms = files.marked_ms(self._marker)
        return last_ms is not None and not 0 <= self._clock.now_ms() - abs(last_ms) < _DAY_MS

    async def close(self) -> None:
        """Wait a moment for a running sweep, then stop it between two transactions."""
        if self._task is None:
            return
        await asyncio.wait((self._task,), timeout=GRACE_S)
        self._stop.set()
        try:
            await self._task
        except (BridleError, OSError) as failure:  # it is tried again
            if self._notes is not None:
                reason = failure.reason if isinstance(failure, BridleError) else type(failure).__name__
                self._notes.write("warning", "store", "old content stays", reason=reason)

    async def _sweep_alone(self, cwd: str) -> None:
        """Sweep unless another engine is sweeping."""
        with files.FileLock(f"{self._marker}.lock") as lock:
            if lock.acquire() and self._is_due():
                await self._sweep(cwd)

    async def _sweep(self, cwd: str) -> None:
        expired = await self._archive.expire(
            days_kept(self._where, self._env, cwd),
            beside=forget_beside(self._where.state),
            stopped=self._stop.is_set,
        )
        if expired.sessions and self._notes is not None:
            self._notes.write("info", "store", "old content went", sessions=len(expired.sessions))
        if not self._stop.is_set():
            files.mark_ms(self._marker, self._clock.now_ms())
