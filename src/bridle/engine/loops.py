"""Notices a model that goes in circles: the same call with the same result, again and again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from bridle.protocol.events import RequestedCall, ToolResult

LOOP_AT = 3


class LoopDetector:
    """Counts identical steps in a row: same tools, same inputs, same outcomes and texts."""

    def __init__(self, loop_at: int = LOOP_AT) -> None:
        self._loop_at = loop_at
        self._last = b""
        self._count = 0

    def repeats(self, calls: Sequence[RequestedCall], results: Sequence[ToolResult]) -> int:
        """How often this step has now come in a row, once that is too often; else 0."""
        seen = _fingerprint(calls, results)
        self._count = self._count + 1 if seen == self._last else 1
        self._last = seen
        return self._count if self._count >= self._loop_at else 0


def _fingerprint(calls: Sequence[RequestedCall], results: Sequence[ToolResult]) -> bytes:
    parts = (
        [(call.tool, call.input, call.problem) for call in calls],
        [(result.outcome, result.content) for result in results],
    )
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).digest()
