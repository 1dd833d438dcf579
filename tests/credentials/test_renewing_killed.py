"""A renewal that is cut off anywhere, at a server that gives every refresh token one use."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bridle.base.clock import SystemClock
from bridle.base.net.http import HttpConnections
from bridle.conformance.servers import Received, ReplyWriter
from bridle.credentials.oauth import FormAnswer, Post, form_post
from bridle.credentials.records import ApiKey, Credential, SignIn, secret_of
from bridle.credentials.token_renewal import Renewal
from bridle.protocol.errors import CredentialError
from credentials.authorization_server import AuthorizationServer
from credentials.credential_kit import Vault, a_secret

SIGN_IN_AGAIN = "The sign-in at work has ended. Sign in again: bridle login work"
TIMEOUT_S = 40

RENEWS = """
import asyncio, os, signal, sys
from bridle.base.clock import SystemClock
from bridle.base.net.http import HttpConnections
from bridle.credentials.encrypted import EncryptedStore
from bridle.credentials.oauth import form_post
from bridle.credentials.locks import LockKeys
from bridle.credentials.oauth import OAuthClient
from bridle.credentials.token_renewal import Renewal

async def main(number, root, path, key_path, lock_path, token_url):
    connections = HttpConnections(env={}, clock=SystemClock())
    store = EncryptedStore(path, LockKeys(env={}, key_path=key_path))
    renewal = Renewal(store, lock_path=lock_path, clock=SystemClock(), post=form_post(lambda: connections))
    client = OAuthClient(client_id="bridle-test", token_url=token_url, device_url=token_url)
    left = [int(number)]

    def die(event, arguments):
        ours = event == "open" and str(arguments[0]).startswith(root)
        if ours or event in CHANGES or event.startswith(("fcntl.", "socket.connect")):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(die)
    await renewal.current("work", client)
    os._exit(0)

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.truncate", "os.chmod"}
asyncio.run(main(*sys.argv[1:]))
"""
"""Renews as the program does, and is killed before the given operation on a file, a lock or a connection."""


class Renewing:
    """A sign-in whose token ends, and the server it is from. Every `use` is another run of the program."""

    def __init__(self, vault: Vault, server: AuthorizationServer, *, ends_in_ms: int) -> None:
        self.vault = vault
        self.server = server
        self._lock_path = str(vault.path.parent / "renewing.lock")
        first = "renew-" + os.urandom(8).hex()
        access = "old-" + os.urandom(8).hex()
        server.renewing.add(first)
        if ends_in_ms > 0:
            server.access.add(access)
        ends_ms = SystemClock().now_ms() + ends_in_ms
        self.before = SignIn(
            provider="work", access_token=access, refresh_token=first, expires_at_ms=ends_ms, account="mine"
        )
        vault.open().put(self.before)

    async def dies_at(self, number: int) -> bool:
        """Renews in a process that is killed before its `number`th operation; False when there are fewer."""
        root = str(self.vault.path.parent.parent)
        words = (str(number), root, str(self.vault.path), str(self.vault.key_path), self._lock_path)
        command = [sys.executable, "-W", "error", "-c", RENEWS, *words, f"{self.server.origin}/token"]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, timeout=TIMEOUT_S, check=False
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
        return done.returncode != 0

    async def use(self, post: Post | None = None) -> str:
        """What a run has to work with: a token, or a sentence."""
        connections = HttpConnections(env={}, clock=SystemClock())
        renewal = Renewal(
            self.vault.open(),
            lock_path=self._lock_path,
            clock=SystemClock(),
            post=post or form_post(lambda: connections),
        )
        try:
            found = await renewal.current("work", self.server.client())
        except CredentialError as refusal:
            return refusal.message
        finally:
            await connections.close()
        return "" if found is None else secret_of(found)

    @property
    def stored(self) -> Credential | None:
        return self.vault.open().get("work")

    @property
    def uses(self) -> Counter[str]:
        """How often the server was sent each refresh token."""
        return Counter(form["refresh_token"] for form in self.server.forms)


async def still_signed_in_or_told(renewing: Renewing) -> bool:
    """Asserts that it is one of the two, for good; whether still signed in."""
    server = renewing.server
    stored = renewing.stored
    assert isinstance(stored, SignIn), "what is stored is whole"
    assert stored.account == "mine"
    first = await renewing.use()
    asked = len(server.forms)
    assert first in server.access or first == SIGN_IN_AGAIN
    for _ in range(2):
        assert await renewing.use() == first
    assert len(server.forms) == asked, "nothing is sent again and again"
    assert max(renewing.uses.values(), default=0) <= 2, "once by the run that died, once by the next"
    return first in server.access


@pytest.mark.requirement("H6.4")
@pytest.mark.parametrize("ends_in_ms", [-1, 30_000], ids=["ended", "ends soon"])
async def test_killed_at_any_operation_people_are_signed_in_or_told_to_sign_in(
    tmp_path: Path, ends_in_ms: int
) -> None:
    kept: list[bool] = []
    async with AuthorizationServer() as server:
        for number in range(1, 100):
            vault = Vault(tmp_path / str(number))
            renewing = Renewing(vault, server, ends_in_ms=ends_in_ms)
            server.requests.clear()
            died = await renewing.dies_at(number)
            kept.append(await still_signed_in_or_told(renewing))
            if not died:
                break
        else:
            raise AssertionError("the renewal does not end")
    assert len(kept) > 8, "points were found"
    assert kept[0], "before anything was sent nothing is lost"
    assert kept[-1], "once it is stored it is kept"


class Cutting(AuthorizationServer):
    """Ends the connection of the next request for tokens, once the refresh token is used up."""

    cuts = True

    async def answer(self, request: Received, reply: ReplyWriter) -> bool:
        if self.cuts and request.path == "/token":
            self.cuts = False
            self.renewing.clear()
            return False
        return await super().answer(request, reply)


@pytest.mark.requirement("H6.4")
@pytest.mark.parametrize("ends_in_ms", [-1, 30_000], ids=["ended", "ends soon"])
async def test_an_answer_that_never_came_is_asked_for_once_more(vault: Vault, ends_in_ms: int) -> None:
    async with Cutting() as server:
        renewing = Renewing(vault, server, ends_in_ms=ends_in_ms)
        first = await renewing.use()
        assert first == renewing.before.access_token or first.startswith("Cannot reach ")
        await still_signed_in_or_told(renewing)
    assert renewing.uses == {renewing.before.refresh_token: 2}


@pytest.mark.requirement("H6.4")
@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("meanwhile", ["signed in anew", "signed out"])
async def test_what_a_person_did_meanwhile_is_not_undone_by_a_renewal(
    vault: Vault, meanwhile: str, *, refused: bool
) -> None:
    async with AuthorizationServer() as server:
        renewing = Renewing(vault, server, ends_in_ms=-1)
        connections = HttpConnections(env={}, clock=SystemClock())
        real = form_post(lambda: connections)
        anew = ApiKey(provider="work", secret=a_secret())

        async def post(address: str, form) -> FormAnswer:
            if meanwhile == "signed out":
                vault.open().delete("work")
            else:
                vault.open().put(anew)
            if refused:
                server.renewing.clear()
            return await real(address, form)

        said = await renewing.use(post)
        await connections.close()
    expected = anew if meanwhile == "signed in anew" else None
    assert vault.open().get("work") == expected
    assert said == (anew.secret if expected else "")
