"""Delays between retries: exponential with full jitter.

Owns the arithmetic only. Whoever retries owns the clock, the number of attempts and the decision to give up.
"""

from collections.abc import Callable
from typing import Final

RETRY_AFTER_MAX_MS: Final = 30_000
"""No server may make a person wait longer than this."""


class Backoff:
    """Waits for attempts 0, 1, 2, …: uniform in [0, min(max_ms, base_ms · 2^attempt)], both ends included.

    `random` returns a float in [0, 1), like `random.random`.
    """

    def __init__(self, base_ms: int, max_ms: int, random: Callable[[], float]) -> None:
        if base_ms < 0 or max_ms < 0:
            raise ValueError(f"a wait cannot be negative: base_ms={base_ms}, max_ms={max_ms}")
        self._base_ms = base_ms
        self._max_ms = max_ms
        self._random = random
        self._attempt = 0

    def ceiling_ms(self, attempt: int) -> int:
        """The longest wait after this many failures; saturates, so any attempt is fine and cheap."""
        if attempt < 0:
            raise ValueError(f"attempts count from 0, not {attempt}")
        if self._base_ms == 0:
            return 0
        # From here on the doubling has certainly reached max_ms, and 2^attempt need not be computed.
        if attempt >= self._max_ms.bit_length():
            return self._max_ms
        return min(self._max_ms, self._base_ms << attempt)

    def delay_ms(self, attempt: int) -> int:
        """A jittered wait for this attempt; does not count it."""
        ceiling_ms = self.ceiling_ms(attempt)
        return min(ceiling_ms, int(self._random() * (ceiling_ms + 1)))

    def next(self) -> int:
        """The wait in milliseconds before the next attempt; each call raises the ceiling."""
        delay_ms = self.delay_ms(self._attempt)
        self._attempt += 1
        return delay_ms

    def reset(self) -> None:
        """Start again from the shortest ceiling, after a success."""
        self._attempt = 0
