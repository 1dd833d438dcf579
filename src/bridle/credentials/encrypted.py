"""The credential store that is used unless settings say otherwise: one encrypted file, private, replaced as a whole."""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from bridle.base.fs import files
from bridle.credentials.locks import LockKeys, LockKind, SealLock
from bridle.credentials.records import Credential, decoded, encoded
from bridle.credentials.seal_format import NONCE_BYTES, Header, NewerSeal, header_of, key_id, seal, unseal
from bridle.protocol.errors import CredentialError

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
        """The kind of that lock."""
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
