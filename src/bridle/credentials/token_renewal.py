"""Access tokens that run out, renewed once for all processes that need them.

A refresh token is often good for a single use, so two processes must not use the same one, and the new one must be
on disk before anybody goes on.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from bridle.base.clock import Clock
from bridle.base.fs import files
from bridle.base.net.oauth_registration import ClientRegistration
from bridle.credentials.oauth import OAuthClient, Post, SignInRefused, client_of, refresh, registered_client
from bridle.credentials.records import Credential, CredentialStore, SignIn
from bridle.protocol.errors import CredentialError

EARLY_MS = 60_000
"""A token is renewed so long before it ends: a request may be under way for a while."""
LOCK_WAIT_S = 60.0
ENDED = frozenset({"invalid_grant", "invalid_token"})
"""What servers call a refresh token that is of no use any more. Some take a second use of one for a theft and end
everything that came of it, so it is not kept: the next run says that the sign-in has ended, and asks nobody."""


class Renewal:
    """The credentials of a store, renewed where they must be. `lock_path` is the one lock around renewals."""

    def __init__(self, store: CredentialStore, *, lock_path: str, clock: Clock, post: Post) -> None:
        self._store = store
        self._lock_path = lock_path
        self._clock = clock
        self._post = post

    async def of_provider(self, provider: str, oauth: Mapping[str, Any] | None) -> Credential | None:
        """Return `current` for a provider with these OAuth settings. Raises `CredentialError`."""
        return await self.current(provider, client_of(provider, oauth) if oauth else None)

    async def of_server(
        self, name: str, registration: ClientRegistration, *, refused: str
    ) -> Credential | None:
        """Return `current` for an MCP server at which Bridle is registered. Raises `CredentialError`."""
        return await self.current(name, registered_client(registration), refused=refused)

    async def current(
        self, provider: str, client: OAuthClient | None, *, refused: str = ""
    ) -> Credential | None:
        """The credential of a provider, good for a request now. Raises `CredentialError`.

        `refused` is an access token that was not taken, whatever is said of when it ends: one like it is renewed too.
        Once a renewal has begun it is finished and stored, even if whoever asked has gone.
        """
        found = await asyncio.to_thread(self._store.get, provider)
        if not isinstance(found, SignIn) or not self._is_due(found, refused):
            return found
        return await asyncio.shield(asyncio.ensure_future(self._renewed(found, client, refused)))

    async def _renewed(self, before: SignIn, client: OAuthClient | None, refused: str) -> Credential | None:
        async with self._alone():
            found = await asyncio.to_thread(self._store.get, before.provider)
            if not isinstance(found, SignIn) or not self._is_due(found, refused):
                return found  # another process has done it
            if client is None or not found.refresh_token:
                return self._as_it_is(found, CredentialError("SignInEnded", provider=found.provider), refused)
            try:
                after = await refresh(client, self._post, found, now_ms=self._clock.now_ms())
            except SignInRefused as refusal:
                if refusal.code in ENDED:
                    return await self._ended(found, refused)
                error = CredentialError("SignInFailed", provider=found.provider, problem=refusal.clause)
                return self._as_it_is(found, error, refused)
            except CredentialError as error:
                return self._as_it_is(found, error, refused)
            return await self._exchanged(found, after)

    async def _ended(self, found: SignIn, refused: str) -> Credential | None:
        """Lets go of a refresh token that the server does not know any more."""
        after = msgspec.structs.replace(found, refresh_token=None)
        stored = await self._exchanged(found, after)
        if stored is not after:
            return stored
        return self._as_it_is(after, CredentialError("SignInEnded", provider=found.provider), refused)

    async def _exchanged(self, before: SignIn, after: SignIn) -> Credential | None:
        """What is stored now: the new one, unless a person has signed in or out in the meantime."""
        if await asyncio.to_thread(self._store.exchange, before, after):
            return after
        return await asyncio.to_thread(self._store.get, before.provider)

    def _is_due(self, found: SignIn, refused: str) -> bool:
        if refused and found.access_token == refused:
            return True
        return found.expires_at_ms is not None and self._clock.now_ms() >= found.expires_at_ms - EARLY_MS

    def _as_it_is(self, found: SignIn, error: CredentialError, refused: str) -> SignIn:
        """The old token as long as it lasts."""
        has_ended = found.expires_at_ms is not None and self._clock.now_ms() >= found.expires_at_ms
        if has_ended or found.access_token == refused:
            raise error
        return found

    @asynccontextmanager
    async def _alone(self) -> AsyncGenerator[None]:
        lock = files.FileLock(self._lock_path)
        try:
            files.private_folder(os.path.dirname(self._lock_path))
            taken = await asyncio.to_thread(lock.acquire, timeout_s=LOCK_WAIT_S)
        except OSError as problem:
            raise CredentialError(
                "CredentialsUnusable", path=self._lock_path, problem=problem.strerror
            ) from None
        if not taken:
            raise CredentialError("CredentialsBusy", path=self._lock_path)
        with lock:
            yield
