"""The proxy of a filtered network: whom it reaches, whom it never does, and strangers that try its patience."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from bridle.base.clock import Clock, SystemClock
from bridle.conformance.fake_clock import FakeClock
from bridle.sandbox.network.proxy import (
    CONNECT_S,
    HEAD_S,
    IDLE_S,
    MOST_AT_ONCE,
    MOST_HOSTS,
    MOST_NOTES,
    HostProxy,
    OutsideNetwork,
)
from bridle.sandbox.network.proxy_request import MAX_HEAD_BYTES
from web_kit import OTHER, PUBLIC, Network, Peer, WebServer, answer, saying

PATIENCE_S = 20


@pytest.fixture(autouse=True)
async def _patience():
    async with asyncio.timeout(PATIENCE_S):
        yield


class Proxied:
    """A proxy that listens, and what commands do with it."""

    def __init__(self, proxy: HostProxy, port: int) -> None:
        self.proxy = proxy
        self._port = port

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port)

    async def say(self, *lines: str, body: str = "") -> str:
        """Everything that comes back."""
        reader, writer = await self.open()
        writer.write(("\r\n".join((*lines, "", "")) + body).encode())
        try:
            return (await reader.read()).decode()
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def proxied(network: Network, *hosts: str, clock: Clock | None = None) -> AsyncIterator[Proxied]:
    listener = socket.create_server(("127.0.0.1", 0))
    proxy = HostProxy(hosts, OutsideNetwork(clock or SystemClock(), network.resolve, network.connect))
    proxy.serve(listener)
    try:
        yield Proxied(proxy, listener.getsockname()[1])
    finally:
        proxy.close()


async def echo(peer: Peer, _path: str) -> None:
    await peer.send(b"HTTP/1.1 200 OK\r\n\r\nhello ")
    while data := await peer.reader.read(1 << 16):
        await peer.send(data)


# Whom it reaches


async def test_a_request_goes_to_an_allowed_host_as_one_request_of_ours() -> None:
    async with saying(answer(b"page")).listening() as server:
        network = Network(server.port, {"example.com": [PUBLIC]})
        async with proxied(network, "example.com") as way:
            got = await way.say(
                "GET http://Example.com/a HTTP/1.1", "Host: example.com", "Proxy-Connection: x"
            )
            assert got.endswith("\r\n\r\npage")
            assert list(way.proxy.reached) == ["example.com"]
    assert server.heads == ["GET /a HTTP/1.1\r\nhost: example.com\r\nconnection: close\r\n\r\n"]
    assert (network.asked, network.contacted) == (["example.com"], [PUBLIC])


async def test_a_body_of_any_length_goes_with_it() -> None:
    size = 300_000

    async def talk(peer: Peer, _path: str) -> None:
        await peer.send(answer(str(len(await peer.reader.readexactly(size))).encode()))

    async with WebServer(talk).listening() as server:
        network = Network(server.port, {"example.com": [PUBLIC]})
        async with proxied(network, "example.com") as way:
            got = await way.say(
                "POST http://example.com/ HTTP/1.1", f"Content-Length: {size}", body="x" * size
            )
    assert got.endswith(str(size))


async def test_a_tunnel_carries_bytes_both_ways_until_the_server_hangs_up() -> None:
    async with WebServer(echo).listening() as server:
        network = Network(server.port, {"example.com": [PUBLIC]})
        async with proxied(network, "example.com:8443") as way:
            reader, writer = await way.open()
            writer.write(
                b"CONNECT example.com:8443 HTTP/1.1\r\nHost: example.com:8443\r\n\r\nGET /x HTTP/1.1\r\n\r\n"
            )
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
            writer.write(b"and\0back")
            writer.write_eof()
            assert (await reader.read()).endswith(b"hello and\0back")
            writer.close()
            assert list(way.proxy.reached) == ["example.com:8443"]


# Whom it never reaches


async def test_a_host_without_a_rule_fails_at_once_and_its_name_is_not_even_looked_up() -> None:
    network = Network(9, {"example.com": [PUBLIC]})
    async with proxied(network, "example.org") as way:
        for line in ("CONNECT example.com:443 HTTP/1.1", "GET http://example.com/ HTTP/1.1"):
            got = await way.say(line)
            told = "example.com was not reached; allow it with --allow-host example.com or sandbox.hosts"
            assert got.startswith(f"HTTP/1.1 403 {told}\r\n")
            assert got.endswith(f"\r\n\r\n{told}.\n")
        await way.say("CONNECT example.org:22 HTTP/1.1")
        assert way.proxy.notes() == [
            told,
            "example.org:22 was not reached; allow it with --allow-host example.org:22 or sandbox.hosts",
        ]
    assert network.asked == []


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "127.0.0.1", "169.254.169.254", "0.0.0.0", "100.100.100.200", "168.63.129.16", "192.168.1.1", "::1",
     "::", "fe80::1", "fd00:ec2::254", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "224.0.0.1", "?"],
)  # fmt: skip
@pytest.mark.parametrize("beside", [[], [PUBLIC]], ids=["alone", "beside a public one"])
async def test_whatever_name_leads_there_some_addresses_are_never_reached(
    address: str, beside: list[str]
) -> None:
    network = Network(9, {"example.com": [*beside, address]})
    async with proxied(network, "*", "example.com") as way:
        got = await way.say("CONNECT example.com:443 HTTP/1.1")
        assert got.startswith("HTTP/1.1 403 example.com was not reached: it leads to a ")
        assert "which no rule allows" in got
        assert list(way.proxy.refused) == ["example.com"]
    assert network.contacted == []


@pytest.mark.parametrize(
    "host",
    ["169.254.169.254", "127.0.0.1", "127.1", "0x7f.1", "2130706433", "017700000001", "localhost", "a.localhost",
     "metadata.google.internal", "1.1.1.1", "[::1]", "[::ffff:127.0.0.1]", "[2606:4700::1111]"],
)  # fmt: skip
async def test_addresses_in_numbers_and_names_of_this_machine_are_never_reached(host: str) -> None:
    network = Network(9, {host: [PUBLIC]})
    async with proxied(network, "*") as way:
        for line in (f"CONNECT {host}:443 HTTP/1.1", f"GET http://{host}/ HTTP/1.1"):
            assert (await way.say(line)).startswith(f"HTTP/1.1 403 {host} was not reached: ")
    assert (network.asked, network.contacted) == ([], [])


async def test_a_name_that_turns_around_is_followed_only_to_what_was_judged() -> None:
    async with saying(answer()).listening() as server:
        network = Network(server.port, {"example.com": [[PUBLIC], ["127.0.0.1"], [OTHER]]})
        async with proxied(network, "example.com") as way:
            got = [(await way.say("GET http://example.com/ HTTP/1.1"))[:12] for _ in range(3)]
    assert got == ["HTTP/1.1 200", "HTTP/1.1 403", "HTTP/1.1 200"]
    assert network.contacted == [PUBLIC, OTHER]


async def test_a_second_request_behind_the_first_is_not_passed_on() -> None:
    async with WebServer(echo).listening() as server:
        network = Network(server.port, {"example.com": [PUBLIC], "other.com": [OTHER]})
        async with proxied(network, "example.com", "other.com") as way:
            await way.say("GET http://example.com/ HTTP/1.1", "", "GET http://other.com/ HTTP/1.1")
            await way.say(
                "POST http://example.com/ HTTP/1.1",
                "Content-Length: 2",
                body="xxGET /smuggled HTTP/1.1\r\n\r\n",
            )
    assert [head.partition("\r\n")[0] for head in server.heads] == ["GET / HTTP/1.1", "POST / HTTP/1.1"]
    assert network.contacted == [PUBLIC, PUBLIC]


async def test_a_host_that_cannot_be_reached_is_said_to_be_that() -> None:
    async with proxied(Network(1, {"example.com": [PUBLIC]}), "*") as way:
        gone = await way.say("CONNECT nowhere.example:443 HTTP/1.1")
        closed = await way.say("CONNECT example.com:443 HTTP/1.1")
    assert gone.startswith(
        "HTTP/1.1 502 nowhere.example was not reached: the name of the host was not found\r\n"
    )
    assert closed.startswith("HTTP/1.1 502 example.com was not reached: connection refused\r\n")


# Strangers


async def test_a_head_that_does_not_end_is_not_waited_for() -> None:
    clock = FakeClock()
    async with proxied(Network(9), clock=clock) as way:
        reader, writer = await way.open()
        writer.write(b"CONNECT exam")
        await _until_accepted(way)
        await clock.advance(HEAD_S)
        assert await reader.read() == b""
        writer.close()
        assert (await way.say("GET http://example.com/ HTTP/1.1", "X: " + "x" * MAX_HEAD_BYTES)).startswith(
            "HTTP/1.1 400"
        )


async def test_a_host_that_never_answers_the_call_is_given_up() -> None:
    clock = FakeClock()

    class Deaf(Network):
        async def connect(self, address: str, port: int):
            await asyncio.Event().wait()

    async with proxied(Deaf(9, {"example.com": [PUBLIC]}), "*", clock=clock) as way:
        saying_it = asyncio.create_task(way.say("CONNECT example.com:443 HTTP/1.1"))
        await _until_accepted(way)
        await clock.advance(CONNECT_S)
        assert (await saying_it).startswith("HTTP/1.1 502 example.com was not reached within 10 s\r\n")


async def test_a_tunnel_in_which_nothing_passes_is_closed_and_one_in_which_something_does_is_not() -> None:
    clock = FakeClock()
    async with WebServer(echo).listening() as server:
        network = Network(server.port, {"example.com": [PUBLIC]})
        async with proxied(network, "example.com", clock=clock) as way:
            reader, writer = await way.open()
            writer.write(b"CONNECT example.com:443 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n")
            assert await reader.readuntil(b"hello ")
            for _ in range(3):
                await clock.advance(IDLE_S - 1)
                writer.write(b"still here")
                assert await reader.readexactly(10) == b"still here"
            await clock.advance(2 * IDLE_S)
            assert await reader.read() == b""
            writer.close()


async def test_so_many_are_served_at_once_and_the_others_wait_for_their_turn() -> None:
    async with proxied(Network(9)) as way:
        opened = [await way.open() for _ in range(MOST_AT_ONCE)]
        late = asyncio.create_task(way.say("CONNECT example.com:443 HTTP/1.1"))
        done, _ = await asyncio.wait([late], timeout=0.2)
        assert not done
        opened[0][1].close()
        assert (await late).startswith("HTTP/1.1 403")
        for _, writer in opened:
            writer.close()


async def test_after_so_many_connections_no_more_are_taken_and_that_is_said() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    proxy = HostProxy((), OutsideNetwork(SystemClock()), most_in_all=3)
    proxy.serve(listener)
    way = Proxied(proxy, listener.getsockname()[1])
    for _ in range(3):
        assert (await way.say("CONNECT example.com:443 HTTP/1.1")).startswith("HTTP/1.1 403")
    with pytest.raises(ConnectionError):
        await way.say("CONNECT example.com:443 HTTP/1.1")
    assert proxy.notes()[-1] == "it made more than 3 connections; no more were taken"
    proxy.close()


async def test_when_it_is_closed_every_connection_ends() -> None:
    async with WebServer(echo).listening() as server:
        network = Network(server.port, {"example.com": [PUBLIC]})
        async with proxied(network, "example.com") as way:
            reader, writer = await way.open()
            writer.write(b"CONNECT example.com:443 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n")
            await reader.readuntil(b"hello ")
            way.proxy.close()
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
            with pytest.raises(ConnectionRefusedError):
                await way.open()


async def test_a_large_transfer_leaves_the_engine_its_turns() -> None:
    size = 32 * 1024 * 1024

    async def talk(peer: Peer, _path: str) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(size))

    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with WebServer(talk).listening() as server:
        network = Network(server.port, {"example.com": [PUBLIC]})
        async with proxied(network, "example.com") as way:
            counting = asyncio.create_task(count_turns())
            got = await way.say("GET http://example.com/ HTTP/1.1")
            counting.cancel()
    assert len(got) > size
    assert turns >= size // (64 * 1024)


async def test_what_is_kept_of_the_hosts_has_an_end() -> None:
    async with proxied(Network(9)) as way:
        for number in range(MOST_HOSTS + 5):
            await way.say(f"CONNECT host{number}.example:443 HTTP/1.1")
        assert len(way.proxy.refused) == MOST_HOSTS
        assert len(way.proxy.notes()) == MOST_NOTES + 1
        assert way.proxy.notes()[-1] == f"at least {MOST_HOSTS - MOST_NOTES} more hosts were not reached"


async def _until_accepted(way: Proxied) -> None:
    """The next connection is served only after those before it: its answer says that they were taken."""
    with contextlib.suppress(ConnectionError):
        await way.say("nonsense")
