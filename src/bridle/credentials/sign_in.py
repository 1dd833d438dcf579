"""Sign-ins: in a browser that comes back to this machine (PKCE), or by a code typed on any device (RFC 8628).

Whoever calls shows the address or the code to a person; nothing here opens or prints anything.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

import msgspec

from bridle.base.clock import Clock
from bridle.base.net.http_dial import TimeLimit
from bridle.credentials.callback import BroughtCode, CallbackListener
from bridle.credentials.oauth import (
    OAuthClient,
    Post,
    SignInRefused,
    authorization_url,
    challenge_of,
    clause,
    exchange_code,
    fields_of,
    new_verifier,
    seconds_of,
    sign_in_of,
    urlsafe,
)
from bridle.credentials.records import SignIn
from bridle.protocol.errors import CredentialError

BROWSER_S = 300.0
"""How long a person may take in the browser."""
DEVICE_S = 1800
INTERVAL_S = 5
SLOW_DOWN_S = 5
LONGEST_INTERVAL_S = 300
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
STATE_BYTES = 32


class DeviceCode(msgspec.Struct, frozen=True, kw_only=True):
    """What a person is shown: the code, where to type it, and an address that has it filled in, if there is one."""

    user_code: str
    address: str
    whole_address: str = ""
    lasts_s: int = DEVICE_S

    def __repr__(self) -> str:
        return f"DeviceCode(address={self.address!r})"


async def sign_in_by_browser(
    client: OAuthClient,
    post: Post,
    *,
    provider: str,
    clock: Clock,
    show: Callable[[str], None],
    pasted: Callable[[], Awaitable[str]] | None = None,
    random: Callable[[int], bytes] = os.urandom,
) -> SignIn:
    """Tokens for what a person allowed in a browser. `show` gets the address to open.

    `pasted` gives the address a browser on another machine ended at; it is asked until one fits. Raises
    `CredentialError`.
    """
    verifier, state = new_verifier(random), urlsafe(random(STATE_BYTES))
    try:
        async with CallbackListener(state, redirect_uri=client.redirect_uri) as callback:
            challenge = challenge_of(verifier)
            show(authorization_url(client, redirect_uri=callback.uri, state=state, challenge=challenge))
            async with TimeLimit(clock, BROWSER_S):
                code = (await brought_by_browser(callback, pasted)).code
            return await exchange_code(
                client,
                post,
                provider=provider,
                code=code,
                verifier=verifier,
                redirect_uri=callback.uri,
                now_ms=clock.now_ms(),
            )
    except SignInRefused as refusal:
        raise _failed(provider, refusal) from None
    except TimeoutError:
        problem = f"nothing came back from the browser within {BROWSER_S / 60:.0f} minutes"
        raise CredentialError("SignInFailed", provider=provider, problem=problem) from None
    except OSError as error:
        problem = f"this machine cannot be listened on ({error.strerror})"
        raise CredentialError("SignInFailed", provider=provider, problem=problem) from None


async def brought_by_browser(
    callback: CallbackListener, pasted: Callable[[], Awaitable[str]] | None
) -> BroughtCode:
    """What a browser comes back with, or the address it ended at, pasted by a person. Raises `SignInRefused`."""
    if pasted is None:
        return await callback.brought()

    async def take() -> None:
        while not callback.take(await pasted()):
            pass

    taking = asyncio.ensure_future(take())
    try:
        return await callback.brought()
    finally:
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)


async def sign_in_by_device(
    client: OAuthClient, post: Post, *, provider: str, clock: Clock, show: Callable[[DeviceCode], None]
) -> SignIn:
    """Tokens once a person has typed a code elsewhere. `show` gets the code. Raises `CredentialError`."""
    try:
        begun = fields_of(await post(client.device_url, client.form(scope=" ".join(client.scopes))))
        device_code = begun.get("device_code")
        shown = DeviceCode(
            user_code=clause(begun.get("user_code"), 60),
            address=clause(begun.get("verification_uri") or begun.get("verification_url")),
            whole_address=_whole_address(begun.get("verification_uri_complete")),
            lasts_s=seconds_of(begun.get("expires_in")) or DEVICE_S,
        )
        if not isinstance(device_code, str) or not shown.user_code or not shown.address:
            raise SignInRefused("its answer holds no code")
        show(shown)
        interval_s = min(seconds_of(begun.get("interval")) or INTERVAL_S, LONGEST_INTERVAL_S)
        form = client.form(grant_type=DEVICE_GRANT, device_code=device_code)
        return await _polled(client, post, form, provider, clock, interval_s, shown.lasts_s)
    except SignInRefused as refusal:
        raise _failed(provider, refusal) from None


async def _polled(
    client: OAuthClient,
    post: Post,
    form: dict[str, str],
    provider: str,
    clock: Clock,
    interval_s: int,
    lasts_s: int,
) -> SignIn:
    """Asks again and again, never faster than the server wants."""
    until = clock.monotonic() + lasts_s
    while True:
        await clock.sleep(interval_s)
        if clock.monotonic() >= until:
            raise SignInRefused("expired_token")
        try:
            answer = await post(client.token_url, form)
            return sign_in_of(answer, provider=provider, now_ms=clock.now_ms())
        except CredentialError:  # it could not be reached just now
            interval_s = min(2 * interval_s, LONGEST_INTERVAL_S)
        except SignInRefused as refusal:
            if refusal.code == "slow_down":
                interval_s += SLOW_DOWN_S
            elif refusal.code != "authorization_pending":
                raise


def _whole_address(value: object) -> str:
    """An address that holds the code is shown as it came, or not at all."""
    text = value if isinstance(value, str) else ""
    return text if text.isascii() and text.isprintable() and " " not in text and len(text) < 2000 else ""


def _failed(provider: str, refusal: SignInRefused) -> CredentialError:
    words = {
        "access_denied": "it was not allowed",
        "expired_token": "the code was not used in time",
        "invalid_grant": "the code is no longer good",
    }
    return CredentialError("SignInFailed", provider=provider, problem=words.get(refusal.code, refusal.clause))
