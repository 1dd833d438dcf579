"""Decide from file times whether something can have changed unnoticed.

A file system's clock ticks: what changes twice within a tick has one time. So what is seen shortly after a change tells
nothing about the next one, and is looked at again.
"""

from __future__ import annotations

from bridle.base.fs.placeholders import CLOCK_TICK_NS

_SECOND_NS = 1_000_000_000
_COARSE_TICK_NS = 2 * _SECOND_NS
"""The same where whole seconds are counted."""


def is_settled(changed_ns: int, now_ns: int) -> bool:
    """Whether the next change will have another time."""
    tick_ns = _COARSE_TICK_NS if changed_ns % _SECOND_NS == 0 else CLOCK_TICK_NS
    return now_ns - changed_ns > tick_ns


def is_telling(changed_ns: int, now_ns: int) -> bool:
    """Whether the next change will have another time, whoever makes it.

    A time in whole seconds may be one that commands set as they like, as over SFTP, or one that never changes.
    """
    return changed_ns % _SECOND_NS != 0 and is_settled(changed_ns, now_ns)
