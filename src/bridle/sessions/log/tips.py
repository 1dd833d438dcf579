"""The last id and chain of a log, stored outside the database.

SQLite cannot tell that the end of its write-ahead log was cut off: it shows the rows before the cut and calls
itself sound. The tip can. It is written after the commit, so it may be behind, and is never ahead.
"""

from __future__ import annotations

import errno
import os
import threading
from hashlib import sha256
from struct import Struct

import msgspec

_LAYOUT = Struct(">Q32s")
_CHECK_BYTES = 8
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


class Tip(msgspec.Struct, frozen=True):
    event_id: int
    chain: bytes


class TipFile:
    """Open for the life of the run lock; written by the writer thread alone. Rows committed after it was closed
    leave it behind."""

    def __init__(self, path: str) -> None:
        self._using = threading.Lock()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)

    def read(self) -> Tip | None:
        """None when there is none, or when a power cut left half of one: then it proves nothing."""
        return _read(self._fd)

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever written to it."""
        return os.fstat(self._fd).st_size == 0

    def write(self, event_id: int, chain: bytes) -> None:
        """On a full disk it stays behind: what it would tell of is committed."""
        body = _LAYOUT.pack(event_id, chain)
        with self._using:
            if self._fd < 0:
                return
            try:
                os.pwrite(self._fd, body + _check(body), 0)
            except OSError as problem:
                if problem.errno not in NO_ROOM:
                    raise

    def close(self) -> None:
        with self._using:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)


def tip_at(path: str) -> Tip | None:
    """What a tip file says, without making or keeping it; None as for `TipFile.read`."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        return _read(fd)
    finally:
        os.close(fd)


def _read(fd: int) -> Tip | None:
    found = os.pread(fd, _LAYOUT.size + _CHECK_BYTES, 0)
    body = found[: _LAYOUT.size]
    if len(found) < _LAYOUT.size + _CHECK_BYTES or found[_LAYOUT.size :] != _check(body):
        return None
    event_id, chain = _LAYOUT.unpack(body)
    return Tip(event_id, chain)


def _check(body: bytes) -> bytes:
    return sha256(body).digest()[:_CHECK_BYTES]
