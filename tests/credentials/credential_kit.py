"""Stores in a scratch folder, with keys put together at run time."""

from __future__ import annotations

import os
from pathlib import Path

from bridle.credentials.encrypted import EncryptedStore
from bridle.credentials.locks import LockKeys


def made_key(number: int = 0) -> str:
    """A machine key of the environment, as hex."""
    return bytes((number + at) % 256 for at in range(32)).hex()


def a_secret(length: int = 40) -> str:
    """Never the same one, and in no file of this repository."""
    return "s" + os.urandom(length).hex()


class Vault:
    """One place for a credential file and its automatic key; every `open` is another process's view of it."""

    def __init__(self, root: Path) -> None:
        self.path = root / "config" / "creds.enc"
        self.key_path = root / "data" / "machine.key"
        self.notices: list[str] = []

    def open(self, *, typed: str | None = None, **env: str) -> EncryptedStore:
        keys = LockKeys(
            env=env,
            key_path=str(self.key_path),
            ask=None if typed is None else lambda: typed,
            notice=self.notices.append,
        )
        return EncryptedStore(str(self.path), keys)
