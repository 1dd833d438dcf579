"""The wait before trying again: exponential ceilings with full jitter, and the Retry-After header.

Owns the arithmetic only. Whoever retries owns the clock, the number of attempts and the decision to give up.
"""

from collections.abc import Callable
from typing import Final

RETRY_AFTER_MAX_MS: Final = 30_000
"""No server may make a person wait longer than this."""

_HTTP_DATE_MAX_CHARS: Final = 64


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


def retry_after_ms(header: str | None, now_ms: int) -> int | None:
    """The wait a Retry-After header asks for, at most `RETRY_AFTER_MAX_MS`; None if absent or unreadable.

    Takes whole or decimal seconds (some servers send fractions) or an HTTP date; a past date means no wait.
    """
    text = (header or "").strip()
    if not text or not text.isascii() or len(text) > _HTTP_DATE_MAX_CHARS:
        return None
    wait_ms = _seconds_as_ms(text) if text[0].isdigit() else _until_date_ms(text, now_ms)
    return None if wait_ms is None else max(0, min(wait_ms, RETRY_AFTER_MAX_MS))


def _seconds_as_ms(text: str) -> int | None:
    whole, point, fraction = text.partition(".")
    if not whole.isdigit() or (point and not fraction.isdigit()):
        return None
    return int(whole) * 1000 + int((fraction + "000")[:3])


def _until_date_ms(text: str, now_ms: int) -> int | None:
    from datetime import UTC
    from email.utils import parsedate_to_datetime  # slow to import, and rarely needed

    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if date.tzinfo is None:  # the asctime form of an HTTP date names no zone and means UTC
        date = date.replace(tzinfo=UTC)
    return int(date.timestamp()) * 1000 - now_ms
