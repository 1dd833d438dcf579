"""The way to an engine elsewhere, as its client is told of it: lost, and found again."""

from collections.abc import Callable
from typing import Final

LOST: Final = "engine lost, reconnecting"


class EngineLink:
    """What a connection that can break tells whoever shows it.

    `hear` gets the seconds for which the connection tries to come back from now on, or None when it has come back; it
    hears of that while there are events to come. One that gave up tells that to whoever waits. `at_break` is called
    whenever the connection breaks, whatever was to come.
    """

    def __init__(self) -> None:
        self.hear: Callable[[float | None], None] = _tell_nobody
        self.at_break: Callable[[], object] = _do_nothing


def _tell_nobody(_gives_up_s: float | None) -> None:
    """Where nobody wants to know."""


def _do_nothing() -> None:
    """Where nothing depends on it."""
