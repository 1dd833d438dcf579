"""Mark every process of a call with a resource limit that it cannot remove.

A hard limit goes to every child, through fork, exec, new sessions and emptied environments, it outlives whoever set it,
and nobody may raise it again but root (CAP_SYS_RESOURCE of the first namespace). So an engine lowers its own before it
starts anything. Lowering it further takes nobody out: whoever has as little as our calls, or less, is one of them.
"""

from __future__ import annotations

import functools
import os
import resource
import sys

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
