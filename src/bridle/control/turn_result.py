"""What `?wait=turn` answers."""

from __future__ import annotations

import msgspec


class TurnResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the turn of an input ended that was waited for: `text` is what the model said last."""

    session: str
    event: int
    stop: str
    reason: str | None = None
    text: str = ""
