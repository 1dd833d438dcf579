"""Our own process as others see it: secrets are in its memory while it works."""

import sys

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


def leave_no_core() -> None:
    """From here on a crash leaves no copy of the memory lying about, nor one of any process we start."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def close_to_others() -> bool:
    """From here on, on Linux, only root may look into this process; what it starts is not concerned. Says whether it
    is so."""
    if sys.platform != "linux":
        return False
    import ctypes

    return ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0


def end_with_parent(parent: int) -> bool:
    """From here on, on Linux, this process is killed when the thread that forked it ends. Says whether it is so, and
    `parent` has not gone before."""
    import ctypes
    import os
    import signal

    return ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0 and os.getppid() == parent
