"""Long lists in pages: a cursor is where the next one begins, and nobody's business but ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from bridle.protocol.errors import CommandRefused

T = TypeVar("T")
PAGE = 50


def page_of(items: Sequence[T], cursor: str) -> tuple[Sequence[T], str | None]:
    """A page of a list and the cursor of the next; None where this was the last. Raises `BadCommand`."""
    if cursor and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise CommandRefused("BadCommand", kind="list", problem="its cursor is none that was given out")
    start = int(cursor or 0)
    end = start + PAGE
    return items[start:end], str(end) if end < len(items) else None
