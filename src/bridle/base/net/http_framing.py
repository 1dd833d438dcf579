"""HTTP/1.1 framing: request heads, response heads and the three ways a body ends.

Pure and synchronous: no socket, no time. A plain head of an answer is read here, one that is odd in any way by h11,
imported with the first of those: it is a tenth of a short run. Bodies are framed here too, since h11 spends some ten
microseconds on every chunk, and a model sends one chunk per word.

BadRequest   the request must not be sent as it is
BadAnswer    the bytes are not an answer
Neither text ever holds a value of a header or bytes from the peer.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

MAX_HEAD_BYTES: Final = 64 * 1024
MAX_SIZE_LINE_BYTES: Final = 4 * 1024

_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_SIZE_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")
_PLAIN_METHODS: Final = frozenset(["GET", "POST"])
_PLAIN_START: Final = b"HTTP/1.1 "
_MAX_LENGTH_DIGITS: Final = 15
_TRAILERS: Final = rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n)*"
_OURS: Final = frozenset(
    [
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ]
)
"""Headers that frame or route the message. A caller who sets one of them would contradict us."""


class BadRequest(ValueError):
    """The request itself is wrong: nothing was sent."""


class BadAnswer(Exception):
    """The peer broke the protocol. The text reads as the end of a sentence."""


def request_head(
    method: str,
    target: str,
    host: str,
    headers: Mapping[str, str],
    *,
    body_size: int,
    extra: Iterable[str] = (),
) -> bytes:
    """The head with its blank line. `target` and `host` are those of a checked URL; `extra` are whole lines."""
    lines = [f"{method} {target} HTTP/1.1", f"host: {host}", "accept-encoding: identity", *extra]
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise BadRequest("a header name has characters that cannot be sent")
        if name.lower() in _OURS:
            raise BadRequest(f"the header {name.lower()} is set by the connection")
        if not _VALUE.fullmatch(value):
            raise BadRequest(f"the value of the header {name.lower()} has characters that cannot be sent")
        lines.append(f"{name}: {value}")
    if method != "GET":
        lines.append(f"content-length: {body_size}")
    return "\r\n".join([*lines, "", ""]).encode("ascii")


class SizedBody:
    """A body of a known length."""

    needs_end: Final = True

    def __init__(self, size: int) -> None:
        self.done = size == 0
        self.overrun = False
        self._left = size

    def feed(self, data: bytes) -> bytes:
        if len(data) < self._left:
            self._left -= len(data)
            return data
        body = data[: self._left]
        self.overrun = len(data) > self._left
        self._left = 0
        self.done = True
        return body


class UntilClose:
    """A body that ends with the connection; whether it is whole only its content can tell."""

    needs_end: Final = False

    def __init__(self) -> None:
        self.done = False
        self.overrun = False

    def feed(self, data: bytes) -> bytes:
        return data


class ChunkedBody:
    """A body in chunks of announced sizes. What `feed` returns depends on the bytes, never on the cuts."""

    needs_end: Final = True

    def __init__(self) -> None:
        self.done = False
        self.overrun = False
        self._kept = b""  # the beginning of a size line, of a line end or of the trailers
        self._left = 0
        self._in_chunk = False  # also while only its line end is missing
        self._in_trailers = False

    def feed(self, data: bytes) -> bytes:
        if self._kept:
            data = self._kept + data
            self._kept = b""
        parts: list[bytes] = []
        at = 0
        while not self._in_trailers:
            if self._in_chunk:
                end = at + self._left
                piece = data[at:end]
                parts.append(piece)
                self._left -= len(piece)
                closing = data[end : end + 2]
                if closing != b"\r\n":
                    self._keep_line_end(closing)
                    return b"".join(parts)
                at = end + 2
                self._in_chunk = False
            line = _SIZE_LINE.match(data, at)
            if line is None:
                self._keep_size_line(data[at:])
                return b"".join(parts)
            at = line.end()
            self._left = int(line[1], 16)
            self._in_chunk = self._left > 0
            self._in_trailers = self._left == 0
        self._read_trailers(data[at:])
        return b"".join(parts)

    def _keep_line_end(self, closing: bytes) -> None:
        if not b"\r\n".startswith(closing):
            raise BadAnswer("a chunk is longer than its size")
        self._kept = closing

    def _keep_size_line(self, line: bytes) -> None:
        if b"\n" in line or len(line) > MAX_SIZE_LINE_BYTES:
            raise BadAnswer("a chunk has no size")
        self._kept = line

    def _read_trailers(self, data: bytes) -> None:
        end = 0 if data.startswith(b"\r\n") else data.find(b"\r\n\r\n") + 2
        if end == 1:
            if len(data) > MAX_HEAD_BYTES:
                raise BadAnswer("the trailers are too long")
            self._kept = data
            return
        if not re.fullmatch(_TRAILERS, data[:end]):
            raise BadAnswer("the trailers are not headers")  # a damaged size, rather, that would cut the body
        self.done = True
        self.overrun = len(data) > end + 2


Body = SizedBody | UntilClose | ChunkedBody


class AnswerHead(msgspec.Struct, frozen=True):
    """The head of an answer. Names are in lower case, repeated ones joined by commas."""

    status: int
    headers: Mapping[str, str]
    body: Body
    keep_alive: bool
    rest: bytes
    """What came after the head in the same bytes."""


class HeadReader:
    """Reads the head of one answer, past interim ones (1xx), from bytes cut anywhere."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._kept: bytes = b""
        self._odd = H11HeadReader(method) if method not in _PLAIN_METHODS else None

    def feed(self, data: bytes) -> AnswerHead | None:
        """The head once it is whole. Raises `BadAnswer`."""
        if self._odd is not None:
            return self._odd.feed(data)
        data = self._kept + data
        end = data.find(b"\r\n\r\n")
        if end >= 0:
            head = plain_head(data[:end], data[end + 4 :])
            if head is not None:
                return head
        elif _may_become_plain(data):
            self._kept = data
            return None
        self._odd = H11HeadReader(self._method)
        return self._odd.feed(data)


def _may_become_plain(data: bytes) -> bool:
    """Whether this may be the beginning of a plain head. Of lines that end otherwise h11 knows where the last is."""
    begins = _PLAIN_START.startswith(data[: len(_PLAIN_START)])
    return begins and len(data) <= MAX_HEAD_BYTES and data.count(b"\n") == data.count(b"\r\n")


def plain_head(head: bytes, rest: bytes) -> AnswerHead | None:
    """The head of a final answer, without its blank line; None where anything of it is not as nearly all are.

    What it takes it reads as h11 does. It takes HTTP/1.1 in ASCII, one way to say how the body ends, no folded line.
    """
    if len(head) > MAX_HEAD_BYTES - 4 or not head.isascii():
        return None
    first, *lines = head.decode("ascii").split("\r\n")
    status, space, reason = first[9:12], first[12:13], first[13:]
    if not (first.startswith("HTTP/1.1 ") and status.isdecimal() and "200" <= status <= "599"):
        return None
    if space not in ("", " ") or not _VALUE.fullmatch(reason):
        return None
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            return None
        name, value = name.lower(), value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    length, coding = headers.get("content-length"), headers.get("transfer-encoding")
    if length is not None and (coding is not None or not _is_length(length)):
        return None
    if coding not in (None, "chunked"):
        return None
    return _answer_head(int(status), headers, rest, is_current=True)


def _is_length(value: str) -> bool:
    return value.isdecimal() and len(value) <= _MAX_LENGTH_DIGITS


class H11HeadReader:
    """The same for every head there is, by h11."""

    def __init__(self, method: str) -> None:
        import h11

        self._h11 = h11
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        # We wrote the request ourselves; the parser only needs to know that there was one.
        self._parser.send(h11.Request(method=method, target="/", headers=[("host", "-")]))
        self._fed = 0

    def feed(self, data: bytes) -> AnswerHead | None:
        h11 = self._h11
        self._fed += len(data)
        try:
            self._parser.receive_data(data)
            event = self._parser.next_event()
            while isinstance(event, h11.InformationalResponse):
                self._check_size()
                event = self._parser.next_event()
        except h11.RemoteProtocolError as error:
            raise BadAnswer(
                "the head of the answer is too long" if error.error_status_hint == 431 else "this is not HTTP"
            ) from None
        if not isinstance(event, h11.Response):
            return None
        rest = self._check_size()
        headers: dict[str, str] = {}
        for raw_name, raw_value in event.headers:
            name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return _answer_head(event.status_code, headers, rest, is_current=event.http_version == b"1.1")

    def _check_size(self) -> bytes:
        """The bytes after the head. A head that came in one read has not been measured yet."""
        rest = self._parser.trailing_data[0]
        if self._fed - len(rest) > MAX_HEAD_BYTES:
            raise BadAnswer("the head of the answer is too long")
        return rest


def _answer_head(status: int, headers: Mapping[str, str], rest: bytes, *, is_current: bool) -> AnswerHead:
    """`is_current`: it is of HTTP/1.1, whose connections are kept unless it says otherwise."""
    options = {option.strip() for option in headers.get("connection", "").lower().split(",")}
    body = _body(status, headers)
    return AnswerHead(status, headers, body, body.needs_end and is_current and "close" not in options, rest)


def _body(status: int, headers: Mapping[str, str]) -> Body:
    """How the body ends. Lengths that are no numbers or contradict each other are refused."""
    if status in (204, 304):
        return SizedBody(0)
    if "transfer-encoding" in headers:
        return ChunkedBody()
    if "content-length" in headers:
        return SizedBody(int(headers["content-length"]))
    return UntilClose()
