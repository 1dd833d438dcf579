"""The stored credential of a provider, ready for its next request; and where credentials are stored.

Nothing is opened, and nothing of `credentials` imported, where nothing is stored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bridle.base.clock import Clock
from bridle.config.folders import Folders
from bridle.protocol.errors import ProviderError

if TYPE_CHECKING:
    from bridle.base.http import HttpConnections
    from bridle.credentials.encrypted import EncryptedStore
    from bridle.credentials.keychain import KeychainStore
    from bridle.credentials.records import Credential
    from bridle.credentials.store import BackEnd

LOGIN = "bridle login"
"""Where a stored credential comes from, as people know it."""
FILE = "creds.enc"
KEY_FILE = "machine.key"
"""In another folder than the file it opens: a copy of one of the two opens nothing."""


def store_path(where: Folders) -> str:
    return os.path.join(where.config, FILE)


def key_path(where: Folders) -> str:
    return os.path.join(where.data, KEY_FILE)


class StoredKeys:
    """The credentials of a caller with this environment. `ask` asks a person for the passphrase, if one can be."""

    def __init__(
        self,
        *,
        where: Folders,
        env: Mapping[str, str],
        clock: Clock,
        ask: Callable[[], str] | None = None,
        notice: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.back_end: BackEnd = "encrypted"
        self._where = where
        self._env = env
        self._clock = clock
        self._ask = ask
        self._notice = notice
        self._encrypted: EncryptedStore | None = None
        self._keychain: KeychainStore | None = None
        self._current: dict[str, Credential | None] = {}
        self._secrets: set[str] = set()

    @property
    def is_empty(self) -> bool:
        """Whether there is surely nothing, without opening anything."""
        return self.back_end == "encrypted" and not os.path.lexists(store_path(self._where))

    @property
    def store(self) -> EncryptedStore | KeychainStore:
        """Where credentials are kept, by the settings."""
        return self.keychain if self.back_end == "keyring" else self.encrypted

    @property
    def encrypted(self) -> EncryptedStore:
        if self._encrypted is None:
            from bridle.credentials.encrypted import EncryptedStore
            from bridle.credentials.locks import Keys

            keys = Keys(env=self._env, key_path=key_path(self._where), ask=self._ask, notice=self._notice)
            self._encrypted = EncryptedStore(store_path(self._where), keys)
        return self._encrypted

    @property
    def keychain(self) -> KeychainStore:
        if self._keychain is None:
            from bridle.credentials.keychain import KeychainStore

            self._keychain = KeychainStore(os.path.join(self._where.state, "keyring.lock"))
        return self._keychain

    def providers(self) -> frozenset[str]:
        """The providers that have a credential. Raises `CredentialError` where that cannot be seen."""
        if self.is_empty:
            return frozenset()
        return frozenset(credential.provider for credential in self.store.list())

    async def make_ready(
        self, provider: str, oauth: Mapping[str, Any] | None, connections: Callable[[], HttpConnections]
    ) -> None:
        """Finds the credential of a provider, and renews a sign-in that ends. Raises `ProviderError`."""
        if self.is_empty:
            self._current[provider] = None
            return
        from bridle.credentials.forms import form_post
        from bridle.credentials.oauth import client_of
        from bridle.credentials.records import CredentialError
        from bridle.credentials.renewing import Renewal

        lock_path = os.path.join(self._where.state, "renewing.lock")
        renewal = Renewal(self.store, lock_path=lock_path, clock=self._clock, post=form_post(connections))
        try:
            client = client_of(provider, oauth) if oauth else None
            found = await renewal.current(provider, client)
        except CredentialError as problem:
            raise ProviderError(problem.reason, **problem.data) from None
        self._current[provider] = found
        self._keep_out(found)

    def key(self, provider: str) -> str | None:
        """What the last `make_ready` found."""
        found = self._current.get(provider)
        if found is None:
            return None
        from bridle.credentials.records import secret_of

        return secret_of(found)

    def secrets(self) -> frozenset[str]:
        """What must appear nowhere: what was found, and what opened it."""
        opening = (self._env.get(name, "") for name in ("BRIDLE_PASSPHRASE", "BRIDLE_MACHINE_KEY"))
        return frozenset({*self._secrets, *filter(None, opening)})

    def _keep_out(self, found: Credential | None) -> None:
        from bridle.credentials.records import SignIn, secret_of

        if found is not None:
            self._secrets.add(secret_of(found))
        if isinstance(found, SignIn) and found.refresh_token:
            self._secrets.add(found.refresh_token)
