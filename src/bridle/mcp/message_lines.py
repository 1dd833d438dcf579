"""The output of a server cut into lines, each within bounds before anybody reads it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

MOST_LINE_BYTES: Final = 4 << 20
"""A longer line is dropped; what asked for it is told."""
_END_BYTES: Final = 4096
_ID = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.){0,200}"|-?\d{1,18})')


class LongLine(NamedTuple):
    """A line that was too long to be kept. `request` is the id in it, as JSON; empty where none was found."""

    size: int
    request: bytes


class MessageLines:
    """Cuts pieces into lines. What it holds is never more than a line may have."""

    def __init__(self, most_bytes: int = MOST_LINE_BYTES) -> None:
        self._most = most_bytes
        self._held = bytearray()
        self._dropped = 0
        self._head = b""

    def feed(self, chunk: bytes) -> Iterator[bytes | LongLine]:
        """The lines that are whole by now, without their ends; empty ones are left out."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._take(memoryview(chunk)[start:end])
            start = end + 1
            if (line := self._taken()) is not None:
                yield line
        self._take(memoryview(chunk)[start:])

    def _take(self, piece: memoryview) -> None:
        self._held += piece
        if len(self._held) > self._most or self._dropped:
            if not self._dropped:
                self._head = bytes(self._held[:_END_BYTES])
            gone = max(0, len(self._held) - _END_BYTES)
            self._dropped += gone
            del self._held[:gone]

    def _taken(self) -> bytes | LongLine | None:
        line, dropped, head = bytes(self._held), self._dropped, self._head
        self._held.clear()
        self._dropped, self._head = 0, b""
        if dropped:
            found = _ID.search(head) or _ID.search(line)
            return LongLine(dropped + len(line), found[1] if found is not None else b"")
        return line if line.strip() else None
