"""How much one answer of a model may hold: text, thinking and calls together. Pure.

Real answers end far below: the longest that any vendor gives has less than one megabyte. A server that never ends would
otherwise fill the memory and the log.
"""

from __future__ import annotations

from typing import Final

from bridle.protocol.errors import ProviderError

MAX_ANSWER: Final = 4 << 20
"""In characters."""
CALL: Final = 4 << 10
"""What a call counts beside its arguments: an answer has room for a thousand."""
TURN: Final = 1 << 10
"""What it counts to go from text to thinking or back: each time is an event."""


class AnswerRoom:
    """What is left for one answer."""

    def __init__(self) -> None:
        self._left = MAX_ANSWER

    def take(self, size: int) -> None:
        """Raises `AnswerTooLong` where there is not so much left."""
        self._left -= size
        if self._left < 0:
            raise too_long()

    def give_back(self, size: int) -> None:
        """Something that was taken is not kept any more."""
        self._left += size


def too_long() -> ProviderError:
    return ProviderError("AnswerTooLong", limit=f"{MAX_ANSWER >> 20} MB")
