"""Telling by the times of files and folders that nothing has changed.

A file system's clock ticks: what changes twice within a tick has one time. So what is seen shortly after a change tells
nothing about the next one, and is looked at again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bridle.base.stand_ins import CLOCK_TICK_NS

_COARSE_TICK_NS = 2_000_000_000
"""The same where whole seconds are counted."""


def is_settled(changed_ns: int, now_ns: int) -> bool:
    """Whether the next change will have another time."""
    tick_ns = _COARSE_TICK_NS if changed_ns % 1_000_000_000 == 0 else CLOCK_TICK_NS
    return now_ns - changed_ns > tick_ns


class _Listed(NamedTuple):
    description: tuple[int, int, int]
    names: Sequence[str]


class FolderNames:
    """The names in folders, each listed again only when the kernel says that something came or went. `now_ns` is the
    clock by which files get their times."""

    def __init__(self, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._now_ns = now_ns
        self._known: dict[str, _Listed] = {}

    def of(self, folder: str) -> Sequence[str]:
        """As `os.listdir`; the same object if nothing has changed."""
        now_ns = self._now_ns()
        status = os.stat(folder)
        description = (status.st_dev, status.st_ino, status.st_ctime_ns)
        known = self._known.get(folder)
        if known is not None and known.description == description:
            return known.names
        names = os.listdir(folder)
        if is_settled(status.st_ctime_ns, now_ns):
            self._known[folder] = _Listed(description, names)
        return names
