"""Settings, providers and credential store for the login verbs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from typing import cast

from bridle.app.user.stored_keys import StoredKeys
from bridle.base.clock import SystemClock
from bridle.cli.console import tell
from bridle.cli.hidden_input import hidden_line
from bridle.cli.settings_here import settings_here
from bridle.config.folders import folders
from bridle.protocol.errors import BridleError, UsageError
from bridle.providers import DEMO
from bridle.providers.endpoints import Endpoint
from bridle.providers.model_directory import Models


class LoginDesk:
    """One command's view of them. At a terminal a person is asked for the passphrase of the store, if it has one."""

    def __init__(self, parsed: argparse.Namespace, env: Mapping[str, str]) -> None:
        self.env = env
        self.where = folders(env)
        self.tiers = settings_here(parsed, env).checked()
        self.is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        clock = SystemClock()
        ask = (lambda: hidden_line("Passphrase (hidden) › ")) if sys.stdin.isatty() else None
        self.stored = StoredKeys(
            where=self.where,
            env=env,
            clock=clock,
            ask=ask,
            notice=tell,
            back_end=self.tiers.get("credentials.store") or "encrypted",
        )
        models = Models(env=env, clock=clock, stored=self.stored)
        self.models = models.with_settings(self.tiers.get("providers") or {})

    def endpoint(self, name: str) -> Endpoint:
        """The endpoint of a provider that a key can be stored for."""
        if name == DEMO:
            raise UsageError(f"{DEMO} plays a script and needs no key. Try it: bridle run -m {DEMO} PROMPT")
        endpoint = self.models.endpoint(name)
        if endpoint.local and endpoint.placeholder_key:
            raise UsageError(
                f"{name} runs on this machine and needs no key. Its models: bridle models {name}"
            )
        return endpoint

    def key_variable(self, name: str) -> str | None:
        """The variable that a provider's key may be in, if the provider is known."""
        try:
            return self.models.endpoint(name).key_env
        except BridleError:
            return None

    def oauth(self, name: str) -> Mapping[str, object] | None:
        """How to sign in at a provider with an account, if its settings say."""
        sections = cast("Mapping[str, Mapping[str, object]]", self.tiers.get("providers") or {})
        return cast("Mapping[str, object] | None", sections.get(name, {}).get("oauth"))

    @property
    def has_display(self) -> bool:
        """Whether a browser could be shown here."""
        variables = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
        return os.uname().sysname == "Darwin" or any(self.env.get(name) for name in variables)
