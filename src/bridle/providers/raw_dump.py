"""The raw exchanges of a session with its providers, kept for somebody who has to find out what a vendor said.

`debug/SESSION.jsonl` in the state folder, readable by its owner alone: one line an exchange, each encrypted with the
key of the session's long outputs. It goes when the content of its session goes. What is in it was not looked through
for secrets; only the keys that Bridle itself sends are taken out.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from bridle.base.clock import Clock, iso_ms
from bridle.base.fs.files import private_folder
from bridle.base.net.http import DEFAULT_TIMEOUTS, HttpAnswer, HttpFault, Timeouts
from bridle.protocol.errors import BridleError
from bridle.providers.remote import Connections, Response

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

# A request is kept without its headers: they hold the key.


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


MOST_FILE_BYTES = 64_000_000
"""When a file has so many, it becomes the older one of two."""
_MASK = b"\xc2\xabredacted:key\xc2\xbb"
_NONCE_BYTES = 12
_NOT_KEPT = frozenset({"set-cookie"})


class DumpedExchange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of a dump. What is no UTF-8 stands there with its bytes escaped."""

    ts: str
    url: str
    status: int
    problem: str = ""
    cut: bool = False
    headers: dict[str, str] = {}
    request: str
    answer: str


class RawDump:
    """Writes the exchanges of one session to the second of its files, the first is an older
    one. `hear` is told, once, that one could not be kept; nothing fails for it."""

    def __init__(
        self,
        paths: tuple[str, str],
        session: str,
        *,
        key: Callable[[], bytes],
        secrets: Callable[[], Iterable[str]],
        clock: Clock,
        hear: Callable[[str], None],
        most_bytes: int = MOST_FILE_BYTES,
    ) -> None:
        self._older, self._path = paths
        self._session = session
        self._key = key
        self._secrets = secrets
        self._clock = clock
        self._hear: Callable[[str], None] | None = hear
        self._most_bytes = most_bytes
        self._sealing: AESGCM | None = None

    def keep(self, exchange: RawExchange) -> None:
        try:
            self._write(self._line(exchange))
        except (OSError, BridleError) as problem:
            hear, self._hear = self._hear, None
            if hear is not None:
                hear(problem.reason if isinstance(problem, BridleError) else problem.strerror or "")

    def _line(self, exchange: RawExchange) -> bytes:
        kept = DumpedExchange(
            ts=iso_ms(self._clock.now_ms()),
            url=self._text(exchange.url.encode()),
            status=exchange.status,
            problem=exchange.problem,
            cut=exchange.cut,
            headers={
                name: self._text(value.encode())
                for name, value in exchange.headers.items()
                if name.lower() not in _NOT_KEPT
            },
            request=self._text(exchange.request),
            answer=self._text(exchange.answer),
        )
        if self._sealing is None:
            self._sealing = _cipher(self._key())
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + self._sealing.encrypt(nonce, msgspec.json.encode(kept), self._session.encode())
        return b'"%b"\n' % base64.b64encode(sealed)

    def _text(self, data: bytes) -> str:
        for secret in self._secrets():
            data = data.replace(secret.encode(), _MASK)
        return data.decode(errors="backslashreplace")

    def _write(self, line: bytes) -> None:
        private_folder(os.path.dirname(self._path))
        with contextlib.suppress(FileNotFoundError):
            if os.path.getsize(self._path) + len(line) > self._most_bytes:
                os.replace(self._path, self._older)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self._path, flags, 0o600), "ab") as file:
            file.write(line)


def read_dump(paths: tuple[str, str], session: str, key: bytes) -> Iterator[DumpedExchange]:
    """What was kept of a session, in order; the line that a crash cut off is left out.

    Raises OSError, and `BridleError` with `DumpDamaged` for a line that is not what was written.
    """
    from cryptography.exceptions import InvalidTag

    cipher = _cipher(key)
    for path in paths:
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    sealed = base64.b64decode(msgspec.json.decode(line, type=str), validate=True)
                    data = cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], session.encode())
                except (msgspec.DecodeError, binascii.Error, ValueError, InvalidTag):
                    raise BridleError("DumpDamaged", path=path, line=number) from None
                yield msgspec.json.decode(data, type=DumpedExchange)


def _cipher(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(hmac.new(key, b"bridle raw dump\0", hashlib.sha256).digest())
