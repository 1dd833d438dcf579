"""Standard streams with a writer thread, so that a slow reader never blocks the program.

A blocking write stops the event loop, and with it deadlines and signals, for as long as nobody reads.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
import threading
import time
from collections import deque
from typing import TextIO

HELD_BYTES = 1 << 20
"""So much is kept for a reader; then whoever writes is to wait for room (`Outlets.full`)."""
MOST_HELD_BYTES = 8 << 20
"""Behind so much everything is dropped: only who no longer waits for room comes here, because the run is ending."""


class StreamOutlet:
    """One file that bytes go to, in order. What fits is written at once, the rest by a thread that may block."""

    def __init__(self, mode: int) -> None:
        self._at_once_bytes = _safe_bytes(mode)
        self._changed = threading.Condition()
        self._held: deque[tuple[int, memoryview]] = deque()
        self.held_bytes = 0
        self._cut = False
        self._thread: threading.Thread | None = None
        self._failure: OSError | None = None

    @property
    def failure(self) -> OSError | None:
        """Why nothing more can be written."""
        return self._failure

    def write(self, fd: int, data: bytes) -> None:
        """Never waits. Raises OSError once the file has failed."""
        with self._changed:
            if self._failure is not None:
                raise OSError(self._failure.errno, self._failure.strerror)
            if not self._held and len(data) <= self._at_once_bytes and _has_room(fd):
                os.write(fd, data)
            elif not self._cut and self.held_bytes < MOST_HELD_BYTES:
                self._hold(fd, data)
            else:
                self._cut = True

    def drained(self, until_s: float | None) -> bool:
        """Whether everything is written, now or by a time of the monotonic clock; waits for ever without one."""
        left_s = None if until_s is None else max(0.0, until_s - time.monotonic())
        with self._changed:
            return self._changed.wait_for(lambda: not self._held, left_s)

    def _hold(self, fd: int, data: bytes) -> None:
        self._held.append((fd, memoryview(data)))
        self.held_bytes += len(data)
        self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="bridle-outlet", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while self._failure is None:
            with self._changed:
                self._changed.wait_for(lambda: self._held)
                fd, data = self._held[0]
            try:
                written = os.write(fd, data)
            except BlockingIOError:  # whoever shares the file with us made it so
                select.select((), (fd,), ())
                continue
            except OSError as problem:
                written, self._failure = len(data), problem
            with self._changed:
                self.held_bytes -= written
                if self._failure is not None:
                    self._held.clear()
                elif written < len(data):
                    self._held[0] = (fd, data[written:])
                else:
                    self._held.popleft()
                self._changed.notify_all()


class Outlets:
    """Stands for stdout and stderr from now on. Two names of one file keep their order."""

    def __init__(self) -> None:
        found: dict[tuple[int, int], StreamOutlet] = {}
        self.stdout = _outlet_of(sys.stdout, found)
        self._stderr = _outlet_of(sys.stderr, found)
        sys.stdout = _stream(sys.stdout, self.stdout)
        sys.stderr = _stream(sys.stderr, self._stderr)

    def full(self) -> bool:
        """Whether a reader is so far behind that nothing more is to be written."""
        return self.stdout.held_bytes >= HELD_BYTES or self._stderr.held_bytes >= HELD_BYTES

    def drained(self, until_s: float | None) -> bool:
        return self._stderr.drained(until_s) and self.stdout.drained(until_s)


class _Leaving(io.RawIOBase):
    """One of the standard streams, as bytes."""

    def __init__(self, fd: int, outlet: StreamOutlet) -> None:
        self._fd = fd
        self._outlet = outlet

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def write(self, data: bytes, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]  all we are given
        self._outlet.write(self._fd, data)
        return len(data)


def _outlet_of(stream: TextIO, found: dict[tuple[int, int], StreamOutlet]) -> StreamOutlet:
    about = os.fstat(stream.fileno())
    return found.setdefault((about.st_dev, about.st_ino), StreamOutlet(about.st_mode))


def _stream(stream: TextIO, outlet: StreamOutlet) -> TextIO:
    stream.flush()
    raw = _Leaving(stream.fileno(), outlet)
    return io.TextIOWrapper(raw, encoding=stream.encoding, errors=stream.errors, write_through=True)  # pyright: ignore[reportArgumentType]


def _safe_bytes(mode: int) -> int:
    """How much a file that has room takes without waiting. A terminal or a socket promises nothing."""
    if stat.S_ISREG(mode):
        return sys.maxsize
    return select.PIPE_BUF if stat.S_ISFIFO(mode) else 0


def _has_room(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(0))
