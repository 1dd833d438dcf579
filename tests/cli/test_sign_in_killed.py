"""Bridle killed while it renews a sign-in at a server that gives every refresh token one use."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter

import pytest

from bridle.app.user.stored_keys import StoredKeys
from bridle.base.clock import SystemClock
from bridle.config.folders import folders
from bridle.conformance.servers import ModelServer, Received, ReplyWriter
from bridle.credentials.records import SignIn
from bridle.providers.script import say
from cli.test_helper import helper_of
from cli_kit import Place, Ran
from credentials.authorization_server import AuthorizationServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

SIGN_IN_AGAIN = "The sign-in at work has ended. Sign in again: bridle login work"
SETTINGS = """\
model = "work:some-model"
[providers.work]
base_url = "{url}"
key_env = "WORK_SERVICE_KEY"
[providers.work.oauth]
client_id = "bridle-test"
token_url = "{accounts}/token"
device_url = "{accounts}/device"
[credentials]
helper = "{helper}"
"""


class Holding(AuthorizationServer):
    """Uses the first refresh token up and holds its answer back."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.go = asyncio.Event(), asyncio.Event()

    async def answer(self, request: Received, reply: ReplyWriter) -> bool:
        if self.used.is_set():
            return await super().answer(request, reply)
        status, answer = self._token(self.forms[-1])
        self.used.set()
        await self.go.wait()
        return await reply.whole(status, answer)


def sign_in(place: Place, accounts: AuthorizationServer, model: ModelServer, helper: str) -> str:
    """A sign-in whose access token has ended; its refresh token."""
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(
        SETTINGS.format(url=model.url, accounts=accounts.origin, helper=helper)
    )
    renewing = "renew-" + os.urandom(8).hex()
    accounts.renewing.add(renewing)
    ended = SignIn(
        provider="work", access_token="old-" + os.urandom(8).hex(), refresh_token=renewing, expires_at_ms=1
    )
    env = place.environment()
    StoredKeys(where=folders(env), env=env, clock=SystemClock()).store.put(ended)
    return renewing


async def run(place: Place) -> Ran:
    return await asyncio.to_thread(place.bridle, "run", "--json", "Hello")


@pytest.mark.requirement("H6.4")
@pytest.mark.parametrize(
    ("helper", "killed"), [("never", "the engine"), ("always", "the engine"), ("always", "the helper")]
)
async def test_killed_before_the_new_token_is_stored_the_next_run_says_to_sign_in_and_asks_nobody(
    place: Place, helper: str, killed: str
) -> None:
    async with asyncio.timeout(25), Holding() as accounts, ModelServer.playing(*[say("Done.")] * 4) as model:
        first = sign_in(place, accounts, model, helper)
        with place.started("run", "--json", "Hello") as running:
            await accounts.used.wait()
            pid = running.process.pid
            os.kill(helper_of(pid) if killed == "the helper" else pid, signal.SIGKILL)
            ran = await asyncio.to_thread(running.end)
        accounts.go.set()
        after = [await run(place) for _ in range(2)]
        told = [*([ran] if killed == "the helper" else []), *after]
        assert [(one.code, one.result["error"]["message"]) for one in told] == [(4, SIGN_IN_AGAIN)] * len(
            told
        )
        assert Counter(form["refresh_token"] for form in accounts.forms) == {first: 2}
        assert model.chats == [], "nothing is sent without a token that lasts"
