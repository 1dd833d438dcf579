"""JSON-RPC between two peers, and the framing of its messages."""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.net.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LSP_CANCELLATION,
    MCP_CANCELLATION,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    FramingError,
    HeaderFrames,
    MessageTooLarge,
    NewlineFrames,
    Peer,
    RpcClosed,
    RpcError,
)
from tables import table


class Wire:
    """The other end, played by the test: what the peer sent, in order."""

    def __init__(self) -> None:
        self._sent: asyncio.Queue[bytes] = asyncio.Queue()

    async def send(self, message: bytes) -> None:
        await self._sent.put(message)

    async def next(self) -> dict[str, object]:
        return json.loads(await self._sent.get())

    def is_quiet(self) -> bool:
        return self._sent.empty()


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def say(peer: Peer, **message: object) -> None:
    peer.receive(json.dumps({"jsonrpc": "2.0"} | message).encode())


def error(request_id: object, code: int, message: str) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def joined(left: dict[str, object], right: dict[str, object]) -> tuple[Peer, Peer]:
    """Two peers, each delivering to the other at once."""
    peers: list[Peer] = []

    def to(index: int) -> Callable[[bytes], Awaitable[None]]:
        async def send(message: bytes) -> None:
            peers[index].receive(message)

        return send

    peers += [Peer(to(1), **left), Peer(to(0), **right)]
    return peers[0], peers[1]


async def test_both_sides_can_call_and_notify():
    heard: list[tuple[str, object]] = []

    async def answer(method: str, params: object) -> object:
        return [method, params]

    options = {"on_request": answer, "on_notification": lambda method, params: heard.append((method, params))}
    left, right = joined(options, options)
    assert await left.call("a", {"x": 1}) == ["a", {"x": 1}]
    assert await right.call("b") == ["b", None]
    await left.notify("n", [1])
    await right.notify("m")
    assert heard == [("n", [1]), ("m", None)]


async def test_our_ids_are_integers_from_zero_and_absent_params_are_absent():
    wire = Wire()
    peer = Peer(wire.send)
    async with asyncio.TaskGroup() as group:
        group.create_task(peer.call("a"))
        group.create_task(peer.call("b", {}))
        assert await wire.next() == {"jsonrpc": "2.0", "id": 0, "method": "a"}
        assert await wire.next() == {"jsonrpc": "2.0", "id": 1, "method": "b", "params": {}}
        say(peer, id=0, result=None)
        say(peer, id=1, result=None)


@pytest.mark.requirement("H1.7")
async def test_answers_find_their_calls_in_any_order_also_as_strings():
    wire = Wire()
    peer = Peer(wire.send)
    calls = [asyncio.create_task(peer.call(name)) for name in "abc"]
    await settled()
    say(peer, id="2", result="third")
    say(peer, id=1, result="second")
    say(peer, id=0, result=0)
    assert await asyncio.gather(*calls) == [0, "second", "third"]


@pytest.mark.requirement("H1.7")
@table("request_id", [0, 7, -1, 2**60, "", "0", "abc", "é"])
async def test_requests_may_carry_integer_or_string_ids(request_id: object):
    wire = Wire()

    async def answer(method: str, params: object) -> object:
        return method

    say(Peer(wire.send, on_request=answer), id=request_id, method="m")
    assert await wire.next() == {"jsonrpc": "2.0", "id": request_id, "result": "m"}


async def test_an_error_answer_is_raised_with_code_message_and_data():
    wire = Wire()
    peer = Peer(wire.send)
    call = asyncio.create_task(peer.call("a"))
    await settled()
    say(peer, id=0, error={"code": -5, "message": "no", "data": [1]})
    with pytest.raises(RpcError) as caught:
        await call
    assert (caught.value.code, caught.value.message, caught.value.data) == (-5, "no", [1])


@table("body", [{}, {"error": "no"}, {"error": {"code": "x"}}, {"error": {}}])
async def test_a_malformed_answer_fails_its_call(body: dict[str, object]):
    wire = Wire()
    peer = Peer(wire.send)
    call = asyncio.create_task(peer.call("a"))
    await settled()
    say(peer, id=0, **body)
    with pytest.raises(RpcError) as caught:
        await call
    assert caught.value.code == INVALID_REQUEST


@table("stray", [{"id": 5}, {"id": None}, {"id": True}, {"id": "x"}, {"id": [0]}, {}, {"id": "9" * 5000}])
async def test_an_answer_nobody_waits_for_is_dropped(stray: dict[str, object]):
    wire = Wire()
    peer = Peer(wire.send)
    call = asyncio.create_task(peer.call("a"))
    await settled()
    say(peer, **stray, result=1)
    say(peer, **stray, error={"code": 1, "message": "x"})
    await settled()
    assert not call.done()
    say(peer, id=0, result="mine")
    assert await call == "mine"


@table(
    ("message", "answer"),
    [
        (b"{", error(None, PARSE_ERROR, "not JSON")),
        (b"\xff", error(None, PARSE_ERROR, "not JSON")),
        (b"", error(None, PARSE_ERROR, "not JSON")),
        (b"[" * 100_000, error(None, PARSE_ERROR, "not JSON")),
        (b"[]", error(None, INVALID_REQUEST, "not a single JSON-RPC message")),
        (b"1", error(None, INVALID_REQUEST, "not a single JSON-RPC message")),
        (b'{"id":1,"method":"m"}', error(1, INVALID_REQUEST, "jsonrpc is not 2.0")),
        (b'{"jsonrpc":"2.0","id":1,"method":2}', error(1, INVALID_REQUEST, "method is not a string")),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"m","params":3}',
            error(1, INVALID_REQUEST, "params are neither an object nor an array"),
        ),
        *[
            (
                b'{"jsonrpc":"2.0","id":%b,"method":"m"}' % bad,
                error(None, INVALID_REQUEST, "id is neither an integer nor a string"),
            )
            for bad in (b"null", b"true", b"1.5", b"[1]")
        ],
        (b'{"jsonrpc":"2.0","id":1,"method":"m"}', error(1, METHOD_NOT_FOUND, "no method m")),
    ],
)
async def test_what_cannot_be_served_is_answered_with_the_right_code(
    message: bytes, answer: dict[str, object]
):
    wire = Wire()
    Peer(wire.send).receive(message)
    assert await wire.next() == answer


async def test_a_handler_chooses_its_error():
    wire = Wire()

    async def picky(method: str, params: object) -> object:
        raise RpcError(INVALID_PARAMS, "need x", {"missing": ["x"]})

    say(Peer(wire.send, on_request=picky), id="q", method="m")
    body = {"code": INVALID_PARAMS, "message": "need x", "data": {"missing": ["x"]}}
    assert await wire.next() == {"jsonrpc": "2.0", "id": "q", "error": body}


async def test_a_broken_handler_is_reported_here_and_not_described_there():
    wire = Wire()
    failures: list[tuple[str, BaseException]] = []
    mishap = RuntimeError("the password is 1234")

    async def broken(method: str, params: object) -> object:
        raise mishap

    peer = Peer(
        wire.send, on_request=broken, on_failure=lambda method, error: failures.append((method, error))
    )
    say(peer, id=1, method="m")
    assert await wire.next() == error(1, INTERNAL_ERROR, "internal error")
    assert failures == [("m", mishap)]


@table("result", [object(), "x" * 300, {1.5j: 1}])
async def test_a_result_that_cannot_be_sent_is_an_internal_error(result: object):
    wire = Wire()

    async def answer(method: str, params: object) -> object:
        return result

    say(Peer(wire.send, on_request=answer, max_message_bytes=200), id=1, method="m")
    assert await wire.next() == error(1, INTERNAL_ERROR, "internal error")


async def test_error_data_that_cannot_be_sent_is_left_out():
    wire = Wire()

    async def answer(method: str, params: object) -> object:
        raise RpcError(-1, "no", object())

    say(Peer(wire.send, on_request=answer), id=1, method="m")
    assert await wire.next() == error(1, -1, "the error cannot be encoded")


async def test_an_id_in_use_is_refused_and_the_first_request_goes_on():
    wire = Wire()
    go = asyncio.Event()

    async def answer(method: str, params: object) -> object:
        await go.wait()
        return method

    peer = Peer(wire.send, on_request=answer)
    say(peer, id=1, method="first")
    say(peer, id="1", method="other id")
    say(peer, id=1, method="second")
    assert await wire.next() == error(1, INVALID_REQUEST, "a request with this id is running")
    go.set()
    assert (await wire.next())["result"] == "first"
    assert (await wire.next())["result"] == "other id"


async def test_a_cancelled_call_tells_the_other_side_and_drops_the_late_answer():
    wire = Wire()
    peer = Peer(wire.send, cancellation=MCP_CANCELLATION)
    call = asyncio.create_task(peer.call("slow"))
    await wire.next()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0}}
    assert await wire.next() == cancel
    say(peer, id=0, result="late")
    await settled()
    assert wire.is_quiet()


@table(
    ("cancellation", "answers"),
    [(MCP_CANCELLATION, []), (LSP_CANCELLATION, [error("s", -32800, "cancelled")])],
)
async def test_an_incoming_request_can_be_cancelled(cancellation, answers: list[object]):
    wire = Wire()
    stopped: list[str] = []

    async def slow(method: str, params: object) -> object:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(method)

    heard: list[str] = []
    peer = Peer(
        wire.send,
        on_request=slow,
        on_notification=lambda method, params: heard.append(method),
        cancellation=cancellation,
    )
    say(peer, id="s", method="slow")
    await settled()
    for params in ({cancellation.id_key: "other"}, {}, [1], {cancellation.id_key: ["s"]}):
        say(peer, method=cancellation.method, params=params)
    await settled()
    assert stopped == []
    say(peer, method=cancellation.method, params={cancellation.id_key: "s"})
    await settled()
    assert (stopped, heard) == (["slow"], [])
    assert [await wire.next() for _ in answers] == answers
    assert wire.is_quiet()


async def test_closing_fails_waiting_calls_and_stops_running_requests():
    wire = Wire()
    stopped: list[str] = []

    async def slow(method: str, params: object) -> object:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(method)

    peer = Peer(wire.send, on_request=slow)
    calls = [asyncio.create_task(peer.call(name)) for name in "ab"]
    say(peer, id=1, method="slow")
    await settled()
    await peer.close()
    assert stopped == ["slow"]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [RpcClosed, RpcClosed]
    with pytest.raises(RpcClosed):
        await peer.call("late")
    with pytest.raises(RpcClosed):
        await peer.notify("late")
    peer.receive(b"garbage")
    await peer.close()


async def test_a_request_may_close_its_own_peer():
    wire = Wire()
    peers: list[Peer] = []
    closed = asyncio.Event()

    async def shutdown(method: str, params: object) -> object:
        await peers[0].close()
        closed.set()
        return None

    peers.append(Peer(wire.send, on_request=shutdown))
    say(peers[0], id=1, method="shutdown")
    await asyncio.wait_for(closed.wait(), 5)


async def test_a_transport_that_breaks_closes_the_peer():
    async def broken(message: bytes) -> None:
        await asyncio.sleep(0)
        raise BrokenPipeError

    peer = Peer(broken)
    outcomes = await asyncio.gather(peer.call("a"), peer.call("b"), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [RpcClosed, RpcClosed]


async def test_a_transport_that_breaks_under_an_answer_closes_the_peer():
    sent: list[bytes] = []

    async def breaking(message: bytes) -> None:
        if sent:
            raise BrokenPipeError
        sent.append(message)

    peer = Peer(breaking)
    call = asyncio.create_task(peer.call("a"))
    await settled()
    say(peer, id=9, method="unknown")
    with pytest.raises(RpcClosed):
        await call


async def test_messages_are_sent_one_at_a_time_in_order():
    order: list[str] = []

    async def slow(message: bytes) -> None:
        name = json.loads(message)["method"]
        order.append(f"{name} begins")
        await settled()
        order.append(f"{name} ends")

    peer = Peer(slow)
    await asyncio.gather(*(peer.notify(name) for name in "abc"))
    assert order == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]


async def test_messages_past_the_limit_are_refused_both_ways():
    wire = Wire()
    peer = Peer(wire.send, max_message_bytes=100)
    with pytest.raises(MessageTooLarge):
        await peer.call("a", {"x": "y" * 100})
    call = asyncio.create_task(peer.call("b"))
    await settled()
    with pytest.raises(MessageTooLarge):
        peer.receive(b" " * 101)
    with pytest.raises(RpcClosed):
        await call


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(at % (len(stream) + 1) for at in cuts), len(stream)]
    return [stream[start:end] for start, end in itertools.pairwise(edges)]


LINES = st.lists(
    st.binary(min_size=1, max_size=20).filter(lambda m: m.strip() and b"\n" not in m and m[-1:] != b"\r")
)


@given(LINES, st.lists(st.integers(0, 1000), max_size=10))
def test_lines_come_out_as_they_went_in_however_they_are_cut(messages: list[bytes], cuts: list[int]):
    frames = NewlineFrames(max_bytes=20)
    stream = b"".join(map(NewlineFrames.framed, messages))
    assert [message for chunk in cut(stream, cuts) for message in frames.feed(chunk)] == messages


@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(0, 1000), max_size=10))
def test_headed_messages_come_out_as_they_went_in_however_they_are_cut(
    messages: list[bytes], cuts: list[int]
):
    frames = HeaderFrames(max_bytes=20)
    stream = b"".join(map(HeaderFrames.framed, messages))
    assert [message for chunk in cut(stream, cuts) for message in frames.feed(chunk)] == messages


PIECES = st.sampled_from(
    [b"Content-Length: ", b"5", b"0", b"\r\n", b"\r\n\r\n", b"Content-Length: 3\r\n\r\nabc", b"x"]
)


@given(
    st.lists(PIECES, max_size=15).map(b"".join), st.lists(st.integers(0, 1000), max_size=10), st.booleans()
)
def test_even_broken_streams_read_the_same_however_they_are_cut(stream: bytes, cuts: list[int], headed: bool):
    def read(chunks: list[bytes]) -> tuple[list[bytes], bool]:
        frames = HeaderFrames(max_bytes=6) if headed else NewlineFrames(max_bytes=6)
        messages: list[bytes] = []
        for chunk in chunks:
            try:
                messages += frames.feed(chunk)
            except FramingError as error:
                return messages + error.completed, True
        return messages, False

    assert read(cut(stream, cuts)) == read([stream])


def test_blank_lines_and_carriage_returns_between_messages_are_dropped():
    assert NewlineFrames().feed(b'\n{"a":1}\r\n\r\n \n{}\n') == [b'{"a":1}', b"{}"]


def test_a_line_end_inside_a_message_cannot_be_framed():
    with pytest.raises(FramingError):
        NewlineFrames.framed(b"{\n}")


@table("stream", [b"ok\n" + b"x" * 11, b"ok\n" + b"x" * 11 + b"\n"])
def test_a_line_past_the_limit_ends_the_stream(stream: bytes):
    frames = NewlineFrames(max_bytes=10)
    with pytest.raises(MessageTooLarge) as caught:
        frames.feed(stream)
    assert caught.value.completed == [b"ok"]
    with pytest.raises(MessageTooLarge):
        frames.feed(b"\n")


def test_other_headers_and_any_spelling_of_the_length_are_fine():
    head = b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-LENGTH:002\r\n\r\n"
    assert HeaderFrames().feed(head + b"{}" + head + b"[]") == [b"{}", b"[]"]


@table(
    "head",
    [
        b"Content-Length: -1",
        b"Content-Length: x",
        b"Content-Length:",
        b"Length: 1",
        b"no colon",
        b"",
        b"Content-Length: 1\r\nContent-Length: 2",
        b"Content-Length: 101",
        b"Content-Length: " + b"9" * 5000,
        b"X: " + b"y" * 9000,
    ],
)
def test_broken_headers_end_the_stream(head: bytes):
    frames = HeaderFrames(max_bytes=100)
    with pytest.raises(FramingError) as caught:
        frames.feed(HeaderFrames.framed(b"ok") + head + b"\r\n\r\n")
    assert caught.value.completed == [b"ok"]
    with pytest.raises(FramingError):
        frames.feed(HeaderFrames.framed(b"ok"))


def test_headers_without_end_are_refused_before_they_fill_the_memory():
    frames = HeaderFrames()
    for _ in range(8192):
        assert frames.feed(b"a") == []
    with pytest.raises(FramingError, match="larger"):
        frames.feed(b"a")


def test_a_huge_message_in_tiny_chunks_is_read_in_linear_time():
    size = 1_000_000
    for frames, head, tail in [
        (HeaderFrames(), b"Content-Length: %d\r\n\r\n" % size, b""),
        (NewlineFrames(), b"", b"\n"),
    ]:
        messages = frames.feed(head)
        for _ in range(size // 4):
            messages += frames.feed(b"abcd")
        messages += frames.feed(tail)
        assert [len(message) for message in messages] == [size]
