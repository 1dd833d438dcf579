"""A long-lived process with bounded input and output.

Neither side can fill the memory of the other: a writer waits until the process has taken what it was given, and nothing
more is read from it while nobody reads what came.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

MOST_UNREAD_BYTES: Final = 1 << 20
"""So much of what a process wrote is kept for its reader before it has to wait; one more turn of reading may come."""
_CHUNK: Final = 64 * 1024


class InputPipe:
    """The standard input of a process, kept open. Whoever starts the process opens and ends it."""

    def __init__(self) -> None:
        self._fd: int | None = None
        self._rest = memoryview(b"")
        self._turns = asyncio.Lock()
        self._taken: asyncio.Future[None] | None = None
        self._held = self._closing = self._over = False

    def hold(self) -> None:
        """Sends nothing before `begin_with`. For whoever starts the process, before it does."""
        self._held = True

    def begin_with(self, data: bytes) -> None:
        """Sends this before all else, once the process has started; even if nothing else was to come."""
        self._held = False
        if self._fd is not None:
            self._rest = memoryview(data + bytes(self._rest))
            self._begin()

    async def write(self, data: bytes) -> None:
        """Returns when the process has all of it in its pipe; whoever wrote before comes first.

        Cancelled, what has begun is sent to its end all the same: half a message would spoil every later one. Raises
        `BrokenPipeError` when the process takes nothing any more.
        """
        async with self._turns:
            await self._until_taken()
            if self._closing or self._over:
                raise BrokenPipeError
            self._rest = memoryview(data)
            self._begin()
            await self._until_taken()
            if self._over and not self._closing:
                raise BrokenPipeError

    def close(self) -> None:
        """Nothing more comes: the process sees the end of its input behind what is on its way."""
        self._closing = True
        if not (self._rest or self._held):
            self.end()

    def open(self, fd: int) -> None:
        """The writing end of the pipe; it belongs to this object from here on. A process may come after one that ended
        before it began."""
        os.set_blocking(fd, False)
        self._fd, self._over = fd, False
        if self._rest or self._closing:
            self._begin()

    def end(self) -> None:
        """The process is gone, or will hear nothing more. Safe to call twice."""
        self._over, self._rest = True, memoryview(b"")
        if self._fd is not None:
            asyncio.get_running_loop().remove_writer(self._fd)
            os.close(self._fd)
            self._fd = None
        self._tell_taken()

    def _begin(self) -> None:
        if self._fd is not None and not self._held:
            asyncio.get_running_loop().add_writer(self._fd, self._send)

    def _send(self) -> None:
        assert self._fd is not None
        try:
            sent = os.write(self._fd, self._rest[:_CHUNK]) if self._rest else 0
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.end()
            return
        self._rest = self._rest[sent:]
        if not self._rest:
            asyncio.get_running_loop().remove_writer(self._fd)
            self._tell_taken()
            if self._closing:
                self.end()

    async def _until_taken(self) -> None:
        while self._rest:
            self._taken = asyncio.get_running_loop().create_future()
            await self._taken

    def _tell_taken(self) -> None:
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(None)


class TalkingProcess(Protocol):
    """A started process, as far as talking with it goes."""

    @property
    def pid(self) -> int: ...
    def when_output_ends(self, ended: Callable[[], None]) -> None: ...
    async def wait(self) -> int: ...
    async def stop(self, grace_s: float = 0.3) -> None: ...


class OutputPipe:
    """What a process wrote, in the order it did, until somebody reads it. Give it as the process's `on_output`."""

    def __init__(self, most_bytes: int = MOST_UNREAD_BYTES) -> None:
        self._most = most_bytes
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._changed: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None

    def __call__(self, chunk: bytes) -> asyncio.Future[None] | None:
        """Takes a piece; while too much is unread, nothing more comes before what this returns is done."""
        self._chunks.append(chunk)
        self._size += len(chunk)
        self._wake()
        if self._size < self._most:
            return None
        if self._room is None:
            self._room = asyncio.get_running_loop().create_future()
        return self._room

    def follow(self, process: TalkingProcess) -> None:
        """The process it is from, once that is known."""
        process.when_output_ends(self._end)

    async def read(self) -> bytes:
        """The next piece; empty when there will be none. For one reader."""
        while not self._chunks and not self._ended:
            self._changed = asyncio.get_running_loop().create_future()
            await self._changed
        if not self._chunks:
            return b""
        chunk = self._chunks.popleft()
        self._size -= len(chunk)
        if self._room is not None and self._size < self._most:
            room, self._room = self._room, None
            room.set_result(None)
        return chunk

    def _end(self) -> None:
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)


class DuplexProcess:
    """A process and both directions of talking with it. Whoever opened it stops it."""

    def __init__(self, process: TalkingProcess, inlet: InputPipe, outlet: OutputPipe) -> None:
        self.pid = process.pid
        self.write = inlet.write
        self.close_input = inlet.close
        self.read = outlet.read
        self.wait = process.wait
        self.stop = process.stop


async def open_duplex(start: Callable[[InputPipe, OutputPipe], Awaitable[TalkingProcess]]) -> DuplexProcess:
    """`start` starts the process with these as its `stdin` and `on_output`."""
    inlet, outlet = InputPipe(), OutputPipe()
    process = await start(inlet, outlet)
    outlet.follow(process)
    return DuplexProcess(process, inlet, outlet)
