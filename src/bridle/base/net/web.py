"""Fetch one web page without reaching forbidden addresses.

A name is looked up once per hop, every address it has is judged, and the connection goes to exactly an address that was
judged: asking again could give another answer. Redirects are followed by hand, each like a new address. What is sent is
always the same few headers: no cookie, no credential, nothing of the environment.

Refused     the address must not be contacted; nothing was sent to it
HttpFault   there was no whole answer
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote, urljoin

import msgspec

from bridle.base.clock import Clock
from bridle.base.net.addresses import address_problem, url_problem
from bridle.base.net.http import read_head
from bridle.base.net.http_connection import HttpSocket, Route
from bridle.base.net.http_dial import (
    Attempt,
    HttpFault,
    TimeLimit,
    abandon,
    connect_one,
    first_connected,
    tls_fault,
    trust_fault,
    unreached,
)
from bridle.base.net.http_framing import AnswerHead, BadAnswer, request_head
from bridle.base.net.http_routes import ProxyRules, Url, parse_url, tls_context
from bridle.base.threads import in_thread

if TYPE_CHECKING:
    import ssl

Resolve: TypeAlias = Callable[[str], Awaitable[list[str]]]
"""All addresses of a name, as text. Raises OSError when there are none."""
Connect: TypeAlias = Callable[[str, int], Coroutine[Any, Any, socket.socket]]
"""A non-blocking socket connected to exactly this address and port. Raises OSError."""
JudgeAddress: TypeAlias = Callable[[str], str | None]
"""What is wrong with a URL or an address, in a few words; None when nothing is."""
RefuseBody: TypeAlias = Callable[["Headers"], str | None]
"""Why a body with these headers is not wanted, as the end of a sentence; None when it is."""
Headers: TypeAlias = Mapping[str, str]
JudgedFetch: TypeAlias = "Callable[[str, RefuseBody, JudgeAddress], Awaitable[WebAnswer]]"
"""Gets a page: see `Web.fetch`. The last argument says where a session must not go."""

MAX_HOPS: Final = 5
MAX_BODY_BYTES: Final = 5 * 1024 * 1024
MAX_URL_CHARACTERS: Final = 8 * 1024
TOTAL_S: Final = 30.0
CONNECT_S: Final = 10.0
FIRST_BYTE_S: Final = 20.0
IDLE_S: Final = 10.0
HEADERS: Final = {
    "accept": "text/html, text/markdown;q=0.9, text/*;q=0.8, application/json;q=0.8, */*;q=0.1",
    "user-agent": "bridle",
}

_MAX_TRIED: Final = 8
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_CLOSE: Final = ("connection: close",)
_PARTS: Final = re.compile(r"(https?://)([^/?#]*)([^#]*)(?:#.*)?", re.IGNORECASE | re.DOTALL)
_NAME: Final = re.compile(r"[0-9A-Za-z._-]+")
_KEPT_IN_A_TARGET: Final = "!\"$%&'()*+,-./:;<=>?@[]^_`{|}~"
_READ_DIFFERENTLY: Final = frozenset("\u00df\u03c2\u200c\u200d")
"""For these letters the old and the new rules for names lead to different hosts."""


class WebRefused(Exception):
    """Nobody may be sent there, and nothing was. `problem` says why in a few words; `url` is without credentials."""

    def __init__(self, problem: str, url: str) -> None:
        super().__init__(f"{problem}: {url}")
        self.problem = problem
        self.url = url


class WebAnswer(NamedTuple):
    """What came back from `url`, where the redirects ended. Only an answer of success has a body.

    `unwanted` says why the body was not read, `cut` that it was longer than what was read.
    """

    url: str
    status: int
    headers: Headers
    body: bytes = b""
    unwanted: str = ""
    cut: bool = False


def public_web(env: Mapping[str, str], clock: Clock) -> JudgedFetch:
    """Fetches pages from public addresses only. `env` names proxies and certificates; nothing of it is sent."""
    return Web(env=env, clock=clock, judge_url=url_problem, judge_address=address_problem).fetch


class Web:
    """Fetches pages. `judge_url` and `judge_address` say where nobody may be sent.

    `resolve` and `connect` are the network: a name is resolved once per hop and `connect` gets only what
    `judge_address` let pass. An address for which the environment names a proxy is not fetched: the proxy would look
    the name up again, and nobody could say where it leads.
    """

    def __init__(
        self,
        *,
        env: Mapping[str, str],
        clock: Clock,
        judge_url: JudgeAddress,
        judge_address: JudgeAddress,
        resolve: Resolve | None = None,
        connect: Connect | None = None,
        tls: "Callable[[], ssl.SSLContext] | None" = None,
    ) -> None:
        self._clock = clock
        self._judge_url = judge_url
        self._judge_address = judge_address
        self._resolve = resolve or look_up
        self._connect = connect or connect_to
        self._proxies = ProxyRules(env)
        self._tls = tls or partial(tls_context, env)
        self._context: ssl.SSLContext | None = None

    async def fetch(self, url: str, wanted: RefuseBody, judge_url: JudgeAddress | None = None) -> WebAnswer:
        """The page at this address. `wanted` is asked before a body is read. Cancelling closes the socket.

        `judge_url` takes the place of the one that holds otherwise, at every hop.
        """
        try:
            async with TimeLimit(self._clock, TOTAL_S):
                return await self._follow(url, wanted, judge_url or self._judge_url)
        except TimeoutError:
            raise HttpFault("timeout", url, f"it took longer than {TOTAL_S:g} s") from None

    async def _follow(self, text: str, wanted: RefuseBody, judge: JudgeAddress) -> WebAnswer:
        url = _judged(text, judge)
        for _ in range(MAX_HOPS + 1):
            answer = await self._get(url, wanted)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or location is None:
                return answer
            try:
                following = _judged(redirected(answer.url, location), judge)
            except WebRefused as refused:
                raise WebRefused(f"{refused.problem}, after a redirect", refused.url) from None
            if url.secure and not following.secure:
                raise WebRefused("a redirect from https to http", _shown(following))
            url = following
        raise HttpFault("protocol", url.origin, f"it redirects more than {MAX_HOPS} times")

    async def _get(self, url: Url, wanted: RefuseBody) -> WebAnswer:
        """One request and its answer, on a connection of its own that is closed behind it."""
        self._check_proxy(url)
        try:
            async with TimeLimit(self._clock, CONNECT_S):
                connection = await self._open(url)
        except TimeoutError:
            raise HttpFault("timeout", url.origin, f"no connection within {CONNECT_S:g} s") from None
        try:
            head = request_head("GET", url.target, url.authority, HEADERS, body_size=0, extra=_CLOSE)
            await connection.send(head, b"", FIRST_BYTE_S)
            answer = await read_head(connection, url, "GET", FIRST_BYTE_S, self._clock)
            return await _answer(connection, url, answer, wanted)
        except BadAnswer as error:
            raise HttpFault("protocol", url.origin, str(error)) from None
        finally:
            connection.abort()

    def _check_proxy(self, url: Url) -> None:
        try:
            proxy = self._proxies.proxy_for(url)
        except ValueError:
            problem = "the proxy set in the environment is not an address"
            raise HttpFault("proxy", url.origin, problem) from None
        if proxy is not None:
            problem = "a proxy is set for it, and behind a proxy nobody can check where the name leads"
            raise HttpFault("proxy", url.origin, f"{problem}; hosts in NO_PROXY are fetched directly")

    async def _open(self, url: Url) -> HttpSocket:
        """A connection to an address that was judged. The certificates are read while the other end is reached."""
        addresses = await self._addresses(url)
        attempts: list[Attempt] = [partial(self._connect, address, url.port) for address in addresses]
        building = in_thread(self._tls) if url.secure and self._context is None else None
        try:
            try:
                sock = await first_connected(attempts[:_MAX_TRIED], self._clock)
            except OSError as error:
                kind, problem = unreached(error)
                raise HttpFault(kind, url.origin, problem) from error
            try:
                if building is not None:
                    self._context = await building
            except BaseException as error:
                sock.close()
                if isinstance(error, OSError):
                    raise trust_fault(url, error) from error
                raise
            return await self._adopt(sock, url)
        finally:
            if building is not None:
                abandon(building)

    async def _adopt(self, sock: socket.socket, url: Url) -> HttpSocket:
        """The connection on a socket. The name stays the one of the URL: the certificate must be for it."""
        route = Route(url.secure, url.host, url.port, None)
        connection = HttpSocket(self._clock, route, url.origin, _forget)
        context, name = (self._context, url.host) if url.secure else (None, None)
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: connection, sock=sock, ssl=context, server_hostname=name)
        except OSError as error:
            raise tls_fault(url, error) from error
        return connection

    async def _addresses(self, url: Url) -> list[str]:
        """All addresses of the host. One of them that nobody may be sent to is enough to refuse."""
        addresses = await addresses_of(url.host, self._resolve)
        if not addresses:
            raise HttpFault("dns", url.origin, "the name of the host was not found")
        for address in addresses:
            if (problem := self._judge_address(address)) is not None:
                leads = problem if address == url.host else f"{url.host} leads to a {problem}"
                raise WebRefused(leads, _shown(url))
        return addresses


def _judged(text: str, judge: JudgeAddress) -> Url:
    """The parsed URL, if its text shows no reason against it: as it was written, and as it will be used."""
    if (problem := judge(text)) is not None:
        raise WebRefused(problem, _without_credentials(text))
    try:
        url = parse_web_url(text)
    except ValueError:
        raise WebRefused("not a web address", _without_credentials(text)) from None
    if (problem := judge(_shown(url))) is not None:
        raise WebRefused(problem, _shown(url))
    return url


async def _answer(connection: HttpSocket, url: Url, head: AnswerHead, wanted: RefuseBody) -> WebAnswer:
    answer = WebAnswer(_shown(url), head.status, head.headers)
    if head.status // 100 != 2:
        return answer
    if (unwanted := wanted(head.headers)) is not None:
        return answer._replace(unwanted=unwanted)
    body, cut = await _read_body(connection, url, head)
    return answer._replace(body=body, cut=cut)


async def _read_body(connection: HttpSocket, url: Url, head: AnswerHead) -> tuple[bytes, bool]:
    """The body, at most `MAX_BODY_BYTES` of it, and whether there was more."""
    body = bytearray(head.body.feed(head.rest) if head.rest else b"")
    while not head.body.done and len(body) <= MAX_BODY_BYTES:
        if data := connection.take():
            body += head.body.feed(data)
        elif not connection.ended:
            await connection.wait(IDLE_S, f"no data for {IDLE_S:g} s")
        elif head.body.needs_end or not connection.ended_cleanly:
            raise HttpFault("reset", url.origin, "the connection was closed in the middle of the answer")
        else:
            break
    return bytes(body[:MAX_BODY_BYTES]), len(body) > MAX_BODY_BYTES


def parse_web_url(text: str) -> Url:
    """A URL as people write it: names in any letters, a fragment, a final dot. Raises ValueError."""
    parts = _PARTS.fullmatch(text)
    if parts is None or len(text) > MAX_URL_CHARACTERS:
        raise ValueError("not a web address")
    scheme, authority, target = parts.groups()
    if not authority.isascii():
        authority = _ascii(authority)
    url = parse_url(f"{scheme}{authority}{quote(target, safe=_KEPT_IN_A_TARGET, errors='replace')}")
    return msgspec.structs.replace(url, host=url.host.removesuffix("."))


def _ascii(authority: str) -> str:
    """The authority with the host as it is asked for in the DNS."""
    host, colon, port = authority.partition(":")
    if _READ_DIFFERENTLY & {*host}:
        raise ValueError("this name is read differently by different programs")
    name = host.encode("idna").decode("ascii")
    if _NAME.fullmatch(name) is None:
        raise ValueError("not a name")
    return f"{name}{colon}{port}"


def redirected(url: str, location: str) -> str:
    """Where a `Location` header leads from `url`. What cannot be read stays as it is, for whoever judges it."""
    try:
        location = location.encode("latin-1").decode("utf-8", "replace")
        return urljoin(url, location) if location.isprintable() else location
    except ValueError:
        return location


def numeric(host: str) -> list[str]:
    """The address a host is when it is a number, in whatever spelling the system connects to; none for a name."""
    try:
        found = socket.getaddrinfo(
            host.encode("ascii"), None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
    except OSError:
        return []
    return [str(address[0]) for _, _, _, _, address in found]


async def addresses_of(host: str, resolve: Resolve) -> list[str]:
    """All addresses of a host, be it a name or a number; none where it has none."""
    try:
        return numeric(host) or await resolve(host)
    except (OSError, ValueError):
        return []


async def look_up(host: str) -> list[str]:
    name = host.encode("ascii")
    found = await in_thread(partial(socket.getaddrinfo, name, None, type=socket.SOCK_STREAM))
    return list(dict.fromkeys(str(address[0]) for _, _, _, _, address in found))


async def connect_to(address: str, port: int) -> socket.socket:
    """A non-blocking socket connected to exactly this address. Raises OSError."""
    return await connect_one(socket.AF_INET6 if ":" in address else socket.AF_INET, (address, port))


def _shown(url: Url) -> str:
    return url.origin + url.target


def _without_credentials(text: str) -> str:
    """What stands before an `@` in the authority is not shown."""
    scheme, slashes, rest = text.partition("//")
    if not slashes:
        return text.rpartition("@")[2]
    authority, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{authority.rpartition('@')[2]}{slash}{path}"


def _forget(_connection: HttpSocket) -> None:
    """Nothing is kept between requests."""
