"""Daily retention and log cleaning of an engine.

What that takes is loaded when it is time.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from bridle.base.clock import Clock
from bridle.base.fs import files
from bridle.config.folders import Folders
from bridle.protocol.errors import BridleError
from bridle.protocol.events import Envelope

if TYPE_CHECKING:
    from bridle.base.fs.daily_log import DailyLog, LogLevel
    from bridle.engine.store_ports import Archive

GRACE_S = 2.0
"""So long an engine that has nothing else to do waits for old content to go."""
_DAY_MS = 24 * 3600 * 1000
LONG_MS = 7 * _DAY_MS
"""Where nobody looked for longer than this, nobody could be told what goes, and the clock may be wrong."""
LOG_VARIABLE = "BRIDLE_LOG"
NOTED = frozenset({"Error", "StepFailed", "Degraded", "HookError", "HookTimeout", "MCPServerDown"})
"""The kinds of events that the operational log takes at its usual level: what goes wrong."""
NOTED_IN_DETAIL = NOTED | {
    "SessionCreated",
    "SessionEnded",
    "StepStarted",
    "StepEnded",
    "ToolCallStarted",
    "ToolResult",
    "Notice",
    "TurnEnded",
    "TurnTiming",
}
"""Those it takes when somebody asked for more."""


class Notes:
    """The operational log of an engine, opened with its first line. `wanted` are levels as `BRIDLE_LOG` gives them.

    `secrets` are the keys in use: none of them is ever written.
    """

    def __init__(
        self,
        state: str,
        wanted: str,
        *,
        clock: Clock,
        secrets: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._state = state
        self._wanted = wanted
        self._clock = clock
        self._secrets = secrets
        self._log: DailyLog | None = None
        self._of_levels: dict[str, Notes] = {}
        self.kinds = NOTED_IN_DETAIL if wanted else NOTED
        if wanted:
            self._opened()  # what cannot be read is said before anything begins

    def with_levels(self, wanted: str) -> Notes:
        """The notes of a session whose settings want these levels. Environment and options go before settings."""
        if not wanted or self._wanted:
            return self
        if wanted not in self._of_levels:
            self._of_levels[wanted] = Notes(self._state, wanted, clock=self._clock, secrets=self._secrets)
        return self._of_levels[wanted]

    def event(self, envelope: Envelope, provider: str) -> None:
        """Notes an event of a kind that is in `kinds`."""
        from bridle.app.records.operations import entry_of

        if (entry := entry_of(envelope.event, provider)) is not None:
            level, component, msg, fields = entry
            self._opened().write(
                level, component, msg, session=envelope.session, turn=envelope.turn, **fields
            )

    def detail(self, component: str, msg: str, **fields: str | float | None) -> None:
        """Notes something that only matters to whoever asked for more."""
        if self._wanted:
            self._opened().write("debug", component, msg, **fields)

    def write(self, level: LogLevel, component: str, msg: str, **fields: str | float | None) -> None:
        """Notes what happened outside of sessions."""
        self._opened().write(level, component, msg, **fields)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
        for notes in self._of_levels.values():
            notes.close()

    def _opened(self) -> DailyLog:
        if self._log is None:
            from bridle.app.records.operations import open_log

            self._log = open_log(self._state, self._wanted, clock=self._clock, secrets=self._secrets)
        return self._log


def log_wanted(
    env: Mapping[str, str], *, level: str | None, verbose: bool, to_stderr: bool
) -> Mapping[str, str]:
    """The environment with what the options say about the operational log."""
    asked = [part for part in (level or ("debug" if verbose else ""), "stderr" if to_stderr else "") if part]
    if not asked:
        return env
    if level is None and not verbose and (before := env.get(LOG_VARIABLE)):
        asked.insert(0, before)
    return {**env, LOG_VARIABLE: ",".join(asked)}


class Housekeeping:
    """Lets old content go while an engine works, at most once a day; it can be stopped at any time.

    What is cut off goes on with the next engine. The first look, and one after a long time, lets nothing go: what is
    due goes a day later, by a clock that was right for that long. Such a look is marked with a negative time.
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
        """Starts the work if it is time for it. Nobody waits for it; `notes` hear what went, or went wrong."""
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
        """Waits a moment for what is still at work, then stops it between two transactions."""
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
        """Of all engines that begin on a new day one does it; the others would only be in its way."""
        with files.FileLock(f"{self._marker}.lock") as lock:
            if lock.acquire() and self._is_due():
                await self._sweep(cwd)

    async def _sweep(self, cwd: str) -> None:
        from bridle.app.records.retention_days import days_kept
        from bridle.sessions.archive.beside_files import forget_beside

        expired = await self._archive.expire(
            days_kept(self._where, self._env, cwd),
            beside=forget_beside(self._where.state),
            stopped=self._stop.is_set,
        )
        if expired.sessions and self._notes is not None:
            self._notes.write("info", "store", "old content went", sessions=len(expired.sessions))
        if not self._stop.is_set():
            files.mark_ms(self._marker, self._clock.now_ms())
