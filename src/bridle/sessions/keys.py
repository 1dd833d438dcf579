"""The data key of the session database: 32 random bytes, as hex, in a file only its owner can read."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from bridle.base import files
from bridle.base.regex import compiled_later
from bridle.protocol.errors import StoreError

NEXT = ".next"
"""What the name of a key ends with while the database is being encrypted anew."""

_KEY = compiled_later(rb"[0-9a-f]{64}\n?")


def read_key(key_path: str, *, database_path: str, notice: Callable[[str], None]) -> str:
    """The key as 64 hex digits.

    Raises `StoreError` when the file is missing or holds no key: a database that exists never gets a new key.
    A file that others can read is used, and `notice` says so.
    """
    try:
        found = files.read_limited(key_path, 100)
        mode = os.stat(key_path).st_mode
    except FileNotFoundError:
        raise _wrong(database_path, key_path, "the key file is missing") from None
    if not _KEY.fullmatch(found.data):
        raise _wrong(database_path, key_path, "it is not 64 hex digits")
    if stat.S_IMODE(mode) & 0o077:
        notice(f"{key_path} can be read by others. Make it yours alone: chmod 600 {key_path}")
    return found.data.decode().strip()


def make_key(key_path: str) -> None:
    """Writes a fresh key unless there is one. The caller holds the database's creation lock."""
    if not os.path.lexists(key_path):
        files.write_atomic(key_path, os.urandom(32).hex().encode() + b"\n")


def next_key(key_path: str) -> str:
    """Writes a fresh key beside the one in use, for a database that is about to be encrypted with it."""
    key = os.urandom(32).hex()
    files.write_atomic(key_path + NEXT, key.encode() + b"\n")
    return key


def adopt_next(key_path: str, opens: Callable[[str], bool]) -> bool:
    """Makes the key beside the one in use the one in use, if there is one and it `opens` the database."""
    try:
        found = files.read_limited(key_path + NEXT, 100)
    except FileNotFoundError:
        return False
    if not _KEY.fullmatch(found.data) or not opens(found.data.decode().strip()):
        return False
    os.replace(key_path + NEXT, key_path)
    return True


def _wrong(database_path: str, key_path: str, problem: str) -> StoreError:
    return StoreError("StoreBadKey", path=database_path, key_path=key_path, problem=problem)
