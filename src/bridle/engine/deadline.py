"""Deadlines on our own clock, so that tests decide when time passes: of a task, and of what others have to end."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType

from bridle.base.clock import Clock, Timer
from bridle.protocol.errors import StoreError, sentence
from bridle.protocol.events import Degraded

TOLERANCE_S = 0.001
"""A timer may come this much early; arming it again for less would never end."""
LONGEST_S = 60.0
"""No timer is armed for longer. One that comes early is armed again; a limit that becomes no shorter than this needs
no other timer."""

ENDING_S = 10.0
"""So long a feature or a service has to come to its end. Then it is cancelled, and nobody waits for it."""


class Deadline:
    """`async with` scope that cancels its task after `seconds` without a `touch` and then raises TimeoutError.
    Without an `allow`, touching helps for `most_s` at most. A foreign cancellation passes through."""

    def __init__(self, clock: Clock, seconds: float, *, most_s: float = math.inf) -> None:
        self.ran_out_s = 0.0
        """The limit that was reached, once one was."""
        self._clock = clock
        self._seconds = seconds
        self._most_s = most_s
        self._touched = 0.0
        self._allowed = 0.0
        self._expired = False
        self._timer: Timer | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0

    def touch(self) -> None:
        """Starts the wait anew. Costs a clock reading; no timer is moved."""
        self._touched = self._clock.monotonic()

    def allow(self, seconds: float) -> None:
        """From here on, at most this long without a `touch`."""
        if seconds < self._seconds and seconds < LONGEST_S and self._timer is not None:
            self._timer.cancel()
            self._arm(seconds)
        self._seconds = seconds
        self._allowed = self._touched = self._clock.monotonic()

    async def __aenter__(self) -> Deadline:
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        self._allowed = self._touched = self._clock.monotonic()
        self._arm(min(self._seconds, self._most_s))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        assert self._timer is not None
        self._timer.cancel()
        if self._expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _arm(self, seconds: float) -> None:
        self._timer = self._clock.call_later(min(seconds, LONGEST_S), self._fire)

    def _fire(self) -> None:
        silent, held_off = self._touched + self._seconds, self._allowed + self._most_s
        left = min(silent, held_off) - self._clock.monotonic()
        if left > TOLERANCE_S:
            self._arm(left)
            return
        self.ran_out_s = self._seconds if silent <= held_off else self._most_s
        self._expired = True
        assert self._task is not None
        self._task.cancel()


async def finish(
    name: str, end: Callable[[], Awaitable[None]], clock: Clock, emit: Callable[[Degraded], object]
) -> None:
    """Await `end` for `ENDING_S` at most. `emit` gets what fails or does not end. Code that blocks the loop cannot
    be left."""

    def tell(reason: str, **data: str) -> None:
        with suppress(StoreError):  # whoever ends the session finds out by itself
            emit(Degraded(what=name, reason=reason, message=sentence(reason, data)))

    async def run() -> None:
        try:
            await end()
        except (Exception, SystemExit) as fault:  # noqa: BLE001  the boundary: a session ends all the same
            problem = f"{type(fault).__name__}: {fault}"
            tell("FeatureFailed", feature=name, problem=problem)

    work = asyncio.ensure_future(run())
    late = asyncio.ensure_future(clock.sleep(ENDING_S))
    try:
        await asyncio.wait((work, late), return_when=asyncio.FIRST_COMPLETED)
    finally:
        late.cancel()
        work.cancel()
    if not work.done():
        tell("NotEnded", name=name, seconds=f"{ENDING_S:g}")
