"""Connect a socket for a URL: name lookup, several addresses, proxy tunnel.

Also owns `HttpFault`, the one exception for a request that got no whole answer, and the words for what the system
and OpenSSL report.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from types import TracebackType
from typing import Any, Final, Literal

from bridle.base.clock import Clock
from bridle.base.net.http_framing import BadAnswer, HeadReader, request_head
from bridle.base.net.http_routes import Proxy, Url
from bridle.base.threads import in_thread

FaultKind = Literal["refused", "unreachable", "dns", "tls", "timeout", "silent", "reset", "protocol", "proxy"]
Attempt = Callable[[], Coroutine[Any, Any, socket.socket]]

_STAGGER_S: Final = 0.25
"""A host with several addresses: how long one may take before the next is tried as well."""


class HttpFault(Exception):
    """No whole answer. `kind` is stable, `origin` is scheme, host and port, `problem` ends a sentence.

    refused      nothing listens there                 timeout    the request could not be handed over in time
    unreachable  no way to the host                    silent     it was, and nothing came, or nothing more
    dns          the name is not known                 reset      the connection ended before the answer did
    tls          certificate or handshake refused      protocol   what came is not HTTP as we asked for it
    proxy        the proxy, or its setting, is the trouble
    """

    def __init__(self, kind: FaultKind, origin: str, problem: str) -> None:
        super().__init__(f"{origin}: {problem}")
        self.kind: FaultKind = kind
        self.origin = origin
        self.problem = problem


class TimeLimit:
    """`async with` scope that cancels its task after `seconds` and then raises TimeoutError.

    A cancellation from elsewhere passes through unchanged.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._expired = False

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._timer = self._clock.call_later(self._seconds, self._fire)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError

    def _fire(self) -> None:
        self._expired = True
        self._task.cancel()


def abandon(future: asyncio.Future[Any]) -> None:
    """Nobody will wait for it any more, so its failure is not news."""
    if not future.cancel() and not future.cancelled():
        future.exception()


async def open_socket(url: Url, proxy: Proxy | None, clock: Clock) -> socket.socket:
    """A non-blocking socket connected to the host of the URL, or to the proxy if that is to pass the request on.

    Raises HttpFault.
    """
    try:
        sock = await _connect(url if proxy is None else proxy, clock)
    except OSError as error:
        kind, problem = unreached(error)
        if proxy is not None:
            kind, problem = "proxy", f"the proxy {proxy.address} cannot be reached ({problem})"
        raise HttpFault(kind, url.origin, problem) from error
    if proxy is not None and url.secure:
        try:
            await _tunnel(sock, url, proxy)
        except BaseException:
            sock.close()
            raise
    return sock


async def _connect(place: Url | Proxy, clock: Clock) -> socket.socket:
    # As text the name would pass through the idna codec, whose import costs more than connecting.
    look_up = partial(socket.getaddrinfo, place.host.encode("ascii"), place.port, type=socket.SOCK_STREAM)
    try:
        found = look_up(flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        found = await in_thread(look_up)
    attempts: list[Attempt] = [partial(connect_one, family, address) for family, _, _, _, address in found]
    return await (attempts[0]() if len(attempts) == 1 else first_connected(attempts, clock))


async def connect_one(family: int, address: Any) -> socket.socket:
    """A non-blocking socket connected to exactly this address. Raises OSError."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


async def first_connected(attempts: list[Attempt], clock: Clock) -> socket.socket:
    """The first attempt to succeed. They begin in order, each when an earlier one failed or is taking long."""
    failure: BaseException = OSError()
    still_to_do = attempts[::-1]
    running: set[asyncio.Task[socket.socket]] = set()
    try:
        while still_to_do or running:
            if still_to_do:
                running.add(asyncio.create_task(still_to_do.pop()()))
            pause = asyncio.create_task(clock.sleep(_STAGGER_S))
            watched = {*running, pause} if still_to_do else running
            try:
                await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            finally:
                pause.cancel()
            for task in [task for task in running if task.done()]:
                running.discard(task)
                if (problem := task.exception()) is None:
                    return task.result()
                failure = problem
    finally:
        for task in running:
            task.add_done_callback(_discard)
            task.cancel()
    raise failure


def _discard(attempt: asyncio.Task[socket.socket]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


async def _tunnel(sock: socket.socket, url: Url, proxy: Proxy) -> None:
    """Have the proxy connect through to the host of the URL."""
    loop = asyncio.get_running_loop()
    target = f"[{url.host}]:{url.port}" if ":" in url.host else f"{url.host}:{url.port}"
    request = request_head("CONNECT", target, target, {}, body_size=0, extra=proxy_lines(proxy))
    reader = HeadReader("CONNECT")
    head = None
    try:
        await loop.sock_sendall(sock, request)
        while head is None:
            data = await loop.sock_recv(sock, 4096)
            if not data:
                raise BadAnswer("it closed the connection")
            head = reader.feed(data)
    except (OSError, BadAnswer) as error:
        problem = _os_problem(error) if isinstance(error, OSError) else str(error)
        raise HttpFault("proxy", url.origin, f"the proxy {proxy.address} failed ({problem})") from None
    if head.status // 100 != 2:
        raise HttpFault("proxy", url.origin, f"the proxy {proxy.address} answered {head.status}")


def proxy_lines(proxy: Proxy) -> list[str]:
    """The lines of a request's head that only the proxy may see."""
    authorization = proxy.authorization()
    return [] if authorization is None else [f"proxy-authorization: {authorization}"]


def unreached(error: OSError) -> tuple[FaultKind, str]:
    """What a failed connection is called, and the end of a sentence about it."""
    if isinstance(error, socket.gaierror):
        return "dns", "the name of the host was not found"
    if isinstance(error, ConnectionRefusedError):
        return "refused", "connection refused"
    return "timeout" if isinstance(error, TimeoutError) else "unreachable", _os_problem(error)


def _os_problem(error: OSError) -> str:
    """What the system says, without the file names and addresses Python adds."""
    return os.strerror(error.errno).lower() if error.errno else "unknown error"


def trust_fault(url: Url, error: OSError) -> HttpFault:
    """The certificates to believe in could not be loaded."""
    return HttpFault("tls", url.origin, f"the trusted certificates cannot be read ({_os_problem(error)})")


def tls_fault(url: Url, error: OSError) -> HttpFault:
    """The handshake did not succeed."""
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        problem = f"the certificate was refused ({error.verify_message.rstrip('.')})"
    elif isinstance(error, ssl.SSLError):
        problem = f"no TLS connection ({(error.reason or 'unknown error').replace('_', ' ').lower()})"
    else:
        problem = "the connection was closed while TLS was set up"
    return HttpFault("tls", url.origin, problem)
