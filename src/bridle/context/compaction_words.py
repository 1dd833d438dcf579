"""What people are told before a conversation is summarised. What is told afterwards belongs to their client. Pure."""

from __future__ import annotations

import re
from typing import Final

from bridle.protocol.events import Compacted, PrefixSet

_INSTRUCTIONS: Final = r"^# Instructions from (.+)$"


def nearly_full(coming: Compacted, prefix: PrefixSet, *, tokens: int, window: int) -> str:
    """What the next request will do, and what stays."""
    will = f"summarise {dropped_turns(coming)}" if coming.summary else _clearing(len(coming.cleared))
    return (
        f"Context {round(100 * tokens / window)}% full ({_short(tokens)} of {_short(window)}). "
        f"The next request will {will}{_staying(prefix, coming.pins)}. /compact now · /context"
    )


def still_full(prefix: PrefixSet, tokens: int, limit: int) -> str:
    """All that could go is gone, and it is still too much."""
    model = f"{prefix.provider}:{prefix.model}"
    return f"Even so a request has about {_short(tokens)} tokens; {model} takes {_short(limit)}."


def dropped_turns(event: Compacted) -> str:
    """`turn 3` or `turns 1-9`."""
    first, last = event.dropped.first_turn, event.dropped.last_turn
    return f"turn {first}" if first == last else f"turns {first}-{last}"


def _clearing(results: int) -> str:
    return "leave out an old tool result" if results == 1 else f"leave out {results} old tool results"


def _staying(prefix: PrefixSet, pins: int) -> str:
    staying = [str(name) for name in re.findall(_INSTRUCTIONS, prefix.system, re.MULTILINE)]
    if pins:
        staying.append("your pinned rule" if pins == 1 else f"your {pins} pinned rules")
    if not staying:
        return ""
    *others, last = staying
    together = f"{', '.join(others)} and {last}" if others else last
    return f"; {together} {'stays' if len(staying) == 1 and pins < 2 else 'stay'}"


def _short(tokens: int) -> str:
    return str(tokens) if tokens < 1000 else f"{tokens / 1000:.0f}k"
