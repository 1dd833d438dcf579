"""HTTP requests to servers the user configured: models, model lists, sign-ins.

HTTP/1.1 on sockets of our own, answers streamed as they arrive, kept connections, one limit of time per phase,
proxies and certificates of the given environment alone. Redirects are not followed.

HttpFault    the request got no whole answer; `kind` says why
ValueError   the request must not be sent as it is (URL, headers); nothing was sent
No text holds credentials, a query, a header or a body.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final

import msgspec

from bridle.base.clock import Clock
from bridle.base.net.http_connection import HttpSocket, Route
from bridle.base.net.http_dial import HttpFault as HttpFault
from bridle.base.net.http_dial import TimeLimit, abandon, open_socket, proxy_lines, tls_fault, trust_fault
from bridle.base.net.http_framing import AnswerHead, BadAnswer, HeadReader, request_head
from bridle.base.net.http_routes import Proxy, ProxyRules, Url, parse_url, tls_context
from bridle.base.threads import in_thread

if TYPE_CHECKING:
    import ssl


KEPT_IDLE_S: Final = 90.0
MAX_KEPT_PER_ROUTE: Final = 8


class Timeouts(msgspec.Struct, frozen=True):
    """Limits per phase, in seconds.

    `connect_s`: name lookup, proxy and TLS included. `write_s`: the server takes no more of the request.
    `first_byte_s`: until the head of the answer, and then until its body begins, for a model may think in between.
    `idle_s`: silence within the body. Only waiting for the server counts, not the reader's own pace.
    """

    connect_s: float = 10
    write_s: float = 60
    first_byte_s: float = 300
    idle_s: float = 60


DEFAULT_TIMEOUTS: Final = Timeouts()


class HttpAnswer(msgspec.Struct, frozen=True):
    """A whole answer. `truncated`: it was longer than the limit and the rest was not read."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    truncated: bool


class StreamedResponse:
    """An answer whose body comes as it arrives. Read it to the end or `close` it: `async with` does.

    A body that ends early raises HttpFault; iteration stops only after the last byte the server announced. Once
    it has stopped the connection serves the next request. Cancelling a read closes the socket.
    """

    def __init__(
        self,
        head: AnswerHead,
        origin: str,
        connection: HttpSocket,
        timeouts: Timeouts,
        release: Callable[[HttpSocket, bool], None],
    ) -> None:
        self.status = head.status
        self.headers = head.headers
        self.truncated = False
        """Whether `read` stopped at its limit."""
        self._origin = origin
        self._connection = connection
        self._timeouts = timeouts
        self._release = release
        self._keep_alive = head.keep_alive
        self._body = head.body
        self._rest = head.rest
        self._begun = False
        self._released = False
        if self._body.done:
            self._finish()

    def __aiter__(self) -> "StreamedResponse":
        return self

    async def __anext__(self) -> bytes:
        """The next bytes of the body, never empty: all that have arrived."""
        try:
            chunk = await self._next()
        except BadAnswer as error:
            self._connection.abort()
            raise HttpFault("protocol", self._origin, str(error)) from None
        except BaseException:
            self._connection.abort()
            raise
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def read(self, limit_bytes: int) -> bytes:
        """The rest of the body. A longer one is cut there, `truncated` is set and the connection closed."""
        parts: list[bytes] = []
        size = 0
        async for chunk in self:
            parts.append(chunk)
            size += len(chunk)
            if size > limit_bytes:
                self.truncated = True
                await self.close()
                break
        return b"".join(parts)[:limit_bytes]

    async def finish(self, within_s: float) -> None:
        """Wait a moment for the end of a body whose rest does not matter, so that the connection can be kept."""
        if self._released:
            return
        with contextlib.suppress(HttpFault, TimeoutError):
            async with asyncio.timeout(within_s):
                async for _ in self:
                    pass
        await self.close()

    async def close(self) -> None:
        """Give the rest of the body up: the socket is closed, unless the end has arrived already. May be repeated."""
        if self._released:
            return
        with contextlib.suppress(BadAnswer):
            self._feed(self._rest + self._connection.take())
        if not self._released:
            self._connection.abort()
            await self._connection.lost.wait()

    async def __aenter__(self) -> "StreamedResponse":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _next(self) -> bytes:
        """The next bytes of the body; none means that it is complete."""
        connection = self._connection
        data, self._rest = self._rest, b""
        while not self._released:
            chunk = self._feed(data)
            if chunk:
                return chunk
            if self._released:
                break
            data = connection.take()
            if data:
                continue
            if connection.ended:
                self._end()
            elif self._begun:
                idle_s = self._timeouts.idle_s
                await connection.wait(idle_s, f"no data for {idle_s:g} s")
            else:
                first_byte_s = self._timeouts.first_byte_s
                await connection.wait(first_byte_s, f"the answer did not begin within {first_byte_s:g} s")
        return b""

    def _feed(self, data: bytes) -> bytes:
        if not data:
            return b""
        self._begun = True
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            raise BadAnswer("the answer is compressed, which was not asked for")
        chunk = self._body.feed(data)
        if self._body.done:
            self._finish()
        return chunk

    def _end(self) -> None:
        """The connection ended before the body said so."""
        if self._body.needs_end or not self._connection.ended_cleanly:
            raise HttpFault("reset", self._origin, "the connection was closed in the middle of the answer")
        self._finish()

    def _finish(self) -> None:
        self._released = True
        self._release(self._connection, self._keep_alive and not self._body.overrun)


class HttpConnections:
    """Requests to model servers, and the connections kept between them. Belongs to one event loop.

    Whoever makes one closes it. A kept connection that the server closed meanwhile is replaced and the request sent
    again, once, if no byte of an answer had come. `tls` makes the context for https; it is called once, in a thread,
    and must verify certificates.
    """

    def __init__(
        self, *, env: Mapping[str, str], clock: Clock, tls: "Callable[[], ssl.SSLContext] | None" = None
    ) -> None:
        self._clock = clock
        self._proxies = ProxyRules(env)
        self._tls = tls or partial(tls_context, env)
        self._context: ssl.SSLContext | None = None
        self._kept: dict[Route, list[HttpSocket]] = {}
        self._live: set[HttpSocket] = set()
        self._closed = False

    async def post_stream(
        self, url: str, *, headers: Mapping[str, str], body: bytes, timeouts: Timeouts = DEFAULT_TIMEOUTS
    ) -> StreamedResponse:
        """Send the request; return when the head of the answer is there, whatever its status."""
        return await self._exchange(parse_url(url), "POST", headers, body, timeouts)

    async def get(
        self, url: str, *, headers: Mapping[str, str], limit_bytes: int, timeouts: Timeouts = DEFAULT_TIMEOUTS
    ) -> HttpAnswer:
        """A small answer as a whole, cut after `limit_bytes`."""
        async with await self._exchange(parse_url(url), "GET", headers, b"", timeouts) as response:
            body = await response.read(limit_bytes)
        return HttpAnswer(response.status, response.headers, body, response.truncated)

    async def close(self) -> None:
        """Close every socket, also under answers that are still being read. May be repeated."""
        self._closed = True
        for connection in list(self._live):
            connection.abort()
            await connection.lost.wait()

    async def _exchange(
        self, url: Url, method: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> StreamedResponse:
        if self._closed:
            raise RuntimeError("these connections have been closed")
        route = self._route(url)
        head = _head(url, route.proxy, method, headers, len(body))
        connection = self._reuse(route)
        if connection is not None:
            try:
                return await self._ask(connection, url, method, head, body, timeouts)
            except HttpFault as fault:
                if fault.kind != "reset" or connection.received:
                    raise
        connection = await self._dial(url, route, timeouts.connect_s)
        return await self._ask(connection, url, method, head, body, timeouts)

    def _route(self, url: Url) -> Route:
        return Route(url.secure, url.host, url.port, self._proxy(url))

    def _proxy(self, url: Url) -> Proxy | None:
        try:
            proxy = self._proxies.proxy_for(url)
        except ValueError:
            raise HttpFault(
                "proxy", url.origin, "the proxy set in the environment is not an address"
            ) from None
        if proxy is not None and proxy.scheme != "http":
            raise HttpFault(
                "proxy", url.origin, f"a proxy reached by {proxy.scheme} is not supported, only http"
            )
        return proxy

    def _reuse(self, route: Route) -> HttpSocket | None:
        """The connection used last: the one least likely to be stale."""
        kept = self._kept.get(route)
        if not kept:
            return None
        connection = kept.pop()
        connection.reuse()
        return connection

    def _release(self, connection: HttpSocket, reusable: bool) -> None:
        kept = self._kept.setdefault(connection.route, [])
        if not reusable or connection.ended or self._closed or len(kept) >= MAX_KEPT_PER_ROUTE:
            connection.abort()
            return
        connection.keep(KEPT_IDLE_S)
        kept.append(connection)

    def _forget(self, connection: HttpSocket) -> None:
        self._live.discard(connection)
        kept = self._kept.get(connection.route, [])
        if connection in kept:
            kept.remove(connection)

    async def _ask(
        self, connection: HttpSocket, url: Url, method: str, head: bytes, body: bytes, timeouts: Timeouts
    ) -> StreamedResponse:
        try:
            sent = await connection.send(head, body, timeouts.write_s)
            answer = await read_head(connection, url, method, timeouts.first_byte_s, self._clock)
        except BadAnswer as error:
            connection.abort()
            raise HttpFault("protocol", url.origin, str(error)) from None
        except BaseException:
            connection.abort()
            raise
        headers = self._dated(answer.headers)
        answer = msgspec.structs.replace(answer, headers=headers, keep_alive=answer.keep_alive and sent)
        return StreamedResponse(answer, url.origin, connection, timeouts, self._release)

    def _dated(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """With the time it came where a date of the server counts on one and it named none."""
        if "retry-after" not in headers or "date" in headers:
            return headers
        from email.utils import formatdate

        return {**headers, "date": formatdate(self._clock.now_ms() / 1000, usegmt=True)}

    async def _dial(self, url: Url, route: Route, connect_s: float) -> HttpSocket:
        try:
            async with TimeLimit(self._clock, connect_s):
                return await self._open(url, route)
        except TimeoutError:
            problem = f"no connection within {connect_s:g} s"
            raise HttpFault("timeout", url.origin, problem) from None

    async def _open(self, url: Url, route: Route) -> HttpSocket:
        """A new connection. The certificates are read while the other end is being reached."""
        building = in_thread(self._tls) if url.secure and self._context is None else None
        try:
            sock = await open_socket(url, route.proxy, self._clock)
            try:
                if building is not None:
                    self._context = await building
            except BaseException as error:
                sock.close()
                if isinstance(error, OSError):
                    raise trust_fault(url, error) from error
                raise
            return await self._adopt(sock, url, route)
        finally:
            if building is not None:
                abandon(building)

    async def _adopt(self, sock: socket.socket, url: Url, route: Route) -> HttpSocket:
        """The connection on a connected socket, which is the transport's from here on."""
        connection = HttpSocket(self._clock, route, url.origin, self._forget)
        context, name = (self._context, url.host) if url.secure else (None, None)
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: connection, sock=sock, ssl=context, server_hostname=name)
        except OSError as error:
            raise tls_fault(url, error) from error
        self._live.add(connection)
        if self._closed:
            connection.abort()
            raise RuntimeError("these connections were closed while one was being made")
        return connection


def _head(url: Url, proxy: Proxy | None, method: str, headers: Mapping[str, str], body_size: int) -> bytes:
    """A proxy for plain http gets the whole URL and its own credentials; behind a tunnel it sees neither."""
    target, extra = url.target, list[str]()
    if proxy is not None and not url.secure:
        target = url.origin + url.target
        extra = proxy_lines(proxy)
    return request_head(method, target, url.authority, headers, body_size=body_size, extra=extra)


async def read_head(
    connection: HttpSocket, url: Url, method: str, first_byte_s: float, clock: Clock
) -> AnswerHead:
    """The head of the answer to the request that was sent. Raises HttpFault and BadAnswer."""
    until = clock.monotonic() + first_byte_s
    reader = HeadReader(method)
    while True:
        data = connection.take()
        if data:
            head = reader.feed(data)
            if head is not None:
                return head
        elif connection.ended:
            raise HttpFault("reset", url.origin, "the connection was closed before an answer came")
        else:
            await connection.wait(until - clock.monotonic(), f"no answer within {first_byte_s:g} s")
