"""Time as a dependency: what the time is, waiting, and timestamps as text.

Whoever needs time takes a `Clock`; only the entry point makes a `SystemClock`. A clock under test control is
`bridle.conformance.fake_clock.FakeClock`.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol


class Timer(Protocol):
    """An action that has been put off."""

    def cancel(self) -> object:
        """Never run the action, if it has not run yet. May be repeated."""
        ...


class Clock(Protocol):
    """Wall time for stamps, monotonic time for durations, and waiting. Waiting needs a running event loop."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 in UTC. May jump, also back."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment. Never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after this long; at zero or less, after other tasks had their turn."""
        ...

    def call_later(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Run the action after this long, never within this call. Equal times keep the order of the calls."""
        ...


class SystemClock:
    """The machine's time and the running event loop's timers."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, action: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(max(0.0, seconds), action)


def iso_ms(now_ms: int) -> str:
    """`2026-05-23T19:00:00.123Z`: UTC, always 24 characters, so text order is time order.

    Raises ValueError outside the years 1 to 9999.
    """
    seconds, ms = divmod(now_ms, 1000)
    if not -62_135_596_800 <= seconds <= 253_402_300_799:
        raise ValueError(f"{now_ms} ms is outside the years 1 to 9999")
    year, month, day, hour, minute, second, *_ = time.gmtime(seconds)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"


def from_iso_ms(text: str) -> int:
    """The inverse of `iso_ms`. Raises ValueError for any other spelling, even of a valid time."""
    try:
        passed = datetime.fromisoformat(text) - datetime.fromisoformat("1970-01-01T00:00:00Z")
        now_ms = passed // timedelta(milliseconds=1)
    except (ValueError, TypeError):
        now_ms = None
    if now_ms is None or iso_ms(now_ms) != text:
        raise ValueError(f"not a timestamp like 2026-05-23T19:00:00.123Z: {text!r}")
    return now_ms
