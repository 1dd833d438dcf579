"""Hearing of every moment in which a process, or one that it started, may have made or changed a file.

The kernel asks before each such call (a seccomp listener, Linux 5.5) and the answer is always that it may go on: who
made a file cannot be told from the file, but who cannot have made it can be told from the time. The path is not looked
at. It lies in the memory of the process, which may exchange it once it was read.

The thread that answers is ours and does nothing else, so nobody waits for the loop. When we are gone, such calls fail.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import struct
import time
from collections.abc import Callable
from queue import SimpleQueue

from bridle.base.threads import start_thread
from bridle.sandbox import seccomp, thread_limits

_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101
_ASKED_BYTES = 80
_GO_ON = 1
_SINCE_GO_ON = (5, 5)
IN_FLIGHT_NS = 300_000_000
"""So long after the answer the call may still be about to do its work."""


def can_listen() -> bool:
    """Whether this machine can be asked to tell."""
    if not seccomp.supported():
        return False
    numbers = re.findall(r"\d+", os.uname().release)
    return (int(numbers[0]), int(numbers[1])) >= _SINCE_GO_ON


class WriteListener:
    """For one process. `hear` is called in a thread of its own, before the call goes on."""

    def __init__(self, hear: Callable[[], None]) -> None:
        self._hear = hear
        self._last_ns = 0
        self._listens = False
        self._opened: SimpleQueue[int | None] = SimpleQueue()

    def begin(self) -> None:
        """Before the process is started, in a thread that has given up nothing."""
        start_thread(self._serve)

    def enter(self) -> None:
        """In the thread that starts the process. Where the kernel refuses, it is as if it wrote all the time."""
        try:
            thread_limits.gain_no_privileges()
            fd = thread_limits.listen_to_system_calls(seccomp.listener_program(), seccomp.seccomp_number())
        except OSError:
            self.end()
            return
        self._listens = True
        self._opened.put(fd)

    def end(self) -> None:
        """Nothing was started. Harmless otherwise: the kernel says when nobody is left."""
        self._opened.put(None)

    def may_have_written(self, since_ns: int) -> bool:
        """Whether it cannot be ruled out that something was made or changed since then."""
        return not self._listens or self._last_ns >= since_ns - IN_FLIGHT_NS

    def _serve(self) -> None:
        fd = self._opened.get()
        if fd is None:
            return
        try:
            waiting = select.poll()
            waiting.register(fd, select.POLLIN)
            while waiting.poll()[0][1] & select.POLLIN:
                self._answer(fd)
        finally:
            os.close(fd)

    def _answer(self, fd: int) -> None:
        asked = bytearray(_ASKED_BYTES)
        # Whoever asked is gone, or was interrupted and asks again; or the loop of whoever hears is over.
        with contextlib.suppress(OSError, RuntimeError):
            fcntl.ioctl(fd, _RECEIVE, asked)
            self._last_ns = time.time_ns()
            try:
                self._hear()
            finally:
                (number,) = struct.unpack_from("=Q", asked)
                fcntl.ioctl(fd, _ANSWER, struct.pack("=QqiI", number, 0, 0, _GO_ON))
