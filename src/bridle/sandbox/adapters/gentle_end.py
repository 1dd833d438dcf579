"""End a sandboxed command with SIGTERM first.

A signal to the process group of bubblewrap or `unshare` ends those at once, and the kernel then kills the command
without a word: git leaves its lock behind, a server its socket. So the signal goes past them, to what they enclose.
"""

from __future__ import annotations

import contextlib
import os
import signal

_ENCLOSING = 2
"""The process that was started, and the first process of the namespace."""


def terminate_inside(pid: int) -> bool:
    """Sends SIGTERM to everything that the enclosed first process has started; whether there was anything.

    For the process of a `Launch` of Bubblewrap or Unshare that still runs. If False, signal the group.
    """
    level = [pid]
    for _ in range(_ENCLOSING):
        level = [child for parent in level for child in _children(parent)]
    inside = list(level)
    while level:
        level = [child for parent in level for child in _children(parent)]
        inside += level
    sent = False
    for process in inside:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGTERM)
            sent = True
    return sent


def _children(pid: int) -> list[int]:
    """The children of a process, whichever of its threads started them; none if the kernel does not say."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    except OSError:
        return found
    return found
