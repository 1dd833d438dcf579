"""What a directory of models needs of credentials: those that are stored, and processes that hold them.

Types only: nothing imports them at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Literal, Protocol, TypeAlias

from bridle.base.net.http import HttpConnections
from bridle.providers.endpoints import Endpoint
from bridle.providers.remote import Connections

BackEnd: TypeAlias = Literal["encrypted", "keyring"]
HelperUse: TypeAlias = Literal["always", "serve", "never"]
GivenKey: TypeAlias = tuple[str, str | None]
"""A key that this process holds in any case, from its environment or settings, and where it stands there."""


class Credentials(Protocol):
    """What `bridle login` stored, as a directory of models needs it."""

    @property
    def back_end(self) -> BackEnd: ...
    @property
    def secrets(self) -> AbstractSet[str]:
        """What must appear nowhere: what opens the store, and what was found in it."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether there is surely nothing, without opening anything."""
        ...

    @property
    def store(self) -> CredentialKeeper: ...
    def kept_in(self, back_end: BackEnd) -> Credentials:
        """The credentials of the same caller, for settings that keep them there."""
        ...

    def providers(self) -> frozenset[str]:
        """The providers that have a credential. Raises `CredentialError` where that cannot be seen."""
        ...

    def key(self, provider: str) -> str | None:
        """What the last `make_ready` found."""
        ...

    async def value(self, name: str) -> str | None:
        """What somebody stored for references of this name, if anything; it is among the `secrets` from here on.

        Raises `CredentialError` where that cannot be seen.
        """
        ...

    async def make_ready(
        self, provider: str, oauth: Mapping[str, Any] | None, connections: Callable[[], HttpConnections]
    ) -> None:
        """Finds the credential of a provider, and renews a sign-in that ends. Raises `ProviderError`."""
        ...


class CredentialKeeper(Protocol):
    def put(self, credential: Any, /) -> None:
        """Keeps a credential in the place of the one its provider had. Raises `CredentialError`."""
        ...


class KeyForwarder(Connections, Protocol):
    """The way to a server by another process, which adds the key. `source` is where that found it."""

    source: str | None

    async def find(self) -> None:
        """Has the other process find the key. Raises `ProviderError`."""
        ...


class KeyForwarders(Protocol):
    """The processes that hold the keys of an engine."""

    def of(
        self,
        endpoint: Endpoint,
        given: Callable[[], GivenKey],
        section: Mapping[str, Any],
        stored: Credentials,
        *,
        chosen: bool,
        project: str = "",
    ) -> KeyForwarder:
        """The forwarder of a provider. What is given is asked for again with each request."""
        ...

    async def names(self, stored: Credentials) -> frozenset[str]:
        """The providers that have a stored credential."""
        ...

    async def close(self) -> None: ...
