"""One connection: when it reads."""

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


async def test_a_full_buffer_is_read_on_only_when_it_was_taken() -> None:
    connection, transport = connected()
    for _ in range(20):
        connection.data_received(b"word")
    connection.data_received(b"x" * 300_000)
    assert not transport.reading.is_set()
    connection.take()
    await asyncio.wait_for(transport.reading.wait(), 5)
