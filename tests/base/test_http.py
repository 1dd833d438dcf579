"""Requests over real sockets on loopback. The servers speak raw bytes, so they can stall, cut and corrupt."""

import asyncio
import contextlib
import socket
import ssl
import struct
import subprocess
import traceback

import pytest

from bridle.base.clock import SystemClock
from bridle.base.net.http import KEPT_IDLE_S, HttpAnswer, HttpConnections, HttpFault
from bridle.conformance.fake_clock import FakeClock

SECRET = f"sk-{0x5EC12E7:x}"
PATIENCE_S = 20


class Peer:
    """The server's end of one connection."""

    def __init__(self, reader, writer, number):
        self.reader = reader
        self.writer = writer
        self.number = number

    async def request(self):
        """The next request as (head, body)."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        return head, await self.reader.readexactly(int(length[0].split(b":")[1]) if length else 0)

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def gone(self):
        """Waits until the client has closed the connection."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(1 << 16):
                pass

    def reset(self):
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class Server:
    """Where it listens, and how many connections came."""

    def __init__(self, talk):
        self.connections = 0
        self._talk = talk
        self._tasks = set()

    async def _serve(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        peer = Peer(reader, writer, self.connections)
        self.connections += 1
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
                await self._talk(peer)
        finally:
            self._tasks.discard(asyncio.current_task())
            writer.close()

    @contextlib.asynccontextmanager
    async def listening(self, tls=None):
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        self.url = f"http{'s' * (tls is not None)}://127.0.0.1:{self.port}"
        try:
            yield self
        finally:
            server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)


def serving(talk, tls=None):
    """A server that holds the conversation `talk(peer)` on each connection."""
    return Server(talk).listening(tls)


def answering(*answers):
    """A server that gives each request on a connection the next answer and then closes."""

    async def talk(peer):
        for answer in answers:
            await peer.request()
            await peer.send(answer)

    return serving(talk)


@pytest.fixture
async def clock():
    return FakeClock()


@pytest.fixture
async def connections():
    owner = HttpConnections(env={}, clock=SystemClock())
    async with asyncio.timeout(PATIENCE_S):
        yield owner
    await owner.close()


@pytest.fixture
async def timed(clock):
    owner = HttpConnections(env={}, clock=clock)
    async with asyncio.timeout(PATIENCE_S):
        yield owner
    await owner.close()


async def post(connections, url, body=b"{}", **options):
    return await connections.post_stream(url, headers={"authorization": SECRET}, body=body, **options)


async def collected(response):
    return b"".join([chunk async for chunk in response])


async def fault_of(awaitable):
    with pytest.raises(HttpFault) as caught:
        await awaitable
    text = "".join(traceback.format_exception(caught.value)) + repr(caught.value.__dict__)
    assert SECRET not in text
    return caught.value


SIZED = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 11\r\n\r\nhello world"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n1;x=y\r\n \r\n5\r\nworld\r\n0\r\nx-trailer: a\r\n\r\n"
)
CLOSED = b"HTTP/1.1 200 OK\r\n\r\nhello world"
OLD = b"HTTP/1.0 200 OK\r\n\r\nhello world"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"


# Answers


@pytest.mark.parametrize("answer", [SIZED, CHUNKED, CLOSED, OLD])
@pytest.mark.parametrize("step", [1, 1000])
async def test_every_way_to_end_a_body_gives_the_whole_body(connections, answer, step):
    async def talk(peer):
        await peer.request()
        for start in range(0, len(answer), step):
            await peer.send(answer[start : start + step])

    async with serving(talk) as server:
        response = await post(connections, server.url)
        assert (response.status, await collected(response)) == (200, b"hello world")


async def test_the_request_arrives_as_it_was_given(connections):
    seen = asyncio.get_running_loop().create_future()

    async def talk(peer):
        seen.set_result(await peer.request())
        await peer.send(SIZED)

    async with serving(talk) as server:
        await collected(await post(connections, server.url + "/v1/chat?beta=1", b'{"a":1}'))
    head, body = seen.result()
    assert head.split(b"\r\n") == [
        b"POST /v1/chat?beta=1 HTTP/1.1",
        b"host: " + server.url[7:].encode(),
        b"accept-encoding: identity",
        b"authorization: " + SECRET.encode(),
        b"content-length: 7",
        b"",
        b"",
    ]
    assert body == b'{"a":1}'


async def test_bytes_are_handed_on_as_they_arrive(connections):
    taken = asyncio.Event()

    async def talk(peer):
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await taken.wait()
        await peer.send(b"3\r\ntwo\r\n0\r\n\r\n")

    async with serving(talk) as server:
        response = await post(connections, server.url)
        assert await anext(response) == b"one"
        taken.set()
        assert [chunk async for chunk in response] == [b"two"]
        assert [chunk async for chunk in response] == []


@pytest.mark.parametrize(
    "status", [b"302 Found\r\nLocation: http://elsewhere.invalid/", b"404 Not Found", b"503 No"]
)
async def test_any_status_is_an_answer_and_redirects_are_not_followed(connections, status):
    async with answering(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\nno") as server:
        response = await post(connections, server.url)
        assert (response.status, await response.read(100)) == (int(status[:3]), b"no")


async def test_a_small_answer_is_read_as_a_whole_and_a_large_one_is_cut_and_says_so(connections):
    async with answering(SIZED, SIZED, SIZED) as server:
        headers = {"content-type": "text/plain", "content-length": "11"}
        whole = await connections.get(server.url, headers={}, limit_bytes=11)
        part = await connections.get(server.url, headers={}, limit_bytes=5)
    assert whole == HttpAnswer(200, headers, b"hello world", truncated=False)
    assert part == HttpAnswer(200, headers, b"hello", truncated=True)


async def test_interim_answers_are_passed_over(connections):
    async with answering(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\na: b\r\n\r\n" + SIZED
    ) as server:
        response = await post(connections, server.url)
        assert (response.status, await collected(response)) == (200, b"hello world")


@pytest.mark.parametrize("way", ["lingering", "closing", "resetting"])
async def test_an_early_refusal_is_read_while_the_body_is_still_being_sent(connections, way):
    body = b"x" * 20_000_000

    async def talk(peer):
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\ntoo large")
        if way == "lingering":
            await peer.gone()
        elif way == "resetting":
            peer.reset()

    async with serving(talk) as server:
        try:
            response = await post(connections, server.url, body)
            assert (response.status, await collected(response)) == (413, b"too large")
        except HttpFault as fault:
            # The system may throw an answer away that a reset overtakes. It is never half an answer.
            assert (way, fault.kind) == ("resetting", "reset")
        with contextlib.suppress(HttpFault):
            await (await post(connections, server.url)).close()
        assert server.connections == 2, "a connection on which a request was broken off serves no other"


async def test_a_large_request_arrives_whole(connections):
    body = bytes(range(256)) * 20_000
    seen = []

    async def talk(peer):
        seen.append(await peer.request())
        await peer.send(SIZED)

    async with serving(talk) as server:
        assert await collected(await post(connections, server.url, body)) == b"hello world"
    assert seen[0][1] == body


# Damage


@pytest.mark.parametrize("answer", [SIZED, CHUNKED], ids=["sized", "chunked"])
async def test_an_answer_cut_anywhere_is_a_fault_and_never_a_short_body(connections, answer):
    async def talk(peer):
        head, _ = await peer.request()
        await peer.send(answer[: int(head.split()[1][1:])])

    async with serving(talk) as server:
        for cut in range(len(answer)):
            with pytest.raises(HttpFault) as caught:
                await collected(await post(connections, f"{server.url}/{cut}"))
            assert caught.value.kind == "reset"
        assert await collected(await post(connections, f"{server.url}/{len(answer)}")) == b"hello world"


@pytest.mark.parametrize("answer", [SIZED, CHUNKED, CLOSED], ids=["sized", "chunked", "closed"])
async def test_a_reset_in_the_body_is_a_fault_and_stays_one(connections, answer):
    got_some = asyncio.Event()

    async def talk(peer):
        await peer.request()
        await peer.send(answer[: answer.index(b"hello") + 5])
        await got_some.wait()
        peer.reset()

    async with serving(talk) as server:
        response = await post(connections, server.url)
        assert await anext(response) == b"hello"
        got_some.set()
        assert (await fault_of(anext(response))).kind == "reset"
        assert (await fault_of(anext(response))).kind == "reset"


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x15\x03\x01\x00\x02\x02",
        b"220 mail ready\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 200_000,
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot a size\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00",
    ],
    ids=["tls", "mail", "endless head", "large head", "no chunk", "compressed"],
)
async def test_what_is_not_an_answer_is_a_protocol_fault(connections, garbage):
    async def talk(peer):
        await peer.request()
        await peer.send(garbage)
        await peer.gone()

    async with serving(talk) as server:

        async def whole():
            return await collected(await post(connections, server.url + "/?key=" + SECRET))

        fault = await fault_of(whole())
        assert (fault.kind, fault.origin) == ("protocol", server.url)


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("http://user:" + SECRET + "@127.0.0.1/", {}),
        ("http://127.0.0.1/" + SECRET + "\r\nx: y", {}),
        ("http://127.0.0.1/", {"x": SECRET + "\r\nhost: evil"}),
        ("http://127.0.0.1/", {"x\r\nhost": SECRET}),
        ("http://127.0.0.1/", {"Host": SECRET}),
        ("file:///" + SECRET, {}),
    ],
)
async def test_a_request_that_could_be_another_is_not_sent_and_not_repeated_in_the_error(
    connections, url, headers
):
    with pytest.raises(ValueError, match=r"URL|header") as caught:
        await connections.post_stream(url, headers=headers, body=b"")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


# No connection


async def test_a_refused_connection_says_so(connections):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    fault = await fault_of(post(connections, f"http://127.0.0.1:{port}/v1?key={SECRET}"))
    assert (fault.kind, str(fault)) == ("refused", f"http://127.0.0.1:{port}: connection refused")
    fault = await fault_of(post(connections, f"http://localhost:{port}/"))
    assert (fault.kind, fault.origin) == ("refused", f"http://localhost:{port}")


async def test_a_name_with_several_addresses_is_reached_at_the_one_that_answers(connections):
    async with answering(SIZED) as server:
        response = await post(connections, f"http://localhost:{server.port}/")
        assert await collected(response) == b"hello world"


@pytest.mark.parametrize("name", ["nothing.invalid", "a" * 64 + ".invalid", "a..b"])
async def test_an_unknown_name_is_a_dns_fault(connections, name):
    fault = await fault_of(post(connections, f"http://{name}:81/"))
    assert (fault.kind, fault.origin) == ("dns", f"http://{name}:81")


async def test_a_server_that_closes_without_an_answer_is_asked_once(connections):
    async with answering() as server:
        assert (await fault_of(post(connections, server.url))).kind == "reset"
        assert server.connections == 1


# Time


def stalling(send, reached):
    """A server that reads a request, sends this much and then nothing."""

    async def talk(peer):
        await peer.request()
        await peer.send(send)
        reached.set()
        await peer.gone()

    return serving(talk)


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-"])
async def test_an_answer_that_does_not_come_is_given_up_after_its_time(timed, clock, sent):
    reached = asyncio.Event()
    async with stalling(sent, reached) as server:
        asking = asyncio.create_task(post(timed, server.url))
        await reached.wait()
        await clock.advance(299.9)
        assert not asking.done()
        await clock.advance(0.2)
        fault = await fault_of(asking)
        assert (fault.kind, fault.problem) == ("silent", "no answer within 300 s")


async def test_silence_in_the_body_is_given_up_after_its_time_and_every_byte_begins_it_anew(timed, clock):
    more = asyncio.Queue()

    async def talk(peer):
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
        while True:
            await peer.send(await more.get())

    async with serving(talk) as server:
        response = await post(timed, server.url)
        first = asyncio.create_task(anext(response))
        await clock.advance(200)  # a model may think before the body begins
        more.put_nowait(b"a")
        assert await first == b"a"
        await clock.advance(1000)  # the reader's own pace does not count
        for _ in range(3):
            reading = asyncio.create_task(anext(response))
            await clock.advance(59)
            more.put_nowait(b"b")
            assert await reading == b"b"
        reading = asyncio.create_task(anext(response))
        await clock.advance(59.9)
        assert not reading.done()
        await clock.advance(0.2)
        fault = await fault_of(reading)
        assert (fault.kind, fault.problem) == ("silent", "no data for 60 s")


async def test_the_time_for_silence_holds_although_the_time_to_begin_was_longer(timed, clock):
    reached = asyncio.Event()
    async with stalling(SIZED[:-6], reached) as server:
        response = await post(timed, server.url)
        assert await anext(response) == b"hello"
        reading = asyncio.create_task(anext(response))
        await clock.advance(60)
        assert (await fault_of(reading)).problem == "no data for 60 s"


async def test_a_request_nobody_takes_is_given_up_after_its_time(timed, clock):
    release = asyncio.Event()

    async def talk(peer):
        peer.writer.transport.pause_reading()
        started.set()
        await release.wait()

    started = asyncio.Event()
    async with serving(talk) as server:
        asking = asyncio.create_task(post(timed, server.url, b"x" * 50_000_000))
        await started.wait()
        fault = await fault_of(advancing(clock, asking))
        release.set()
        assert (fault.kind, fault.problem) == ("timeout", "the request was not taken for 60 s")


async def advancing(clock, task):
    """Lets a minute pass again and again: how much the system takes before it stalls is its own affair."""
    while not task.done():
        await clock.advance(61)
    return await task


async def test_a_connection_that_is_not_made_is_given_up_after_its_time(clock):
    hello = asyncio.Event()

    async def talk(peer):
        await peer.reader.readexactly(1)
        hello.set()
        await peer.gone()
        closed.set()

    closed = asyncio.Event()
    connections = HttpConnections(env={}, clock=clock)
    async with asyncio.timeout(PATIENCE_S), serving(talk) as server:
        asking = asyncio.create_task(post(connections, server.url.replace("http", "https")))
        await hello.wait()
        await clock.advance(9.9)
        assert not asking.done()
        await clock.advance(0.2)
        fault = await fault_of(asking)
        assert (fault.kind, fault.problem) == ("timeout", "no connection within 10 s")
        await closed.wait()
    await connections.close()


# Keeping connections


async def test_a_connection_serves_one_request_after_another(connections):
    async with answering(SIZED, CHUNKED, EMPTY, SIZED) as server:
        for body in (b"hello world", b"hello world", b"", b"hello world"):
            assert await collected(await post(connections, server.url)) == body
        assert server.connections == 1


class CountingClock(SystemClock):
    """Counts the timers that were armed."""

    armed = 0

    def call_later(self, seconds, action):
        self.armed += 1
        return super().call_later(seconds, action)


async def test_requests_on_a_kept_connection_arm_no_timers_of_their_own():
    clock = CountingClock()
    connections = HttpConnections(env={}, clock=clock)
    async with asyncio.timeout(PATIENCE_S), answering(*[SIZED] * 6) as server:
        await collected(await post(connections, server.url))
        armed = clock.armed
        for _ in range(5):
            await collected(await post(connections, server.url))
        assert clock.armed == armed
        assert server.connections == 1
        await connections.close()


@pytest.mark.parametrize(
    "answer",
    [
        CLOSED,
        OLD,
        SIZED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
        SIZED + b"HTTP/1.1 200 OK\r\n",
    ],
    ids=["until close", "1.0", "close", "overrun"],
)
async def test_a_connection_that_cannot_serve_again_is_not_kept(connections, answer):
    async with answering(answer) as server:
        for _ in range(2):
            assert await collected(await post(connections, server.url)) == b"hello world"
        assert server.connections == 2


@pytest.mark.requirement("G11.7")
async def test_a_connection_is_kept_for_ninety_seconds_and_only_a_few_are(timed, clock):
    gone = asyncio.Queue()

    async def talk(peer):
        await peer.request()
        everyone_asked.release()
        await all_asked.wait()
        await peer.send(SIZED)
        await peer.gone()
        gone.put_nowait(peer.number)

    everyone_asked, all_asked = asyncio.Semaphore(0), asyncio.Event()
    async with serving(talk) as server:
        asking = [asyncio.create_task(post(timed, server.url)) for _ in range(12)]
        for _ in range(12):
            await everyone_asked.acquire()
        all_asked.set()
        for task in asking:
            await collected(await task)
        for _ in range(4):
            await gone.get()
        await clock.advance(KEPT_IDLE_S - 1)
        assert gone.empty()
        await clock.advance(1)
        for _ in range(8):
            await gone.get()
        assert KEPT_IDLE_S == 90


async def test_a_kept_connection_the_server_closed_is_replaced_without_a_word(connections):
    """The server reads the second request and closes: the client could not know when it sent it."""

    async def talk(peer):
        await peer.request()
        await peer.send(SIZED)
        if peer.number == 0:
            await peer.request()

    async with serving(talk) as server:
        for _ in range(2):
            assert await collected(await post(connections, server.url)) == b"hello world"
        assert server.connections == 2


async def test_a_request_is_sent_again_only_once_and_only_before_any_byte_of_an_answer(connections):
    async def talk(peer):
        if peer.number == 0:
            await peer.request()
            await peer.send(SIZED)
        await peer.request()
        if peer.number == 2:
            await peer.send(SIZED)
            await peer.request()
            await peer.send(b"H")

    async with serving(talk) as server:
        await collected(await post(connections, server.url))
        assert (await fault_of(post(connections, server.url))).kind == "reset"
        assert server.connections == 2
        await collected(await post(connections, server.url))
        assert (await fault_of(post(connections, server.url))).kind == "reset"
        assert server.connections == 3


async def test_an_answer_nobody_asked_for_does_not_answer_the_next_request(connections):
    async def talk(peer):
        await peer.request()
        await peer.send(SIZED)
        await answered.wait()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        await peer.gone()
        gone.set()

    answered, gone = asyncio.Event(), asyncio.Event()
    async with serving(talk) as server:
        await collected(await post(connections, server.url))
        answered.set()
        await gone.wait()
        assert await collected(await post(connections, server.url)) == b"hello world"
        assert server.connections == 2


# Letting go


async def test_cancelling_a_request_closes_its_socket(connections):
    reached, gone = asyncio.Event(), asyncio.Event()

    async def talk(peer):
        await peer.request()
        reached.set()
        await peer.gone()
        gone.set()

    async with serving(talk) as server:
        asking = asyncio.create_task(post(connections, server.url))
        await reached.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await gone.wait()


@pytest.mark.parametrize("how", ["cancel", "close", "leave", "close all"])
async def test_giving_up_a_body_closes_its_socket(connections, how):
    gone = asyncio.Event()

    async def talk(peer):
        await peer.request()
        await peer.send(CHUNKED[:-40])
        await peer.gone()
        gone.set()

    async with serving(talk) as server:
        response = await post(connections, server.url)
        assert await anext(response)
        if how == "cancel":
            reading = asyncio.create_task(anext(response))
            await asyncio.sleep(0)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        elif how == "close":
            await response.close()
            await response.close()
        elif how == "leave":
            async with response:
                pass
        else:
            await connections.close()
        await gone.wait()
        assert (await fault_of(anext(response))).kind == "reset"


async def test_closing_a_response_whose_end_has_come_keeps_the_connection(connections):
    async with answering(CHUNKED, SIZED) as server:
        response = await post(connections, server.url)
        while not (await anext(response)).endswith(b"world"):
            pass
        await response.close()
        assert await collected(await post(connections, server.url)) == b"hello world"
        assert server.connections == 1


async def test_closed_connections_take_no_request(connections):
    await connections.close()
    with pytest.raises(RuntimeError, match="closed"):
        await post(connections, "http://127.0.0.1:1/")


@pytest.mark.requirement("T15.2")
@pytest.mark.parametrize("end", ["read on", "close"])
async def test_a_slow_reader_holds_the_server_back(connections, end):
    total = 40_000_000
    sent = 0
    gone = asyncio.Event()

    async def talk(peer):
        nonlocal sent
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % total)
        try:
            while sent < total:
                await peer.send(bytes(100_000))
                sent += 100_000
            await peer.gone()
        finally:
            gone.set()

    async with serving(talk) as server:
        response = await post(connections, server.url)
        seen, turns = -1, 0
        while turns < 1000:  # of the loop, without the server getting any further
            turns = turns + 1 if sent == seen else 0
            seen = sent
            await asyncio.sleep(0)
        assert sent < total
        if end == "read on":
            assert sum([len(chunk) async for chunk in response]) == total
        else:
            await response.close()
            await gone.wait()


# TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Two self-signed certificates, each with its key in the same file: for this machine and for another."""
    folder = tmp_path_factory.mktemp("certificates")
    names = {"here": "DNS:localhost,DNS:model.test,IP:127.0.0.1", "other": "DNS:other.test"}
    for name, alternatives in names.items():
        subprocess.run(
            f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={name}"
            f" -keyout {name}.key -out {name}.pem -addext subjectAltName={alternatives}"
            f" -addext keyUsage=critical,digitalSignature,keyCertSign".split(),
            cwd=folder,
            check=True,
            capture_output=True,
        )
    return folder


@pytest.fixture
def identity(certificates):
    def load(name):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / f"{name}.pem", certificates / f"{name}.key")
        return context

    return load


async def speak(peer):
    """Answers every request with `hello world`."""
    while True:
        await peer.request()
        await peer.send(SIZED)


@contextlib.asynccontextmanager
async def connecting(env, clock=None):
    owner = HttpConnections(env=env, clock=clock or SystemClock())
    async with asyncio.timeout(PATIENCE_S):
        try:
            yield owner
        finally:
            await owner.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_server_with_a_trusted_certificate_is_spoken_to(certificates, identity, host):
    trusting = connecting({"SSL_CERT_FILE": str(certificates / "here.pem")})
    async with serving(speak, identity("here")) as server, trusting as connections:
        for _ in range(2):
            response = await post(connections, f"https://{host}:{server.port}/")
            assert await collected(response) == b"hello world"
        assert server.connections == 1


async def test_a_server_is_trusted_by_a_hashed_folder_too(certificates, identity, tmp_path):
    digest = subprocess.run(
        ["openssl", "x509", "-hash", "-noout", "-in", certificates / "here.pem"],
        check=True,
        capture_output=True,
    )
    (tmp_path / f"{digest.stdout.decode().strip()}.0").write_bytes((certificates / "here.pem").read_bytes())
    async with (
        serving(speak, identity("here")) as server,
        connecting({"SSL_CERT_DIR": str(tmp_path)}) as connections,
    ):
        assert await collected(await post(connections, server.url)) == b"hello world"


async def test_a_certificate_nobody_vouches_for_is_refused(identity):
    async with serving(speak, identity("here")) as server, connecting({}) as connections:
        fault = await fault_of(post(connections, server.url))
        assert (fault.kind, fault.origin) == ("tls", server.url)
        assert "self-signed certificate" in fault.problem


async def test_a_certificate_for_another_host_is_refused(certificates, identity):
    trusting = connecting({"SSL_CERT_FILE": str(certificates / "other.pem")})
    async with serving(speak, identity("other")) as server, trusting as connections:
        fault = await fault_of(post(connections, server.url))
        assert fault.kind == "tls"
        assert "not valid for '127.0.0.1'" in fault.problem


async def test_a_server_without_tls_and_trust_that_cannot_be_read_are_tls_faults(tmp_path):
    async def talk(peer):
        await peer.reader.read(100)
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with serving(talk) as server, connecting({}) as connections:
        assert (await fault_of(post(connections, server.url.replace("http", "https")))).kind == "tls"
    async with serving(talk) as server, connecting({"SSL_CERT_FILE": str(tmp_path / "none")}) as connections:
        fault = await fault_of(post(connections, server.url.replace("http", "https")))
        assert (fault.kind, "cannot be read" in fault.problem) == ("tls", True)


async def test_a_tls_answer_cut_short_is_a_fault_and_giving_one_up_closes_its_socket(certificates, identity):
    gone = asyncio.Event()

    async def talk(peer):
        head, _ = await peer.request()
        await peer.send(SIZED[:-5])
        if b"/wait" in head:
            await peer.gone()
            gone.set()

    trusting = connecting({"SSL_CERT_FILE": str(certificates / "here.pem")})
    async with serving(talk, identity("here")) as server, trusting as connections:
        assert (await fault_of(collected(await post(connections, server.url)))).kind == "reset"
        response = await post(connections, server.url + "/wait")
        assert await anext(response) == b"hello "
        reading = asyncio.create_task(anext(response))
        await asyncio.sleep(0)
        reading.cancel()
        await gone.wait()


async def test_a_body_that_ends_with_the_connection_needs_the_end_that_tls_vouches_for(
    certificates, identity
):
    """Otherwise anyone on the way could cut it."""

    async def talk(peer):
        head, _ = await peer.request()
        await peer.send(CLOSED)
        if b"/cut" in head:
            peer.writer.transport.abort()

    trusting = connecting({"SSL_CERT_FILE": str(certificates / "here.pem")})
    async with serving(talk, identity("here")) as server, trusting as connections:
        assert await collected(await post(connections, server.url)) == b"hello world"
        assert (await fault_of(collected(await post(connections, server.url + "/cut")))).kind == "reset"


async def test_a_large_request_passes_through_tls(certificates, identity):
    body = bytes(range(256)) * 20_000
    seen = []

    async def talk(peer):
        seen.append(await peer.request())
        await peer.send(CHUNKED)

    trusting = connecting({"SSL_CERT_FILE": str(certificates / "here.pem")})
    async with serving(talk, identity("here")) as server, trusting as connections:
        assert await collected(await post(connections, server.url, body)) == b"hello world"
    assert seen[0][1] == body


# Proxies


def proxying(port, heads, *, refuse=b""):
    """A proxy to which every host is the server on `port`."""

    async def pump(reader, writer):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()

    async def talk(peer):
        head = await peer.reader.readuntil(b"\r\n\r\n")
        heads.append(head)
        if refuse:
            await peer.send(refuse)
            return
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if head.startswith(b"CONNECT "):
            await peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            writer.write(head)
        back = asyncio.create_task(pump(reader, peer.writer))
        try:
            await pump(peer.reader, writer)
        finally:
            back.cancel()
            await asyncio.gather(back, return_exceptions=True)
            writer.close()

    return serving(talk)


async def test_a_proxy_gets_the_whole_url_of_a_plain_request_and_its_own_credentials():
    heads = []
    async with serving(speak) as server, proxying(server.port, heads) as proxy:
        env = {"HTTP_PROXY": f"http://user:{SECRET}@127.0.0.1:{proxy.port}"}
        async with connecting(env) as connections:
            for _ in range(2):
                response = await post(connections, "http://model.test/v1?a=b")
                assert await collected(response) == b"hello world"
        assert server.connections == 1
    assert heads[0].startswith(b"POST http://model.test/v1?a=b HTTP/1.1\r\nhost: model.test\r\n")
    assert b"\r\nproxy-authorization: Basic " in heads[0]


async def test_a_proxy_tunnels_a_secure_request_and_sees_nothing_of_it(certificates, identity):
    heads = []
    async with serving(speak, identity("here")) as server, proxying(server.port, heads) as proxy:
        env = {
            "https_proxy": f"http://user:{SECRET}@127.0.0.1:{proxy.port}",
            "SSL_CERT_FILE": str(certificates / "here.pem"),
        }
        async with connecting(env) as connections:
            for _ in range(2):
                response = await post(connections, "https://model.test/v1?a=b")
                assert await collected(response) == b"hello world"
    assert len(heads) == 1
    assert heads[0].startswith(b"CONNECT model.test:443 HTTP/1.1\r\nhost: model.test:443\r\n")
    assert b"v1" not in heads[0]


@pytest.mark.requirement("T6.7")
async def test_certificates_are_verified_behind_a_proxy_and_its_credentials_never_show(identity):
    heads = []
    async with serving(speak, identity("here")) as server, proxying(server.port, heads) as proxy:
        env = {"ALL_PROXY": f"http://user:{SECRET}@127.0.0.1:{proxy.port}"}
        async with connecting(env) as connections:
            fault = await fault_of(post(connections, "https://model.test/"))
            assert (fault.kind, "self-signed certificate" in fault.problem) == ("tls", True)
            assert SECRET not in "".join(traceback.format_exception(fault))
    async with connecting(env) as connections:
        fault = await fault_of(post(connections, "https://model.test/"))
        assert (fault.kind, str(fault)) == (
            "proxy",
            f"https://model.test: the proxy 127.0.0.1:{proxy.port} cannot be reached (connection refused)",
        )


@pytest.mark.parametrize(
    ("refuse", "problem"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", "answered 407"),
        (b"garbage\r\n\r\n", "failed (this is not HTTP)"),
        (b"HTTP/1.1 2", "failed (it closed the connection)"),
    ],
)
async def test_a_proxy_that_does_not_connect_is_named_without_its_credentials(refuse, problem):
    async with proxying(0, [], refuse=refuse) as proxy:
        connections = HttpConnections(
            env={"HTTPS_PROXY": f"http://user:{SECRET}@127.0.0.1:{proxy.port}"}, clock=SystemClock()
        )
        fault = await fault_of(post(connections, "https://model.test/"))
    assert (fault.kind, fault.problem) == ("proxy", f"the proxy 127.0.0.1:{proxy.port} {problem}")


@pytest.mark.parametrize("setting", ["socks5://user:" + SECRET + "@127.0.0.1:1", "nonsense " + SECRET])
async def test_a_proxy_setting_that_cannot_be_used_is_a_fault_without_the_setting(setting):
    async with connecting({"ALL_PROXY": setting}) as connections:
        assert (await fault_of(post(connections, "http://model.test/"))).kind == "proxy"
