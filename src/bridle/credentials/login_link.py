"""An address where a person signs in, for a program that fetches the tokens itself. Pure.

It is built here, and what the browser brings back is checked here. No code is exchanged and no token is stored: whoever
asked for the link has the verifier, and does that at its own server.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from bridle.credentials.callback import code_of
from bridle.credentials.oauth import (
    OAuthClient,
    SignInRefused,
    authorization_url,
    challenge_of,
    new_verifier,
    urlsafe,
)
from bridle.protocol.errors import CredentialError

RANDOM_BYTES = 32


class LoginLink(msgspec.Struct, frozen=True, kw_only=True):
    """Where to send the browser, and the secrets of this one sign-in: `state` and `nonce` come back, `verifier` proves
    who began it."""

    url: str
    redirect_uri: str
    state: str
    nonce: str
    verifier: str

    def __repr__(self) -> str:
        return f"LoginLink(redirect_uri={self.redirect_uri!r})"


def login_link(
    client: OAuthClient, *, redirect_uri: str, random: Callable[[int], bytes] = os.urandom
) -> LoginLink:
    """A new link, with proof key (S256), state and nonce of its own. Raises ValueError without an `authorize_url`."""
    if not client.authorize_url:
        raise ValueError("the client has no authorize_url")
    verifier, state, nonce = (
        new_verifier(random),
        urlsafe(random(RANDOM_BYTES)),
        urlsafe(random(RANDOM_BYTES)),
    )
    with_nonce = msgspec.structs.replace(client, parameters={**client.parameters, "nonce": nonce})
    url = authorization_url(
        with_nonce, redirect_uri=redirect_uri, state=state, challenge=challenge_of(verifier)
    )
    return LoginLink(url=url, redirect_uri=redirect_uri, state=state, nonce=nonce, verifier=verifier)


def code_from(link: LoginLink, address: str) -> str:
    """The code in the address that a browser came back to. Raises `CredentialError("SignInFailed")` for another one."""
    back, expected = urlsplit(address), urlsplit(link.redirect_uri)
    try:
        code = code_of(back.query, link.state)
    except SignInRefused as refusal:
        raise CredentialError("SignInFailed", provider=expected.netloc, problem=refusal.clause) from None
    if code is None or (back.scheme, back.netloc, back.path) != (
        expected.scheme,
        expected.netloc,
        expected.path,
    ):
        problem = "what the browser brought belongs to no sign-in of this link"
        raise CredentialError("SignInFailed", provider=expected.netloc, problem=problem)
    return code
