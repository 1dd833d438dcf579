"""`bridle login` at oauth2-mock-server, an authorization server of another make: code flow with PKCE, then renewals."""

import asyncio
import base64
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest

from bridle.app.user.stored_keys import StoredKeys
from bridle.base.clock import SystemClock
from bridle.base.net.http import HttpConnections
from bridle.config.folders import folders
from bridle.conformance.servers import ModelServer
from bridle.credentials.oauth import (
    OAuthClient,
    Post,
    SignInRefused,
    authorization_url,
    challenge_of,
    exchange_code,
    form_post,
    new_verifier,
    refresh,
)
from bridle.credentials.records import SignIn
from bridle.providers.script import say
from cli_kit import Place
from credentials.authorization_server import facts_of_call
from peers.peer_kit import running

pytestmark = pytest.mark.peers

BROWSER = f"""#!{sys.executable}
import sys, urllib.request
urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open(sys.argv[1]).read()
"""
"""Goes where it is sent, and follows the redirect back to this machine."""


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with running("oauth2_peer.mjs", package="oauth2-mock-server") as address:
        yield address


@pytest.fixture
async def post() -> AsyncIterator[Post]:
    connections = HttpConnections(env={}, clock=SystemClock())
    yield form_post(lambda: connections)
    await connections.close()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A home with a browser in it."""
    made = Place(tmp_path)
    browser = made.home / "browser"
    browser.write_text(BROWSER, encoding="utf-8")
    browser.chmod(0o700)
    return made


def configure(place: Place, issuer: str, server: ModelServer) -> None:
    lines = (
        f'[providers.work]\nbase_url = "{server.url}"',
        f'[providers.work.oauth]\nclient_id = "bridle-test"\ntoken_url = "{issuer}/token"',
        f'authorize_url = "{issuer}/authorize"\nscopes = ["models"]\n',
    )
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("\n".join(lines), encoding="utf-8")


def stored(place: Place) -> SignIn:
    keys = StoredKeys(where=folders(place.environment()), env={}, clock=SystemClock())
    found = keys.store.get("work")
    assert isinstance(found, SignIn)
    return found


def claims(token: str) -> dict[str, Any]:
    """What stands in a token of this server."""
    payload = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


@pytest.mark.requirement("H6.2", "H6.4")
async def test_a_person_signs_in_with_a_browser_and_every_request_has_a_token_of_its_own(
    place: Place, issuer: str
) -> None:
    """A token of 30 s is renewed before each run; this server takes a refresh token once."""
    async with ModelServer.playing(say("Hello.")) as server:
        configure(place, issuer, server)
        env = {"BROWSER": str(place.home / "browser")}
        signed_in = await asyncio.to_thread(place.bridle, "login", "work", "--browser", env=env)
        assert signed_in.code == 0, signed_in.err
        kept = [stored(place)]
        for _ in range(2):
            ran = await asyncio.to_thread(place.bridle, "run", "-m", "work:some-model", "hi")
            assert (ran.code, ran.out) == (0, "Hello.\n"), ran.err
            kept.append(stored(place))
        used = [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]
    assert used == [one.access_token for one in kept]
    assert {claims(token)["iss"] for token in used} == {issuer}
    assert len({claims(token)["jti"] for token in used}) == 3
    assert len({one.refresh_token for one in kept}) == 3
    secrets = [secret.encode() for one in kept for secret in (one.access_token, one.refresh_token or "")]
    files = [path.read_bytes() for path in place.home.rglob("*") if path.is_file()]
    assert not [secret for secret in secrets if any(secret in text for text in files)]


# Step by step, without a browser


def client(issuer: str) -> OAuthClient:
    return OAuthClient(
        client_id="bridle-test", token_url=f"{issuer}/token", authorize_url=f"{issuer}/authorize"
    )


async def exchanged(issuer: str, post: Post, *, verifier: str, proof: str) -> SignIn:
    """Tokens for a code that was asked for with `verifier`. A page of the server's own stands in for the callback."""
    back = f"{issuer}/jwks"
    challenge = challenge_of(verifier)
    address = authorization_url(client(issuer), redirect_uri=back, state="mine", challenge=challenge)
    page = await asyncio.to_thread(build_opener(ProxyHandler({})).open, address)
    brought = facts_of_call(page.url)
    assert brought["state"] == "mine"
    return await exchange_code(
        client(issuer),
        post,
        provider="work",
        code=brought["code"],
        verifier=proof,
        redirect_uri=back,
        now_ms=0,
    )


@pytest.mark.requirement("H6.1")
async def test_it_takes_our_proof_and_no_other(issuer: str, post: Post) -> None:
    mine, other = new_verifier(os.urandom), new_verifier(os.urandom)
    assert (await exchanged(issuer, post, verifier=mine, proof=mine)).expires_at_ms == 30_000
    with pytest.raises(SignInRefused, match="it answered with status 400"):
        await exchanged(issuer, post, verifier=mine, proof=other)


async def test_a_refresh_token_that_was_used_is_refused(issuer: str, post: Post) -> None:
    """Else the renewals above would prove nothing."""
    mine = new_verifier(os.urandom)
    first = await exchanged(issuer, post, verifier=mine, proof=mine)
    second = await refresh(client(issuer), post, first, now_ms=0)
    assert second.refresh_token != first.refresh_token
    with pytest.raises(SignInRefused, match="invalid_grant"):
        await refresh(client(issuer), post, first, now_ms=0)
