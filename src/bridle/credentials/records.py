"""Stored credentials: a key that a person pasted, or what a sign-in left behind. Their text never shows a secret."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import msgspec

from bridle.base.net.oauth_registration import ClientRegistration


class ApiKey(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="api_key"):
    """A provider's key. `account` is a word of the person's own for whose it is."""

    provider: str
    secret: str
    account: str = ""
    saved_ms: int = 0

    def __repr__(self) -> str:
        return f"ApiKey(provider={self.provider!r}, account={self.account!r})"


class SignIn(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="sign_in"):
    """The tokens of a sign-in. Without `expires_at_ms` nobody said when the access token ends.

    `registration` is who they were given to, where no settings say so: at an MCP server.
    """

    provider: str
    access_token: str
    refresh_token: str | None = None
    expires_at_ms: int | None = None
    account: str = ""
    saved_ms: int = 0
    registration: ClientRegistration | None = None

    def __repr__(self) -> str:
        return f"SignIn(provider={self.provider!r}, expires_at_ms={self.expires_at_ms!r})"


Credential: TypeAlias = ApiKey | SignIn


def secret_of(credential: Credential) -> str:
    return credential.secret if isinstance(credential, ApiKey) else credential.access_token


def encoded(credentials: dict[str, Credential]) -> bytes:
    return msgspec.json.encode(credentials, order="deterministic")


def decoded(data: bytes) -> dict[str, Credential]:
    """The inverse. Raises ValueError, without the text, for anything else: it may hold secrets."""
    try:
        found = msgspec.json.decode(data, type=dict[str, Credential])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise ValueError("it does not hold credentials") from None
    if any(name != credential.provider for name, credential in found.items()):
        raise ValueError("a credential stands under another provider's name")
    return found


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
