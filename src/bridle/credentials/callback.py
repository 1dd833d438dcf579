"""The address on this machine that a browser is sent back to: one page, open until the sign-in has its answer."""

from __future__ import annotations

import asyncio
import hmac
from types import TracebackType
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from bridle.base.net.http_routes import parse_url
from bridle.credentials.oauth import LOOPBACK, SignInRefused, clause

PATH: Final = "/callback"
MAX_REQUEST_BYTES: Final = 16 * 1024
REQUEST_S: Final = 10.0
_DONE: Final = "You are signed in. You can close this page and go back to the terminal."
_FAILED: Final = "The sign-in did not work. The terminal says more."
_STRANGE: Final = "This page belongs to no sign-in that is going on."


class BroughtCode(NamedTuple):
    """What a browser came back with. `issuer` is who says to have given the code, where it says so (RFC 9207)."""

    code: str
    issuer: str | None = None


def code_of(query: str, state: str) -> str | None:
    """The code that a browser brought, None if it belongs to another sign-in. Raises `SignInRefused` for a no."""
    brought = brought_code(query, state)
    return None if brought is None else brought.code


def brought_code(query: str, state: str) -> BroughtCode | None:
    """The same, with who gave it. Nothing of the query counts before its state is the one this sign-in made up."""
    try:
        fields = parse_qs(query, max_num_fields=50, errors="strict")
    except (ValueError, UnicodeDecodeError):
        return None
    given = fields.get("state", [])
    if not state or len(given) != 1 or not hmac.compare_digest(given[0].encode(), state.encode()):
        return None
    if "error" in fields:
        raise SignInRefused(clause(fields["error"][0], 60), clause(fields.get("error_description", [""])[0]))
    codes, issuers = fields.get("code", []), fields.get("iss", [])
    if len(codes) != 1 or not codes[0] or len(issuers) > 1:
        return None
    return BroughtCode(codes[0], *issuers)


class CallbackListener:
    """Listens on this machine while entered. `uri` is where the browser has to come back to.

    Without a `state` nothing counts until somebody says which one to `expect`.
    """

    def __init__(self, state: str = "", *, redirect_uri: str = "") -> None:
        wanted = parse_url(redirect_uri) if redirect_uri else None
        self._state = state
        self._port: int = wanted.port if wanted else 0
        self._path = wanted.target.partition("?")[0] if wanted else PATH
        self._host = "::1" if wanted and wanted.host == "::1" else "127.0.0.1"
        self.uri = redirect_uri
        self._server: asyncio.Server | None = None
        self._code: asyncio.Future[BroughtCode] = asyncio.get_running_loop().create_future()
        self._open: set[asyncio.Task[None]] = set()

    async def is_free(self) -> bool:
        """Whether the port of a given address can be listened on now."""
        try:
            async with CallbackListener(redirect_uri=self.uri):
                return True
        except OSError:
            return False

    async def __aenter__(self) -> CallbackListener:
        """Raises OSError when the port of a given address is taken."""
        self._server = await asyncio.start_server(
            self._accept, self._host, self._port, limit=MAX_REQUEST_BYTES
        )
        self._port = self._server.sockets[0].getsockname()[1]
        self.uri = self.uri or f"http://127.0.0.1:{self._port}{PATH}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        await asyncio.gather(*self._open, return_exceptions=True)  # the page is on its way
        self._code.cancel()

    def expect(self, state: str) -> None:
        """From here on this is the sign-in that counts."""
        self._state = state

    async def code(self) -> str:
        """The code, once a browser brought it. Raises `SignInRefused`."""
        return (await self.brought()).code

    async def brought(self) -> BroughtCode:
        """The same, with who gave it."""
        return await asyncio.shield(self._code)

    def take(self, address: str) -> bool:
        """Takes the address a browser ended at, pasted by a person whose browser is on another machine."""
        return self._answer(urlsplit(address.strip()).query)[0] != 400

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            async with asyncio.timeout(REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                status, words = self._reply(head)
                writer.write(_page(status, words))
                await writer.drain()
        except (OSError, EOFError, asyncio.LimitOverrunError, TimeoutError):
            pass  # somebody who knocked and said nothing
        finally:
            self._open.discard(task)
            writer.close()

    def _reply(self, head: bytes) -> tuple[int, str]:
        lines = head.decode("latin-1").split("\r\n")
        method, _, rest = lines[0].partition(" ")
        target = rest.rpartition(" ")[0]
        hosts = [line.partition(":")[2].strip().lower() for line in lines if line.lower().startswith("host:")]
        here = {f"[{name}]:{self._port}" if ":" in name else f"{name}:{self._port}" for name in LOOPBACK}
        if len(hosts) != 1 or hosts[0] not in here:  # a page elsewhere whose name leads here
            return 400, _STRANGE
        path, _, query = target.partition("?")
        if path != self._path:
            return 404, _STRANGE
        if method != "GET":
            return 405, _STRANGE
        return self._answer(query)

    def _answer(self, query: str) -> tuple[int, str]:
        try:
            brought = brought_code(query, self._state)
        except SignInRefused as refusal:
            if not self._code.done():
                self._code.set_exception(refusal)
                self._code.exception()  # it is told to whoever waits, if anybody does
            return 200, _FAILED
        if brought is None:
            return 400, _STRANGE
        if not self._code.done():
            self._code.set_result(brought)
        return 200, _DONE


def _page(status: int, words: str) -> bytes:
    reason = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}[status]
    body = f"<!doctype html><meta charset=utf-8><title>Bridle</title><p>{words}</p>\n".encode()
    head = (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
        "Content-Security-Policy: default-src 'none'\r\nX-Content-Type-Options: nosniff\r\n\r\n"
    )
    return head.encode() + body
