"""Protect our own process from being dumped or traced."""

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
