"""The messages between the engine and the credential helper.

Every request has a socket of its own, made by the engine and handed over. On it: one request, its body, and the
answer, in frames of a kind, a size and bytes. Whoever closes the socket gives the request up.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec

from bridle.base.net.http import Timeouts
from bridle.base.net.http_dial import FaultKind
from bridle.credentials.records import BackEnd

MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
BUFFER_BYTES: Final = 64 * 1024
"""How much waits for a slow reader at each end; beyond it, the model's server is held back."""

BEAT: Final = b"\0"
BEAT_S: Final = 5.0

_FRAME: Final = struct.Struct(">cI")
_WORDS: Final = b"w"
_PIECE: Final = b"p"


class Vault(msgspec.Struct, frozen=True, kw_only=True):
    """Where stored credentials are. Paths are bytes, as the system has them."""

    back_end: BackEnd
    path: bytes
    key_path: bytes
    state: bytes


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """What one helper is for, fixed for its life: the key of one provider, for one host. Its text shows no secret.

    `given_key` is a key that the environment or the settings hold; without one the vault is looked into. `env` is what
    of the environment opens the vault and leads to the host: passphrases, proxies, certificates. The sources are what
    people know the places of a key by.
    """

    provider: str
    base_url: str = ""
    header: str = ""
    scheme: str = ""
    needs_key: bool = True
    given_key: bytes = b""
    given_source: str = ""
    stored_source: str = ""
    missing_source: str = ""
    vault: Vault | None = None
    oauth: Mapping[str, Any] | None = None
    env: Mapping[str, bytes] = {}

    def __repr__(self) -> str:
        return f"Errand(provider={self.provider!r})"


# Requests


class FindKey(msgspec.Struct, frozen=True, tag="find"):
    """Find the credential, and renew a sign-in that ends."""


class ListNames(msgspec.Struct, frozen=True, tag="names"):
    """Which providers have a stored credential?"""


class SendRequest(msgspec.Struct, frozen=True, kw_only=True, tag="ask"):
    """Send this to the provider, with its key. `body_bytes` follow. Of an answer to GET, `limit_bytes` are read."""

    method: Literal["GET", "POST"]
    url: str
    headers: Mapping[str, str]
    timeouts: Timeouts
    body_bytes: int = 0
    limit_bytes: int = 0


HelperRequest: TypeAlias = FindKey | ListNames | SendRequest

# Replies


class KeyFound(msgspec.Struct, frozen=True, tag="found"):
    """Where the key is from; None where there is none and none is needed."""

    source: str | None


class StoredNames(msgspec.Struct, frozen=True, tag="named"):
    names: tuple[str, ...]


class ReplyHead(msgspec.Struct, frozen=True, tag="head"):
    """The beginning of the provider's answer. Pieces of its body follow, then `ReplyEnd`, or a `ReplyFault`."""

    status: int
    headers: Mapping[str, str]
    truncated: bool = False


class ReplyEnd(msgspec.Struct, frozen=True, tag="end"):
    """The body is whole."""


class ReplyFault(msgspec.Struct, frozen=True, tag="fault"):
    """No whole answer: an `HttpFault`."""

    kind: FaultKind
    origin: str
    problem: str


class NotSent(msgspec.Struct, frozen=True, tag="refusal"):
    """No credential to send it with. Nothing was sent."""

    reason: str
    data: Mapping[str, Any]


class UnsendableRequest(msgspec.Struct, frozen=True, tag="impossible"):
    """The request must not be sent as it is. Nothing was sent."""

    problem: str


HelperReply: TypeAlias = (
    KeyFound | StoredNames | ReplyHead | ReplyEnd | ReplyFault | NotSent | UnsendableRequest
)

Spoken = TypeVar("Spoken")


class HelperGone(ConnectionError):
    """The other end is not there any more."""


class Channel(Generic[Spoken]):
    """One end of the socket of a request. `heard` is what the other end may say; `closed` is called once."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        heard: msgspec.msgpack.Decoder[Spoken],
        closed: Callable[[], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._heard = heard
        self._closed: Callable[[], None] | None = closed

    async def say(self, words: HelperRequest | HelperReply, data: bytes = b"") -> None:
        """`data` follows as it is. Raises `HelperGone`."""
        spoken = msgspec.msgpack.encode(words)
        await self._send(_FRAME.pack(_WORDS, len(spoken)) + spoken, data)

    async def piece(self, data: bytes) -> None:
        """Part of a body. Returns once there is room for more. Raises `HelperGone`."""
        await self._send(_FRAME.pack(_PIECE, len(data)), data)

    async def hear(self) -> Spoken | bytes:
        """The next words, or the next piece of a body. Raises `HelperGone`."""
        try:
            kind, size = _FRAME.unpack(await self._reader.readexactly(_FRAME.size))
            if size > MAX_FRAME_BYTES:
                raise HelperGone
            data = await self._reader.readexactly(size)
            return data if kind == _PIECE else self._heard.decode(data)
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.MsgspecError):
            raise HelperGone from None

    async def read(self, size: int) -> bytes:
        """Exactly so many bytes, as they were sent. Raises `HelperGone`."""
        try:
            return await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise HelperGone from None

    async def left(self) -> None:
        """Returns when the other end gives up. Nothing may be left to hear."""
        with contextlib.suppress(ConnectionError):
            await self._reader.read(1)

    async def end(self) -> None:
        """Close it once everything said has arrived."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
        self._tell()

    def abort(self) -> None:
        """Close it at once. May be repeated."""
        self._writer.transport.abort()
        self._tell()

    def _tell(self) -> None:
        closed, self._closed = self._closed, None
        if closed is not None:
            closed()

    async def _send(self, *parts: bytes) -> None:
        try:
            self._writer.writelines([part for part in parts if part])
            await self._writer.drain()
        except ConnectionError:
            raise HelperGone from None


async def engines_end(sock: socket.socket, closed: Callable[[], None]) -> Channel[HelperReply]:
    """The channel of whoever asks. The socket is the channel's from here on."""
    return Channel(*await _streams(sock), msgspec.msgpack.Decoder(HelperReply), closed)


async def helpers_end(sock: socket.socket) -> Channel[HelperRequest]:
    """The channel of whoever answers."""
    return Channel(*await _streams(sock), msgspec.msgpack.Decoder(HelperRequest), lambda: None)


async def _streams(sock: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    sock.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=sock, limit=BUFFER_BYTES)
    writer.transport.set_write_buffer_limits(high=BUFFER_BYTES)
    return reader, writer
