"""Where the time of a turn goes, by component."""

from __future__ import annotations

from collections.abc import Callable

from bridle.base.clock import Clock


class Stopwatch:
    """Adds up milliseconds by name; `take` gives them and starts anew."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sums: dict[str, float] = {}

    def measure(self, name: str) -> Measured:
        return Measured(self.start(name))

    def start(self, name: str) -> Callable[[], None]:
        """Begins a measurement; calling the result ends it, once."""
        begun: float | None = self._clock.monotonic()

        def stop() -> None:
            nonlocal begun
            if begun is not None:
                self._sums[name] = self._sums.get(name, 0.0) + (self._clock.monotonic() - begun) * 1000
                begun = None

        return stop

    def take(self) -> dict[str, float]:
        sums = {name: round(value, 3) for name, value in self._sums.items()}
        self._sums.clear()
        return sums


class Measured:
    """A measurement that ends with a block."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._stop()
