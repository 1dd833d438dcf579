"""Sign in with an account, and the settings, providers and credential store of the login verbs.

Works without a browser: the address is always printed, and the address at which a browser elsewhere ended can be
pasted.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import cast

from bridle.base.clock import SystemClock
from bridle.base.process.processes import CannotStart
from bridle.base.process.user_programs import start_detached
from bridle.base.text.terminal_text import visible, visible_line
from bridle.cli.console import say
from bridle.cli.option_values import settings_here
from bridle.cli.stdin import stored_keys
from bridle.cli.verbs.rows import Args, Env
from bridle.config.folders import folders
from bridle.credentials.oauth import OAuthClient, client_of, form_post
from bridle.credentials.records import SignIn
from bridle.credentials.sign_in import DeviceCode, sign_in_by_browser, sign_in_by_device
from bridle.protocol.errors import BridleError, UsageError
from bridle.providers import DEMO
from bridle.providers.endpoints import Endpoint
from bridle.providers.model_directory import Models


class LoginDesk:
    """One command's view of them. At a terminal a person is asked for the passphrase of the store, if it has one."""

    def __init__(self, parsed: Args, env: Env) -> None:
        self.env = env
        self.where = folders(env)
        self.tiers = settings_here(parsed, env).checked()
        self.is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        clock = SystemClock()
        self.stored = stored_keys(self.tiers, env)
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
        variables = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
        return os.uname().sysname == "Darwin" or any(self.env.get(name) for name in variables)

    def show_page(self, place: str, address: str, *, opens: bool, can_paste: bool) -> None:
        """Print the address to sign in at, and open it in a browser where one can be shown."""
        say(f"To sign in at {place}, open this page:\n\n  {visible(address)}\n\n")
        if self.has_display and opens:
            _open_in_browser(address, self.env)
        hint = " On another machine? Paste the address it ends at." if can_paste else ""
        say(f"Waiting for the browser, 5 minutes at most.{hint}\n")


SHOWN_TO_BROWSERS = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY",
    "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "XDG_CURRENT_DESKTOP", "XDG_SESSION_TYPE", "XDG_DATA_DIRS",
)  # fmt: skip
"""What of our environment a browser gets: what it needs to be seen, and no keys."""


async def sign_in(desk: LoginDesk, endpoint: Endpoint, oauth: Mapping[str, object], parsed: Args) -> SignIn:
    """The tokens of a sign-in that a person has just made. Raises `CredentialError`."""
    client = client_of(endpoint.name, oauth)
    post = form_post(lambda: desk.models.connections)
    if _by_device(client, desk, parsed):
        return await sign_in_by_device(
            client,
            post,
            provider=endpoint.name,
            clock=SystemClock(),
            show=lambda code: _show_code(endpoint.name, code),
        )
    can_paste = sys.stdin.isatty()

    def show(address: str) -> None:
        desk.show_page(visible_line(endpoint.name), address, opens=not parsed.no_open, can_paste=can_paste)

    return await sign_in_by_browser(
        client,
        post,
        provider=endpoint.name,
        clock=SystemClock(),
        show=show,
        pasted=pasted_line if can_paste else None,
    )


def _by_device(client: OAuthClient, desk: LoginDesk, parsed: Args) -> bool:
    """As asked for; else in a browser where one can be shown, by a code where none can."""
    if parsed.device and not client.device_url:
        raise UsageError("This provider has no sign-in by code; leave --device out")
    if parsed.browser and not client.authorize_url:
        raise UsageError("This provider has no sign-in in a browser; leave --browser out")
    if parsed.device or parsed.browser:
        return bool(parsed.device)
    return not client.authorize_url or (bool(client.device_url) and not desk.has_display)


def _show_code(provider: str, code: DeviceCode) -> None:
    minutes = max(1, code.lasts_s // 60)
    say(f"To sign in at {visible_line(provider)}, open   {code.address}\n")
    say(f"and type this code there   {code.user_code}\n")
    if code.whole_address:
        say(f"or open   {code.whole_address}\n")
    say(f"Waiting, {minutes} minutes at most. Ctrl-C stops.\n")


def _open_in_browser(address: str, env: Env) -> None:
    """Tries to; the address has been printed for when it does not work."""
    program = env.get("BROWSER", "").partition(":")[0] or (
        "open" if os.uname().sysname == "Darwin" else "xdg-open"
    )
    given = {name: env[name] for name in SHOWN_TO_BROWSERS if env.get(name)}
    try:
        start_detached([program, address], env=given)
    except CannotStart:
        return


async def pasted_line() -> str:
    """A line typed while something else is waited for. Where no more will come, it waits for ever."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()
    loop.add_reader(sys.stdin.fileno(), lambda: typed.done() or typed.set_result(sys.stdin.readline()))
    try:
        line = await typed
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return line or await loop.create_future()
