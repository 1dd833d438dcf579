"""One connection: when it reads, when it lets the system collect."""

import asyncio

from bridle.base.clock import SystemClock
from bridle.base.net.http_connection import HttpSocket, Route

ROUTE = Route(secure=False, host="127.0.0.1", port=1, proxy=None)


class Noting(asyncio.Transport):
    """Says whether it would be read from."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = asyncio.Event()
        self.reading.set()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def write(self, data: bytes) -> None: ...

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.reading.clear()

    def resume_reading(self) -> None:
        self.reading.set()


def connected() -> tuple[HttpSocket, Noting]:
    connection = HttpSocket(SystemClock(), ROUTE, "http://127.0.0.1:1", lambda _lost: None)
    transport = Noting()
    connection.connection_made(transport)
    return connection, transport


async def test_a_steady_stream_of_words_is_read_a_few_at_a_time() -> None:
    connection, transport = connected()
    for _ in range(20):
        connection.data_received(b"word")
    assert not transport.reading.is_set()
    await asyncio.wait_for(transport.reading.wait(), 5)
    assert connection.take() == b"word" * 20
    connection.data_received(b"the next ones")
    assert not transport.reading.is_set(), "the stream is as steady as before"
    connection.connection_lost(None)


async def test_the_first_words_and_large_reads_are_never_put_off() -> None:
    connection, transport = connected()
    for _ in range(16):
        connection.data_received(b"word")
    assert transport.reading.is_set()
    for _ in range(20):
        connection.data_received(b"x" * 5_000)
        connection.take()
    assert transport.reading.is_set()


async def test_a_full_buffer_is_read_on_only_when_it_was_taken() -> None:
    connection, transport = connected()
    for _ in range(20):
        connection.data_received(b"word")
    connection.data_received(b"x" * 300_000)
    while connection._gathering is not None:
        await asyncio.sleep(0)
    assert not transport.reading.is_set()
    connection.take()
    await asyncio.wait_for(transport.reading.wait(), 5)


async def test_many_short_answers_on_one_connection_are_no_stream() -> None:
    connection, transport = connected()
    for _ in range(40):
        await connection.send(b"GET / HTTP/1.1\r\n\r\n", b"", 5)
        connection.data_received(b"short")
        assert transport.reading.is_set()
