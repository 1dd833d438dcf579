"""Time under a test's control, and the check every `Clock` passes."""

import asyncio
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush

from bridle.base.clock import Clock

_SETTLING_ROUNDS = 25


class FakeTimer:
    """An action waiting for a `FakeClock` to reach its time."""

    def __init__(self, due_us: int, order: int, action: Callable[[], None]) -> None:
        self._key = (due_us, order)
        self._action: Callable[[], None] | None = action

    @property
    def due_us(self) -> int:
        return self._key[0]

    def cancel(self) -> None:
        self._action = None

    def fire(self) -> None:
        action, self._action = self._action, None
        if action is not None:
            action()

    def __lt__(self, other: "FakeTimer") -> bool:
        return self._key < other._key


class FakeClock:
    """A `Clock` that stands still until told to `advance`. Counts microseconds, so steps add up."""

    def __init__(self, start_ms: int = 1_779_562_800_000) -> None:
        self._start_ms = start_ms
        self._passed_us = 0
        self._timers: list[FakeTimer] = []
        self._made = 0

    def now_ms(self) -> int:
        return self._start_ms + self._passed_us // 1000

    def monotonic(self) -> float:
        return self._passed_us / 1_000_000

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, lambda: None if woken.done() else woken.set_result(None))
        try:
            await woken
        finally:
            timer.cancel()

    def call_later(self, seconds: float, action: Callable[[], None]) -> FakeTimer:
        due_us = self._passed_us + max(0, round(seconds * 1_000_000))
        timer = FakeTimer(due_us, self._made, action)
        self._made += 1
        heappush(self._timers, timer)
        return timer

    async def advance(self, seconds: float) -> None:
        """Let time pass. Timers and sleepers due until then run in order, each at its own time.

        Tasks get their turn before the first and after each, so what they start anew is also in time.
        """
        if seconds < 0:
            raise ValueError(f"time does not go back: {seconds}")
        target_us = self._passed_us + round(seconds * 1_000_000)
        await self.settle()
        while self._timers and self._timers[0].due_us <= target_us:
            timer = heappop(self._timers)
            self._passed_us = max(self._passed_us, timer.due_us)
            timer.fire()
            await self.settle()
        self._passed_us = target_us

    async def settle(self) -> None:
        """Give every other task several turns, without time passing.

        The event loop does not tell when it is idle; this is enough for chains of some twenty awaits, not for
        threads or sockets.
        """
        for _ in range(_SETTLING_ROUNDS):
            await asyncio.sleep(0)

    def set_wall(self, now_ms: int) -> None:
        """Jump the wall time, as when a person sets the machine's clock. Monotonic time does not move."""
        self._start_ms = now_ms - self._passed_us // 1000


async def check_clock(clock: Clock, advance: Callable[[float], Awaitable[None]]) -> None:
    """Assert the contract of `Clock`. `advance(seconds)` lets at least that much time pass.

    For a real clock that is `clock.sleep`; the check takes about a tenth of a second there.
    """
    ran: list[str] = []
    wall_ms, started = clock.now_ms(), clock.monotonic()
    clock.call_later(0.02, lambda: ran.append("later"))
    clock.call_later(0.01, lambda: ran.append("sooner"))
    clock.call_later(-1, lambda: ran.append("at once"))
    cancelled = clock.call_later(0.01, lambda: ran.append("never"))
    cancelled.cancel()
    cancelled.cancel()
    assert not ran, "call_later ran an action itself"
    sleeper = asyncio.create_task(clock.sleep(0.01))
    await clock.sleep(0)
    assert not sleeper.done(), "sleep returned before its time"
    await advance(0.05)
    await advance(0.05)
    assert ran == ["at once", "sooner", "later"], f"timers ran as {ran}"
    assert sleeper.done(), "sleep did not return after its time"
    assert clock.monotonic() - started >= 0.1, "monotonic time did not pass"
    assert clock.now_ms() >= wall_ms, "wall time went back although nobody set it"
