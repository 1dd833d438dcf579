"""Signing in at a real server on loopback: in a browser, by a device code, and again when a token ends."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.clock import SystemClock
from bridle.base.net.http import HttpConnections, Timeouts
from bridle.conformance import vectors
from bridle.conformance.fake_clock import FakeClock
from bridle.credentials.callback import code_of
from bridle.credentials.oauth import (
    FormAnswer,
    Post,
    SignInRefused,
    challenge_of,
    client_of,
    form_post,
    new_verifier,
    seconds_of,
    sign_in_of,
)
from bridle.credentials.records import ApiKey, SignIn
from bridle.credentials.sign_in import DeviceCode, sign_in_by_browser, sign_in_by_device
from bridle.credentials.token_renewal import Renewal
from bridle.protocol.errors import CredentialError
from credentials.authorization_server import AuthorizationServer, facts_of_call
from credentials.credential_kit import Vault, a_secret
from tables import table

DIRECT = Timeouts(connect_s=5, write_s=5, first_byte_s=5, idle_s=5)


@asynccontextmanager
async def door() -> AsyncIterator[tuple[Post, HttpConnections]]:
    connections = HttpConnections(env={}, clock=SystemClock())
    try:
        yield form_post(lambda: connections), connections
    finally:
        await connections.close()


# The proof


@pytest.mark.requirement("H6.1", "H18.8")
def test_our_proof_passes_every_vector() -> None:
    def challenge(case):
        try:
            return {"challenge": challenge_of(case["verifier"])}
        except ValueError:
            return {"error": True}

    assert vectors.run("oauth-pkce", challenge) == []
    assert len(vectors.load("oauth-pkce")) >= 15


@pytest.mark.requirement("H6.1")
@given(st.binary(min_size=48, max_size=48))
def test_a_new_verifier_is_one_and_its_challenge_has_no_padding(data: bytes) -> None:
    verifier = new_verifier(lambda count: data[:count])
    assert 43 <= len(verifier) <= 128
    assert len(challenge_of(verifier)) == 43
    assert not set(verifier + challenge_of(verifier)) & set("+/=")


# In a browser


class Browser:
    """Opens what it is shown and follows where it is sent, as a person who agrees would."""

    def __init__(self, connections: HttpConnections) -> None:
        self.shown = ""
        self.pages: list[tuple[int, str]] = []
        self._connections = connections
        self._visiting: asyncio.Task[None] | None = None

    def __call__(self, url: str) -> None:
        self.shown = url
        self._visiting = asyncio.ensure_future(self.visit(url))

    async def visit(self, url: str) -> None:
        answer = await self._connections.get(url, headers={}, limit_bytes=10_000, timeouts=DIRECT)
        if answer.status == 302:
            await self.before_going_back(answer.headers["location"])
            await self.visit(answer.headers["location"])
        else:
            self.pages.append((answer.status, answer.body.decode()))

    async def before_going_back(self, url: str) -> None:
        """What happens at the callback's address before the real answer comes."""

    async def leave(self) -> None:
        if self._visiting is not None:
            await self._visiting


@pytest.mark.requirement("H6.2", "H6.1")
async def test_a_person_signs_in_in_a_browser() -> None:
    async with AuthorizationServer() as server, door() as (post, connections):
        browser = Browser(connections)
        signed_in = await sign_in_by_browser(
            server.client(), post, provider="work", clock=SystemClock(), show=browser
        )
        await browser.leave()
    assert signed_in.access_token in server.access
    assert signed_in.refresh_token in server.renewing
    assert signed_in.expires_at_ms is not None
    asked = facts_of_call(browser.shown)
    assert asked["scope"] == "models offline"
    assert asked["client_id"] == "bridle-test"
    assert urlsplit(asked["redirect_uri"]).hostname == "127.0.0.1"
    assert len(asked["state"]) == 43
    ((status, page),) = browser.pages
    assert (status, "signed in" in page) == (200, True)
    (form,) = server.forms
    assert challenge_of(form["code_verifier"]) == asked["code_challenge"]
    assert form["code_verifier"] not in browser.shown


async def rebound(url: str) -> int:
    """The status that a page gets whose own name was made to lead here."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(f"GET {parts.path}?{parts.query} HTTP/1.1\r\nHost: rebound.example\r\n\r\n".encode())
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])


@pytest.mark.requirement("H6.2")
async def test_what_comes_without_the_right_state_is_turned_away_and_the_sign_in_goes_on() -> None:
    class Attacked(Browser):
        async def before_going_back(self, url: str) -> None:
            base, _, query = url.partition("?")
            real = facts_of_call(url)
            for other in (
                f"{base}?code=evil",
                f"{base}?code=evil&state=wrong",
                f"{base}?code=evil&state=wrong&state={real['state']}",
                f"{base}?error=access_denied&state=wrong",
                f"{base}/elsewhere?{query}",
                f"{base}?state={real['state']}",
            ):
                await self.visit(other)
            self.pages.append((await rebound(url), ""))

    async with AuthorizationServer() as server, door() as (post, connections):
        browser = Attacked(connections)
        signed_in = await sign_in_by_browser(
            server.client(), post, provider="work", clock=SystemClock(), show=browser
        )
        await browser.leave()
    assert signed_in.access_token in server.access
    assert [status for status, _ in browser.pages[:7]] == [400, 400, 400, 400, 404, 400, 400]
    assert browser.pages[-1][0] == 200
    assert [form["code"] for form in server.forms] != ["evil"]


async def test_a_no_in_the_browser_ends_it_in_one_sentence() -> None:
    async with AuthorizationServer() as server, door() as (post, connections):
        server.denies = True
        browser = Browser(connections)
        with pytest.raises(CredentialError) as refusal:
            await sign_in_by_browser(
                server.client(), post, provider="work", clock=SystemClock(), show=browser
            )
        await browser.leave()
    assert refusal.value.message == "Signing in at work did not work: it was not allowed."
    assert refusal.value.exit_code == 4
    assert server.forms == []


async def test_a_browser_that_never_comes_back_is_not_waited_for_for_ever() -> None:
    clock, shown = FakeClock(), asyncio.Event()
    async with door() as (post, _), AuthorizationServer() as server:
        waiting = asyncio.ensure_future(
            sign_in_by_browser(
                server.client(), post, provider="work", clock=clock, show=lambda _url: shown.set()
            )
        )
        await shown.wait()
        await clock.advance(301)
        with pytest.raises(CredentialError, match="within 5 minutes"):
            await waiting


@pytest.mark.requirement("H6.2")
async def test_the_address_can_be_pasted_from_a_browser_on_another_machine() -> None:
    async with AuthorizationServer() as server, door() as (post, connections):
        shown: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        typed = iter(["nonsense", "http://127.0.0.1/callback?code=evil&state=wrong"])

        async def pasted() -> str:
            if (line := next(typed, None)) is not None:
                return line
            answer = await connections.get(await shown, headers={}, limit_bytes=100, timeouts=DIRECT)
            return f"  {answer.headers['location']}\n"

        signed_in = await sign_in_by_browser(
            server.client(), post, provider="work", clock=SystemClock(), show=shown.set_result, pasted=pasted
        )
    assert signed_in.access_token in server.access


async def test_a_registered_address_is_used_as_it_is_and_one_in_use_is_said() -> None:
    async with AuthorizationServer() as server, door() as (post, connections):
        listening = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        client = server.client(redirect_uri=f"http://localhost:{port}/auth/back")
        with pytest.raises(CredentialError, match="cannot be listened on"):
            await sign_in_by_browser(
                client, post, provider="work", clock=SystemClock(), show=lambda _url: None
            )
        listening.close()
        await listening.wait_closed()
        browser = Browser(connections)
        await sign_in_by_browser(client, post, provider="work", clock=SystemClock(), show=browser)
        await browser.leave()
    assert facts_of_call(browser.shown)["redirect_uri"] == f"http://localhost:{port}/auth/back"


@given(st.text(max_size=100), st.text(alphabet="abc123", min_size=1, max_size=10))
def test_no_query_without_the_state_brings_a_code(query: str, state: str) -> None:
    if f"state={state}" not in query and "%" not in query and "+" not in query:
        assert code_of(query, state) is None


# By a code on another device


class PollingClock(FakeClock):
    """Says when somebody has begun to wait for time to pass."""

    def __init__(self) -> None:
        super().__init__()
        self._waited_for = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self._waited_for.set()
        await super().sleep(seconds)

    async def until_waited_for(self, other: "asyncio.Future[SignIn]") -> None:
        """Until that, or until the other has ended."""
        waiting = asyncio.ensure_future(self._waited_for.wait())
        await asyncio.wait({waiting, other}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        self._waited_for.clear()


class Device:
    """A sign-in by device code under way, and the questions it asks as time passes."""

    def __init__(self, server: AuthorizationServer, post: Post) -> None:
        self.clock = PollingClock()
        self.shown: list[DeviceCode] = []
        self._server = server
        self.waiting = asyncio.ensure_future(
            sign_in_by_device(
                server.client(), post, provider="work", clock=self.clock, show=self.shown.append
            )
        )

    async def asks(self, times: int, *, after_s: float) -> None:
        """So many questions in all, once so much more time has passed."""
        before = self._asked
        await self.clock.advance(after_s)
        if times > before:
            await self.clock.until_waited_for(self.waiting)
        assert self._asked == times

    @property
    def _asked(self) -> int:
        return sum("device_code" in form for form in self._server.forms)


@pytest.mark.requirement("H13.2")
async def test_a_device_code_is_asked_for_every_five_seconds_until_it_is_used() -> None:
    answers: list[str | None] = ["authorization_pending", "authorization_pending"]
    async with AuthorizationServer(device_answers=answers) as server, door() as (post, _):
        device = Device(server, post)
        await device.clock.until_waited_for(device.waiting)
        (shown,) = device.shown
        assert (shown.user_code, shown.address) == ("WDJB-MJHT", f"{server.origin}/activate")
        for after_s, times in ((4.9, 0), (0.1, 1), (4.9, 1), (0.1, 2), (5, 3)):
            await device.asks(times, after_s=after_s)
        assert (await device.waiting).access_token in server.access


@pytest.mark.requirement("H13.2")
async def test_a_server_that_wants_fewer_questions_gets_fewer() -> None:
    async with AuthorizationServer(device_answers=["slow_down", "slow_down"]) as server, door() as (post, _):
        server.device = {"interval": 2}
        device = Device(server, post)
        await device.clock.until_waited_for(device.waiting)
        for after_s, times in ((2, 1), (6.9, 1), (0.1, 2), (11.9, 2), (0.1, 3)):
            await device.asks(times, after_s=after_s)
        assert (await device.waiting).access_token in server.access


@pytest.mark.requirement("H13.2")
@table(
    ("answers", "begun", "words"),
    [
        (["access_denied"], {}, "it was not allowed"),
        (["expired_token"], {}, "the code was not used in time"),
        (["authorization_pending"] * 9, {"expires_in": 12}, "the code was not used in time"),
        (["something_else"], {}, "something_else"),
        ([], {"user_code": ""}, "its answer holds no code"),
        ([], {"device_code": 5}, "its answer holds no code"),
    ],
)
async def test_a_device_code_that_comes_to_nothing_says_why(answers, begun, words: str) -> None:
    async with AuthorizationServer(device_answers=answers) as server, door() as (post, _):
        server.device = begun
        device = Device(server, post)
        while not device.waiting.done():
            await device.clock.until_waited_for(device.waiting)
            await device.clock.advance(5)
        with pytest.raises(CredentialError) as refusal:
            await device.waiting
    assert refusal.value.message == f"Signing in at work did not work: {words}."


async def test_a_server_that_cannot_be_reached_for_a_while_is_asked_again_less_often() -> None:
    asked: list[float] = []

    async def post(address: str, form) -> FormAnswer:
        if address.endswith("/device"):
            begun = {"device_code": "d", "user_code": "u", "verification_uri": "https://x", "expires_in": 900}
            return FormAnswer(200, msgspec.json.encode(begun))
        asked.append(device.clock.monotonic())
        if len(asked) < 3:
            raise CredentialError("ProviderUnreachable", address="x", problem="reset", hint="")
        return FormAnswer(200, msgspec.json.encode({"access_token": "a" * 8, "token_type": "bearer"}))

    async with AuthorizationServer() as server:
        device = Device(server, post)
        await device.clock.until_waited_for(device.waiting)
        await device.clock.advance(40)
        assert (await device.waiting).access_token == "a" * 8
    assert asked == [5, 15, 35]


# When a token ends


def signed_in(server: AuthorizationServer, *, ends_in_ms: int, clock: FakeClock) -> SignIn:
    renewing = "renew-" + os.urandom(8).hex()
    server.renewing.add(renewing)
    return SignIn(
        provider="work",
        access_token="old-" + os.urandom(8).hex(),
        refresh_token=renewing,
        expires_at_ms=clock.now_ms() + ends_in_ms,
        account="mine",
    )


def renewal(vault: Vault, clock: FakeClock, post: Post) -> Renewal:
    return Renewal(vault.open(), lock_path=str(vault.path.parent / "renewing.lock"), clock=clock, post=post)


@pytest.mark.requirement("H6.4", "H13.3")
async def test_a_token_that_ends_soon_is_renewed_and_the_new_one_is_on_disk(vault: Vault) -> None:
    clock = FakeClock()
    async with AuthorizationServer() as server, door() as (post, _):
        before = signed_in(server, ends_in_ms=59_000, clock=clock)
        vault.open().put(before)
        current = await renewal(vault, clock, post).current("work", server.client())
    assert isinstance(current, SignIn)
    assert current.access_token in server.access
    assert current.refresh_token in server.renewing
    assert current.account == "mine"
    assert vault.open().get("work") == current
    assert [form["grant_type"] for form in server.forms] == ["refresh_token"]


async def test_a_token_that_lasts_and_a_plain_key_are_taken_as_they_are(vault: Vault) -> None:
    clock = FakeClock()
    async with AuthorizationServer() as server, door() as (post, _):
        lasting = signed_in(server, ends_in_ms=61_000, clock=clock)
        endless = msgspec.structs.replace(lasting, provider="endless", expires_at_ms=None)
        key = ApiKey(provider="keyed", secret=a_secret())
        for record in (lasting, endless, key):
            vault.open().put(record)
            assert await renewal(vault, clock, post).current(record.provider, server.client()) == record
        assert await renewal(vault, clock, post).current("nobody", None) is None
    assert server.requests == []


@pytest.mark.requirement("H6.4")
async def test_a_refresh_token_that_does_not_rotate_is_kept(vault: Vault) -> None:
    clock = FakeClock()
    async with AuthorizationServer() as server, door() as (post, _):
        server.rotates = False
        before = signed_in(server, ends_in_ms=-1, clock=clock)
        vault.open().put(before)
        current = await renewal(vault, clock, post).current("work", server.client())
    assert isinstance(current, SignIn)
    assert current.refresh_token == before.refresh_token
    assert current.access_token in server.access


@pytest.mark.requirement("H6.4")
async def test_many_who_need_it_at_once_renew_it_once(vault: Vault) -> None:
    clock = FakeClock()
    async with AuthorizationServer() as server, door() as (post, _):
        vault.open().put(signed_in(server, ends_in_ms=-1, clock=clock))
        views = [renewal(vault, clock, post) for _ in range(6)]
        found = await asyncio.gather(*(view.current("work", server.client()) for view in views))
    assert len(server.forms) == 1
    assert len(set(map(str, [msgspec.structs.asdict(one) for one in found if one]))) == 1


NEEDS_IT = """
import asyncio, sys
from bridle.base.clock import SystemClock
from bridle.base.net.http import HttpConnections
from bridle.credentials.encrypted import EncryptedStore
from bridle.credentials.oauth import form_post
from bridle.credentials.locks import LockKeys
from bridle.credentials.oauth import OAuthClient
from bridle.credentials.token_renewal import Renewal

async def main(path, key_path, lock_path, token_url):
    connections = HttpConnections(env={}, clock=SystemClock())
    store = EncryptedStore(path, LockKeys(env={}, key_path=key_path))
    renewal = Renewal(store, lock_path=lock_path, clock=SystemClock(), post=form_post(lambda: connections))
    client = OAuthClient(client_id="bridle-test", token_url=token_url, device_url=token_url)
    print((await renewal.current("work", client)).access_token)
    await connections.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.requirement("H6.4")
async def test_processes_that_need_it_at_once_renew_it_once(vault: Vault) -> None:
    async with AuthorizationServer() as server:
        before = signed_in(server, ends_in_ms=-1, clock=FakeClock(SystemClock().now_ms()))
        vault.open().put(before)
        words = [
            str(vault.path),
            str(vault.key_path),
            str(vault.path.parent / "renewing.lock"),
            f"{server.origin}/token",
        ]

        def run() -> str:
            command = [sys.executable, "-W", "error", "-c", NEEDS_IT, *words]
            done = subprocess.run(command, capture_output=True, timeout=40, check=False)
            assert done.returncode == 0, done.stderr.decode()
            return done.stdout.decode().strip()

        tokens = await asyncio.gather(*(asyncio.to_thread(run) for _ in range(4)))
    assert len(server.forms) == 1
    assert set(tokens) == server.access


async def test_a_sign_in_that_the_server_has_ended_says_what_to_type_and_shows_no_token(vault: Vault) -> None:
    clock = FakeClock()
    async with AuthorizationServer() as server, door() as (post, _):
        before = signed_in(server, ends_in_ms=-1, clock=clock)
        server.renewing.clear()
        vault.open().put(before)
        with pytest.raises(CredentialError) as refusal:
            await renewal(vault, clock, post).current("work", server.client())
    assert refusal.value.message == "The sign-in at work has ended. Sign in again: bridle login work"
    assert before.refresh_token not in repr(refusal.value.data)
    assert vault.open().get("work") == msgspec.structs.replace(before, refresh_token=None)


async def test_while_the_old_token_lasts_a_server_that_is_away_does_no_harm(vault: Vault) -> None:
    clock = FakeClock()
    async with AuthorizationServer() as server:
        soon = signed_in(server, ends_in_ms=30_000, clock=clock)
    async with door() as (post, _):
        vault.open().put(soon)
        assert await renewal(vault, clock, post).current("work", server.client()) == soon
        await clock.advance(31)
        with pytest.raises(CredentialError) as refusal:
            await renewal(vault, clock, post).current("work", server.client())
    assert (refusal.value.reason, refusal.value.exit_code) == ("ProviderUnreachable", 5)


async def test_a_renewal_that_nobody_waits_for_any_more_is_stored_all_the_same(vault: Vault) -> None:
    clock = FakeClock()
    reached, go_on = asyncio.Event(), asyncio.Event()
    async with AuthorizationServer() as server, door() as (real, _):

        async def post(address: str, form) -> FormAnswer:
            answer = await real(address, form)
            reached.set()
            await go_on.wait()
            return answer

        vault.open().put(signed_in(server, ends_in_ms=-1, clock=clock))
        asking = asyncio.ensure_future(renewal(vault, clock, post).current("work", server.client()))
        await reached.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        go_on.set()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        renewing = [task for task in others if "_renewed" in repr(task.get_coro())]
        await asyncio.gather(*renewing)
        stored = vault.open().get("work")
    assert isinstance(stored, SignIn)
    assert stored.access_token in server.access


# What servers say


@table(
    ("status", "body"),
    [
        (200, b""),
        (200, b"[]"),
        (200, b"{}"),
        (200, b'{"access_token": ""}'),
        (200, b'{"access_token": 5}'),
        (200, b'{"access_token": "a b"}'),
        (200, b'{"access_token": "a\\r\\nx: y"}'),
        (200, b'{"access_token": "abc", "token_type": "mac"}'),
        (200, b'{"error": "bad", "access_token": "abc"}'),
        (500, b'{"access_token": "abc"}'),
        (302, b"<html>"),
        (200, b"[" * 100_000),
    ],
)
def test_an_answer_without_a_usable_token_is_refused(status: int, body: bytes) -> None:
    with pytest.raises(SignInRefused):
        sign_in_of(FormAnswer(status, body), provider="work", now_ms=0)


@given(st.binary(max_size=200), st.sampled_from([200, 400, 500]))
def test_any_answer_is_tokens_or_a_refusal(body: bytes, status: int) -> None:
    try:
        sign_in_of(FormAnswer(status, body), provider="work", now_ms=0)
    except SignInRefused as refusal:
        assert len(refusal.clause) < 400
        assert refusal.clause.isprintable()


@table(
    ("value", "seconds"),
    [
        (3600, 3600),
        ("3600", 3600),
        (0.5, None),
        (0, None),
        (-1, None),
        (True, None),
        ("x", None),
        (None, None),
        (1e300, None),
    ],
)
def test_spans_are_whole_seconds_or_none(value: object, seconds: int | None) -> None:
    assert seconds_of(value) == seconds


@pytest.mark.requirement("H13.5")
def test_a_token_in_a_servers_words_is_not_repeated() -> None:
    secret = a_secret()
    body = msgspec.json.encode(
        {"error": "invalid_grant", "error_description": f"refresh token={secret}\x1b[31m"}
    )
    with pytest.raises(SignInRefused) as refusal:
        sign_in_of(FormAnswer(400, body), provider="work", now_ms=0)
    assert secret not in refusal.value.clause
    assert "\x1b" not in refusal.value.clause


@table(
    ("settings", "words"),
    [
        ({}, "client_id"),
        ({"client_id": "a", "token_url": "https://x/t"}, "authorize_url or a device_url"),
        ({"client_id": "a", "token_url": "http://x/t", "device_url": "https://x/d"}, "https only"),
        ({"client_id": "a", "token_url": "https://x/t", "device_url": "http://x/d"}, "https only"),
        ({"client_id": "a", "token_url": "ftp://x/t", "device_url": "https://x/d"}, "not a plain http"),
        (
            {
                "client_id": "a",
                "token_url": "https://x/t",
                "authorize_url": "https://x/a",
                "redirect_uri": "https://x/",
            },
            "not an address of this machine",
        ),
        ({"client_id": "a", "token_url": "https://x/t", "device_url": "https://x/d", "typo": 1}, "typo"),
    ],
)
def test_endpoints_that_make_no_sense_are_named_with_their_section(settings, words: str) -> None:
    with pytest.raises(CredentialError, match=words) as refusal:
        client_of("work", settings)
    assert refusal.value.message.startswith("[providers.work.oauth]: ")
    assert refusal.value.exit_code == 2
