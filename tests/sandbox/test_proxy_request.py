"""What the proxy understands of a request, and that nothing which could be understood in two ways passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.sandbox.network.proxy_request import ProxyRefused, ProxyRequest, read_request


def head(*lines: str) -> bytes:
    return "\r\n".join((*lines, "", "")).encode("latin-1")


@pytest.mark.parametrize(
    ("lines", "host", "port"),
    [
        (("CONNECT Example.org.:443 HTTP/1.1", "Host: example.org:443"), "example.org", 443),
        (("CONNECT example.org:443 HTTP/1.0",), "example.org", 443),
        (
            ("CONNECT example.org:443 HTTP/1.1", "host: example.org", "Proxy-Connection: Keep-Alive"),
            "example.org",
            443,
        ),
        (("CONNECT [::1]:80 HTTP/1.1", "Host: [::1]:80"), "::1", 80),
    ],
)
def test_a_tunnel_is_asked_for_by_host_and_port(lines: tuple[str, ...], host: str, port: int) -> None:
    assert read_request(head(*lines)) == ProxyRequest(host, port)


def test_what_is_sent_on_is_written_anew_and_nothing_of_the_way_here_is_in_it() -> None:
    request = read_request(
        head(
            "POST http://Example.com:8080/a?b=c HTTP/1.1",
            "Host: example.com:8080",
            "Accept: */*",
            "Connection: close, X-Mine, Content-Length",
            "X-Mine: 1",
            "Proxy-Authorization: Basic eA==",
            "TE: trailers",
            "Upgrade: websocket",
            "Keep-Alive: 5",
            "Content-Length: 3",
        )
    )
    assert (request.host, request.port, request.body_size) == ("example.com", 8080, 3)
    assert request.head == head(
        "POST /a?b=c HTTP/1.1",
        "host: example.com:8080",
        "accept: */*",
        "content-length: 3",
        "connection: close",
    )


@pytest.mark.parametrize(
    "lines",
    [
        ("GET / HTTP/1.1", "Host: example.com"),
        ("GET https://example.com/ HTTP/1.1", "Host: example.com"),
        ("GET ftp://example.com/ HTTP/1.1",),
        ("GET http://a@example.com/ HTTP/1.1",),
        ("GET http://example.com/#x HTTP/1.1",),
        ("GET http://example.com\\@evil.com/ HTTP/1.1",),
        ("GET http://example.com/ HTTP/1.1", "Host: other.com"),
        ("GET http://example.com/ HTTP/1.1", "Host: example.com:81"),
        ("GET http://example.com/ HTTP/1.1", "Host: example.com", "Host: example.com"),
        ("GET http://example.com/ HTTP/1.1", "Host: example.com, other.com"),
        ("GET http://example.com/ HTTP/1.1", "Host: a@example.com"),
        ("GET http://example.com/ HTTP/1.1", "Host : example.com"),
        ("GET http://example.com/ HTTP/1.1", " Host: other.com"),
        ("GET http://example.com/ HTTP/1.1", "A: b\n", "Host: other.com"),
        ("GET http://example.com/ HTTP/1.1", "A: b\rHost: other.com"),
        ("GET http://example.com/ HTTP/1.1", "A: b\0"),
        ("GET  http://example.com/ HTTP/1.1",),
        ("GET http://example.com/ HTTP/1.1 ",),
        ("GET http://example.com/ HTTP/2.0",),
        ("get http://example.com/ HTTP/1.1",),
        ("GET http://example.com/",),
        ("POST http://example.com/ HTTP/1.1", "Content-Length: 1", "Content-Length: 1"),
        ("POST http://example.com/ HTTP/1.1", "Content-Length: 1", "Content-Length: 2"),
        ("POST http://example.com/ HTTP/1.1", "Content-Length: 1, 1"),
        ("POST http://example.com/ HTTP/1.1", "Content-Length: +1"),
        ("POST http://example.com/ HTTP/1.1", "Content-Length: -1"),
        ("POST http://example.com/ HTTP/1.1", "Content-Length: 0x1"),
        ("POST http://example.com/ HTTP/1.1", "Content-Length:"),
        ("POST http://example.com/ HTTP/1.1", "Content-Length: 1", "Transfer-Encoding: chunked"),
        ("POST http://example.com/ HTTP/1.1", "Transfer-Encoding: chunked"),
        ("POST http://example.com/ HTTP/1.1", "Transfer-Encoding: xchunked"),
        (f"CONNECT {'a.' * 200}com:443 HTTP/1.1",),
        (f"GET http://{'a.' * 200}com/ HTTP/1.1",),
        ("CONNECT example.com HTTP/1.1",),
        ("CONNECT example.com: HTTP/1.1",),
        ("CONNECT example.com:0 HTTP/1.1",),
        ("CONNECT example.com:99999 HTTP/1.1",),
        ("CONNECT http://example.com:443/ HTTP/1.1",),
        ("CONNECT a@example.com:443 HTTP/1.1",),
        ("CONNECT example.com:443 HTTP/1.1", "Host: other.com:443"),
        ("CONNECT example.com:443 HTTP/1.1", "Host: example.com:444"),
        ("CONNECT example.com:443 HTTP/1.1", "Content-Length: 5"),
    ],
)
def test_what_could_be_read_in_two_ways_is_not_passed_on(lines: tuple[str, ...]) -> None:
    with pytest.raises(ProxyRefused) as caught:
        read_request(head(*lines))
    assert caught.value.status in (400, 411)
    assert "other.com" not in caught.value.problem, "nothing of the request is repeated"


TOKENS = st.sampled_from(
    ["GET ", "CONNECT ", "http://a.b", "a.b:443", "/", " HTTP/1.1", "\r\n", "\n", "\r", "Host: a.b", "Host: x", ":",
     " ", "Content-Length: 5", "Transfer-Encoding: chunked", "\0", "\t", "X-A: b", "é", "[::1]:80"]
)  # fmt: skip


@given(st.lists(TOKENS, max_size=12).map("".join))
def test_whatever_comes_is_refused_or_sent_on_as_exactly_one_request(text: str) -> None:
    try:
        request = read_request(text.encode("latin-1") + b"\r\n\r\n")
    except ProxyRefused:
        return
    if request.head:
        lines = request.head.split(b"\r\n")
        assert lines[-2:] == [b"", b""]
        assert b"" not in lines[:-2]
        assert not any(character in b"".join(lines) for character in b"\r\n\0")
        names = [line.partition(b":")[0] for line in lines[1:-2]]
        assert names.count(b"host") == 1
        assert names.count(b"content-length") <= 1
        assert b"transfer-encoding" not in names
