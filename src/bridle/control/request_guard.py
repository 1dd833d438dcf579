"""Who may ask at all, before anything is looked at: the process, the Host, the Origin, then the token.

Every connection says over which listener it came and who is at its other end (`ConnectionOrigin`); a request without
that is refused. Nothing answers without a token, on the Unix socket either, and a page of another origin not even then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

import msgspec

from bridle.control.http_status import problem_of, status_of
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.tokens import Claims

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

ORIGIN_STATE = "bridle_origin"
CLAIMS_STATE = "bridle_claims"
TOKEN_HEADERS = (b"x-bridle-token", b"x-harness-token")
_ALLOWED_HEADERS = b"content-type, last-event-id, x-bridle-token, x-harness-token"
_BEARER_HEADERS = (
    b"authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id"
)
_ALLOWED_METHODS = b"GET, POST, DELETE"
_CLOSES = (b"connection", b"close")
_ALWAYS: tuple[tuple[bytes, bytes], ...] = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
)


class Listener(msgspec.Struct, frozen=True, kw_only=True):
    """An address the engine listens on, with the allowed Host headers and origins. On a `public` one, tokens must
    name their sessions."""

    name: str
    hosts: frozenset[str]
    origins: frozenset[str] = frozenset()
    public: bool = False


READ_OFF_BYTES = 64 * 1024
READ_OFF_S = 0.2
"""So much of the body of a request that is refused is still taken, for so long."""


class ConnectionOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a connection came from. `refused` is the reason nobody at its other end is heard, if there is one; what
    takes a while to find out (`look_closer`, in a thread) is asked of whoever shows a good token."""

    listener: Listener
    peer: str
    refused: str | None = None
    look_closer: Callable[[], str | None] | None = None


class TokenReader(Protocol):
    """Reads tokens. Every refusal is a `CommandRefused`."""

    def read(self, token: str, *, peer: str = "") -> Claims: ...


class RequestGuard:
    """Lets requests with valid claims reach the application. `note_refusal` hears of every refusal. At
    `bearer_paths` the token stands in `Authorization`."""

    def __init__(
        self,
        app: AsgiApp,
        tokens: TokenReader,
        *,
        note_refusal: Callable[[str, str], None],
        is_stopping: Callable[[], bool],
        bearer_paths: frozenset[str] = frozenset(),
    ) -> None:
        self._bearer_paths = bearer_paths
        self._app = app
        self._tokens = tokens
        self._note_refusal = note_refusal
        self._is_stopping = is_stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        origin: ConnectionOrigin | None = scope.get("state", {}).get(ORIGIN_STATE)
        headers = _headers(scope)
        bearer = scope["type"] == "http" and scope["path"] in self._bearer_paths
        page = _only(headers.get(b"origin", []))
        allowed = origin is not None and page is not None and page in origin.listener.origins
        shared = _shared_with(page, bearer=bearer) if allowed and page is not None else ()

        async def send_guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                message["headers"] = [*message.get("headers", ()), *_ALWAYS, *shared]
            await send(message)

        is_let_in = False
        try:
            if origin is None:
                raise CommandRefused("NotAClient")
            self._check_place(origin, headers)
            if scope.get("method") == "OPTIONS":
                await _preflight(send_guarded, allowed=allowed, bearer=bearer)
                return
            if self._is_stopping():
                raise CommandRefused("EngineStopping")
            scope["state"][CLAIMS_STATE] = self._claims(origin, headers, bearer=bearer)
            if origin.look_closer is not None:
                refused = await asyncio.to_thread(origin.look_closer)
                if refused is not None:
                    raise CommandRefused(refused)
            is_let_in = True
            await self._app(scope, receive, send_guarded)
        except BridleError as refusal:
            peer = origin.peer if origin is not None else "?"
            self._note_refusal(refusal.reason, peer)
            if not is_let_in and scope["type"] == "http":
                await _read_off(receive)
            await refuse(scope, send_guarded, refusal, bearer=bearer)

    def _check_place(self, origin: ConnectionOrigin, headers: Mapping[bytes, list[str]]) -> None:
        if origin.refused is not None:
            raise CommandRefused(origin.refused)
        host = _only(headers.get(b"host", []))
        if host is None or host.lower() not in origin.listener.hosts:
            raise CommandRefused("HostRefused", host=_shown(host))
        if b"origin" in headers:
            page = _only(headers[b"origin"])
            if page is None or page not in origin.listener.origins:
                raise CommandRefused("OriginRefused", origin=_shown(page))

    def _claims(
        self, origin: ConnectionOrigin, headers: Mapping[bytes, list[str]], *, bearer: bool
    ) -> Claims:
        if bearer:
            given = {_bearer(value) for value in headers.get(b"authorization", ())}
        else:
            given = {value for name in TOKEN_HEADERS for value in headers.get(name, ())}
        if not given or given == {""}:
            raise CommandRefused("TokenMissing")
        if len(given) > 1:
            raise CommandRefused("TokenInvalid", problem="there are two")
        claims = self._tokens.read(given.pop(), peer=origin.peer)
        if origin.listener.public and claims.sessions is msgspec.UNSET:
            raise CommandRefused("TokenInvalid", problem="on the network a token has to name its sessions")
        return claims


def origin_of(scope: Scope) -> ConnectionOrigin:
    return scope["state"][ORIGIN_STATE]


def claims_of(scope: Scope) -> Claims:
    return scope["state"][CLAIMS_STATE]


def _bearer(value: str) -> str:
    scheme, _, token = value.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def _read_off(receive: Receive) -> None:
    """Takes what little of a body is on its way: a connection that ends with something unread is reset, and whoever
    sent it might never see why."""
    left = READ_OFF_BYTES
    with suppress(TimeoutError):
        async with asyncio.timeout(READ_OFF_S):
            while left > 0:
                message = await receive()
                if message["type"] != "http.request" or not message.get("more_body"):
                    return
                left -= len(message.get("body", b""))


async def refuse(scope: Scope, send: Send, failure: BridleError, *, bearer: bool = False) -> None:
    """The refusal as an answer, and the end of the connection: who is not let in holds no place of those who are. A
    WebSocket that is refused gets it in place of its upgrade."""
    body = msgspec.json.encode(problem_of(failure))
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        _CLOSES,
    ]
    if "retry_after_s" in failure.data:
        headers.append((b"retry-after", str(failure.data["retry_after_s"]).encode()))
    if bearer and status_of(failure.reason) == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if "allowed" in failure.data:
        headers.append((b"allow", str(failure.data["allowed"]).encode()))
    await send({"type": f"{kind}.start", "status": status_of(failure.reason), "headers": headers})
    await send({"type": f"{kind}.body", "body": body})


async def _preflight(send: Send, *, allowed: bool, bearer: bool) -> None:
    """A browser asks whether a page may ask: only one whose origin is listed, and nothing without an origin."""
    headers: list[tuple[bytes, bytes]] = [_CLOSES]
    if allowed:
        headers += [
            (b"access-control-allow-headers", _BEARER_HEADERS if bearer else _ALLOWED_HEADERS),
            (b"access-control-allow-methods", _ALLOWED_METHODS),
        ]
    await send({"type": "http.response.start", "status": 204 if allowed else 403, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _shared_with(page: str, *, bearer: bool) -> tuple[tuple[bytes, bytes], ...]:
    told = ((b"access-control-expose-headers", b"mcp-session-id"),) if bearer else ()
    return ((b"access-control-allow-origin", page.encode()), (b"vary", b"origin"), *told)


def _headers(scope: Scope) -> dict[bytes, list[str]]:
    found: dict[bytes, list[str]] = {}
    given: Iterable[tuple[bytes, bytes]] = scope.get("headers", ())
    for name, value in given:
        found.setdefault(name.lower(), []).append(value.decode("latin-1"))
    return found


def _only(values: list[str]) -> str | None:
    return values[0] if len(values) == 1 else None


def _shown(text: str | None) -> str:
    """As much of what somebody sent as may be said again."""
    plain = "".join(char for char in text or "" if char.isascii() and char.isprintable())
    return plain[:100]
