"""The credential store that is used unless settings say otherwise: one encrypted file, private, replaced as a whole."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Literal

import msgspec

from bridle.base.fs import files
from bridle.credentials.locks import LockKeys, LockKind, SealLock, checked
from bridle.credentials.records import Credential, decoded, encoded
from bridle.protocol.errors import CredentialError

FORMAT = 1
NONCE_BYTES = 12
TAG_BYTES = 16
MAX_HEADER_BYTES = 1024


class NewerSeal(ValueError):
    """The file was written by a later version."""


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`key_id` tells a wrong key from a damaged file; it says nothing about the key."""

    bridle: Literal["credentials"] = "credentials"
    format: int = FORMAT
    key_id: str
    lock: SealLock


class _Versioned(msgspec.Struct, frozen=True):
    bridle: Literal["credentials"]
    format: int


def key_id(key: bytes) -> str:
    return hmac.new(key, b"bridle credentials: which key", hashlib.sha256).hexdigest()[:16]


def seal(plain: bytes, lock: SealLock, key: bytes, nonce: bytes) -> bytes:
    """The file. A nonce is used once for a key."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    line = msgspec.json.encode(Header(key_id=key_id(key), lock=lock)) + b"\n"
    return line + nonce + AESGCM(key).encrypt(nonce, plain, line)


def header_of(data: bytes) -> Header:
    """How a file is locked. Raises ValueError with one clause, and `NewerSeal`, before anything is spent on it."""
    line = _line(data)
    try:
        version = msgspec.json.decode(line, type=_Versioned).format
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ValueError("its first line is not one of ours") from None
    if version > FORMAT:
        raise NewerSeal("it was written by a newer Bridle")
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise ValueError("its first line is not one of ours") from None
    if header.format != FORMAT:
        raise ValueError("its format is unknown")
    checked(header.lock)
    return header


def unseal(data: bytes, key: bytes) -> bytes:
    """What was sealed. Raises ValueError where a single bit is not as it was written, or the key is another."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    line = _line(data)
    nonce, sealed = data[len(line) :][:NONCE_BYTES], data[len(line) + NONCE_BYTES :]
    if len(sealed) < TAG_BYTES:
        raise ValueError("its end is missing")
    try:
        return AESGCM(key).decrypt(nonce, sealed, line)
    except InvalidTag:
        raise ValueError("its content is not what was written") from None


def _line(data: bytes) -> bytes:
    line, end, _ = data[:MAX_HEADER_BYTES].partition(b"\n")
    if not end:
        raise ValueError("its first line is not one of ours")
    return line + end


MAX_BYTES = 1 << 20
LOCK_WAIT_S = 10.0


class EncryptedStore:
    """A `CredentialStore` in one file. Nothing is made on disk before the first credential is put.

    A file that cannot be opened, whatever the reason, is never written. `made` is called once a first file stands.
    """

    def __init__(
        self,
        path: str,
        keys: LockKeys,
        *,
        random: Callable[[int], bytes] = os.urandom,
        made: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = path
        self._keys = keys
        self._random = random
        self._made = made

    def get(self, provider: str) -> Credential | None:
        return self._read()[1].get(provider)

    def put(self, credential: Credential) -> None:
        self.put_all([credential])

    def put_all(self, credentials: Iterable[Credential]) -> None:
        """Stores several at once, or none of them."""
        with self._writing():
            lock, found = self._read()
            found.update({credential.provider: credential for credential in credentials})
            self._write(lock or self._keys.new_lock(self._keys.wanted(), self._random), found)
        if lock is None:
            self._made()

    def exchange(self, before: Credential, after: Credential) -> bool:
        with self._writing():
            lock, found = self._read()
            if lock is None or found.get(after.provider) != before:
                return False
            self._write(lock, {**found, after.provider: after})
            return True

    def delete(self, provider: str) -> bool:
        with self._writing():
            lock, found = self._read()
            if lock is None or provider not in found:
                return False
            del found[provider]
            if found:
                self._write(lock, found)
            else:
                self._remove()  # an empty file would still ask for its key
            return True

    def list(self) -> list[Credential]:
        return [credential for _, credential in sorted(self._read()[1].items())]

    def lock(self) -> SealLock | None:
        """How the file is locked; None where there is none. Needs no key."""
        data = self._bytes()
        return None if data is None else self._header(data).lock

    def lock_kind(self) -> LockKind | None:
        lock = self.lock()
        return None if lock is None else lock.kind

    def unlock(self) -> None:
        """Makes sure that the key at hand is the key of the file, and leaves what is in it unread."""
        data = self._bytes()
        if data is not None:
            self._key(self._header(data))

    def relock(
        self, kind: LockKind, passphrase: str = "", *, before: Callable[[SealLock], None] = lambda _lock: None
    ) -> None:
        """Locks the file, or the one to come, another way. The old key must open it; the passphrase is the new one.

        `before` gets the new lock while the file still has the old one; where it raises, nothing has changed.
        """
        with self._writing():
            _, found = self._read()
            lock = self._keys.new_lock(kind, self._random)
            if kind == "passphrase" and passphrase:
                self._keys.remember(lock, passphrase)
            before(lock)
            self._write(lock, found)

    def _read(self) -> tuple[SealLock | None, dict[str, Credential]]:
        data = self._bytes()
        if data is None:
            return None, {}
        header = self._header(data)
        key = self._key(header)
        try:
            return header.lock, decoded(unseal(data, key))
        except ValueError as problem:
            raise CredentialError("CredentialsDamaged", path=self.path, problem=str(problem)) from None

    def _key(self, header: Header) -> bytes:
        key = self._keys.key(header.lock, path=self.path)
        if not hmac.compare_digest(header.key_id, key_id(key)):
            self._keys.forget()
            raise CredentialError(
                "CredentialsWrongKey", path=self.path, source=self._keys.source(header.lock)
            )
        return key

    def _header(self, data: bytes) -> Header:
        try:
            return header_of(data)
        except NewerSeal:
            raise CredentialError("CredentialsNewer", path=self.path) from None
        except ValueError as problem:
            raise CredentialError("CredentialsDamaged", path=self.path, problem=str(problem)) from None

    def _bytes(self) -> bytes | None:
        try:
            found = files.read_limited(self.path, MAX_BYTES)
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise self._unusable(problem) from None
        if found.truncated:
            raise CredentialError("CredentialsDamaged", path=self.path, problem="it is too large")
        return found.data

    def _write(self, lock: SealLock, credentials: dict[str, Credential]) -> None:
        try:
            key = self._keys.key(lock, path=self.path, fresh=True)
            files.write_atomic(self.path, seal(encoded(credentials), lock, key, self._random(NONCE_BYTES)))
        except OSError as problem:
            raise self._unusable(problem) from None

    def _remove(self) -> None:
        try:
            os.unlink(self.path)
        except OSError as problem:
            raise self._unusable(problem) from None

    @contextmanager
    def _writing(self) -> Generator[None]:
        """One process at a time reads, changes and writes."""
        lock = files.FileLock(f"{self.path}.lock")
        try:
            files.private_folder(os.path.dirname(self.path))
            taken = lock.acquire(timeout_s=LOCK_WAIT_S)
        except OSError as problem:
            raise self._unusable(problem) from None
        if not taken:
            raise CredentialError("CredentialsBusy", path=self.path)
        with lock:
            yield

    def _unusable(self, problem: OSError) -> CredentialError:
        return CredentialError(
            "CredentialsUnusable", path=problem.filename or self.path, problem=problem.strerror
        )
