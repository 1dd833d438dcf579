"""Credential helper processes of an engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from bridle.app.user.stored_keys import key_path, store_path
from bridle.base.clock import Clock
from bridle.base.process.processes import Processes
from bridle.config.folders import Folders
from bridle.credentials.forwarder import Forwarder
from bridle.credentials.helper_protocol import Errand, Vault
from bridle.credentials.records import BackEnd
from bridle.providers.credential_ports import Credentials, GivenKey
from bridle.providers.endpoints import Endpoint, inferred_auth
from bridle.providers.model_directory import LOGIN
from bridle.sandbox.plain_spawn import allowed_environment

_OPENS_THE_VAULT = ("BRIDLE_MACHINE_KEY", "BRIDLE_PASSPHRASE")
_LEADS_THERE = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
)
_REACHES_A_KEYCHAIN = ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR")


Use: TypeAlias = tuple[str, bool, BackEnd, Endpoint, Mapping[str, Any]]
"""What decides which key is sent where: project, chosen or not, where credentials are stored, endpoint, section."""


class Forwarders:
    """The helpers of one engine, one for each provider as settings have it."""

    def __init__(
        self,
        processes: Processes,
        *,
        where: Folders,
        env: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self._processes = processes
        self._where = where
        self._clock = clock
        self._own_env = allowed_environment(env, also=_REACHES_A_KEYCHAIN)
        self._handed_env = {
            name: os.fsencode(env[name]) for name in (*_OPENS_THE_VAULT, *_LEADS_THERE) if name in env
        }
        self._forwarders: list[tuple[Use, Forwarder]] = []

    def of(
        self,
        endpoint: Endpoint,
        given: Callable[[], GivenKey],
        section: Mapping[str, Any],
        stored: Credentials,
        *,
        chosen: bool,
        project: str = "",
    ) -> Forwarder:
        """The forwarder of a provider. What is given is asked for again with each request.

        Sessions share one only where everything is the same that says which key goes where: what the provider's
        section says, where credentials are stored, whether it is the one they chose, and their project.
        """

        def errand() -> Errand:
            return self._errand(endpoint, given(), section.get("oauth"), stored)

        use: Use = (project, chosen, stored.back_end, endpoint, section)
        for known, forwarder in self._forwarders:
            if known == use:
                forwarder.errand = errand
                return forwarder
        made = self._forwarder(errand)
        self._forwarders.append((use, made))
        return made

    async def names(self, stored: Credentials) -> frozenset[str]:
        """The providers that have a stored credential, asked of a helper that only looks."""
        if stored.is_empty:
            return frozenset()
        looking = self._forwarder(
            lambda: Errand(provider="stored keys", vault=self._vault(stored), env=self._handed_env)
        )
        try:
            return await looking.names()
        finally:
            await looking.close()

    async def close(self) -> None:
        for _, forwarder in self._forwarders:
            await forwarder.close()

    def _forwarder(self, errand: Callable[[], Errand]) -> Forwarder:
        return Forwarder(errand, self._processes, env=self._own_env, clock=self._clock)

    def _errand(
        self, endpoint: Endpoint, given: GivenKey, oauth: Mapping[str, Any] | None, stored: Credentials
    ) -> Errand:
        key, source = given
        auth = endpoint.auth or inferred_auth(endpoint.base_url, endpoint.wire)
        return Errand(
            provider=endpoint.name,
            base_url=endpoint.base_url,
            header=auth.header,
            scheme=auth.scheme,
            needs_key=endpoint.needs_key,
            given_key=os.fsencode(key),
            given_source=source or "",
            stored_source=LOGIN,
            missing_source=endpoint.key_source,
            vault=None if stored.is_empty else self._vault(stored),
            oauth=oauth,
            env=self._handed_env,
        )

    def _vault(self, stored: Credentials) -> Vault:
        return Vault(
            back_end=stored.back_end,
            path=os.fsencode(store_path(self._where)),
            key_path=os.fsencode(key_path(self._where)),
            state=os.fsencode(self._where.state),
        )
