"""Heads and bodies as bytes. Bodies are compared with h11, which frames them too."""

from itertools import pairwise

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.net.http_framing import (
    MAX_HEAD_BYTES,
    AnswerHead,
    BadAnswer,
    BadRequest,
    Body,
    ChunkedBody,
    H11HeadReader,
    HeadReader,
    SizedBody,
    UntilClose,
    request_head,
)
from tables import table


def cut(data: bytes, at: list[int]) -> list[bytes]:
    edges = [0, *sorted(position % (len(data) + 1) for position in at), len(data)]
    return [data[start:end] for start, end in pairwise(edges) if start < end]


def by_h11(stream: bytes) -> tuple[bytes, bool] | None:
    """The body and whether it is complete; None if h11 refuses it."""
    reader = h11.Connection(h11.CLIENT)
    reader.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
    reader.receive_data(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + stream)
    body = b""
    try:
        while (event := reader.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
            if isinstance(event, h11.Data):
                body += event.data
            if isinstance(event, h11.EndOfMessage):
                return body, True
    except h11.RemoteProtocolError:
        return None
    return body, False


def by_us(pieces: list[bytes]) -> tuple[bytes, bool] | None:
    body, reader = b"", ChunkedBody()
    try:
        for piece in pieces:
            body += reader.feed(piece)
            if reader.done:
                break
    except BadAnswer:
        return None
    return body, reader.done


CUTS = st.lists(st.integers(0, 10_000), max_size=8)
CHUNK = st.binary(min_size=1, max_size=40)
EXTENSION = st.sampled_from([b"", b";x", b" ; name=value", b"\t"])


@given(
    st.lists(st.tuples(CHUNK, EXTENSION), max_size=6),
    CUTS,
    st.sampled_from([b"", b"digest: x\r\n", b"a: b\r\nc: d\r\n"]),
)
def test_a_chunked_body_is_the_same_however_its_bytes_are_cut(chunks, cuts, trailers):
    stream = b"".join(b"%x%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk, extension in chunks)
    stream += b"0\r\n" + trailers + b"\r\n"
    assert by_us(cut(stream, cuts)) == (b"".join(chunk for chunk, _ in chunks), True)


@given(
    st.lists(CHUNK, min_size=1, max_size=4), st.integers(0, 10_000), st.binary(min_size=1, max_size=2), CUTS
)
def test_a_damaged_chunked_body_is_refused_or_read_as_h11_reads_it(chunks, position, damage, cuts):
    stream = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    position %= len(stream)
    stream = stream[:position] + damage + stream[position + len(damage) :]
    ours, theirs = by_us(cut(stream, cuts)), by_h11(stream)
    if ours is not None and ours[1]:
        assert theirs == ours


@given(st.lists(CHUNK, min_size=1, max_size=4), st.integers(0, 10_000))
def test_a_chunked_body_without_its_end_is_not_done(chunks, position):
    stream = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    body, done = by_us([stream[: position % len(stream)]])
    assert not done
    assert b"".join(chunks).startswith(body)


@table(
    "stream",
    [
        b"zz\r\n",
        b"-1\r\n",
        b"0x5\r\n",
        b"+5\r\n",
        b"1_0\r\n",
        b"5\n",
        b"3\r\nabcd\r\n",
        b"\r\n",
        b"f" * 5000,
        b"0\r\nx" * 20_000,
    ],
)
def test_what_is_not_a_chunk_is_refused(stream):
    with pytest.raises(BadAnswer):
        ChunkedBody().feed(stream)


def test_bytes_after_the_end_are_noticed_and_not_delivered():
    chunked, sized = ChunkedBody(), SizedBody(3)
    assert (chunked.feed(b"1\r\na\r\n0\r\n\r\nmore"), chunked.done, chunked.overrun) == (b"a", True, True)
    assert (sized.feed(b"abcmore"), sized.done, sized.overrun) == (b"abc", True, True)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 3\r\n\r\nabc"


@given(CUTS)
def test_a_head_is_the_same_however_its_bytes_are_cut(cuts):
    reader, rest, head = HeadReader("POST"), b"", None
    for piece in cut(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: x\r\n\r\n" + HEAD, cuts):
        if head is not None:
            rest += piece
        elif (head := reader.feed(piece)) is not None:
            rest = head.rest
    assert head is not None
    assert (head.status, head.keep_alive, rest) == (200, True, b"abc")
    assert head.headers == {"content-type": "text/plain", "x-a": "1, 2", "content-length": "3"}


def as_read(reader: HeadReader | H11HeadReader, pieces: list[bytes]) -> object:
    """What a reader makes of the bytes: the head, and how its body reads what follows; or that it refuses them."""
    try:
        for at, piece in enumerate(pieces):
            if (head := reader.feed(piece)) is not None:
                return told(head), b"".join(pieces[at + 1 :])
    except BadAnswer as refused:
        return str(refused)
    return None


def told(head: AnswerHead) -> object:
    body: Body = head.body
    return (
        head.status,
        list(head.headers.items()),
        head.keep_alive,
        head.rest,
        type(body),
        body.done,
        body.needs_end,
    )


NAMES = st.sampled_from(
    ["content-length", "Content-Length", "Transfer-Encoding", "connection", "date", "x-a", "X-A", "x a", ""]
)
LENGTHS = ["5", "0", "05", "+5", "-1", "5, 5", "5,6", "9" * 15, "9" * 16, "9" * 30]
CODINGS = ["chunked", "Chunked", "gzip, chunked", "identity", "close", "keep-alive, Close"]
OTHERS = [" spaced\t", "", "\u00e9", "a\x00b", "a\x7fb", "a\rb", "a\nb", "a\r\n folded", "a" * 70_000]
PLAIN_LINES = [
    "HTTP/1.1 200 OK",
    "HTTP/1.1 200",
    "HTTP/1.1 200 ",
    "HTTP/1.1 204 No Content",
    "HTTP/1.1 304 x",
]
ODD_LINES = [
    "HTTP/1.0 200 OK",
    "HTTP/1.1 599 \u00e9",
    "HTTP/1.1 100 Continue",
    "HTTP/1.1 101 Go",
    "HTTP/1.1 600 OK",
    "HTTP/1.1 099 OK",
    "HTTP/1.1 20 OK",
    "HTTP/1.1 2000 OK",
    "HTTP/1.1  200 OK",
    "HTTP/1.1\t200 OK",
    "http/1.1 200 OK",
    "HTTP/2 200 OK",
    "SSH-2.0-x",
    "HTTP/1.1 200 a\x01",
    "",
    "\r\nHTTP/1.1 200 OK",
]
FIRST_LINES = st.sampled_from(PLAIN_LINES) | st.sampled_from(ODD_LINES)
VALUES = st.sampled_from([*LENGTHS, *CODINGS, *OTHERS])


@given(
    FIRST_LINES,
    st.lists(st.tuples(NAMES, st.sampled_from([":", ": ", " :", ""]), VALUES), max_size=5),
    st.sampled_from(["\r\n", "\n"]),
    CUTS,
)
def test_a_head_is_what_h11_reads_whatever_it_is(first, fields, line_end, cuts):
    lines = [first, *(f"{name}{colon}{value}" for name, colon, value in fields)]
    data = (line_end.join(lines) + line_end * 2 + "5\r\nbody").encode("latin-1", "ignore")
    pieces = cut(data, cuts)
    assert as_read(HeadReader("POST"), pieces) == as_read(H11HeadReader("POST"), pieces)


@table(
    ("head", "body", "keep_alive"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n", SizedBody, True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: Close\r\n", SizedBody, False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n", SizedBody, False),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n", ChunkedBody, True),
        (b"HTTP/1.1 200 OK\r\n", UntilClose, False),
        (b"HTTP/1.1 204 No Content\r\n", SizedBody, True),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n", SizedBody, True),
    ],
)
def test_the_head_says_how_the_body_ends_and_whether_the_connection_lives_on(head, body, keep_alive):
    answer = HeadReader("POST").feed(head + b"\r\n")
    assert answer is not None
    assert (type(answer.body), answer.keep_alive) == (body, keep_alive)


@table(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00",
        b"SSH-2.0-OpenSSH_9\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * MAX_HEAD_BYTES,
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * MAX_HEAD_BYTES + b"\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\nx: y\r\n\r\n" * 4000,
    ],
)
def test_what_is_not_the_head_of_an_answer_is_refused_without_being_repeated(garbage):
    with pytest.raises(BadAnswer) as caught:
        HeadReader("POST").feed(garbage)
    assert "colon" not in str(caught.value)
    assert len(str(caught.value)) < 60


@table(
    ("name", "value"),
    [
        ("x", "a\r\nhost: evil"),
        ("x", "a\nb"),
        ("x", "a\0"),
        ("x", "sch\N{LATIN SMALL LETTER O WITH DIAERESIS}n"),
        ("x\r\ny", "a"),
        ("x y", "a"),
        ("", "a"),
        ("Host", "evil"),
        ("Content-Length", "5"),
        ("Transfer-Encoding", "chunked"),
        ("Proxy-Authorization", "a"),
    ],
)
def test_a_header_that_could_change_the_message_is_refused_and_its_value_not_repeated(name, value):
    with pytest.raises(BadRequest) as caught:
        request_head("POST", "/", "h", {name: value}, body_size=0)
    assert value not in str(caught.value) or len(value) == 1 or value == "5"
    assert caught.value.__context__ is None


@given(st.dictionaries(st.text(max_size=6), st.text(max_size=12), max_size=3))
def test_whatever_the_headers_the_head_of_a_request_holds_those_and_no_others(headers):
    try:
        head = request_head("POST", "/v1?q=1", "host:1", headers, body_size=7)
    except BadRequest:
        return
    server = h11.Connection(h11.SERVER)
    server.receive_data(head)
    request = server.next_event()
    assert isinstance(request, h11.Request)
    ours = {b"host": b"host:1", b"accept-encoding": b"identity", b"content-length": b"7"}
    given_ones = [(name.lower().encode(), value.strip(" \t").encode()) for name, value in headers.items()]
    assert sorted(request.headers) == sorted([*ours.items(), *given_ones])
