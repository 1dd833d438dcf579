"""Fetching one page from servers that behave and from those that do not."""

import asyncio
import gzip
import socket
import ssl
import subprocess
import zlib

import pytest

from bridle.base.net.http_dial import HttpFault
from bridle.base.net.http_routes import tls_context
from bridle.base.net.web import MAX_BODY_BYTES, TOTAL_S, WebRefused, look_up, parse_web_url, redirected
from bridle.conformance.fake_clock import FakeClock
from bridle.tools.web_page import why_not_text
from tables import table
from web_kit import OTHER, PUBLIC, Network, WebServer, answer, saying

NAMES = {"example.com": [PUBLIC], "two.example": [PUBLIC, OTHER]}
PATIENCE_S = 20


@pytest.fixture(autouse=True)
async def _patience():
    async with asyncio.timeout(PATIENCE_S):
        yield


async def fault_of(awaitable) -> HttpFault:
    with pytest.raises(HttpFault) as caught:
        await awaitable
    return caught.value


# What is sent


@pytest.mark.requirement("G2.10")
async def test_every_request_is_the_same_few_headers_and_nothing_of_the_environment() -> None:
    secret = f"tok-{0x5EC12E7:x}"
    env = {
        "BRIDLE_TOKEN": secret,
        "AUTHORIZATION": secret,
        "OPENAI_API_KEY": secret,
        "HTTP_PROXY": f"http://me:{secret}@127.0.0.1:9",
        "NO_PROXY": "*",
    }
    cookie = {"set_cookie": f"a={secret}", "www_authenticate": "Basic"}
    answers = {"/": answer(status=302, location="/page?a=b", **cookie), "/page?a=b": answer()}
    async with saying(answers).listening() as server:
        network = Network(server.port, NAMES)
        await network.fetch("http://example.com:8080/#part", env=env)
        await network.fetch("http://example.com:8080/", env=env)
    lines = [head.rstrip().split("\r\n") for head in server.heads]
    assert [request[0] for request in lines] == ["GET / HTTP/1.1", "GET /page?a=b HTTP/1.1"] * 2
    for request in lines:
        assert [line.partition(":")[0] for line in request[1:]] == [
            "host", "accept-encoding", "connection", "accept", "user-agent",
        ]  # fmt: skip
        assert request[1] == "host: example.com:8080"
    assert secret not in "".join(server.heads)


async def test_a_name_in_other_letters_is_asked_for_as_the_dns_has_it() -> None:
    async with saying(answer()).listening() as server:
        network = Network(server.port, {"xn--bcher-kva.example": [PUBLIC]})
        await network.fetch("http://b\u00fccher.example./w\u00f6rter?q=\u00e4")
    assert server.heads[0].startswith("GET /w%C3%B6rter?q=%C3%A4 HTTP/1.1\r\nhost: xn--bcher-kva.example\r\n")


@table("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_an_address_behind_a_proxy_is_not_fetched_for_nobody_could_say_where_it_leads(name) -> None:
    async with saying(answer()).listening() as server:
        network = Network(server.port, NAMES)
        password = "w" * 9
        env = {name: f"http://me:{password}@127.0.0.1:{server.port}"}
        fault = await fault_of(network.fetch("http://example.com/", env=env))
        assert (fault.kind, server.connections, network.asked) == ("proxy", 0, [])
        assert "NO_PROXY" in fault.problem
        assert password not in str(fault)
        assert (
            await network.fetch("http://example.com/", env={**env, "NO_PROXY": "example.com"})
        ).status == 200
        fault = await fault_of(network.fetch("http://example.com/", env={name: "not a proxy"}))
        assert fault.kind == "proxy"


# The address that was judged, the name that was meant


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificate")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
        " -keyout key.pem -out cert.pem -addext subjectAltName=DNS:example.com"
        " -addext keyUsage=critical,digitalSignature,keyCertSign"
    )
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return folder


async def test_a_secure_page_is_asked_for_by_name_at_the_judged_address(certificate) -> None:
    names: list[str] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    env = {"SSL_CERT_FILE": str(certificate / "cert.pem")}
    answers = {"/": answer(b"safe"), "/down": answer(status=301, location="http://example.com/")}
    async with saying(answers).listening(context) as server:
        network = Network(server.port, NAMES)
        web = network.web(tls=lambda: tls_context(env))
        assert (await web.fetch("https://example.com/", why_not_text)).body == b"safe"
        assert (names, network.contacted) == (["example.com"], [PUBLIC])
        with pytest.raises(WebRefused, match="from https to http"):
            await web.fetch("https://example.com/down", why_not_text)
        fault = await fault_of(web.fetch("https://two.example/", why_not_text))
        assert (fault.kind, "certificate" in fault.problem) == ("tls", True)
    assert len(server.heads) == 2


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async with saying(answer(b"here")).listening() as server:
        network = Network(server.port, NAMES)
        connect = network.connect

        async def first_is_down(address: str, port: int):
            if address == PUBLIC:
                raise ConnectionRefusedError(111, "refused")
            return await connect(address, port)

        network.connect = first_is_down
        assert (await network.fetch("http://two.example/")).body == b"here"
        fault = await fault_of(network.fetch("http://example.com/"))
    assert (fault.kind, fault.origin) == ("refused", "http://example.com")


async def test_the_system_resolves_names_to_plain_addresses() -> None:
    assert {"127.0.0.1", "::1"} & {*await look_up("localhost")}
    with pytest.raises(socket.gaierror):
        await look_up("a..b")


# Bodies


def chunked(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"


@table(
    ("sent", "body"),
    [
        (answer(b"hello"), b"hello"),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunked(b"hel", b"lo"), b"hello"),
        (HEAD + b"\r\nhello", b"hello"),
        (HEAD + b"content-length: 3\r\n\r\nhello", b"hel"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" + answer(b"hello"), b"hello"),
    ],
)
async def test_a_body_is_read_to_its_end(sent, body) -> None:
    async with saying(sent).listening() as server:
        assert (await Network(server.port, NAMES).fetch("http://example.com/")).body == body


@table(
    ("sent", "kind"),
    [
        (HEAD + b"content-length: 9\r\n\r\nhello", "reset"),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nhel", "reset"),
        (HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n", "protocol"),
        (HEAD + b"content-length: -1\r\n\r\nhello", "protocol"),
        (HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello", "protocol"),
        (HEAD + b"x: " + b"y" * 100_000 + b"\r\n\r\n", "protocol"),
        (HEAD + b"x: y\r\n" * 20_000 + b"\r\n", "protocol"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "protocol"),
        (b"", "reset"),
    ],
)
async def test_an_answer_that_is_not_whole_is_a_fault(sent, kind) -> None:
    async with saying(sent).listening() as server:
        fault = await fault_of(Network(server.port, NAMES).fetch("http://example.com/"))
    assert fault.kind == kind


async def test_a_body_without_end_is_cut_and_its_socket_closed() -> None:
    closed = asyncio.Event()

    async def talk(peer, _path) -> None:
        await peer.send(HEAD + b"\r\n")
        try:
            while True:
                await peer.send(b"x" * 65_536)
        finally:
            closed.set()

    async with WebServer(talk).listening() as server:
        found = await Network(server.port, NAMES).fetch("http://example.com/")
        assert (len(found.body), found.cut) == (MAX_BODY_BYTES, True)
        await closed.wait()


async def test_what_is_not_text_is_not_read() -> None:
    async with saying(answer(b"PK\3\4" * 1000, kind="application/zip")).listening() as server:
        found = await Network(server.port, NAMES).fetch("http://example.com/a.zip")
    assert (found.body, found.unwanted) == (b"", "it is not text (application/zip, 4.0 KB)")


async def test_what_went_wrong_on_the_server_is_a_status_without_a_body() -> None:
    async with saying(answer(b"gone", status=410)).listening() as server:
        found = await Network(server.port, NAMES).fetch("http://example.com/")
    assert (found.status, found.body) == (410, b"")


@table("pack", [gzip.compress, zlib.compress])
async def test_packed_bodies_come_as_they_are(pack) -> None:
    packed = pack(b"hello")
    async with saying(answer(packed, content_encoding="gzip")).listening() as server:
        assert (await Network(server.port, NAMES).fetch("http://example.com/")).body == packed


# Time


async def heard(server: WebServer) -> None:
    while not server.heads:
        await asyncio.sleep(0)


@table(
    ("sent", "passed_s", "problem"),
    [
        (b"", 20.5, "no answer within 20 s"),
        (HEAD + b"content-length: 9\r\n\r\nhel", 10.5, "no data for 10 s"),
    ],
)
async def test_a_silent_server_is_given_up(sent, passed_s, problem) -> None:
    gone = asyncio.Event()

    async def talk(peer, _path) -> None:
        await peer.send(sent)
        await peer.gone()
        gone.set()

    clock = FakeClock()
    async with WebServer(talk).listening() as server:
        fetching = asyncio.ensure_future(
            Network(server.port, NAMES).fetch("http://example.com/", clock=clock)
        )
        await heard(server)
        for _ in range(200):  # until what was sent has arrived
            await asyncio.sleep(0)
        await clock.advance(passed_s)
        fault = await fault_of(fetching)
        assert (fault.kind, fault.problem) == ("silent", problem)
        await gone.wait()


async def test_a_body_that_drips_ends_with_the_time_there_is() -> None:
    drip, gone = asyncio.Event(), asyncio.Event()

    async def talk(peer, _path) -> None:
        await peer.send(HEAD + b"content-length: 1000\r\n\r\n")
        dripping = asyncio.ensure_future(peer.gone())
        while not dripping.done():
            await drip.wait()
            drip.clear()
            await peer.send(b".")
            await asyncio.sleep(0)
        gone.set()

    clock = FakeClock()
    async with WebServer(talk).listening() as server:
        fetching = asyncio.ensure_future(
            Network(server.port, NAMES).fetch("http://example.com/", clock=clock)
        )
        await heard(server)
        passed_s = 0.0
        while not fetching.done() and passed_s < 2 * TOTAL_S:
            drip.set()
            for _ in range(50):
                await asyncio.sleep(0)
            await clock.advance(5)
            passed_s += 5
        fault = await fault_of(fetching)
        assert (fault.kind, passed_s) == ("timeout", TOTAL_S)
        drip.set()
        await gone.wait()


async def test_a_name_that_is_never_found_out_ends_too() -> None:
    async def never(_host: str) -> list[str]:
        return await asyncio.get_running_loop().create_future()

    clock, network = FakeClock(), Network(9)
    network.resolve = never
    fetching = asyncio.ensure_future(network.fetch("http://example.com/", clock=clock))
    await clock.advance(0)
    await clock.advance(10.5)
    assert "no connection within 10 s" in (await fault_of(fetching)).problem


async def test_cancelling_closes_the_socket_at_once() -> None:
    gone = asyncio.Event()

    async def talk(peer, _path) -> None:
        await peer.send(HEAD + b"content-length: 9\r\n\r\nhel")
        await peer.gone()
        gone.set()

    async with WebServer(talk).listening() as server:
        fetching = asyncio.ensure_future(Network(server.port, NAMES).fetch("http://example.com/"))
        await heard(server)
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
        await gone.wait()


@table(
    "url",
    [
        "http://a\u2100b.example/",
        "http://fa\u00df.example/",
        "http://a@b.example/",
        "http://\u3002/",
        "ftp://a/",
    ],
)
def test_a_name_that_could_mean_two_hosts_is_no_name(url) -> None:
    with pytest.raises(ValueError, match=r"not|differently|credentials|label"):
        parse_web_url(url)


# Where redirects lead


@table(
    ("location", "leads"),
    [
        ("/a", "http://h.example/a"),
        ("b?c", "http://h.example/x/b?c"),
        ("//o.example/", "http://o.example/"),
        ("https://o.example", "https://o.example"),
        ("?q", "http://h.example/x/y?q"),
        ("/\xc3\xa4", "http://h.example/\u00e4"),
        ("a\tb", "a\tb"),
        ("http://[", "http://["),
    ],
)
def test_a_location_is_read_from_where_it_was_given(location, leads) -> None:
    assert redirected("http://h.example/x/y", location) == leads
