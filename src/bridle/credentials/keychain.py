"""Credentials in the system keychain, where the `keyring` extra is installed and settings choose it.

A keychain cannot list what is in it, so the names of the providers stand in an entry of their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Protocol, TypeVar

import msgspec

from bridle.base.fs import files
from bridle.base.process.installation import install_command
from bridle.credentials.records import Credential, decoded, encoded
from bridle.protocol.errors import CredentialError

SERVICE = "bridle"
INDEX = "bridle: providers"
"""The entry with the names; no provider is called that, for a space and a colon are in it."""
LOCK_WAIT_S = 10.0

T = TypeVar("T")


class Keychain(Protocol):
    """What of the `keyring` package is used."""

    def get_password(self, service: str, username: str) -> str | None: ...
    def set_password(self, service: str, username: str, password: str) -> None: ...
    def delete_password(self, service: str, username: str) -> None: ...


def system_keychain() -> Keychain:
    """The keychain of this system. Raises `CredentialError` where the extra or a keychain is missing."""
    try:
        import keyring  # pyright: ignore[reportMissingImports]  an extra
    except ImportError:
        install = install_command("keyring")
        raise CredentialError("ExtraMissing", what="The system keychain", install=install) from None
    return keyring.get_keyring()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class KeychainStore:
    """A `CredentialStore` in a keychain. `lock_path` keeps processes apart that change it."""

    def __init__(self, lock_path: str, keychain: Callable[[], Keychain] = system_keychain) -> None:
        self._lock_path = lock_path
        self._find = keychain
        self._found: Keychain | None = None

    def get(self, provider: str) -> Credential | None:
        text = self._asked(lambda keychain: keychain.get_password(SERVICE, provider))
        if text is None:
            return None
        try:
            return decoded(text.encode()).get(provider)
        except ValueError as problem:
            raise CredentialError("KeychainUnusable", problem=f"of {provider}, {problem}") from None

    def put(self, credential: Credential) -> None:
        with self._writing():
            self._write(credential)
            self._write_names(self._names() | {credential.provider})

    def exchange(self, before: Credential, after: Credential) -> bool:
        with self._writing():
            is_there = self.get(after.provider) == before
            if is_there:
                self._write(after)
            return is_there

    def delete(self, provider: str) -> bool:
        with self._writing():
            there = self.get(provider) is not None
            if there:
                self._asked(lambda keychain: keychain.delete_password(SERVICE, provider))
            self._write_names(self._names() - {provider})
            return there

    def list(self) -> list[Credential]:
        found = [self.get(name) for name in sorted(self._names())]
        return [credential for credential in found if credential is not None]

    def _write(self, credential: Credential) -> None:
        text = encoded({credential.provider: credential}).decode()
        self._asked(lambda keychain: keychain.set_password(SERVICE, credential.provider, text))

    def _names(self) -> set[str]:
        text = self._asked(lambda keychain: keychain.get_password(SERVICE, INDEX)) or "[]"
        try:
            return msgspec.json.decode(text, type=set[str])
        except msgspec.MsgspecError:
            raise CredentialError("KeychainUnusable", problem="its list of providers is damaged") from None

    def _write_names(self, names: set[str]) -> None:
        text = msgspec.json.encode(sorted(names)).decode()
        self._asked(lambda keychain: keychain.set_password(SERVICE, INDEX, text))

    def _asked(self, question: Callable[[Keychain], T]) -> T:
        """Back ends fail in ways of their own; what they say may hold a secret and is not repeated."""
        if self._found is None:
            self._found = self._find()
        try:
            return question(self._found)
        except Exception as fault:  # noqa: BLE001  each back end has its own exceptions
            raise CredentialError("KeychainUnusable", problem=_clause(fault)) from None

    @contextmanager
    def _writing(self) -> Generator[None]:
        lock = files.FileLock(self._lock_path)
        try:
            files.private_folder(os.path.dirname(self._lock_path))
            taken = lock.acquire(timeout_s=LOCK_WAIT_S)
        except OSError as problem:
            raise CredentialError(
                "CredentialsUnusable", path=self._lock_path, problem=problem.strerror
            ) from None
        if not taken:
            raise CredentialError("CredentialsBusy", path="the system keychain")
        with lock:
            yield


def _clause(fault: Exception) -> str:
    names = {"NoKeyringError": "there is none here", "KeyringLocked": "it is locked"}
    return names.get(type(fault).__name__, f"it failed with {type(fault).__name__}")
