"""Holding a command of bubblewrap back until its mounts have been looked at, from outside.

bubblewrap makes mounts in the order in which it is told. The last thing it is told is to copy a file from a pipe that
is full and stays open. That it can be written to again says that all mounts are made; until it is closed none is added
or taken away, and the kernel's table of them can be read. While bubblewrap then does the rest, we compare.

A pipe also closes when we die. So there is a second one, from which bubblewrap reads before it runs the command and
whose other end it holds itself: only a byte of ours lets it go on. No byte, no command. What is to wait inside for a
command may go on when we die: it finds that there is none, and ends. Else it would wait at the gate for ever.

What to mount comes through a socket. Starting the program takes a while, in which we find out what it is to mount.
Making namespaces takes a while, too: the folders on which something will be mounted are made meanwhile. Until they are
there bubblewrap waits for the end of what another socket has to say. If we die before either has ended, that is no end:
they hold something that we never read, so that the other side is told of an error. No folder is made by bubblewrap
itself, to stay, and it does not go on without what it was to be told.

Which process will become the command it writes into a file. A pipe that nobody reads any more would kill it there, and
leave behind what it has just started: that waits for a word of it, for ever.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from bridle.base.threads import in_thread
from bridle.sandbox.adapters import NeverRan
from bridle.sandbox.limits import CommandLimits
from bridle.sandbox.mount_check import ExpectedMounts, first_difference, read_table

_NEW_ROOT = "/newroot"
"""Where bubblewrap puts a command's file system together."""
_MADE, _COPY = "/dev/.made", "/dev/.mounted"
"""Mean nothing, and are in a command's own /dev."""
_MAX_INFO_BYTES = 4_096
_SOON_S = 0.001
"""How long mounts take at least."""
_CHILD = re.compile(rb'"child-pid": (\d+)\b')


class PreparedMounts(NamedTuple):
    """What bubblewrap is to do, as options of it, and what its mounts will look like then.

    `make` makes the folders on which something is mounted by the options that come after the `wait` of the gate.
    """

    options: Sequence[str]
    make: Callable[[], None]
    expected: Callable[[], ExpectedMounts]


class MountedCommand(NamedTuple):
    """The process that will become the command, its mounts as the kernel lists them, and as they were meant."""

    child: int
    table: bytes
    expected: ExpectedMounts


class Gate:
    """For one command. `theirs` are to be open in bubblewrap, and belong to whoever starts it, with these `arguments`.

    `prepare` is called once it has been started. `wait` stands among the options it gives. What `waits` behind the gate
    is looked at later, before it becomes a command.
    """

    def __init__(self, prepare: Callable[[], PreparedMounts], *, waits: bool = False) -> None:
        self._prepare = prepare
        self._waits = waits
        self.child = 0
        """The process that becomes the command, once its mounts are made."""
        self._counted: asyncio.Future[None] | None = None
        self._ours: list[int] = []
        self.theirs: list[int] = []
        self._ends: list[socket.socket] = []
        try:
            self._made = self._end()
            self.wait = ("--file", str(self.theirs[0]), _MADE)
            self._options = self._end()
            options = self.theirs[-1]
            copied, self._copy = self._pipe(theirs=0)
            os.write(self._copy, bytes(fcntl.fcntl(self._copy, fcntl.F_SETPIPE_SZ, 1)))
            block, self._block = self._pipe(theirs=0)
            self._info = os.memfd_create("bridle-info", os.MFD_CLOEXEC)
            self._ours.append(self._info)
            self.theirs.append(info := os.dup(self._info))
            held: tuple[str, ...] = ()
            if not waits:
                self.theirs.append(os.dup(self._block))
                held = ("--sync-fd", str(self.theirs[-1]))
        except BaseException:
            for fd in self.theirs:
                os.close(fd)
            self.close()
            raise
        self.arguments = (
            *("--args", str(options), "--file", str(copied), _COPY),
            *("--block-fd", str(block), *held, "--info-fd", str(info)),
        )

    async def opened(self, limits: CommandLimits | None, ready: Callable[[], Awaitable[object]]) -> None:
        """Returns once the command runs, and not before `ready` has returned. Raises `NeverRan` if a mount is not as
        expected, or bubblewrap has ended; and what `ready`, `prepare` and the functions it gives raise."""
        try:
            mounted = await self.mounted(limits)
            self.child = mounted.child
            if not self._waits and (
                difference := first_difference(
                    os.fsdecode(mounted.table), mounted.expected, beneath=_NEW_ROOT
                )
            ):
                raise NeverRan(
                    f"sandbox: {difference} was changed by another command in this moment; nothing was run"
                )
            if limits is not None:
                limits.set_on(mounted.child)
                if limits.counting is not None:
                    await (self._counted or in_thread(partial(limits.counting, mounted.child)))
            await ready()
            os.write(self._block, b"\n")
        except (ConnectionError, ProcessLookupError):
            raise NeverRan from None
        self.close()

    def close(self) -> None:
        """What waits at the gate does so for ever, or ends. Harmless when called again."""
        for end in self._ends:
            end.close()
        ours, self._ours = self._ours, []
        for fd in ours:
            os.close(fd)

    async def mounted(self, limits: CommandLimits | None = None) -> MountedCommand:
        """Has the mounts made, and looks at them once they are there. Meanwhile the process is counted that makes them.
        Raises `NeverRan` if bubblewrap has ended."""
        prepared = self._prepare()
        self._tell(prepared.options)
        prepared.make()
        self._made.shutdown(socket.SHUT_WR)
        expected = prepared.expected()
        if limits is not None and limits.counting is not None:
            self._count_soon(limits.counting)
        loop = asyncio.get_running_loop()
        seen: asyncio.Future[tuple[int, bytes]] = loop.create_future()

        def look() -> None:
            loop.remove_writer(self._copy)
            if seen.done():  # nobody waits any more
                return
            try:
                seen.set_result(self._look())
            except NeverRan as never:
                seen.set_exception(never)
            self._let_go(self._copy)

        loop.add_writer(self._copy, look)  # called as well when nobody is left to read
        try:
            return MountedCommand(*await seen, expected)
        finally:
            if self._copy in self._ours:
                loop.remove_writer(self._copy)

    def _tell(self, options: Sequence[str]) -> None:
        self._options.sendall(os.fsencode("\0".join(options)))
        self._options.shutdown(socket.SHUT_WR)

    def _look(self) -> tuple[int, bytes]:
        """The process that will become the command, and its mounts as it sees them now."""
        child = self._told()
        if not child:
            raise NeverRan
        try:
            return child, b"" if self._waits else read_table(f"/proc/{child}/mountinfo")
        except PermissionError as error:
            raise NeverRan(
                f"sandbox: its mounts are out of sight ({error.strerror}); nothing was run"
            ) from error
        except OSError:
            raise NeverRan from None

    def _told(self) -> int:
        """The process that will become the command; 0 while bubblewrap has not said so."""
        told = _CHILD.search(os.pread(self._info, _MAX_INFO_BYTES, 0))
        return int(told[1]) if told is not None else 0

    def _count_soon(self, counting: Callable[[int], None]) -> None:
        """In a thread: the kernel makes us wait for up to 20 ms. Not bubblewrap itself: where no process more may be
        counted it could not start this one, and it would look as if this machine could not hold commands."""
        if self._copy not in self._ours:
            return  # the mounts are made, or nobody waits for them any more
        if child := self._told():
            self._counted = in_thread(partial(counting, child))
        else:
            asyncio.get_running_loop().call_later(_SOON_S, self._count_soon, counting)

    def _let_go(self, fd: int) -> None:
        self._ours.remove(fd)
        os.close(fd)

    def _end(self) -> socket.socket:
        """One end of a socket, of which bubblewrap reads the other until it ends. If we die before, that is no end."""
        ours, theirs = socket.socketpair()
        self._ends.append(ours)
        self.theirs.append(theirs.detach())
        os.write(self.theirs[-1], b"?")  # which is never read
        return ours

    def _pipe(self, *, theirs: int) -> tuple[int, int]:
        ends = os.pipe()
        self.theirs.append(ends[theirs])
        self._ours.append(ends[1 - theirs])
        return ends
