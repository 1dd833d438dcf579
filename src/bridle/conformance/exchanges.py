"""Requests to a server under test, over a socket: one connection each, nothing kept, nothing tried again."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Protocol

import msgspec

from bridle.base.net.http_framing import AnswerHead, BadAnswer, HeadReader, request_head
from bridle.clients.engine_address import EngineAddress, engine_address

ANSWER_S = 30.0
_PIECE_BYTES = 64 * 1024
"""Read at once, and about what the system keeps for a reader: one that does not read is soon waited for."""


class HttpAnswer(msgspec.Struct, frozen=True):
    """Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class OpenStream(Protocol):
    """An answer whose body goes on."""

    @property
    def head(self) -> HttpAnswer:
        """With the whole body where it is a refusal."""
        ...

    def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes, until its end. Raises `ConnectionError` where it ends before that."""
        ...

    async def close(self) -> None: ...

    def cut(self) -> None:
        """Is gone without a word."""
        ...


class Exchange(Protocol):
    """Requests, over whatever carries them. Every method raises OSError where nobody answers."""

    async def request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
    ) -> HttpAnswer: ...

    async def stream(self, target: str, headers: Mapping[str, str]) -> OpenStream: ...


class SocketExchange:
    """Over a Unix socket or TCP."""

    def __init__(self, address: EngineAddress) -> None:
        self._address = address

    async def request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
    ) -> HttpAnswer:
        async with asyncio.timeout(ANSWER_S):
            answer = await self._asked(method, target, headers, body)
            try:
                return await answer.whole()
            finally:
                await answer.close()

    async def stream(self, target: str, headers: Mapping[str, str]) -> OpenStream:
        async with asyncio.timeout(ANSWER_S):
            answer = await self._asked("GET", target, headers, b"")
            if answer.head.status != 200:
                try:
                    answer.head = await answer.whole()
                finally:
                    await answer.close()
        return answer

    async def _asked(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> _SocketAnswer:
        reader, writer = await self._address.connect()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _PIECE_BYTES)
        try:
            host = self._address.host_header
            head = request_head(
                method, target, host, headers, body_size=len(body), extra=("connection: close",)
            )
            writer.write(head + body)
            await writer.drain()
            parts = HeadReader(method)
            read = None
            while read is None:
                if not (data := await reader.read(_PIECE_BYTES)):
                    raise ConnectionResetError("the connection ended before it was answered")
                read = parts.feed(data)
        except BadAnswer as problem:
            writer.close()
            raise ConnectionResetError(str(problem)) from None
        except BaseException:
            writer.close()
            raise
        return _SocketAnswer(read, reader, writer)


class _SocketAnswer:
    def __init__(self, head: AnswerHead, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.head = HttpAnswer(head.status, head.headers)
        self._body = head.body
        self._rest = head.rest
        self._reader = reader
        self._writer = writer

    async def pieces(self) -> AsyncIterator[bytes]:
        data = self._rest
        while True:
            if data and (piece := self._body.feed(data)):
                yield piece
            if self._body.done:
                return
            data = await self._reader.read(_PIECE_BYTES)
            if not data:
                if self._body.needs_end:
                    raise ConnectionResetError("the connection ended before the answer did")
                return

    async def whole(self) -> HttpAnswer:
        body = b"".join([piece async for piece in self.pieces()])
        return HttpAnswer(self.head.status, self.head.headers, body)

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    def cut(self) -> None:
        self._writer.transport.abort()


def exchange_at(url: str, *, ca_file: str | None = None) -> SocketExchange:
    """To a server at `http://…`, `https://…` or `unix:///…`. Raises `UsageError` for what is none."""
    return SocketExchange(engine_address(url, ca_file=ca_file))
