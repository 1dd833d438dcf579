"""Digests of files by their content, and those that are known without reading the file again.

A file whose device, inode, size, times of change and of its inode are what they were has the content it had: nobody but
the system sets the last of these times. One that changed a moment before it was read may change again in the same tick
of the clock, so its digest is not remembered.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Final

import msgspec

from bridle.base.clock import Clock, SystemClock
from bridle.base.files import private_folder, read_trusted, write_atomic

MOST_FILES: Final = 1_000
MOST_BYTES: Final = 1 << 20
SETTLED_MS: Final = 2_000
"""A file that changed so short a time ago is read again next time."""


class FileMark(msgspec.Struct, frozen=True, array_like=True):
    """What tells without reading it that a file is as it was."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class _Known(msgspec.Struct, frozen=True, array_like=True):
    mark: FileMark
    sha256: str


class FileDigests:
    """Digests of files, remembered in the private file `path`; nothing is remembered where that is empty.

    Used by one thread at a time. Whoever cannot be read has no digest: an empty text.
    """

    def __init__(self, path: str = "", clock: Clock | None = None) -> None:
        self._path = path
        self._clock = clock or SystemClock()
        self._known: dict[str, _Known] | None = None
        self._changed = False

    def sha256(self, path: str) -> str:
        """The digest of a regular file's content, links followed."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except (OSError, ValueError):
            return ""
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            return ""
        with open(fd, "rb") as file:
            mark = _mark(status)
            known = self._read().get(path)
            if known is not None and known.mark == mark:
                return known.sha256
            try:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError:
                return ""
            if _mark(os.fstat(fd)) == mark and self._is_settled(mark):
                self._known = {**self._read(), path: _Known(mark, digest)}
                self._changed = True
            return digest

    def save(self) -> None:
        """Remembers what was read, if it can be."""
        if not self._changed or not self._path or self._known is None:
            return
        self._changed = False
        newest = dict(list(self._known.items())[-MOST_FILES:])
        try:
            private_folder(os.path.dirname(self._path))
            write_atomic(self._path, msgspec.json.encode(newest), durable=False)
        except OSError:
            return

    def _is_settled(self, mark: FileMark) -> bool:
        return mark.changed_ns <= (self._clock.now_ms() - SETTLED_MS) * 1_000_000

    def _read(self) -> dict[str, _Known]:
        if self._known is None:
            try:
                data = read_trusted(self._path, MOST_BYTES).data if self._path else b"{}"
                self._known = msgspec.json.decode(data, type=dict[str, _Known])
            except (OSError, msgspec.DecodeError):
                self._known = {}
        return self._known


def _mark(status: os.stat_result) -> FileMark:
    return FileMark(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
