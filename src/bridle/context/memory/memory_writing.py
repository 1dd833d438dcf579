"""Changing the files of memories, one at a time between all programs. Loaded with the first change. Blocks."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Generator

from bridle.base.files import FileLock, private_folder, write_atomic
from bridle.context.memory.memory_entry import BadMemory, Memory
from bridle.context.memory.memory_files import MAX_MEMORIES, MemoryFolder
from bridle.context.memory.memory_reading import content_of, digest_of
from bridle.protocol.errors import BridleError

_WAIT_S = 5.0


def put_memory(folder: MemoryFolder, memory: Memory, *, was: str) -> None:
    """Writes a memory in the place of the content `was`; empty: there is none yet.

    Raises `BadMemory`, `OSError`, and `BridleError` with `ChangedSinceApproval` where it is not so.
    """
    data = memory.checked().written().encode()
    with _alone(folder, memory.name, was):
        if not was and len(folder.rows()) >= MAX_MEMORIES:
            raise BadMemory(f"there are {MAX_MEMORIES:,} memories here already")
        write_atomic(folder.file(memory.name), data)
    folder.index()


def remove_memory(folder: MemoryFolder, name: str, *, was: str) -> None:
    """Takes away a memory that has the content `was`. Raises as `put_memory` does."""
    with _alone(folder, name, was):
        os.unlink(folder.file(name))
    folder.index()


def digest_in(folder: MemoryFolder, name: str) -> str:
    """Which content a memory has; empty where there is none."""
    try:
        return digest_of(content_of(folder.file(name))[0])
    except FileNotFoundError:
        return ""


@contextlib.contextmanager
def _alone(folder: MemoryFolder, name: str, was: str) -> Generator[None]:
    private_folder(folder.path)
    private_folder(os.path.dirname(folder.lock))
    lock = FileLock(folder.lock)
    if not lock.acquire(timeout_s=_WAIT_S):
        raise OSError(errno.EBUSY, "another Bridle is writing there", folder.path)
    try:
        if digest_in(folder, name) != was:
            raise BridleError("ChangedSinceApproval", path=folder.file(name))
        yield
    finally:
        lock.release()
