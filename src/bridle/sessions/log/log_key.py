"""The data key of the session database.

The file holds the key wrapped by the credential store. Older versions left it as 64 hex digits; such a file is wrapped
when the database is next opened, and opens as it is where it cannot be wrapped yet. A store of its own, without a
wrap, keeps the key as hex.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from hmac import compare_digest
from hmac import digest as hmac_digest
from typing import Protocol

import msgspec

from bridle.base.fs import files
from bridle.protocol.errors import BridleError, StoreError

NEXT = ".next"
"""What the name of a key ends with while the database is being encrypted anew."""
WRAPPING = ".wrapping"
"""What the name of a key ends with until it has shown that it can be unwrapped again."""
MAX_BYTES = 4096
_PROOF_BYTES = 64 * 1024

_PLAIN = re.compile(rb"[0-9a-f]{64}\n?")


class KeyWrap(Protocol):
    """What the key is wrapped with at rest. Every method raises `BridleError` where its own key is not to be had."""

    def wrap(self, key: bytes, *, like: bytes | None = None) -> bytes:
        """What to write for a key; for one that had a file before, `like` is what stood there."""
        ...

    def unwrap(self, data: bytes) -> bytes:
        """The key of what was written."""
        ...

    def is_settled(self, data: bytes) -> bool:
        """False where what stands in the file should be wrapped anew."""
        ...


class KeyFile:
    """The file of the key, and the one beside it for the key to come. Whoever writes holds the database's lock."""

    def __init__(self, path: str, *, database_path: str, wrap: KeyWrap | None) -> None:
        self.path = path
        self._database_path = database_path
        self._wrap = wrap
        self.is_settled = False
        """Whether what was read last needs no `settle`."""

    def read(self, notice: Callable[[str], None]) -> str:
        """The key as 64 hex digits.

        Raises `StoreError` when the file is missing or holds no key: a database that exists never gets a new key; and
        what the wrap raises. A file that others can read is used, and `notice` says so.
        """
        try:
            data = files.read_limited(self.path, MAX_BYTES).data
            mode = os.stat(self.path).st_mode
        except FileNotFoundError:
            raise self._wrong("the key file is missing") from None
        key = self._key_in(data)
        self.is_settled = self._wrap is None or self._wrap.is_settled(data)
        if stat.S_IMODE(mode) & 0o077:
            notice(f"{self.path} can be read by others. Make it yours alone: chmod 600 {self.path}")
        return key

    def make(self) -> None:
        if not os.path.lexists(self.path):
            key = os.urandom(32)
            self._write(self.path, key, self._wrapped(key, like=None))

    def settle(self) -> None:
        """Wraps the key as it should be. Where that cannot be done now, everything stays as it was."""
        for path in self._paths():
            data = files.read_limited(path, MAX_BYTES).data
            if self._wrap is None or self._wrap.is_settled(data):
                continue
            try:
                key = bytes.fromhex(self._key_in(data))
                self._write(path, key, self._wrapped(key, like=data))
            except (BridleError, OSError):
                return
        self.is_settled = True

    def rewrap(self, change: Callable[[bytes], bytes]) -> None:
        """Replaces what is in the files by what `change` makes of it, which holds the same key."""
        for path in self._paths():
            data = files.read_limited(path, MAX_BYTES).data
            changed = change(data)
            if changed != data:
                self._write(path, bytes.fromhex(self._key_in(data)), changed)

    def make_next(self) -> str:
        """Writes a fresh key beside the one in use, for a database that is about to be encrypted with it."""
        key = os.urandom(32)
        self._write(
            self.path + NEXT,
            key,
            self._wrapped(key, like=files.read_limited(self.path, MAX_BYTES).data),
        )
        return key.hex()

    def adopt_next(self, opens: Callable[[str], bool]) -> bool:
        """Makes the key beside the one in use the one in use, if there is one and it `opens` the database."""
        try:
            data = files.read_limited(self.path + NEXT, MAX_BYTES).data
        except FileNotFoundError:
            return False
        try:
            key = self._key_in(data)
        except BridleError:
            return False
        if not opens(key):
            return False
        os.replace(self.path + NEXT, self.path)
        return True

    def _paths(self) -> list[str]:
        return [path for path in (self.path, self.path + NEXT) if os.path.lexists(path)]

    def _key_in(self, data: bytes) -> str:
        if _PLAIN.fullmatch(data):
            return data.decode().strip()
        if not data.startswith(b"{"):
            raise self._wrong("it is not 64 hex digits")
        if self._wrap is None:
            raise self._wrong("it is wrapped")
        return self._wrap.unwrap(data).hex()

    def _wrapped(self, key: bytes, *, like: bytes | None) -> bytes:
        return key.hex().encode() + b"\n" if self._wrap is None else self._wrap.wrap(key, like=like)

    def _write(self, path: str, key: bytes, data: bytes) -> None:
        """Puts `data` in place once it was read back from the disk and gave the key: one that works is always there."""
        trial = path + WRAPPING
        files.write_atomic(trial, data)
        if bytes.fromhex(self._key_in(files.read_limited(trial, MAX_BYTES).data)) != key:
            raise self._wrong("what was written does not give the key back")
        os.replace(trial, path)
        files.sync_folder(os.path.dirname(path))

    def _wrong(self, problem: str) -> StoreError:
        return StoreError("StoreBadKey", path=self._database_path, key_path=self.path, problem=problem)


class _KeyProof(msgspec.Struct, frozen=True):
    """The file that tells a damaged database from a wrong key. Older versions also wrote the first pages of tables."""

    proof: bytes
    roots: dict[str, int] = {}


def write_key_proof(path: str, key: str) -> None:
    files.write_atomic(path, msgspec.json.encode(_KeyProof(_proof({}, key))))


def proves_key(path: str, key: str) -> bool:
    """Return whether the proof at `path` was written with this key."""
    try:
        found = msgspec.json.decode(files.read_limited(path, _PROOF_BYTES).data, type=_KeyProof)
    except (OSError, msgspec.DecodeError, ValueError):
        return False
    return compare_digest(found.proof, _proof(found.roots, key))


def _proof(roots: dict[str, int], key: str) -> bytes:
    text = b"sessions.head\n" + msgspec.json.encode(roots, order="sorted")
    return hmac_digest(bytes.fromhex(key), text, "sha256")
