"""A WebSocket client (RFC 6455) for text frames.

UpgradeRefused     the server answered with something else; status and body as they came
SocketClosed       the other end closed, with the code it gave; 1006 where it just went away
"""

from __future__ import annotations

import asyncio
import binascii
import os
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from bridle.base.net.engine_place import connected_socket

if TYPE_CHECKING:
    from hashlib import sha1
else:
    try:
        from _sha1 import sha1  # hashlib would load OpenSSL, for one short text that is no secret
    except ImportError:
        from hashlib import sha1

_KEY_END = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUED, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_FINAL, _MASKED = 0x80, 0x80
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
_MAX_BODY = 1024 * 1024


class UpgradeRefused(Exception):
    """No WebSocket was opened."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"the server answered {status}")
        self.status = status
        self.body = body


class SocketClosed(Exception):
    """Nothing more comes and nothing more can be sent."""

    def __init__(self, code: int, reason: str = "") -> None:
        super().__init__(f"closed with {code} {reason}".rstrip())
        self.code = code
        self.reason = reason


class TextSocket(Protocol):
    """What a client needs of an open WebSocket, whatever carries it. Every method raises `SocketClosed` at its end."""

    async def send(self, text: bytes) -> None: ...

    async def receive(self) -> bytes: ...

    async def close(self) -> None: ...


class WebSocketClient:
    """An open WebSocket. One task reads, any number write."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, text: bytes) -> None:
        """Sends a text frame. Raises `SocketClosed`."""
        self._write(_TEXT, text)
        try:
            await self._writer.drain()
        except (ConnectionError, OSError):
            raise SocketClosed(1006) from None

    async def receive(self) -> bytes:
        """The next message. Raises `SocketClosed`, and is closed then."""
        message = bytearray()
        while True:
            try:
                opcode, final, payload = await self._frame(MAX_MESSAGE_BYTES - len(message))
            except (asyncio.IncompleteReadError, ConnectionError, OSError):
                self._writer.close()
                raise SocketClosed(1006) from None
            match opcode:
                case _ if opcode == _PING:
                    self._write(_PONG, payload)
                case _ if opcode == _CLOSE:
                    code = struct.unpack("!H", payload[:2])[0] if len(payload) >= 2 else 1005
                    self._write(_CLOSE, payload[:2])
                    self._writer.close()
                    raise SocketClosed(code, payload[2:].decode("utf-8", "replace"))
                case _ if opcode in (_TEXT, _CONTINUED, _BINARY):
                    message += payload
                    if final:
                        return bytes(message)
                case _:
                    pass

    async def close(self) -> None:
        """Says goodbye and waits for nobody. Safe to call twice."""
        if not self._writer.is_closing():
            self._write(_CLOSE, struct.pack("!H", 1000))
            self._writer.close()

    def cut(self) -> None:
        """Is gone without a word, as when a cable is pulled."""
        self._writer.transport.abort()

    async def _frame(self, most: int) -> tuple[int, bool, bytes]:
        first, second = await self._reader.readexactly(2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack("!H", await self._reader.readexactly(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", await self._reader.readexactly(8))
        if length > most or second & _MASKED:
            self._writer.close()
            raise SocketClosed(1009 if length > most else 1002)
        return first & 0x0F, bool(first & _FINAL), await self._reader.readexactly(length)

    def _write(self, opcode: int, payload: bytes) -> None:
        if self._writer.is_closing():
            return
        length = len(payload)
        head = bytes([_FINAL | opcode])
        if length < 126:
            head += bytes([_MASKED | length])
        elif length < 65536:
            head += struct.pack("!BH", _MASKED | 126, length)
        else:
            head += struct.pack("!BQ", _MASKED | 127, length)
        mask = os.urandom(4)
        self._writer.write(head + mask + _masked(payload, mask))


def _masked(payload: bytes, mask: bytes) -> bytes:
    """Every byte with its byte of the mask, all at once."""
    length = len(payload)
    whole = int.from_bytes(mask * (length // 4 + 1), "little") & ((1 << 8 * length) - 1)
    return (int.from_bytes(payload, "little") ^ whole).to_bytes(length, "little")


async def open_unix_websocket(path: str, target: str, headers: Mapping[str, str]) -> WebSocketClient:
    """Over a Unix socket. Raises OSError, `UpgradeRefused`."""
    reader, writer = await asyncio.open_unix_connection(sock=connected_socket(path))
    return await open_websocket(reader, writer, "localhost", target, headers)


async def open_websocket(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    host: str,
    target: str,
    headers: Mapping[str, str],
) -> WebSocketClient:
    """Over a new connection, which is closed where nothing comes of it. Raises OSError, `UpgradeRefused`."""
    key = binascii.b2a_base64(os.urandom(16), newline=False)
    given = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    request = (
        f"GET {target} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key.decode()}\r\n{given}\r\n"
    )
    try:
        writer.write(request.encode("latin-1"))
        await writer.drain()
        status, answered = _head(await reader.readuntil(b"\r\n\r\n"))
        if status != 101:
            length = min(int(answered.get("content-length", "0") or 0), _MAX_BODY)
            raise UpgradeRefused(status, await reader.readexactly(length))
        accept = binascii.b2a_base64(
            sha1(key + _KEY_END, usedforsecurity=False).digest(), newline=False
        ).decode()
        if answered.get("sec-websocket-accept") != accept:
            raise UpgradeRefused(status, b"")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        writer.close()
        raise ConnectionResetError("the connection ended before it was answered") from None
    except BaseException:
        writer.close()
        raise
    return WebSocketClient(reader, writer)


def _head(data: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = data.decode("latin-1").split("\r\n")
    headers = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(first.split()[1]), {name.strip().lower(): value.strip() for name, value in headers.items()}
