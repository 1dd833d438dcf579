"""Signing in at oidc-provider, a certified authorization server of another make: PKCE, device code, rotation."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bridle.base.clock import SystemClock
from bridle.base.net.http import HttpConnections
from bridle.credentials.oauth import OAuthClient, form_post
from bridle.credentials.records import SignIn
from bridle.credentials.sign_in import DeviceCode, sign_in_by_browser, sign_in_by_device
from bridle.credentials.token_renewal import Renewal
from bridle.protocol.errors import CredentialError
from credentials.credential_kit import Vault
from peers.peer_kit import agrees, running

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with running("oidc_peer.mjs", package="oidc-provider") as address:
        yield address


def client(issuer: str) -> OAuthClient:
    return OAuthClient(
        client_id="bridle-test",
        token_url=f"{issuer}/token",
        authorize_url=f"{issuer}/auth",
        device_url=f"{issuer}/device/auth",
        scopes=("openid", "offline_access"),
        parameters={"prompt": "consent"},
    )


PERSON = {"login": "somebody", "password": "any"}


async def test_a_browser_sign_in_and_every_renewal_after_it(issuer: str, tmp_path: Path) -> None:
    connections = HttpConnections(env={}, clock=SystemClock())
    post = form_post(lambda: connections)
    visits: list[asyncio.Task[str]] = []

    def show(address: str) -> None:
        visits.append(asyncio.ensure_future(asyncio.to_thread(agrees, address, PERSON)))

    try:
        signed_in = await sign_in_by_browser(
            client(issuer), post, provider="peer", clock=SystemClock(), show=show
        )
        assert "signed in" in await visits[0]
        assert signed_in.refresh_token is not None
        vault = Vault(tmp_path)
        tokens = [signed_in]
        lock_path = str(tmp_path / "renewing.lock")
        for _ in range(2):
            vault.open().put(msgspec.structs.replace(tokens[-1], expires_at_ms=1))
            renewal = Renewal(vault.open(), lock_path=lock_path, clock=SystemClock(), post=post)
            renewed = await renewal.current("peer", client(issuer))
            assert isinstance(renewed, SignIn)
            tokens.append(renewed)
        assert len({token.access_token for token in tokens}) == 3
        assert len({token.refresh_token for token in tokens}) == 3, "this server rotates"
        vault.open().put(msgspec.structs.replace(tokens[0], expires_at_ms=1))
        with pytest.raises(
            CredentialError
        ) as refusal:  # a used refresh token ends everything, as RFC 9700 wants
            await Renewal(vault.open(), lock_path=lock_path, clock=SystemClock(), post=post).current(
                "peer", client(issuer)
            )
        assert refusal.value.reason == "SignInEnded"
    finally:
        await connections.close()


async def test_a_device_code(issuer: str) -> None:
    connections = HttpConnections(env={}, clock=SystemClock())
    visits: list[asyncio.Task[str]] = []

    def show(code: DeviceCode) -> None:
        assert code.address == f"{issuer}/device"
        fields = {"user_code": code.user_code, **PERSON}
        visits.append(asyncio.ensure_future(asyncio.to_thread(agrees, code.address, fields)))

    try:
        signed_in = await sign_in_by_device(
            client(issuer),
            form_post(lambda: connections),
            provider="peer",
            clock=SystemClock(),
            show=show,
        )
        assert "Sign-in Success" in await visits[0]
    finally:
        await connections.close()
    assert signed_in.refresh_token is not None
