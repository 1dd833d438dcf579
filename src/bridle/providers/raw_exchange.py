"""What went over the wire to a provider and what came back, byte for byte, for whoever keeps it.

A request is kept without its headers: they hold the key.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping

import msgspec

from bridle.base.http import DEFAULT_TIMEOUTS, HttpAnswer, HttpFault, Timeouts
from bridle.providers.remote import Connections, Response

MOST_BYTES = 8_000_000
"""So much is kept of a request, and of an answer."""


class RawExchange(msgspec.Struct, kw_only=True):
    """One request and its answer. `status` is 0 and `problem` says why where none came; `cut`: there was more of it."""

    url: str
    request: bytes
    status: int = 0
    headers: Mapping[str, str] = {}
    answer: bytes = b""
    problem: str = ""
    cut: bool = False


class RecordedConnections:
    """Connections of which every exchange is handed to `keep` when it is over."""

    def __init__(self, connections: Connections, keep: Callable[[RawExchange], None]) -> None:
        self._connections = connections
        self._keep = keep

    async def post_stream(
        self, url: str, *, headers: Mapping[str, str], body: bytes, timeouts: Timeouts = DEFAULT_TIMEOUTS
    ) -> Response:
        exchange = RawExchange(url=url, request=body[:MOST_BYTES], cut=len(body) > MOST_BYTES)
        try:
            response = await self._connections.post_stream(url, headers=headers, body=body, timeouts=timeouts)
        except BaseException as failure:
            exchange.problem = failure.problem if isinstance(failure, HttpFault) else type(failure).__name__
            self._keep(exchange)
            raise
        return _RecordedResponse(response, exchange, self._keep)

    async def get(
        self, url: str, *, headers: Mapping[str, str], limit_bytes: int, timeouts: Timeouts = DEFAULT_TIMEOUTS
    ) -> HttpAnswer:
        return await self._connections.get(url, headers=headers, limit_bytes=limit_bytes, timeouts=timeouts)


class _RecordedResponse:
    """The answer, as it is read; it is over when it is closed."""

    def __init__(
        self, response: Response, exchange: RawExchange, keep: Callable[[RawExchange], None]
    ) -> None:
        self._response = response
        self._exchange = exchange
        self._keep: Callable[[RawExchange], None] | None = keep
        self._came = bytearray()
        self.status, self.headers = response.status, response.headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response:
                self._take(chunk)
                yield chunk
        except HttpFault as fault:
            self._exchange.problem = fault.problem
            raise

    async def read(self, limit_bytes: int) -> bytes:
        body = await self._response.read(limit_bytes)
        self._take(body)
        return body

    async def finish(self, within_s: float) -> None:
        await self._response.finish(within_s)

    async def close(self) -> None:
        try:
            await self._response.close()
        finally:
            keep, self._keep = self._keep, None
            if keep is not None:
                self._exchange.status, self._exchange.headers = self.status, self.headers
                self._exchange.answer = bytes(self._came)
                keep(self._exchange)

    def _take(self, chunk: bytes) -> None:
        room = MOST_BYTES - len(self._came)
        self._came += chunk[:room]
        self._exchange.cut = self._exchange.cut or len(chunk) > room
