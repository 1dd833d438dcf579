"""The session store for tests and embedders that keep nothing: the encrypted database in a temporary folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref

from bridle.base.clock import Clock, SystemClock
from bridle.base.fs import files
from bridle.base.ids import Ids
from bridle.engine.store_ports import Backup
from bridle.sessions.sqlite_store import SqliteStore
from bridle.sessions.store import SessionStore

PREFIX = "bridle-memory-"
_OWNER = "owner.lock"
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  only a private folder is made in it
_LEAST_ROOM_BYTES = 256 << 20
"""Containers often have 64 MiB of shared memory, which a session can fill."""


class MemoryStore(SqliteStore):
    """A store whose sessions go when it is closed. Implements `engine.store_ports.Store`.

    The database is in a private folder, in shared memory where the system has enough, under a random key that is
    never stored. `aclose` removes the folder. If the process is killed, the next `MemoryStore` removes it.
    """

    def __init__(
        self, *, clock: Clock | None = None, ids: Ids | None = None, scratch: _Scratch | None = None
    ) -> None:
        self._clock = clock or SystemClock()
        self._ids = ids or Ids(self._clock.now_ms, os.urandom)
        self._owns_scratch = scratch is None
        self._scratch = scratch or _Scratch()
        super().__init__(
            SessionStore(
                self._scratch.folder,
                ids=self._ids,
                clock=self._clock,
                key_wrap=self._scratch,
                durable=False,
            )
        )

    def beside(self) -> MemoryStore:
        """Return another store on the same sessions. Closing it leaves them to this one."""
        return type(self)(clock=self._clock, ids=self._ids, scratch=self._scratch)

    async def back_up(self, path: str) -> Backup:
        """Write a backup as `Archive.back_up` says. Its key file holds the key as 64 hex digits."""
        made = await super().back_up(path)
        files.write_atomic(made.key_path, self._scratch.key.hex().encode() + b"\n")
        return made

    async def aclose(self) -> None:
        try:
            await super().aclose()
        finally:
            if self._owns_scratch:
                self._scratch.remove()


class _Scratch:
    """A private folder and the key of the database in it. Implements `KeyWrap`, so that the key file holds no key."""

    def __init__(self) -> None:
        self.key = b""
        self.folder, lock = _locked_folder(_parent())
        self.remove = weakref.finalize(self, _remove, self.folder, lock, os.getpid())

    def wrap(self, key: bytes, *, like: bytes | None = None) -> bytes:
        self.key = key
        return b"{}"

    def unwrap(self, data: bytes) -> bytes:
        return self.key

    def is_settled(self, data: bytes) -> bool:
        return True


def _parent() -> str:
    """Return shared memory where it is writable and large enough, else the folder for temporary files."""
    if os.path.isdir(_SHARED_MEMORY) and os.access(_SHARED_MEMORY, os.R_OK | os.W_OK | os.X_OK):
        disk = os.statvfs(_SHARED_MEMORY)
        if disk.f_bavail * disk.f_frsize >= _LEAST_ROOM_BYTES:
            return _SHARED_MEMORY
    return tempfile.gettempdir()


def _locked_folder(parent: str) -> tuple[str, files.FileLock]:
    """Make a folder that counts as in use while this process lives, and remove those of dead processes."""
    for name in os.listdir(parent):
        if name.startswith(PREFIX):
            with contextlib.suppress(OSError):
                _remove_dead(os.path.join(parent, name))
    while True:
        folder = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
        lock = files.FileLock(os.path.join(folder, _OWNER))
        with contextlib.suppress(FileNotFoundError):  # another process found it unlocked and removed it
            if lock.acquire():
                return folder, lock


def _remove_dead(folder: str) -> None:
    lock = files.FileLock(os.path.join(folder, _OWNER))
    if os.lstat(folder).st_uid == os.getuid() and lock.acquire():
        _remove(folder, lock, os.getpid())


def _remove(folder: str, lock: files.FileLock, owner_pid: int) -> None:
    if os.getpid() == owner_pid:
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()
