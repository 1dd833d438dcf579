"""The locks of the credential file: a passphrase, the machine key of the environment, or a key file made by itself.

A file says how it is locked, so the kind of a lock never changes by itself: a key of another kind that happens to be
in the environment neither opens a file nor takes it over.
"""

import binascii
import os
import stat
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import msgspec

from bridle.base.fs import files
from bridle.protocol.errors import CredentialError

LockKind: TypeAlias = Literal["automatic", "machine", "passphrase"]

MACHINE_KEY = "BRIDLE_MACHINE_KEY"
PASSPHRASE = "BRIDLE_PASSPHRASE"  # noqa: S105  the name of a variable
KEY_BYTES = 32
LOCK_WAIT_S = 10.0
SALT_BYTES = 16

MEMORY_KIB = 64 * 1024
PASSES = 3
LANES = 4
MOST_MEMORY_KIB = 256 * 1024
MOST_PASSES = 10
MOST_LANES = 16
"""A file that asks for more is refused before any of it is spent: whoever can write it could stop the machine."""


class SealLock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a file is locked. The four figures are those of argon2id and belong to a passphrase."""

    kind: LockKind
    salt: str = ""
    memory_kib: int = 0
    passes: int = 0
    lanes: int = 0


def checked(lock: SealLock) -> SealLock:
    """The same lock. Raises ValueError with one clause when its figures are none we would spend."""
    if lock.kind != "passphrase":
        if lock != SealLock(kind=lock.kind):
            raise ValueError("its lock has figures that do not belong to it")
        return lock
    try:
        salt = bytes.fromhex(lock.salt)
    except ValueError:
        raise ValueError("its salt is not hex") from None
    bounds = (
        SALT_BYTES <= len(salt) <= 4 * SALT_BYTES,
        8 * LANES <= lock.memory_kib <= MOST_MEMORY_KIB,
        1 <= lock.passes <= MOST_PASSES,
        1 <= lock.lanes <= MOST_LANES,
        lock.memory_kib >= 8 * lock.lanes,
    )
    if not all(bounds):
        raise ValueError("its passphrase figures are outside what is accepted")
    return lock


def machine_key_of(env: Mapping[str, str]) -> bytes | None:
    """The machine key in an environment, if it has one."""
    value = env.get(MACHINE_KEY)
    return machine_key(value) if value else None


def machine_key(value: str) -> bytes:
    """The 32 bytes of `BRIDLE_MACHINE_KEY`: as they are, as 64 hex digits, or as base64 of either alphabet.

    Raises `CredentialError("BadMachineKey")` for anything else, without repeating it.
    """
    raw = os.fsencode(value)
    if len(raw) == KEY_BYTES:
        return raw
    text = raw.strip()
    key = _from_hex(text) if len(text) == 2 * KEY_BYTES else _from_base64(text)
    if key is None:
        raise CredentialError("BadMachineKey")
    return key


def _from_hex(text: bytes) -> bytes | None:
    try:
        return bytes.fromhex(text.decode("ascii"))
    except ValueError:
        return None


def _from_base64(text: bytes) -> bytes | None:
    """Only the one spelling that 32 bytes have, padded or not."""
    plain = text.replace(b"-", b"+").replace(b"_", b"/").rstrip(b"=")
    if len(plain) != 43 or len(text) > 44:
        return None
    try:
        key = binascii.a2b_base64(plain + b"=", strict_mode=True)
    except ValueError:
        return None
    return key if binascii.b2a_base64(key, newline=False).rstrip(b"=") == plain else None


class LockKeys:
    """Finds the key of a lock. A key made of a passphrase is kept for the life of this object: making it is slow.

    `ask` asks a person for the passphrase of a file; None where nobody can be asked. `notice` gets what a person
    should see. `is_needed` says whether something has the automatic lock already: then a missing key is a lost one.
    """

    def __init__(
        self,
        *,
        env: Mapping[str, str],
        key_path: str,
        ask: Callable[[], str] | None = None,
        notice: Callable[[str], None] = lambda _text: None,
        is_needed: Callable[[], bool] = lambda: False,
    ) -> None:
        self.key_path = key_path
        self._env = env
        self._ask = ask
        self._notice = notice
        self._is_needed = is_needed
        self._made: dict[SealLock, bytes] = {}
        self._typed = ""
        self._warned = False

    def wanted(self) -> LockKind:
        """How a new file is locked in this environment."""
        if self._env.get(MACHINE_KEY):
            return "machine"
        return "passphrase" if self._env.get(PASSPHRASE) else "automatic"

    def new_lock(self, kind: LockKind, random: Callable[[int], bytes] = os.urandom) -> SealLock:
        if kind != "passphrase":
            return SealLock(kind=kind)
        salt = random(SALT_BYTES).hex()
        return SealLock(kind=kind, salt=salt, memory_kib=MEMORY_KIB, passes=PASSES, lanes=LANES)

    def source(self, lock: SealLock) -> str:
        match lock.kind:
            case "machine":
                return MACHINE_KEY
            case "passphrase":
                return PASSPHRASE if self._env.get(PASSPHRASE) else "that passphrase"
            case "automatic":
                return f"the key in {self.key_path}"

    def key(self, lock: SealLock, *, path: str, fresh: bool = False) -> bytes:
        """The 32 bytes that open `path`. With `fresh` the automatic key is made where there is none and none was.

        Raises `CredentialError`: `CredentialsLocked` where the key is not to be had, `BadMachineKey`.
        """
        match lock.kind:
            case "machine":
                value = self._env.get(MACHINE_KEY)
                if not value:
                    raise CredentialError("CredentialsLocked", path=path, problem=f"set {MACHINE_KEY}")
                return machine_key(value)
            case "passphrase":
                return self._of_passphrase(lock, path)
            case "automatic":
                return self._automatic(path, fresh=fresh)

    def forget(self) -> None:
        """Lets go of keys made of passphrases: the next one is asked for anew."""
        self._made.clear()
        self._typed = ""

    def remember(self, lock: SealLock, passphrase: str) -> None:
        """Takes a passphrase that a person has just chosen, so that nobody is asked for it again."""
        self._made[lock] = derived(lock, passphrase)

    def _of_passphrase(self, lock: SealLock, path: str) -> bytes:
        if lock not in self._made:
            phrase = self._env.get(PASSPHRASE) or self._typed or (self._ask() if self._ask else "")
            self._typed = phrase
            if not phrase:
                raise CredentialError("CredentialsLocked", path=path, problem=f"set {PASSPHRASE}")
            self._made[lock] = derived(lock, phrase)
        return self._made[lock]

    def _automatic(self, path: str, *, fresh: bool) -> bytes:
        if fresh and not os.path.lexists(self.key_path) and not self._is_needed():
            self._make_automatic(path)
        try:
            found = files.read_limited(self.key_path, 4 * KEY_BYTES).data
            mode = os.stat(self.key_path).st_mode
        except OSError as problem:
            clause = f"the key in {self.key_path} cannot be read: {problem.strerror}"
            raise CredentialError("CredentialsLocked", path=path, problem=clause) from None
        key = _from_hex(found.strip())
        if key is None or len(key) != KEY_BYTES:
            clause = f"{self.key_path} does not hold a key"
            raise CredentialError("CredentialsLocked", path=path, problem=clause)
        if stat.S_IMODE(mode) & 0o077 and not self._warned:
            self._warned = True
            self._notice(
                f"{self.key_path} can be read by others. Make it yours alone: chmod 600 {self.key_path}"
            )
        return key

    def _make_automatic(self, path: str) -> None:
        """Makes the key once, whoever comes first: the store and the session log are locked with the same one."""
        files.private_folder(os.path.dirname(self.key_path))
        lock = files.FileLock(f"{self.key_path}.lock")
        if not lock.acquire(timeout_s=LOCK_WAIT_S):
            raise CredentialError("CredentialsBusy", path=path)
        with lock:
            if not os.path.lexists(self.key_path):
                files.write_atomic(self.key_path, os.urandom(KEY_BYTES).hex().encode() + b"\n")


def derived(lock: SealLock, passphrase: str) -> bytes:
    """The key of a passphrase under the figures of a lock, which have been `checked`."""
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    kdf = Argon2id(
        salt=bytes.fromhex(lock.salt),
        length=KEY_BYTES,
        iterations=lock.passes,
        lanes=lock.lanes,
        memory_cost=lock.memory_kib,
    )
    return kdf.derive(passphrase.encode("utf-8", "surrogateescape"))
