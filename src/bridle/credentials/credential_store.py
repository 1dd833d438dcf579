"""The port of every credential store, and the names of those there are."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from bridle.credentials.records import Credential

BackEnd: TypeAlias = Literal["encrypted", "keyring"]


class CredentialStore(Protocol):
    """One credential per provider. Every method raises `CredentialError` where the store cannot be used.

    Methods block: for a look at a file, and once in a process for the time it takes to make a key of a passphrase.
    What another process changed is seen by the next call, and no change of another process is lost.
    """

    def get(self, provider: str) -> Credential | None:
        """The credential of a provider, if there is one."""
        ...

    def put(self, credential: Credential) -> None:
        """Stores it in place of the one its provider has. On disk when this returns."""
        ...

    def exchange(self, before: Credential, after: Credential) -> bool:
        """Stores one in place of another of the same provider; False, and nothing, where that is not there any more."""
        ...

    def delete(self, provider: str) -> bool:
        """Removes it; False when there was none."""
        ...

    def list(self) -> list[Credential]:
        """All of them, by the names of their providers."""
        ...
