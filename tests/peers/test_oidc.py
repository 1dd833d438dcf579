"""Signing in at oidc-provider, a certified authorization server of another make: PKCE, device code, rotation."""

import asyncio
import html
import http.cookiejar
import os
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bridle.base.clock import SystemClock
from bridle.base.http import HttpConnections
from bridle.credentials.forms import form_post
from bridle.credentials.oauth import OAuthClient
from bridle.credentials.records import CredentialError, SignIn
from bridle.credentials.renewing import Renewal
from bridle.credentials.signing_in import DeviceCode, sign_in_by_browser, sign_in_by_device
from credentials.credential_kit import Vault

HERE = Path(__file__).parent
PACKAGE = HERE / "node_modules" / "oidc-provider"

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    node = shutil.which("node")
    if node is None or not PACKAGE.is_dir():
        pytest.skip("needs node and the npm packages: run make test-peers")
    server = subprocess.Popen(
        [node, "oidc_peer.mjs"],
        cwd=HERE,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "NODE_NO_WARNINGS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    assert server.stdin is not None
    try:
        line = next((line for line in server.stdout if line.startswith("http")), None)
        assert line is not None, "oidc-provider did not start"
        yield line.strip()
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
        server.stdin.close()


def client(issuer: str) -> OAuthClient:
    return OAuthClient(
        client_id="bridle-test",
        token_url=f"{issuer}/token",
        authorize_url=f"{issuer}/auth",
        device_url=f"{issuer}/device/auth",
        scopes=("openid", "offline_access"),
        parameters={"prompt": "consent"},
    )


def agrees(address: str, fields: dict[str, str]) -> str:
    """A person with a browser who fills in every form and agrees; the last page they see."""
    cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    browser = urllib.request.build_opener(cookies, urllib.request.ProxyHandler({}))
    page, form = browser.open(address), None
    for _ in range(8):
        text = page.read().decode()
        form = re.search(r"<form[^>]*>.*?</form>", text, re.DOTALL)
        if form is None:
            return text
        given = {name: html.unescape(value) for name, value in _hidden(form[0])}
        given |= {name: value for name, value in fields.items() if f'name="{name}"' in form[0]}
        action = re.search(r'action="([^"]*)"', form[0])
        target = urllib.parse.urljoin(page.url, html.unescape(action[1]) if action else "")
        page = browser.open(target, urllib.parse.urlencode(given).encode())
    raise AssertionError("the forms do not end")


def _hidden(form: str) -> list[tuple[str, str]]:
    inputs = re.findall(r"<input[^>]*type=\"hidden\"[^>]*>", form)
    pairs = [(re.search(r'name="([^"]*)"', one), re.search(r'value="([^"]*)"', one)) for one in inputs]
    return [(name[1], value[1]) for name, value in pairs if name and value]


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
