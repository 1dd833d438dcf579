"""Sync and checkpoint the write-ahead log.

A log that was folded back is written over from its beginning, and a disk syncs that faster than a file that grows.
"""

from __future__ import annotations

import fcntl
import os

from bridle.protocol.errors import StoreError
from bridle.sessions.log.database import Connection, Database

FOLD_BACK_PAGES = 200
_NOTHING_LOST = frozenset({"StoreInUse", "NoSpace"})


class WriteAheadLog:
    """The file that commits go to. SQLite keeps it for as long as our connection is open, so we open it once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._path = database.path + "-wal"
        self._fd: int | None = None
        self._pages = 0
        self._enough = FOLD_BACK_PAGES

    def committed(self, _connection: Connection, _name: str, pages: int) -> int:
        self._pages = pages
        return 0

    def fold_back(self, connection: Connection) -> None:
        """Checkpoint a long log as far as no reader needs it. Without room, or while somebody reads, it is tried
        again later."""
        if self._pages < self._enough:
            return
        self._enough = FOLD_BACK_PAGES
        try:
            with self._database.errors():
                pages, folded = connection.wal_checkpoint()
            if folded < pages:
                self._enough += pages
        except StoreError as failure:
            if failure.reason not in _NOTHING_LOST:
                raise
        self._pages = 0

    def sync(self) -> None:
        """Raises `StoreError("StoreFailed")`, after which no other sync means anything."""
        if not self._database.durable:
            return
        if self._fd is None:
            try:
                self._fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:  # nothing was written since the last checkpoint, which syncs by itself
                return
        try:
            _sync(self._fd)
        except OSError as problem:
            raise self._database.unsynced(problem.strerror or str(problem)) from problem

    def close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def _sync(fd: int) -> None:
    full = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone stops at the drive's cache
    if full is not None:
        fcntl.fcntl(fd, full)
    else:
        getattr(os, "fdatasync", os.fsync)(fd)
