"""Hold a bubblewrap command back until its mounts were checked.

bubblewrap makes mounts in the order of its options. The last option copies a file from a pipe that is full and stays
open. When the pipe can be written to again, all mounts are made; until the pipe is closed, none is added or removed,
and the kernel's table of them can be read.

A pipe also closes when the engine dies. So bubblewrap reads one byte from a second pipe before it runs the command, and
holds the other end of that pipe itself: without the byte, no command runs.

The options go through a socket. If the engine dies before bubblewrap has read them, bubblewrap gets an error and ends,
because the engine's end holds a byte that was never read.

bubblewrap writes the pid of the command into a file. A pipe without a reader would kill bubblewrap there and leave its
child waiting for ever.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from bridle.base.threads import in_thread
from bridle.sandbox.adapters.adapter import CommandLimits, NeverRan
from bridle.sandbox.adapters.mount_check import ExpectedMounts, first_difference, read_table

_NEW_ROOT = "/newroot"
"""Where bubblewrap puts a command's file system together."""
_COPY = "/dev/.mounted"
"""Means nothing, and is in a command's own /dev."""
_MAX_INFO_BYTES = 4_096
_SOON_S = 0.001
"""How long mounts take at least."""
_CHILD = re.compile(rb'"child-pid": (\d+)\b')


class Gate:
    """For one command. `theirs` are to be open in bubblewrap and belong to the caller, who starts it with `arguments`.

    `options` say what bubblewrap does; `expected` are the mounts it makes by them.
    """

    def __init__(self, options: Sequence[str], expected: ExpectedMounts) -> None:
        self._told_options = options
        self._expected = expected
        self._counted: asyncio.Future[None] | None = None
        self._ours: list[int] = []
        self.theirs: list[int] = []
        self._options: socket.socket | None = None
        try:
            self._options = self._socket()
            told = self.theirs[-1]
            copied, self._copy = self._pipe(theirs=0)
            os.write(self._copy, bytes(fcntl.fcntl(self._copy, fcntl.F_SETPIPE_SZ, 1)))
            block, self._block = self._pipe(theirs=0)
            self._info = os.memfd_create("bridle-info", os.MFD_CLOEXEC)
            self._ours.append(self._info)
            self.theirs.append(info := os.dup(self._info))
            self.theirs.append(held := os.dup(self._block))
        except BaseException:
            for fd in self.theirs:
                os.close(fd)
            self.close()
            raise
        self.arguments = (
            *("--args", str(told), "--file", str(copied), _COPY),
            *("--block-fd", str(block), "--sync-fd", str(held), "--info-fd", str(info)),
        )

    async def opened(self, limits: CommandLimits | None, ready: Callable[[], Awaitable[object]]) -> None:
        """Return once the command runs, and not before `ready` has returned. Raise `NeverRan` if a mount is not as
        expected or bubblewrap has ended, and whatever `ready` raises."""
        try:
            child, table = await self.mounted(limits)
            if difference := first_difference(os.fsdecode(table), self._expected, beneath=_NEW_ROOT):
                raise NeverRan(
                    f"sandbox: {difference} was changed by another command in this moment; nothing was run"
                )
            if limits is not None:
                limits.set_on(child)
                if limits.counting is not None:
                    await (self._counted or in_thread(partial(limits.counting, child)))
            await ready()
            os.write(self._block, b"\n")
        except (ConnectionError, ProcessLookupError):
            raise NeverRan from None
        self.close()

    def close(self) -> None:
        """Leave bubblewrap at the gate, or let it end. Harmless when called again."""
        if self._options is not None:
            self._options.close()
        ours, self._ours = self._ours, []
        for fd in ours:
            os.close(fd)

    async def mounted(self, limits: CommandLimits | None = None) -> tuple[int, bytes]:
        """Return the pid that becomes the command, and its mounts as the kernel lists them, once all are made. Raise
        `NeverRan` if bubblewrap has ended."""
        assert self._options is not None
        self._options.sendall(os.fsencode("\0".join(self._told_options)))
        self._options.shutdown(socket.SHUT_WR)
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
            return await seen
        finally:
            if self._copy in self._ours:
                loop.remove_writer(self._copy)

    def _look(self) -> tuple[int, bytes]:
        """The process that will become the command, and its mounts as it sees them now."""
        child = self._told()
        if not child:
            raise NeverRan
        try:
            return child, read_table(f"/proc/{child}/mountinfo")
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

    def _socket(self) -> socket.socket:
        """Return our end of a socket; bubblewrap reads the other one. If the engine dies first, that read fails."""
        ours, theirs = socket.socketpair()
        self.theirs.append(theirs.detach())
        os.write(self.theirs[-1], b"?")  # which is never read
        return ours

    def _pipe(self, *, theirs: int) -> tuple[int, int]:
        ends = os.pipe()
        self.theirs.append(ends[theirs])
        self._ours.append(ends[1 - theirs])
        return ends
