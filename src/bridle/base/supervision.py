"""A process that runs for as long as somebody needs it: started again when it ends, given up when that is no use."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Literal, NamedTuple

from bridle.base.backoff import Backoff
from bridle.base.clock import Clock
from bridle.base.duplex import DuplexProcess
from bridle.base.processes import CannotStart

MOST_ENDS: Final = 5
WITHIN_S: Final = 60.0
LAST_MOMENT_S: Final = 0.5
"""A process that closes its connection is mostly about to end; how it does says more."""
FIRST_WAIT_MS: Final = 250
LONGEST_WAIT_MS: Final = 10_000


class ProcessState(NamedTuple):
    """How a supervised process is. `problem` says why it is not up, as the end of a sentence.

    "down": it is started again after `wait_s`. "given up": it ended `ends` times within a minute.
    """

    state: Literal["starting", "up", "down", "given up", "stopped"]
    problem: str = ""
    wait_s: float = 0.0
    ends: int = 0


class Supervisor:
    """Keeps one process running.

    `open_process` starts it and raises `CannotStart`; `connect` makes it ready to be used, and whatever it raises ends
    that process: from its return on the process is up. Reading what comes after that is the caller's, until `read`
    gives nothing more. `changed` hears of every state; it must not wait.
    """

    def __init__(
        self,
        open_process: Callable[[], Awaitable[DuplexProcess]],
        connect: Callable[[DuplexProcess], Awaitable[None]],
        *,
        clock: Clock,
        random: Callable[[], float],
        changed: Callable[[ProcessState], None],
    ) -> None:
        self.state = ProcessState("stopped")
        self._open_process = open_process
        self._connect = connect
        self._clock = clock
        self._backoff = Backoff(FIRST_WAIT_MS, LONGEST_WAIT_MS, random)
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()

    async def start(self) -> None:
        """Returns once it is up, given up or stopped."""
        if self._task is None:
            self._set(ProcessState("starting"))
            self._task = asyncio.create_task(self._keep_running())
        await self._settled.wait()

    async def stop(self) -> None:
        """Ends it and everything it started. Safe to call twice; it is not started again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        if self.state.state != "stopped":
            self._set(ProcessState("stopped"))

    async def _keep_running(self) -> None:
        ends: deque[float] = deque()
        while True:
            problem = await self._run_once()
            now = self._clock.monotonic()
            while ends and ends[0] <= now - WITHIN_S:
                ends.popleft()
            if not ends:
                self._backoff.reset()
            ends.append(now)
            if len(ends) >= MOST_ENDS:
                self._set(ProcessState("given up", problem, ends=len(ends)))
                return
            wait_s = self._backoff.next() / 1000
            self._set(ProcessState("down", problem, wait_s=wait_s))
            await self._clock.sleep(wait_s)

    async def _run_once(self) -> str:
        """One process, from its start to its end. Returns why it ended."""
        try:
            process = await self._open_process()
        except CannotStart as refused:
            return str(refused)
        ending = asyncio.ensure_future(process.wait())
        connecting = asyncio.ensure_future(self._connect(process))
        try:
            await asyncio.wait((ending, connecting), return_when=asyncio.FIRST_COMPLETED)
            if connecting.done() and not ending.done():
                if (fault := connecting.exception()) is not None:
                    await asyncio.wait((ending,), timeout=LAST_MOMENT_S)
                    return _how_it_ended(ending) if ending.done() else str(fault) or type(fault).__name__
                self._set(ProcessState("up"))
            await asyncio.wait((ending,))
            return _how_it_ended(ending)
        finally:
            connecting.cancel()
            await process.stop()
            ending.cancel()
            await asyncio.gather(connecting, ending, return_exceptions=True)

    def _set(self, state: ProcessState) -> None:
        self.state = state
        if state.state in ("up", "given up", "stopped"):
            self._settled.set()
        self._changed(state)


def _how_it_ended(ending: asyncio.Future[int]) -> str:
    if (fault := ending.exception()) is not None:
        return str(fault) or type(fault).__name__
    code = ending.result()
    return f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"
