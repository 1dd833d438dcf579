"""Attacks on an engine that listens: each is refused or shed, counted, on record, and in no good client's way."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import structs

from bridle.base.net.websocket_client import SocketClosed, open_websocket
from bridle.clients.engine_address import engine_address
from bridle.clients.remote import connect_remote, place_opener
from bridle.control.http_server import ConnectionLimits
from bridle.protocol import commands as c
from bridle.protocol import queries as q
from bridle.protocol.tokens import WATCH
from listening_kit import Listening, listening

LONG_AGO_S = 400 * 24 * 3600


class Target:
    """An engine that is attacked, with a session of its good client."""

    def __init__(self, here: Listening, session: str) -> None:
        self.here = here
        self.session = session
        self.tokens = here.at.tokens
        self.host = f"127.0.0.1:{here.port}"

    def token(self, **claims: object) -> str:
        given = self.tokens.new_claims(identity_class="human", sessions=(self.session,))
        return self.tokens.issue(structs.replace(given, **claims))

    async def ask(
        self, *, method: str = "GET", path: str = "/v1/sessions", body: bytes = b"", **headers: str
    ) -> str:
        """The reason a request is refused with."""
        length = str(len(body))
        given = {"Host": self.host, "X-Bridle-Token": self.here.token, "Content-Length": length, **headers}
        lines = [f"{name}: {value}" for name, value in {**given, "Connection": "close"}.items() if value]
        reader, writer = await asyncio.open_connection("127.0.0.1", self.here.port)
        writer.write("\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode() + body)
        answer = await reader.read()
        writer.close()
        return json.loads(answer.partition(b"\r\n\r\n")[2]).get("reason", "")

    @asynccontextmanager
    async def websocket(self) -> AsyncIterator[object]:
        reader, writer = await engine_address(self.here.at.url).connect()
        yield await open_websocket(reader, writer, self.host, "/v1/ws", {"X-Bridle-Token": self.here.token})


async def with_a_token(target: Target, token: str) -> str:
    return await target.ask(**{"X-Bridle-Token": token})


async def revoked(target: Target) -> str:
    token = target.token()
    target.tokens.revoke(target.tokens.read(token).jti)
    return await with_a_token(target, token)


async def narrowed(target: Target) -> str:
    token = {"X-Bridle-Token": target.token(commands=WATCH)}
    assert await target.ask(path="/v1/handshake", **token) == ""
    path = f"/v1/sessions/{target.session}/cancel"
    return await target.ask(method="POST", path=path, body=b"{}", **JSON, **token)


async def closed(target: Target, *frames: bytes) -> str:
    """What a socket is closed with that sends these frames first."""
    async with target.websocket() as opened:
        with contextlib.suppress(SocketClosed):
            for frame in frames:
                await opened.send(frame)
        try:
            while True:
                await opened.receive()
        except SocketClosed as over:
            return {4028: "HandshakeRequired", 1009: "TooLarge", 1006: "TooLarge"}[over.code]


async def slowly(target: Target) -> str:
    """A head that never ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", target.here.port)
    writer.write(f"GET /v1/health HTTP/1.1\r\nHost: {target.host}\r\nX-Slow: ".encode())
    assert await reader.read() == b""
    writer.close()
    return "TooSlow"


JSON = {"Content-Type": "application/json"}
HELLO = b'{"frame":"handshake","body":{"protocol_version":"0.2.0"}}'
QUERY = b'{"frame":"query","id":1,"body":{"kind":"ListSessions"}}'
Attack = Callable[[Target], Awaitable[str]]
ATTACKS: dict[str, tuple[str, Attack]] = {
    "a wrong host": ("HostRefused", lambda at: at.ask(Host="127.0.0.1")),
    "a name that was bound to us": ("HostRefused", lambda at: at.ask(Host=f"evil.example:{at.here.port}")),
    "a page of somebody else": ("OriginRefused", lambda at: at.ask(Origin="https://evil.example")),
    "a page without an origin": ("OriginRefused", lambda at: at.ask(Origin="null")),
    "no token": ("TokenMissing", lambda at: at.ask(**{"X-Bridle-Token": ""})),
    "a forged token": ("TokenInvalid", lambda at: with_a_token(at, at.token()[:-5] + "AAAAA")),
    "an expired token": ("TokenExpired", lambda at: with_a_token(at, at.token(exp=LONG_AGO_S))),
    "a token of tomorrow": ("TokenNotYetValid", lambda at: with_a_token(at, at.token(nbf=2**40, exp=2**41))),
    "a revoked token": ("TokenRevoked", revoked),
    "a narrowed token": ("NotGranted", narrowed),
    "frames before the handshake": ("HandshakeRequired", lambda at: closed(at, QUERY)),
    "a frame of ten megabytes": ("TooLarge", lambda at: closed(at, HELLO, b"x" * 10_000_000)),
    "a body of thirteen megabytes": (
        "TooLarge",
        lambda at: at.ask(method="POST", body=b"x" * 1000, **JSON, **{"Content-Length": "13000000"}),
    ),
    "a head that never ends": ("TooSlow", slowly),
}
"""What is tried, and the reason it is refused with."""


@asynccontextmanager
async def served_meanwhile(here: Listening) -> AsyncIterator[tuple[str, Callable[[], int]]]:
    """A good client that asks on and on: its session, and how often it was answered so far."""
    client = await connect_remote(place_opener(here.place), address="here", name="good", answers=True)
    session = (await client.send(c.CreateSession(cwd=here.work, model="demo:scripted"))).session
    answered = 0

    async def ask() -> None:
        nonlocal answered
        while True:
            assert (await client.ask(q.CheckHealth())).open_sessions == 1
            answered += 1

    asking = asyncio.ensure_future(ask())
    try:
        yield session, lambda: answered
        assert not asking.done(), "the good client was not served to the end"
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await client.close()


@pytest.mark.requirement("G21.2", "G21.3", "G22.9")
async def test_every_attack_is_refused_counted_and_on_record_and_a_good_client_is_served_meanwhile(
    tmp_path: Path,
) -> None:
    async with (
        listening(tmp_path, limits=ConnectionLimits(head_s=0.3)) as here,
        served_meanwhile(here) as (session, answered),
    ):
        target = Target(here, session)
        assert await target.ask(path="/v1/handshake") == ""
        for name, (reason, attack) in ATTACKS.items():
            before, counted, on_record = answered(), here.at.counters.refusals[reason], here.audited()[reason]
            assert await attack(target) == reason, name
            assert here.at.counters.refusals[reason] == counted + 1, name
            assert here.audited()[reason] == on_record + 1, name
            while answered() == before:
                await asyncio.sleep(0)
