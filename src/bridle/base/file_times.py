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
        known = self._known.get(folder)
        if known is not None and known.description == _described(os.stat(folder)):
            return known.names
        now_ns = self._now_ns()
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:  # whose times these are is what is listed, even if others move folders meanwhile
            status = os.fstat(fd)
            names = os.listdir(fd)
        finally:
            os.close(fd)
        if is_telling(status.st_ctime_ns, now_ns):
            self._known[folder] = _Listed(_described(status), names)
        return names


def _described(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_dev, status.st_ino, status.st_ctime_ns
