"""Parse the head of a proxy request strictly.

Pure. Programs that read a request differently are how one is smuggled past another: so everything that could be read in
two ways is refused, and what is sent on is written anew from what was understood.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from bridle.base.net.http_routes import Url, parse_url

MAX_HEAD_BYTES = 32 * 1024
END = b"\r\n\r\n"

_FIRST = re.compile(rb"([A-Z]{1,20}) ([!-~]{1,8192}) (HTTP/1\.[01])")
_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_SIZE = re.compile(rb"[0-9]{1,15}")
_AUTHORITY = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::[0-9]{1,5})?")
_MOST_HOST = 254
"""Characters, with a final dot. Names are repeated to the model, and it should not have to read more."""
_ONLY_FOR_US = frozenset({
    b"connection", b"content-length", b"host", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
    b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
})  # fmt: skip
"""Lines that frame or route the message: never passed on as they came."""


class ProxyRefused(Exception):
    """It is not passed on. `problem` reads as a sentence without its dot."""

    def __init__(self, problem: str, status: int = 400) -> None:
        super().__init__(problem)
        self.problem = problem
        self.status = status


class ProxyRequest(msgspec.Struct, frozen=True):
    """Where to, and what to send on there: nothing for a tunnel, else this head and `body_size` bytes after it.

    `host` has small letters, no brackets and no final dot.
    """

    host: str
    port: int
    head: bytes = b""
    body_size: int = 0


def read_request(head: bytes) -> ProxyRequest:
    """`head` ends with its empty line. Raises `ProxyRefused`."""
    first, *lines = head.removesuffix(END).split(b"\r\n")
    request = _FIRST.fullmatch(first)
    fields = [_LINE.fullmatch(line) for line in lines]
    if request is None or not head.endswith(END):
        raise ProxyRefused("This is a proxy for HTTP/1.1: it takes CONNECT host:port and absolute addresses")
    headers = [(field[1].lower(), field[2].rstrip()) for field in fields if field is not None]
    if len(headers) < len(lines):
        raise ProxyRefused("A line of the request's head cannot be read")
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1:
        raise ProxyRefused("The request has more than one Host")
    size = _body_size(headers)
    method, target, version = request.groups()
    if method == b"CONNECT":
        url = _tunnel(target.decode("ascii"))
        _check_host(hosts, url)
        if size:
            raise ProxyRefused("CONNECT has no body")
        return ProxyRequest(_plain(url.host), url.port)
    url = _absolute(target.decode("ascii"))
    _check_host(hosts, url)
    named = {
        name.strip().lower() for key, value in headers if key == b"connection" for name in value.split(b",")
    }
    kept = [b"%b: %b" % field for field in headers if field[0] not in _ONLY_FOR_US | named]
    sized = [b"content-length: %d" % size] if size is not None else []
    written = [
        b"%b %b %b" % (method, url.target.encode("ascii"), version),
        b"host: %b" % url.authority.encode("ascii"),
        *kept,
        *sized,
        b"connection: close",
    ]
    return ProxyRequest(_plain(url.host), url.port, b"\r\n".join(written) + END, size or 0)


def _body_size(headers: Sequence[tuple[bytes, bytes]]) -> int | None:
    if any(name == b"transfer-encoding" for name, _ in headers):
        raise ProxyRefused("Send a Content-Length: a body in chunks is not passed on", 411)
    sizes = [value for name, value in headers if name == b"content-length"]
    if len(sizes) > 1 or not all(map(_SIZE.fullmatch, sizes)):
        raise ProxyRefused("The request does not say clearly how long it is")
    return int(sizes[0]) if sizes else None


def _tunnel(target: str) -> Url:
    if not _AUTHORITY.fullmatch(target) or not re.search(r":[0-9]+\Z", target):
        raise ProxyRefused("CONNECT takes host:port")
    return _parsed(f"http://{target}/")


def _absolute(target: str) -> Url:
    if target.startswith("/") or "://" not in target:
        raise ProxyRefused("This is a proxy: it takes absolute addresses")
    if not target.lower().startswith("http://"):
        raise ProxyRefused("Ask for https addresses with CONNECT")
    return _parsed(target)


def _check_host(hosts: Sequence[bytes], url: Url) -> None:
    """A `Host` that says something else than the address may be the one that the next program obeys."""
    for value in hosts:
        text = value.decode("latin-1")
        if not _AUTHORITY.fullmatch(text):
            raise ProxyRefused("The Host of the request cannot be read")
        other = _parsed(f"http://{text}/")
        has_port = re.search(r":[0-9]+\Z", text.rpartition("]")[2])
        if _plain(other.host) != _plain(url.host) or (has_port and other.port != url.port):
            raise ProxyRefused("The Host of the request is not the host of its address")


def _parsed(text: str) -> Url:
    try:
        url = parse_url(text)
    except ValueError as error:
        raise ProxyRefused(f"The address cannot be used: {error}") from None
    if len(url.host) > _MOST_HOST:
        raise ProxyRefused("The address cannot be used: no host has so long a name")
    return url


def _plain(host: str) -> str:
    return host.lower().removesuffix(".")
