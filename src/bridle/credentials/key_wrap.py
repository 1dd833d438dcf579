"""A key that another part of Bridle keeps in a file of its own, wrapped by what locks the credential store.

    {"bridle":"wrapped key","format":1,"wraps":[{"lock":{…},"key_id":"…","nonce":"…","wrapped":"…","tag":"…"}]}

    wrapped = key XOR HMAC-SHA256(K1, nonce)        tag = HMAC-SHA256(K2, lock ‖ nonce ‖ wrapped)
    K1, K2  = HMAC-SHA256(key of the lock, one label each)

Each wrap holds the same key under another lock. There are two only while the lock of the store is being changed: a
crash in between leaves a file that opens with the old lock and with the new one.

One block of key, a nonce that is used once, encrypt then authenticate: what AES-GCM would do here, out of the standard
library, for every start comes by here and `cryptography` takes ten milliseconds to import. Pure but for `LocalKeyWrap`.
"""

import hmac
import os
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from bridle.credentials.locks import KEY_BYTES, LockKeys, SealLock, checked
from bridle.protocol.errors import CredentialError

FORMAT = 1
NONCE_BYTES = 32
MAX_BYTES = 4096
MOST_WRAPS = 2
_DAMAGED = "it does not hold a wrapped key"


class Wrap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The key under one lock; bytes as hex. `key_id` tells a wrong key from damage and says nothing about the key."""

    lock: SealLock
    key_id: str
    nonce: str
    wrapped: str
    tag: str


class WrappedKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    bridle: Literal["wrapped key"] = "wrapped key"
    format: int = FORMAT
    wraps: tuple[Wrap, ...]


class NewerWrap(ValueError):
    """The file was written by a later version."""


def encoded(wraps: tuple[Wrap, ...]) -> bytes:
    return msgspec.json.encode(WrappedKey(wraps=wraps)) + b"\n"


def decoded(data: bytes) -> tuple[Wrap, ...]:
    """The wraps of a file. Raises ValueError with one clause, and `NewerWrap`, before anything is spent on it."""
    try:
        found = msgspec.json.decode(data[:MAX_BYTES], type=WrappedKey)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        if _is_newer(data):
            raise NewerWrap("it was written by a newer Bridle") from None
        raise ValueError(_DAMAGED) from None
    if found.format > FORMAT:
        raise NewerWrap("it was written by a newer Bridle")
    if found.format != FORMAT or not 1 <= len(found.wraps) <= MOST_WRAPS:
        raise ValueError(_DAMAGED)
    for one in found.wraps:
        checked(one.lock)
    return found.wraps


def _is_newer(data: bytes) -> bool:
    """Whether what cannot be read is a file of ours, of a later version."""
    try:
        found = msgspec.json.decode(data[:MAX_BYTES], type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    version = found.get("format")
    return found.get("bridle") == "wrapped key" and isinstance(version, int) and version > FORMAT


def key_id(lock_key: bytes) -> str:
    return _part(lock_key, b"which key").hex()[:16]


def wrap(key: bytes, lock: SealLock, lock_key: bytes, nonce: bytes) -> Wrap:
    """A key of 32 bytes under a lock. A nonce is used once for a lock's key."""
    if len(key) != KEY_BYTES:
        raise ValueError("a wrapped key has 32 bytes")
    wrapped = _exclusive_or(key, hmac.digest(_part(lock_key, b"hide"), nonce, "sha256"))
    return Wrap(
        lock=lock,
        key_id=key_id(lock_key),
        nonce=nonce.hex(),
        wrapped=wrapped.hex(),
        tag=_tag(lock, lock_key, nonce, wrapped).hex(),
    )


def unwrap(one: Wrap, lock_key: bytes) -> bytes:
    """The key. Raises ValueError where anything is not as it was written, or the lock's key is another."""
    try:
        nonce, wrapped, tag = (bytes.fromhex(text) for text in (one.nonce, one.wrapped, one.tag))
    except ValueError:
        raise ValueError(_DAMAGED) from None
    if len(nonce) != NONCE_BYTES or len(wrapped) != KEY_BYTES:
        raise ValueError(_DAMAGED)
    if not hmac.compare_digest(tag, _tag(one.lock, lock_key, nonce, wrapped)):
        raise ValueError("its content is not what was written")
    return _exclusive_or(wrapped, hmac.digest(_part(lock_key, b"hide"), nonce, "sha256"))


def _part(lock_key: bytes, label: bytes) -> bytes:
    return hmac.digest(lock_key, b"bridle wrapped key: " + label, "sha256")


def _tag(lock: SealLock, lock_key: bytes, nonce: bytes, wrapped: bytes) -> bytes:
    return hmac.digest(
        _part(lock_key, b"prove"), msgspec.json.encode(lock) + b"\n" + nonce + wrapped, "sha256"
    )


def _exclusive_or(left: bytes, right: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(left, right, strict=True))


class LocalKeyWrap:
    """Wraps and unwraps with the keys that are to be had here.

    `store_lock` says how the credential store is locked, None where there is none: what is wrapped follows it, once
    `prove_store` has not raised: the keys at hand are those of the store. `path` is the file the key is kept in, for
    the sentences. Every method raises `CredentialError`.
    """

    def __init__(
        self,
        keys: LockKeys,
        *,
        path: str,
        store_lock: Callable[[], SealLock | None],
        prove_store: Callable[[], None],
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._keys = keys
        self._path = path
        self._store_lock = store_lock
        self._prove_store = prove_store
        self._random = random

    def wrap(self, key: bytes, *, like: bytes | None = None) -> bytes:
        """A file with the key under the lock of the store.

        Where there is no store: under the lock that the file `like` has, the automatic one if that has none; and for a
        key that is new, as this environment wants it.
        """
        lock = self._store_lock()
        if lock is None:
            lock = self._own_lock(like)
        else:
            self._prove_store()  # a lock takes any passphrase: a wrong one would lock the file for good
        return encoded((self._wrapped(key, lock),))

    def unwrap(self, data: bytes) -> bytes:
        """The key of a file, by the first of its locks that opens."""
        return self._opened(data)[1]

    def is_settled(self, data: bytes) -> bool:
        """Whether a file is wrapped, and by one lock: everything else is on the way to that."""
        return is_wrapped(data) and len(self._decoded(data)) == 1

    def with_lock(self, data: bytes, lock: SealLock) -> bytes:
        """The same key under one lock more; a file that is not wrapped stays as it is. The first step of a new lock."""
        if not is_wrapped(data):
            return data
        old, key = self._opened(data)
        return encoded((self._wrapped(key, old), self._wrapped(key, lock)))

    def followed(self, data: bytes) -> bytes:
        """The same key under the lock of the store; the same bytes where it has that lock, or is not wrapped."""
        if not is_wrapped(data) or self.lock_of(data) == self._store_lock():
            return data
        return self.wrap(self.unwrap(data), like=data)

    def lock_of(self, data: bytes) -> SealLock | None:
        """How a file is locked; None where it is not wrapped. Needs no key."""
        return self._decoded(data)[0].lock if is_wrapped(data) else None

    def _own_lock(self, like: bytes | None) -> SealLock:
        if like is None:
            return self._keys.new_lock(self._keys.wanted(), self._random)
        return self._opened(like)[0] if is_wrapped(like) else SealLock(kind="automatic")

    def _opened(self, data: bytes) -> tuple[SealLock, bytes]:
        """The key of a file, and the lock that gave it."""
        problems: list[CredentialError] = []
        for one in self._decoded(data):
            try:
                return one.lock, self._unwrapped(one)
            except CredentialError as failure:
                problems.append(failure)
        self._keys.forget()
        raise problems[0]

    def _wrapped(self, key: bytes, lock: SealLock) -> Wrap:
        # Where the store has the automatic lock, its key is there or lost: a new one would take the old one's place.
        store = self._store_lock()
        fresh = store is None or store.kind != "automatic"
        return wrap(key, lock, self._keys.key(lock, path=self._path, fresh=fresh), self._random(NONCE_BYTES))

    def _unwrapped(self, one: Wrap) -> bytes:
        lock_key = self._keys.key(one.lock, path=self._path)
        if not hmac.compare_digest(one.key_id.encode(), key_id(lock_key).encode()):
            raise CredentialError("CredentialsWrongKey", path=self._path, source=self._keys.source(one.lock))
        try:
            return unwrap(one, lock_key)
        except ValueError as problem:
            raise self._damaged(problem) from None

    def _decoded(self, data: bytes) -> tuple[Wrap, ...]:
        try:
            return decoded(data)
        except NewerWrap:
            raise CredentialError("CredentialsNewer", path=self._path) from None
        except ValueError as problem:
            raise self._damaged(problem) from None

    def _damaged(self, problem: ValueError) -> CredentialError:
        return CredentialError("CredentialsDamaged", path=self._path, problem=str(problem))


def is_wrapped(data: bytes) -> bool:
    """Whether a file says that it is of this kind."""
    return data.startswith(b"{")
