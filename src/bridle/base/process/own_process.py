"""Protect our own process from being dumped or traced, and mark every process of a call.

The mark is a hard resource limit. Every child inherits it, through fork, exec, new sessions and emptied environments,
and only root (CAP_SYS_RESOURCE of the first namespace) can raise it. The engine lowers its own limit before it starts
anything. A process with a lower limit counts as marked too.
"""

from __future__ import annotations

import functools
import os
import resource
import sys

_PR_SET_DUMPABLE = 4


def leave_no_core() -> None:
    """From here on a crash leaves no copy of the memory lying about, nor one of any process we start."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def close_to_others() -> bool:
    """From here on, on Linux, only root may look into this process; what it starts is not concerned. Says whether it
    is so."""
    if sys.platform != "linux":
        return False
    import ctypes

    return ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0


_FILE_LOCKS = 10
"""RLIMIT_LOCKS, without any effect since Linux 2.4.25."""
_MARK = 0x42524944


@functools.cache
def _limit_of_calls() -> int | None:
    """Below what we were started with: an engine in a call of another one, or where everybody has such a limit, tells
    its own calls from who is beside it. None where that cannot be. Asked before our own is lowered."""
    if sys.platform != "linux":
        return None
    _, given = resource.getrlimit(_FILE_LOCKS)
    if given == resource.RLIM_INFINITY:
        return _MARK
    return min(_MARK, given - 1) if given > 0 else None


def mark_what_we_start() -> None:
    """From here on every process that we start has the mark, and so have we; no engine is a client of itself."""
    if (limit := _limit_of_calls()) is not None:
        resource.setrlimit(_FILE_LOCKS, (limit, limit))


def is_of_a_call(pid: int) -> bool:
    """Whether a process has the mark, of ours or of an engine beside us; False where it is gone."""
    limit = _limit_of_calls()
    if limit is None or pid == os.getpid():
        return False
    try:
        with open(f"/proc/{pid}/limits", "rb") as file:
            (line,) = (line for line in file if line.startswith(b"Max file locks "))
    except (OSError, ValueError):
        return False
    hard = line.split()[4]
    return hard.isdigit() and int(hard) <= limit
