"""Holding a command of bubblewrap back until its mounts have been looked at, from outside.

bubblewrap makes mounts in the order in which it is told. The last thing it is told is to copy a file from a pipe that
is full and stays open. That it can be written to again says that all mounts are made; until it is closed none is added
or taken away, and the kernel's table of them can be read at leisure.

A pipe also closes when we die. So there is a second one, from which bubblewrap reads before it runs the command and
whose other end it holds itself: only a byte of ours lets it go on. No byte, no command.

What to mount comes through a third one. Starting the program takes a while, in which we find out what it is to mount.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bridle.safety.sandbox.adapters import NeverRan
from bridle.safety.sandbox.mount_check import Expected, first_difference

_NEW_ROOT = "/newroot"
"""Where bubblewrap puts a command's file system together."""
_COPY = "/dev/.mounted"
"""Means nothing, and is in a command's own /dev."""
_MAX_INFO_BYTES = 4_096
_PIPE_BYTES = 64 * 1024
"""What a pipe takes before somebody reads from it."""
_CHILD = re.compile(rb'"child-pid": (\d+)\b')


class Prepared(NamedTuple):
    """What bubblewrap is to do, as options of it, and what its mounts will look like then."""

    options: Sequence[str]
    expected: Callable[[], Expected]


class Gate:
    """For one command. `theirs` are to be open in bubblewrap, and belong to whoever starts it, with these `arguments`.

    `prepare` is called once it has been started.
    """

    def __init__(self, prepare: Callable[[], Prepared]) -> None:
        self._prepare = prepare
        self._ours: list[int] = []
        self.theirs: list[int] = []
        try:
            options, self._options = self._pipe(theirs=0)
            copied, self._copy = self._pipe(theirs=0)
            os.write(self._copy, bytes(fcntl.fcntl(self._copy, fcntl.F_SETPIPE_SZ, 1)))
            block, self._block = self._pipe(theirs=0)
            self._info, info = self._pipe(theirs=1)
            self.theirs.append(os.dup(self._block))
        except BaseException:
            for fd in self.theirs:
                os.close(fd)
            self.close()
            raise
        self.arguments = (
            *("--args", str(options), "--file", str(copied), _COPY),
            *("--block-fd", str(block), "--sync-fd", str(self.theirs[-1]), "--info-fd", str(info)),
        )

    async def opened(self) -> None:
        """Returns once the command runs. Raises `NeverRan` if a mount is not as expected, or bubblewrap has ended; and
        what `prepare` raises."""
        try:
            expected = await self.mounted()
            difference = first_difference(self._table(), expected, beneath=_NEW_ROOT)
            if difference:
                raise NeverRan(
                    f"sandbox: {difference} was changed by another command in this moment; nothing was run"
                )
            os.write(self._block, b"\n")
        except BrokenPipeError:
            raise NeverRan from None
        self.close()

    def close(self) -> None:
        """What waits at the gate does so for ever. Harmless when called again."""
        ours, self._ours = self._ours, []
        for fd in ours:
            os.close(fd)

    async def mounted(self) -> Expected:
        """Has the mounts made. Returns what they should look like, once they are there or bubblewrap has ended."""
        prepared = self._prepare()
        self._tell(prepared.options)
        expected = prepared.expected()
        loop = asyncio.get_running_loop()
        writable = asyncio.Event()
        loop.add_writer(self._copy, writable.set)  # called as well when nobody is left to read
        try:
            await writable.wait()
        finally:
            loop.remove_writer(self._copy)
        return expected

    def _tell(self, options: Sequence[str]) -> None:
        data = os.fsencode("\0".join(options))
        if len(data) > _PIPE_BYTES:
            with contextlib.suppress(
                PermissionError
            ):  # a user may have so much of pipes: then bubblewrap is waited for
                fcntl.fcntl(self._options, fcntl.F_SETPIPE_SZ, len(data))
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._options, rest) :]
        self._ours.remove(self._options)
        os.close(self._options)

    def child(self) -> int:
        """The process that will become the command, once its mounts are made."""
        told = _CHILD.search(os.read(self._info, _MAX_INFO_BYTES))
        if told is None:
            raise NeverRan
        return int(told[1])

    def _table(self) -> str:
        """The mounts as bubblewrap's process sees them that will become the command."""
        try:
            with open(f"/proc/{self.child()}/mountinfo", "rb") as file:
                return os.fsdecode(file.read())
        except PermissionError as error:
            raise NeverRan(
                f"sandbox: its mounts are out of sight ({error.strerror}); nothing was run"
            ) from error
        except OSError:
            raise NeverRan from None

    def _pipe(self, *, theirs: int) -> tuple[int, int]:
        ends = os.pipe()
        self.theirs.append(ends[theirs])
        self._ours.append(ends[1 - theirs])
        return ends
