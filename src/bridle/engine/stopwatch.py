"""Where the time of a turn goes, by component."""

from __future__ import annotations

from bridle.base.clock import Clock


class Stopwatch:
    """Adds up milliseconds by name; `take` gives them and starts anew."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sums: dict[str, float] = {}

    def measure(self, name: str) -> Measured:
        return Measured(name, self._clock, self._sums)

    def take(self) -> dict[str, float]:
        sums = {name: round(value, 3) for name, value in self._sums.items()}
        self._sums.clear()
        return sums


class Measured:
    """A measurement that has begun. Only its first end counts."""

    def __init__(self, name: str, clock: Clock, sums: dict[str, float]) -> None:
        self._name = name
        self._clock = clock
        self._sums = sums
        self._begun_s = clock.monotonic()
        self._ended = False

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            took_ms = (self._clock.monotonic() - self._begun_s) * 1000
            self._sums[self._name] = self._sums.get(self._name, 0.0) + took_ms

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.end()
