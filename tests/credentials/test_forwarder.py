"""Requests by way of the credential helper: a real process, real sockets, a model server on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.base.clock import Clock, SystemClock
from bridle.base.net.http import HttpFault
from bridle.base.process.processes import Processes
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import SAMPLE_MESSAGES, SAMPLE_PREFIX, check_provider, check_wire
from bridle.conformance.harness import harness, of_kind
from bridle.conformance.servers import (
    JsonServer,
    LoopbackServer,
    ModelServer,
    Received,
    ReplyWriter,
    ServerFault,
)
from bridle.credentials import helper
from bridle.credentials.forwarder import CRASHES_S, SILENCE_S, Forwarder
from bridle.credentials.helper_protocol import BEAT, BEAT_S, Errand, Vault
from bridle.credentials.records import ApiKey, SignIn
from bridle.engine.ports import ModelRequest, ModelText
from bridle.protocol.errors import ProviderError, exit_code_of, sentence
from bridle.protocol.events import TurnEnded
from bridle.providers.endpoints import Endpoint, WireName, inferred_auth
from bridle.providers.remote import RemoteModel
from bridle.providers.script import answer, call, say, think
from credentials import credential_kit
from credentials.authorization_server import AuthorizationServer
from credentials.credential_kit import a_secret
from providers.wire_kit import WIRES, Unhurried
from web_kit import Peer, WebServer
from web_kit import answer as bare_answer

HEADERS = {"content-type": "application/json"}
CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n"

Forward = Callable[..., Forwarder]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@pytest.fixture
async def forward(vault: credential_kit.Vault) -> AsyncIterator[Forward]:
    """A forwarder for a server. Whatever is stored in the vault can be found; all is gone after the test."""
    processes = Processes()
    made: list[Forwarder] = []

    def forwarder(base_url: str, *, clock: Clock | None = None, **more: Any) -> Forwarder:
        errand = the_errand(vault, base_url, **more)
        made.append(
            Forwarder(
                lambda: errand, processes, env={"PATH": os.defpath, "HOME": "/"}, clock=clock or SystemClock()
            )
        )
        return made[-1]

    async with asyncio.timeout(40):
        yield forwarder
        for one in made:
            await one.close()
        await processes.close()


def the_errand(vault: credential_kit.Vault, base_url: str, **more: Any) -> Errand:
    fields: dict[str, Any] = {
        "provider": "work",
        "base_url": base_url,
        "header": "authorization",
        "scheme": "Bearer",
        "stored_source": "bridle login",
        "missing_source": "WORK_API_KEY",
        "vault": Vault(
            back_end="encrypted",
            path=os.fsencode(vault.path),
            key_path=os.fsencode(vault.key_path),
            state=os.fsencode(vault.path.parent),
        ),
    }
    return Errand(**{**fields, **more})


def stored(vault: credential_kit.Vault) -> str:
    secret = a_secret()
    vault.open().put(ApiKey(provider="work", secret=secret))
    return secret


def model(
    forwarder: Forwarder,
    base_url: str,
    *,
    wire: WireName = "openai_chat",
    streaming: bool = True,
    **more: Any,
) -> RemoteModel:
    return RemoteModel(
        Endpoint(name="work", base_url=base_url, wire=wire, key_env="WORK_API_KEY", **more),
        lambda: None,
        forwarder,
        streaming=streaming,
        make_ready=forwarder.find,
        key_source=lambda: forwarder.source,
        key_is_added=True,
    )


async def text_of(provider: RemoteModel) -> str:
    body = check_wire(provider.wire, SAMPLE_PREFIX, SAMPLE_MESSAGES[:1])
    parts = [
        part
        async for part in provider.stream(
            ModelRequest(model="m", body=body, step=1, answers=0, purpose="main")
        )
    ]
    return "".join(part.text for part in parts if isinstance(part, ModelText))


async def body_of(forwarder: Forwarder, url: str, body: bytes = b"{}") -> bytes:
    async with await forwarder.post_stream(url, headers=HEADERS, body=body) as response:
        return await response.read(1 << 20)


# The same answers as without it


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("streaming", [True, False])
async def test_every_wire_keeps_the_contract_of_a_provider(
    forward: Forward, vault: credential_kit.Vault, wire: WireName, streaming: bool
) -> None:
    secret = stored(vault)
    script = answer(think("Hm."), say("Hello.", chunk=2), call("bash", command="ls"))
    async with ModelServer.playing(script) as server:
        auth = inferred_auth(server.url, wire)
        forwarder = forward(server.url, header=auth.header, scheme=auth.scheme)
        await check_provider(lambda: model(forwarder, server.url, wire=wire, streaming=streaming))
        sent = {request.headers[auth.header] for request in server.chats}
    assert sent == {f"{auth.scheme} {secret}".lstrip()}


# The same faults as without it


class Faulty(LoopbackServer):
    """Every request gets this status, these headers and this body; `drips` are then sent, one by one, for ever."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes, drip: bytes = b"") -> None:
        super().__init__()
        self._given = (status, headers, body)
        self._drip = drip

    async def answer(self, request: Received, reply: ReplyWriter) -> bool:
        if not self._drip:
            return await reply.raw(*self._given)
        await reply.begin_stream()
        while True:
            await reply.write(self._drip)
            await SystemClock().sleep(0.05)  # its own pace


FIRST_WIRE = [WIRES[0], *(pytest.param(wire, marks=pytest.mark.full) for wire in WIRES[1:])]
"""Silence takes the same time on every wire: the others are waited for in `make test-all`."""

FAULTS: list[tuple[ServerFault, int, str, str]] = [
    ("reset", 5, "ProviderUnreachable", "(the connection was closed before an answer came)"),
    ("cut", 5, "BadStream", "it ended in the middle"),
    ("not_utf8", 1, "BadStream", "it is not UTF-8"),
    ("garbage", 1, "BadStream", "it is not JSON"),
    ("deaf", 2, "StreamSilent", "No data from work for 0.8 s"),
    ("silence", 2, "StreamSilent", "No data from work for 0.8 s"),
    ("stalled", 2, "StreamSilent", "No data from work for 0.2 s"),
]


@pytest.mark.parametrize("wire", FIRST_WIRE)
@pytest.mark.parametrize(("fault", "requests", "reason", "words"), FAULTS, ids=[one[0] for one in FAULTS])
async def test_every_fault_is_tried_as_often_as_without_it(
    forward: Forward,
    vault: credential_kit.Vault,
    wire: WireName,
    fault: ServerFault,
    requests: int,
    reason: str,
    words: str,
) -> None:
    stored(vault)
    async with ModelServer.playing(say("Hi."), faults=[fault] * 9) as server:
        forwarder = forward(server.url)
        await forwarder.find()  # the helper runs, so that only the server is waited for
        provider = model(forwarder, server.url, wire=wire, first_part_s=0.8, idle_s=0.2)
        async with harness(provider, clock=Unhurried()) as session:
            events = await session.ask("hello")
        assert len(server.chats) == requests
    ended = of_kind(events, TurnEnded)[0]
    assert ended.reason == reason
    assert words in (ended.message or "")


@pytest.mark.parametrize("wire", FIRST_WIRE)
@pytest.mark.parametrize(
    ("drip", "silent_s"), [(b"d", "0.8"), (b": alive\n\n", "1.2")], ids=["lone bytes", "comments"]
)
async def test_signs_of_life_count_for_as_long_as_without_it(
    forward: Forward, vault: credential_kit.Vault, wire: WireName, drip: bytes, silent_s: str
) -> None:
    stored(vault)
    async with Faulty(200, {}, b"", drip) as server:
        forwarder = forward(f"{server.origin}/v1")
        await forwarder.find()
        limits = {"first_part_s": 0.8, "idle_s": 0.2, "alive_s": 1.2}
        provider = model(forwarder, f"{server.origin}/v1", wire=wire, **limits)
        async with harness(provider, clock=Unhurried()) as session:
            events = await session.ask("hello")
        assert len(server.requests) == 2
    assert (of_kind(events, TurnEnded)[0].message or "").startswith(f"No data from work for {silent_s} s;")


@pytest.mark.parametrize("wire", WIRES)
async def test_a_compressed_answer_is_asked_for_once_and_a_date_to_wait_for_needs_no_other(
    forward: Forward, vault: credential_kit.Vault, wire: WireName
) -> None:
    stored(vault)
    async with Faulty(200, {"content-encoding": "gzip"}, b"\x1f\x8b\x08\x00") as server:
        provider = model(forward(f"{server.origin}/v1"), f"{server.origin}/v1", wire=wire)
        async with harness(provider, clock=Unhurried()) as session:
            await session.ask("hello")
        assert len(server.requests) == 1
    later = formatdate(SystemClock().now_ms() / 1000 + 20, usegmt=True)
    async with Faulty(429, {"retry-after": later}, b"{}") as server:
        provider = model(forward(f"{server.origin}/v1"), f"{server.origin}/v1", wire=wire)
        with pytest.raises(ProviderError) as refused:
            await text_of(provider)
    assert 10 <= (refused.value.retry_after_s or 0) <= 20


async def test_a_listing_comes_whole_and_connections_are_kept(
    forward: Forward, vault: credential_kit.Vault
) -> None:
    stored(vault)
    async with ModelServer.playing(say("Hello.")) as server:
        provider = model(forward(server.url), server.url)
        assert [one.name for one in await provider.models()] == ["scripted-large", "scripted-small"]
        assert await text_of(provider) == "Hello."
        assert server.connections == 1


async def test_a_large_request_and_a_large_answer_arrive_whole(
    forward: Forward, vault: credential_kit.Vault
) -> None:
    stored(vault)
    large = {"text": "é" * 3_000_000}
    async with JsonServer({"POST /v1/echo": lambda request: request.json}) as server:
        body = msgspec.json.encode(large)
        forwarder = forward(f"{server.origin}/v1")
        async with await forwarder.post_stream(
            f"{server.origin}/v1/echo", headers=HEADERS, body=body
        ) as response:
            assert msgspec.json.decode(await response.read(10_000_000)) == large


async def test_tls_is_spoken_by_the_helper_and_only_with_whom_it_can_trust(
    forward: Forward, vault: credential_kit.Vault, tmp_path: Path
) -> None:
    secret = stored(vault)
    making = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=here"
        " -keyout here.key -out here.pem -addext subjectAltName=IP:127.0.0.1"
        " -addext keyUsage=critical,digitalSignature,keyCertSign"
    )
    subprocess.run(making.split(), cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "here.pem", tmp_path / "here.key")

    async def talk(peer: Peer, _path: str) -> None:
        await peer.reader.readexactly(2)
        await peer.send(bare_answer(b"hello"))

    async with WebServer(talk).listening(context) as server:
        url = f"https://127.0.0.1:{server.port}/v1"
        trusting = forward(url, env={"SSL_CERT_FILE": os.fsencode(tmp_path / "here.pem")})
        assert await body_of(trusting, url) == b"hello"
        assert f"authorization: Bearer {secret}\r\n" in server.heads[0]
        with pytest.raises(HttpFault) as fault:
            await body_of(forward(url), url)
        assert fault.value.kind == "tls"


# Which key, and what is said of it


async def test_a_given_key_goes_before_a_stored_one_and_each_is_told_by_its_name(
    forward: Forward, vault: credential_kit.Vault
) -> None:
    given, kept = a_secret(), stored(vault)
    async with JsonServer({}) as server:
        by_name = forward(server.origin, given_key=given.encode(), given_source="WORK_API_KEY")
        by_login = forward(server.origin)
        for forwarder, source in ((by_name, "WORK_API_KEY"), (by_login, "bridle login")):
            await forwarder.find()
            assert forwarder.source == source
            await body_of(forwarder, server.origin)
    assert [request.headers["authorization"] for request in server.requests] == [
        f"Bearer {given}",
        f"Bearer {kept}",
    ]


async def test_a_refused_key_is_told_by_where_it_was_and_never_shown(
    forward: Forward, vault: credential_kit.Vault
) -> None:
    secret = stored(vault)
    words = {"error": {"message": f"No such key: {secret}", "code": "invalid_api_key"}}
    async with JsonServer(
        {"POST /v1/chat/completions": words}, status={"POST /v1/chat/completions": 401}
    ) as server:
        with pytest.raises(ProviderError) as refused:
            await text_of(model(forward(f"{server.origin}/v1"), f"{server.origin}/v1"))
    assert str(refused.value) == (
        "work refused the key from bridle login (401). Check it, or run: bridle login work"
    )
    assert refused.value.data["problem"] == "No such key: [redacted]"


async def test_without_a_key_nothing_is_sent_unless_none_is_needed(
    forward: Forward, vault: credential_kit.Vault
) -> None:
    async with ModelServer.playing(say("Hello.")) as server:
        with pytest.raises(ProviderError) as missing:
            await text_of(model(forward(server.url), server.url))
        with pytest.raises(ProviderError) as unusable:
            await forward(server.url, given_key="schlüssel 1".encode(), given_source="WORK_API_KEY").find()
        with pytest.raises(ProviderError) as unasked:
            await body_of(forward(server.url), server.url)
        assert server.requests == []
        assert await text_of(model(forward(server.url, needs_key=False), server.url)) == "Hello."
        assert "authorization" not in server.chats[0].headers
    assert [error.value.reason for error in (missing, unusable, unasked)] == ["NoKey", "UnusableKey", "NoKey"]
    assert missing.value.data["source"] == "WORK_API_KEY"


async def test_a_store_that_does_not_open_is_told_and_the_right_passphrase_opens_it(
    forward: Forward, vault: credential_kit.Vault
) -> None:
    secret, phrase = a_secret(), a_secret()
    vault.open(BRIDLE_PASSPHRASE=phrase).put(ApiKey(provider="work", secret=secret))
    async with JsonServer({}) as server:
        with pytest.raises(ProviderError) as locked:
            await forward(server.origin).find()
        assert locked.value.reason == "CredentialsLocked"
        opening = forward(server.origin, env={"BRIDLE_PASSPHRASE": phrase.encode()})
        assert await opening.names() == {"work"}
        await body_of(opening, server.origin)
    assert server.requests[0].headers["authorization"] == f"Bearer {secret}"


async def test_a_sign_in_that_ends_is_renewed_by_the_helper_and_stored(
    forward: Forward, vault: credential_kit.Vault
) -> None:
    renewing = a_secret()
    vault.open().put(
        SignIn(provider="work", access_token=a_secret(), refresh_token=renewing, expires_at_ms=1_000)
    )
    async with AuthorizationServer() as accounts, JsonServer({}) as server:
        accounts.renewing.add(renewing)
        oauth = msgspec.to_builtins(accounts.client())
        forwarder = forward(server.origin, oauth=oauth)
        await forwarder.find()
        await body_of(forwarder, server.origin)
    sent = server.requests[0].headers["authorization"].removeprefix("Bearer ")
    assert sent in accounts.access
    found = vault.open().get("work")
    assert isinstance(found, SignIn)
    assert found.access_token == sent


# Where the key goes, and where it does not


async def test_the_key_goes_to_the_host_of_its_provider_and_to_no_other(
    forward: Forward, vault: credential_kit.Vault
) -> None:
    stored(vault)
    async with JsonServer({}) as server, JsonServer({}) as other:
        forwarder = forward(f"{server.origin}/v1")
        for url in (
            f"{other.origin}/v1",
            server.origin.replace("http:", "https:"),
            server.origin.replace("127.0.0.1", "localhost"),
            server.origin.replace("//", f"//{other.origin.removeprefix('http://')}@"),
        ):
            with pytest.raises(ValueError, match=r"only sent to|must not hold credentials") as refused:
                await body_of(forwarder, url)
            assert "work" in str(refused.value) or "URL" in str(refused.value)
        assert server.requests == other.requests == []


async def test_a_redirect_is_passed_on_and_not_followed(
    forward: Forward, vault: credential_kit.Vault
) -> None:
    secret = stored(vault)
    async with JsonServer({}) as other:
        there = bare_answer(b"", status=307, location=f"{other.origin}/?key={secret}")

        async def talk(peer: Peer, _path: str) -> None:
            await peer.send(there)

        async with WebServer(talk).listening() as server:
            url = f"http://127.0.0.1:{server.port}/"
            response = await forward(url).post_stream(url, headers=HEADERS, body=b"{}")
            assert response.status == 307
            assert response.headers["location"] == f"{other.origin}/?key=[redacted]"
            await response.close()
        assert other.requests == []


async def test_a_key_that_the_provider_repeats_is_taken_out_wherever_its_answer_is_cut(
    forward: Forward, vault: credential_kit.Vault
) -> None:
    secret = stored(vault).encode()

    async def talk(peer: Peer, _path: str) -> None:
        await peer.send(CHUNKED + chunk(b"your key is " + secret[:7]))
        await on.wait()
        await peer.send(chunk(secret[7:30]) + chunk(secret[30:] + b", is it? " + secret[:9]) + chunk(b""))

    on = asyncio.Event()
    async with WebServer(talk).listening() as server:
        url = f"http://127.0.0.1:{server.port}/"
        async with await forward(url).post_stream(url, headers=HEADERS, body=b"{}") as response:
            assert await anext(response) == b"your key is "
            on.set()
            rest = await response.read(10_000)
    assert rest == b"[redacted], is it? " + secret[:9], "only a whole key is one"


async def test_a_header_of_the_engine_cannot_take_the_place_of_the_key(
    forward: Forward, vault: credential_kit.Vault
) -> None:
    secret = stored(vault)
    async with JsonServer({}) as server:
        headers = {**HEADERS, "Authorization": "Bearer mine", "x-own": "kept"}
        await (await forward(server.origin).post_stream(server.origin, headers=headers, body=b"{}")).close()
    sent = server.requests[0].headers
    assert (sent["authorization"], sent["x-own"]) == (f"Bearer {secret}", "kept")


# Giving up, and holding back


async def test_giving_an_answer_up_closes_the_connection_to_the_provider(
    forward: Forward, vault: credential_kit.Vault
) -> None:
    stored(vault)
    gone: asyncio.Queue[str] = asyncio.Queue()
    asked: asyncio.Queue[str] = asyncio.Queue()

    async def talk(peer: Peer, path: str) -> None:
        asked.put_nowait(path)
        if path != "/silent":
            await peer.send(CHUNKED + chunk(b"one"))
        await peer.gone()
        gone.put_nowait(path)

    async with WebServer(talk).listening() as server:
        origin = f"http://127.0.0.1:{server.port}"
        forwarder = forward(origin)
        response = await forwarder.post_stream(f"{origin}/closed", headers=HEADERS, body=b"{}")
        assert await anext(response) == b"one"
        await response.close()
        assert await gone.get() == "/closed"
        response = await forwarder.post_stream(f"{origin}/cancelled", headers=HEADERS, body=b"{}")
        assert await anext(response) == b"one"
        reading = asyncio.ensure_future(anext(response))
        await asyncio.sleep(0)
        reading.cancel()
        assert await gone.get() == "/cancelled"
        asking = asyncio.ensure_future(body_of(forwarder, f"{origin}/silent"))
        assert [await asked.get() for _ in range(3)][-1] == "/silent"
        asking.cancel()
        assert await gone.get() == "/silent"


async def test_a_reader_that_does_not_read_holds_the_provider_back(
    forward: Forward, vault: credential_kit.Vault
) -> None:
    stored(vault)
    pieces, size = 512, 64 * 1024
    finished = asyncio.Event()

    async def talk(peer: Peer, _path: str) -> None:
        await peer.send(CHUNKED)
        for _ in range(pieces):
            await peer.send(chunk(b"x" * size))
        finished.set()
        await peer.send(chunk(b""))

    async with WebServer(talk).listening() as server:
        url = f"http://127.0.0.1:{server.port}/"
        async with await forward(url).post_stream(url, headers=HEADERS, body=b"{}") as response:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(finished.wait(), 1)
            assert not finished.is_set()
            assert len(await response.read(pieces * size)) == pieces * size


# A helper that ends


async def killed(forwarder: Forwarder, number: signal.Signals = signal.SIGKILL) -> int:
    assert forwarder.pid is not None
    os.kill(forwarder.pid, number)
    return forwarder.pid


@pytest.mark.requirement("G36.6")
async def test_a_request_without_an_answer_is_sent_again_by_another_helper_once(
    forward: Forward, vault: credential_kit.Vault
) -> None:
    stored(vault)
    clock = FakeClock()
    asked: asyncio.Queue[str] = asyncio.Queue()

    async def talk(peer: Peer, path: str) -> None:
        asked.put_nowait(path)
        if len(server.heads) not in {2, 5}:
            await peer.gone()
        await peer.send(bare_answer(b"hello"))

    async with WebServer(talk).listening() as server:
        url = f"http://127.0.0.1:{server.port}/"
        forwarder = forward(url, clock=clock)
        answered = asyncio.ensure_future(body_of(forwarder, url))
        await asked.get()
        first = await killed(forwarder)
        assert await answered == b"hello"
        assert forwarder.pid not in {None, first}
        answered = asyncio.ensure_future(body_of(forwarder, url))
        for _ in range(2):
            await asked.get()
        await killed(forwarder)
        with pytest.raises(ProviderError) as failed:
            await answered
        assert (failed.value.reason, failed.value.retryable) == ("CredentialHelperFailed", False)
        with pytest.raises(ProviderError):
            await body_of(forwarder, url)
        assert len(server.heads) == 3, "nothing is tried for a while"
        await clock.advance(CRASHES_S + 1)
        answered = asyncio.ensure_future(body_of(forwarder, url))
        await asked.get()
        await killed(forwarder)
        assert await answered == b"hello"


@pytest.mark.requirement("G36.6")
async def test_a_helper_that_falls_silent_is_ended_and_replaced(
    forward: Forward, vault: credential_kit.Vault
) -> None:
    stored(vault)
    clock = FakeClock()
    async with JsonServer({"POST /": {"text": "hello"}}) as server:
        url = f"{server.origin}/"
        forwarder = forward(url, clock=clock)
        await forwarder.find()
        silent = await killed(forwarder, signal.SIGSTOP)
        answered = asyncio.ensure_future(body_of(forwarder, url))
        while forwarder.pid == silent:  # a beat it had sent before may still count once
            await clock.advance(SILENCE_S)
        assert await answered == b'{"text":"hello"}'
        assert forwarder.pid != silent
        with pytest.raises(ProcessLookupError):
            os.kill(silent, 0)


async def test_an_answer_cut_by_the_end_of_the_helper_is_a_broken_connection(
    forward: Forward, vault: credential_kit.Vault
) -> None:
    stored(vault)

    async def talk(peer: Peer, _path: str) -> None:
        await peer.send(CHUNKED + chunk(b"half"))
        await peer.gone()

    async with WebServer(talk).listening() as server:
        url = f"http://127.0.0.1:{server.port}/"
        forwarder = forward(url)
        response = await forwarder.post_stream(url, headers=HEADERS, body=b"{}")
        assert await anext(response) == b"half"
        await killed(forwarder)
        with pytest.raises(HttpFault) as fault:
            await anext(response)
        assert (fault.value.kind, fault.value.problem) == ("reset", "the credential helper ended")


@pytest.mark.requirement("G47.17")
def test_a_failed_helper_has_its_own_reason_and_sentence() -> None:
    data = {"provider": "work", "problem": "it ended, twice within a minute"}
    assert sentence("CredentialHelperFailed", data) == (
        "The process that holds the key of work failed: it ended, twice within a minute. Nothing more was sent. "
        "Try again in a minute, or without it: --set credentials.helper=never"
    )
    assert exit_code_of("CredentialHelperFailed") == 4


async def test_another_errand_is_for_another_helper_and_the_first_finishes_its_work(
    vault: credential_kit.Vault,
) -> None:
    first, second = a_secret(), a_secret()
    on = asyncio.Event()

    async def talk(peer: Peer, _path: str) -> None:
        await peer.send(CHUNKED + chunk(b"one"))
        await on.wait()
        await peer.send(chunk(b"two") + chunk(b""))

    processes = Processes()
    async with asyncio.timeout(20), WebServer(talk).listening() as server:
        url = f"http://127.0.0.1:{server.port}/"
        keys = [first]
        forwarder = Forwarder(
            lambda: the_errand(vault, url, given_key=keys[-1].encode()),
            processes,
            env={"PATH": os.defpath},
            clock=SystemClock(),
        )
        before = await forwarder.post_stream(url, headers=HEADERS, body=b"{}")
        old = forwarder.pid
        keys.append(second)
        after = await forwarder.post_stream(url, headers=HEADERS, body=b"{}")
        assert forwarder.pid != old
        on.set()
        assert await before.read(100) == await after.read(100) == b"onetwo"
        assert [head.partition("Bearer ")[2].partition("\r")[0] for head in server.heads] == [first, second]
        await forwarder.close()
        await processes.close()


# The process itself


async def started(errand: Errand, processes: Processes, *before: str) -> tuple[Any, socket.socket]:
    ours, theirs = socket.socketpair()
    process = await processes.start(
        [*before, sys.executable, "-I", "-m", "bridle.credentials.helper", str(theirs.fileno())],
        cwd="/",
        env={},
        stdin=msgspec.msgpack.encode(errand),
        pass_fds=[theirs.fileno()],
        on_output=lambda text: None,
    )
    theirs.close()
    ours.setblocking(False)
    return process, ours


async def test_it_ends_by_itself_when_the_engine_is_gone() -> None:
    processes = Processes()
    async with asyncio.timeout(20):
        process, control = await started(Errand(provider="work"), processes)
        assert await asyncio.get_running_loop().sock_recv(control, 1) == BEAT
        control.close()
        async with asyncio.timeout(BEAT_S / 2):
            assert await process.wait() == 0, "it does not wait for its next beat to fail"
        await processes.close()


@pytest.mark.requirement("G36.6")
async def test_its_heart_beats_every_five_seconds() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    clock = FakeClock()
    serving = asyncio.ensure_future(helper.serve(Errand(provider="work"), theirs, clock))
    heard = b""
    for beats in range(1, 4):
        heard += await asyncio.get_running_loop().sock_recv(ours, 10)
        assert heard == b"\x00" * beats
        await clock.advance(4.9)
        with pytest.raises(BlockingIOError):
            ours.recv(1)
        await clock.advance(BEAT_S - 4.9)
    asyncio.get_running_loop().remove_reader(theirs)
    serving.cancel()
    ours.close()
    theirs.close()


def as_anybody() -> list[str]:
    """What gives up root's rights over all other processes."""
    if os.geteuid() != 0:
        return []
    program = shutil.which("setpriv")
    return (
        [program, "--bounding-set=-all", "--inh-caps=-all"] if program else pytest.skip("setpriv is missing")
    )


def can_look_into(pid: int) -> bool:
    """Whether another process of the same person can."""
    looking = [*as_anybody(), "cat", f"/proc/{pid}/environ", f"/proc/{pid}/auxv"]
    return subprocess.run(looking, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_nobody_can_look_into_it_and_it_leaves_no_core() -> None:
    processes = Processes()
    ready: asyncio.Queue[bytes] = asyncio.Queue()
    async with asyncio.timeout(20):
        other = await processes.start(
            [*as_anybody(), sys.executable, "-c", "print(1, flush=True); import time; time.sleep(60)"],
            cwd="/",
            env={},
            on_output=ready.put_nowait,
        )
        assert await ready.get() == b"1\n"
        assert can_look_into(other.pid), "into others one can"
        process, control = await started(Errand(provider="work"), processes, *as_anybody())
        await asyncio.get_running_loop().sock_recv(control, 1)
        limits = Path(f"/proc/{process.pid}/limits").read_text()
        assert [line.split()[4:6] for line in limits.splitlines() if "core file" in line] == [["0", "0"]]
        assert os.getsid(process.pid) == process.pid
        assert not can_look_into(process.pid)
        control.close()
        await process.wait()
        await processes.close()


def test_what_it_is_sent_out_with_does_not_show_itself() -> None:
    secret = a_secret()
    errand = Errand(provider="work", given_key=secret.encode(), env={"BRIDLE_PASSPHRASE": secret.encode()})
    assert secret not in repr(errand)
