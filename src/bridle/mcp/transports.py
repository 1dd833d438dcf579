"""The ways to a server as the `mcp` package wants them: streams of messages, each held in bounds before it reads them.

Over standard input and output the process is ours: started, watched and ended by `server_run`. Imports the `mcp`
package: loaded with the first connection.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeGuard, cast

import anyio
import httpx2
import mcp_types as types
import msgspec
from mcp.client._transport import ReadStream, TransportStreams
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from bridle.base.net.http_routes import ProxyRules, Url, parse_url, tls_context
from bridle.base.process.duplex import DuplexProcess
from bridle.mcp.server_definitions import ServerDefinition

MOST_LINE_BYTES: Final = 4 << 20
"""A longer line is dropped; what asked for it is told."""
_END_BYTES: Final = 4096
_ID = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.){0,200}"|-?\d{1,18})')


class LongLine(NamedTuple):
    """A line that was too long to be kept. `request` is the id in it, as JSON; empty where none was found."""

    size: int
    request: bytes


class MessageLines:
    """Cuts pieces into lines. What it holds is never more than a line may have."""

    def __init__(self, most_bytes: int = MOST_LINE_BYTES) -> None:
        self._most = most_bytes
        self._held = bytearray()
        self._dropped = 0
        self._head = b""

    def feed(self, chunk: bytes) -> Iterator[bytes | LongLine]:
        """The lines that are whole by now, without their ends; empty ones are left out."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._take(memoryview(chunk)[start:end])
            start = end + 1
            if (line := self._taken()) is not None:
                yield line
        self._take(memoryview(chunk)[start:])

    def _take(self, piece: memoryview) -> None:
        self._held += piece
        if len(self._held) > self._most or self._dropped:
            if not self._dropped:
                self._head = bytes(self._held[:_END_BYTES])
            gone = max(0, len(self._held) - _END_BYTES)
            self._dropped += gone
            del self._held[:gone]

    def _taken(self) -> bytes | LongLine | None:
        line, dropped, head = bytes(self._held), self._dropped, self._head
        self._held.clear()
        self._dropped, self._head = 0, b""
        if dropped:
            found = _ID.search(head) or _ID.search(line)
            return LongLine(dropped + len(line), found[1] if found is not None else b"")
        return line if line.strip() else None


logging.getLogger("mcp").addHandler(logging.NullHandler())
logging.getLogger(
    "mcp"
).propagate = False  # what it has to say is said by us, in the server's own file or to a person

UNPACKED: Final = {"Accept-Encoding": "identity"}
"""An answer is measured as it arrives, and a packed one may be a thousand times that."""
_TIMEOUT_S = 30.0
_READ_S = 300.0


class WireCounts:
    """What of a server's output was no message, and what was too long to be one. `note` writes the first few down."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.garbage = 0
        self.too_long = 0
        self._note = note

    def count_garbage(self, line: bytes) -> None:
        self.garbage += 1
        if self.garbage <= 10:
            self._note(f"no message: {line[:200].decode(errors='replace')}")

    def count_long(self, size: int) -> None:
        self.too_long += 1
        self._note(f"a message of {size} bytes was left out: {MOST_LINE_BYTES} are read at most")


@asynccontextmanager
async def stdio_streams(process: DuplexProcess, counts: WireCounts) -> AsyncGenerator[TransportStreams]:
    """Messages by line, to and from a process that runs. Leaving closes its input."""
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        lines = MessageLines()
        async with to_client:
            while chunk := await process.read():
                for line in lines.feed(chunk):
                    message = _message(line, counts)
                    if message is not None:
                        await to_client.send(message)

    async def write() -> None:
        async with from_client:
            async for message in from_client:
                data = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.write(f"{data}\n".encode())

    reading, writing = asyncio.ensure_future(read()), asyncio.ensure_future(write())
    writing.add_done_callback(lambda _done: to_client.close())
    try:
        yield from_server, to_server
    finally:
        process.close_input()
        reading.cancel()
        writing.cancel()
        await asyncio.gather(reading, writing, return_exceptions=True)
        for stream in (to_client, from_server, to_server, from_client):
            stream.close()


def _message(line: bytes | LongLine, counts: WireCounts) -> SessionMessage | None:
    if isinstance(line, LongLine):
        counts.count_long(line.size)
        if not line.request:
            return None
        problem = f"the answer has {line.size} bytes, and {MOST_LINE_BYTES} are read at most"
        error = types.ErrorData(code=types.INTERNAL_ERROR, message=problem)
        return SessionMessage(
            types.JSONRPCError(
                jsonrpc="2.0", id=msgspec.json.decode(line.request, type=str | int), error=error
            )
        )
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        counts.count_garbage(line)
        return None


class WatchedStream:
    """What comes from a server, on its way to the `mcp` package. `ended` is called when nothing more will.

    What a server says of the form of its results is taken out: that package would match them with patterns that may
    never come to an end. So is a tool that it could not read, for it would refuse all others with it; `left_out` is
    told its name. A result that does not say of what type it is, is complete: that package would refuse it.
    """

    def __init__(
        self,
        inner: ReadStream[SessionMessage | Exception],
        ended: Callable[[], None],
        left_out: Callable[[str], None],
    ) -> None:
        self._inner = inner
        self._ended = ended
        self._left_out = left_out

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return self._tidied(await self._inner.receive())

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> ReadStream[SessionMessage | Exception]:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return self._tidied(await self._inner.__anext__())
        except StopAsyncIteration:
            self._ended()
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _tidied(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        message = item.message if isinstance(item, SessionMessage) else None
        if not isinstance(message, types.JSONRPCResponse):
            return item
        message.result.setdefault("resultType", "complete")
        if isinstance(tools := message.result.get("tools"), list):
            kept: list[dict[str, object]] = []
            for tool in cast("list[object]", tools):
                if _is_tool(tool):
                    tool.pop("outputSchema", None)
                    kept.append(tool)
                else:
                    name: object = (
                        cast("dict[str, object]", tool).get("name") if isinstance(tool, dict) else ""
                    )
                    self._left_out(str(name)[:80])
            message.result["tools"] = kept
        return item


def _is_tool(tool: object) -> TypeGuard[dict[str, object]]:
    """Whether it looks like one. What its schema says is for others to judge."""
    if not isinstance(tool, dict):
        return False
    known = cast("dict[str, object]", tool)
    schema = known.get("inputSchema")
    if not isinstance(known.get("name"), str) or not isinstance(schema, dict):
        return False
    parts = cast("dict[str, object]", schema)
    properties, required = parts.get("properties", {}), parts.get("required", [])
    return (
        isinstance(properties, dict)
        and all(isinstance(one, dict | bool) for one in cast("dict[str, object]", properties).values())
        and isinstance(required, list)
        and parts.get("type") == "object"
    )


@asynccontextmanager
async def watched(
    transport: AbstractAsyncContextManager[TransportStreams],
    ended: Callable[[], None],
    left_out: Callable[[str], None],
) -> AsyncGenerator[TransportStreams]:
    """The streams of a transport, as `WatchedStream` has them."""
    async with transport as (incoming, outgoing):
        yield WatchedStream(incoming, ended, left_out), outgoing


@asynccontextmanager
async def http_streams(
    definition: ServerDefinition, env: Mapping[str, str], auth: httpx2.Auth | None = None
) -> AsyncGenerator[TransportStreams]:
    """Messages to and from a server that listens: streamable HTTP, or the older SSE."""
    make = partial(_http_client, definition, env, auth)
    if definition.transport == "sse":
        async with sse_client(
            definition.url, httpx_client_factory=lambda headers=None, timeout=None, auth=None: make()
        ) as streams:
            yield cast("TransportStreams", streams)
        return
    async with (
        make() as client,
        streamable_http_client(
            definition.url, http_client=client, max_sse_event_size=MOST_LINE_BYTES
        ) as streams,
    ):
        yield streams


def _http_client(
    definition: ServerDefinition, env: Mapping[str, str], auth: httpx2.Auth | None
) -> httpx2.AsyncClient:
    """A client that goes where the given environment leads, and nothing else does."""
    inner = http_transport(parse_url(definition.url), env)
    return httpx2.AsyncClient(
        headers={**definition.headers, **UNPACKED},
        auth=auth,
        timeout=httpx2.Timeout(_TIMEOUT_S, read=_READ_S),
        transport=_CappedTransport(inner),
        trust_env=False,
    )


def http_transport(url: Url, env: Mapping[str, str]) -> httpx2.AsyncHTTPTransport:
    """The way to an address, through the proxy and with the authorities that the environment names."""
    proxy = ProxyRules(env).proxy_for(url)
    verify: ssl.SSLContext | bool = tls_context(env) if url.secure else True
    through = proxy and httpx2.Proxy(f"{proxy.scheme}://{proxy.address}", auth=proxy.credentials)
    return httpx2.AsyncHTTPTransport(verify=verify, proxy=through, trust_env=False)


class _CappedTransport(httpx2.AsyncBaseTransport):
    """Answers end where they are too long, but for streams of events, which have a limit for each event."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        await refuse_packed(response)
        kind = response.headers.get("content-type", "")
        is_stream = response.is_success and kind.lower().startswith("text/event-stream")
        if not is_stream:
            response.stream = CappedStream(cast("httpx2.AsyncByteStream", response.stream), MOST_LINE_BYTES)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


async def refuse_packed(response: httpx2.Response) -> None:
    """Raises for an answer that would have to be unpacked, though nobody asked for that."""
    packed = response.headers.get("content-encoding", "").strip().lower()
    if packed not in ("", "identity"):
        await response.aclose()
        raise httpx2.RemoteProtocolError(f"an answer cannot be read: it is packed ({packed[:40]})")


class CappedStream(httpx2.AsyncByteStream):
    """Bytes that end with an error where there are more than `most`."""

    def __init__(self, inner: httpx2.AsyncByteStream, most: int) -> None:
        self._inner = inner
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > self._most:
                raise httpx2.StreamError(f"an answer of more than {self._most} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
