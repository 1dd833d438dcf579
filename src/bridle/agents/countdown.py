"""A time that passes only while nobody is asked anything."""

from __future__ import annotations

from collections.abc import Callable

from bridle.base.clock import Clock, Timer
from bridle.protocol.events import (
    AnyEvent,
    PermissionDecided,
    PermissionRequested,
    QuestionAnswered,
    QuestionAsked,
    TurnEnded,
)


class Countdown:
    """Calls `at_end` once, when `seconds` have passed in which no question was open. Events tell it of questions."""

    def __init__(self, clock: Clock, seconds: float, at_end: Callable[[], None]) -> None:
        self._clock = clock
        self._left_s = seconds
        self._at_end = at_end
        self._open: set[str] = set()
        self._since = clock.monotonic()
        self._timer: Timer | None = clock.call_later(seconds, self._fire)

    def hear(self, event: AnyEvent) -> None:
        match event:
            case PermissionRequested(call_id=number) | QuestionAsked(question_id=number):
                self._open.add(number)
            case PermissionDecided(call_id=number) | QuestionAnswered(question_id=number):
                self._open.discard(number)
            case TurnEnded():
                self._open.clear()
            case _:
                return
        if self._open:
            self._pause()
        elif self._timer is None and self._left_s > 0:
            self._since = self._clock.monotonic()
            self._timer = self._clock.call_later(self._left_s, self._fire)

    def end(self) -> None:
        """It is not needed any more."""
        self._pause()
        self._left_s = 0.0

    def _pause(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._left_s -= self._clock.monotonic() - self._since

    def _fire(self) -> None:
        self._timer, self._left_s = None, 0.0
        self._at_end()
