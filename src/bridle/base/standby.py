"""A process that stands by: it has loaded what commands need, and forks one for whoever hands one over (`hand_over`).

Who asks is asked about before a byte is read, by whoever gives `may_ask`: what a command of a model could not do
itself, it shall not have done by somebody who can. Linux only.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import NoReturn

from bridle.base.hand_over import DECLINED, GO, MOST_TOKEN_BYTES, NO_ROOM, STATUS_BYTES, STREAMS
from bridle.base.handed_command import CommandReceiver, become, close_others
from bridle.base.own_process import end_with_parent

SPARE_MS = 30
"""So long after a command the next process is forked, unless somebody waits for it: until then, others have work."""
MOST_DOUBLINGS = 10
"""Of that time, where it failed so often in a row: from then on it is tried twice a minute."""
_TOLD = frozenset(
    {signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGWINCH, signal.SIGSTOP, signal.SIGCONT}
)

Carry = Callable[[list[str]], int]
"""Carries a command out, in a process of its own: the exit code. May call `decline`."""


class Declined(BaseException):
    """The command is for whoever handed it over to carry out; nothing was done, and nothing was read."""


def decline() -> NoReturn:
    """Leaves the command to whoever handed it over. Raises `Declined`."""
    raise Declined


def wait_before_fork_ms(failures: int) -> int:
    """So long nobody is forked after this many failures in a row."""
    return SPARE_MS << min(failures, MOST_DOUBLINGS)


def start_standby(stand_by: Callable[[socket.socket], None]) -> socket.socket | None:
    """Starts a process that calls `stand_by` with its end of a connection to us; our end. None where the system cannot.
    Where there is no room for one, the other end is closed, as it is when that process is killed.

    It is nobody's child: what descends from us may be a command. Call it while there is one thread, before anything
    was started or marked; so there is no other later. It is to end when our end is closed, whatever closes it.
    """
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return None
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()  # or it would be said twice
    with suppress(OSError):
        first = os.fork()
        if first == 0:
            ours.close()
            _run_to_end(lambda: _begin(stand_by, theirs))
        os.waitpid(first, 0)
    theirs.close()
    return ours


def _begin(stand_by: Callable[[socket.socket], None], link: socket.socket) -> int:
    os.setsid()
    try:
        if os.fork() != 0:
            return 0
    except OSError:  # there is no room for it
        return 1
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in range(STREAMS):
        os.dup2(nothing, fd)
    close_others(link.fileno())
    os.chdir("/")
    stand_by(link)
    return 0


def _run_to_end(work: Callable[[], int]) -> NoReturn:
    """Ends this process with what `work` returns; nothing of whoever it was forked from is ever run."""
    code = 1
    try:
        code = work()
    except Declined:
        code = DECLINED
    finally:
        if (problem := sys.exception()) is not None:
            traceback.print_exception(problem)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code)


def take_listener(link: socket.socket) -> tuple[socket.socket, bytes] | None:
    """The socket at which commands are handed over, and the token of those who may, from whoever started us; None where
    that one has gone."""
    token, fds, _, _ = socket.recv_fds(link, MOST_TOKEN_BYTES, 1)
    return (socket.socket(fileno=fds[0]), token) if fds else None


class Standby:
    """Stands by at `listener` until `link` is closed. `may_ask` says of a process whether it may hand a command over.
    `start` is what has to be the same there (`start_of`). `rehearse` does in each process what every command does
    first.

    The next process is forked before there is a command for it. It waits for one, and says so when it has it: from then
    on we hear the signals of whoever handed it over, and tell that one how it ended.
    """

    def __init__(
        self,
        listener: socket.socket,
        link: socket.socket,
        *,
        start: list[bytes],
        carry: Carry,
        rehearse: Callable[[], None],
        may_ask: Callable[[int | None], bool],
    ) -> None:
        self._listener = listener
        self._link = link
        self._rehearse = rehearse
        self._receiver = CommandReceiver(listener, start, may_ask)
        self._carry = carry
        self._poll = select.poll()
        self._is_over = False
        self._spare: _Forked | None = None
        self._failures = 0
        """How many processes could not be forked, or did not live to take a command, since one did."""
        self._fork_at_s = 0.0
        """When the next one is forked, by a clock that only goes forward."""
        self._busy: dict[int, _Forked] = {}
        """Those that carry a command out, by what is heard of them: their end, and whoever waits for it."""

    def run(self) -> None:
        """Returns when whoever started us has gone, and every command has ended."""
        gc.collect()
        gc.freeze()  # a child that collects would copy all of it
        self._poll.register(self._link, select.POLLIN)
        while self._busy or not self._is_over:
            left_ms = self._left_ms()
            if left_ms == 0:
                self._fork()
                continue
            for fd, _ in self._poll.poll(left_ms):
                if fd == self._link.fileno():
                    self._poll.unregister(fd)
                    if self._spare is not None and select.select([self._spare.link], (), (), 0)[0]:
                        self._begin(self._spare)  # it has a command already
                    self._stop()
                elif not self._is_over and fd == self._listener.fileno():
                    if self._failures:
                        self._refuse()
                    else:
                        self._fork()
                elif self._spare is not None and fd == self._spare.link.fileno():
                    self._begin(self._spare)
                elif (forked := self._busy.get(fd)) is not None:
                    self._hear(forked, fd)

    def _left_ms(self) -> float | None:
        """Until the next process is to be forked; None where none is."""
        if self._spare is not None or self._is_over:
            return None
        return max(0.0, self._fork_at_s - time.monotonic()) * 1000

    def _fork(self) -> None:
        """Another one that waits for a command."""
        with suppress(KeyError):
            self._poll.unregister(self._listener)
        standby = os.getpid()
        try:
            with ExitStack() as failed:
                ours, theirs = map(failed.enter_context, socket.socketpair())
                for room in socket.socketpair():  # for whoever waits for its end, and for one who is refused
                    room.close()
                pid = os.fork()
                if pid == 0:
                    ours.close()
                    _run_to_end(lambda: self._wait_for_command(theirs, standby))
                failed.callback(_kill, pid)
                watch = os.pidfd_open(pid)
                failed.pop_all()
        except OSError:  # there is no room for more
            self._put_off(self._failures + 1)
            return
        theirs.close()
        self._spare = _Forked(pid, watch, ours)
        self._poll.register(ours, select.POLLIN)

    def _put_off(self, failures: int) -> None:
        """Has the next one forked later, the later the more often that failed. Until then we hear who asks for it."""
        self._failures = failures
        self._fork_at_s = time.monotonic() + wait_before_fork_ms(failures) / 1000
        self._poll.register(self._listener, select.POLLIN)

    def _refuse(self) -> None:
        """Tells whoever asks that there is no room. Nothing is read of it."""
        try:
            connection, _ = self._listener.accept()
        except OSError:  # not even for that, until the next one is tried
            self._poll.unregister(self._listener)
            return
        with connection, suppress(OSError):
            connection.send(NO_ROOM)

    def _wait_for_command(self, link: socket.socket, standby: int) -> int:
        """In the child: waits for a command, and is it from then on. Nobody would hear of its end without us."""
        if not end_with_parent(standby):
            return 1
        self._rehearse()
        connection, handover = self._receiver.receive()
        socket.send_fds(link, [GO], [connection.fileno()])
        for opened in (connection, link, self._listener, self._link):
            opened.close()
        become(handover)
        return self._carry(handover.arguments)

    def _begin(self, forked: _Forked) -> None:
        """The process that waited has a command; or it has gone, and so may the next."""
        self._poll.unregister(forked.link)
        self._spare = None
        _, fds, _, _ = socket.recv_fds(forked.link, len(GO), 1)
        if not fds:
            os.waitpid(forked.pid, 0)
            forked.close()
            self._put_off(self._failures + 1)
            return
        forked.caller = socket.socket(fileno=fds[0])
        for fd in (forked.watch, forked.caller.fileno()):
            self._busy[fd] = forked
            self._poll.register(fd, select.POLLIN)
        self._put_off(0)

    def _hear(self, forked: _Forked, fd: int) -> None:
        if fd == forked.watch:
            self._end(forked)
            return
        assert forked.caller is not None
        try:
            numbers = forked.caller.recv(64)
        except OSError:
            numbers = b""
        for number in numbers:
            if number in _TOLD:
                os.kill(forked.pid, number)
        if not numbers:  # killed, which is what becomes of its command, too
            os.kill(forked.pid, signal.SIGKILL)
            self._forget(fd)

    def _end(self, forked: _Forked) -> None:
        assert forked.caller is not None
        _, status = os.waitpid(forked.pid, 0)
        with suppress(OSError):  # nobody waits for it any more
            forked.caller.send(status.to_bytes(STATUS_BYTES, "big"))
        for fd in (forked.watch, forked.caller.fileno()):
            self._forget(fd)
        forked.close()

    def _forget(self, fd: int) -> None:
        if self._busy.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def _stop(self) -> None:
        """Nothing is taken any more."""
        if self._is_over:
            return
        self._is_over = True
        with suppress(KeyError):
            self._poll.unregister(self._listener)
        self._listener.close()
        if (spare := self._spare) is not None:
            self._spare = None
            self._poll.unregister(spare.link)
            _kill(spare.pid)
            spare.close()


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


class _Forked:
    """A process that was forked, and what is heard of it. `caller` is who waits for its end."""

    def __init__(self, pid: int, watch: int, link: socket.socket) -> None:
        self.pid = pid
        self.watch = watch
        self.link = link
        self.caller: socket.socket | None = None

    def close(self) -> None:
        os.close(self.watch)
        self.link.close()
        if self.caller is not None:
            self.caller.close()
