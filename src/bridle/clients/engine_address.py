"""Engine addresses (`unix:///…`, `http://…`, `https://…`), connections to them, and reports of a lost connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from bridle.base.net.engine_place import connected_socket
from bridle.base.net.websocket_client import WebSocketClient, open_websocket
from bridle.protocol.errors import CommandRefused, UsageError

LOST: Final = "engine lost, reconnecting"


class EngineLink:
    """Reports of a connection that can break.

    `hear` gets the seconds for which the connection tries to come back from now on, or None when it has come back; it
    hears of that while there are events to come. One that gave up tells that to whoever waits. `at_break` is called
    whenever the connection breaks, whatever was to come.
    """

    def __init__(self) -> None:
        self.hear: Callable[[float | None], None] = lambda _gives_up_s: None
        self.at_break: Callable[[], object] = lambda: None


Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class EngineAddress(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is that of a Unix socket; without one there is a host and a port. `ca_file` holds whom TLS trusts."""

    url: str
    path: str = ""
    host: str = "localhost"
    port: int = 0
    is_secure: bool = False
    ca_file: str | None = None

    @property
    def host_header(self) -> str:
        if self.path:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    async def connect(self) -> Streams:
        """Raises OSError; `CommandRefused` where it cannot be verified who answers: nothing was sent then."""
        if self.path:
            return await asyncio.open_unix_connection(sock=connected_socket(self.path))
        if not self.is_secure:
            return await asyncio.open_connection(self.host, self.port)
        import ssl

        try:
            trusted = ssl.create_default_context(cafile=self.ca_file)
        except OSError as problem:
            why = problem.strerror or str(problem)
            raise UsageError(f"{self.ca_file} holds no certificates to trust: {why}") from None
        try:
            return await asyncio.open_connection(self.host, self.port, ssl=trusted)
        except ssl.SSLCertVerificationError as problem:
            raise CommandRefused(
                "EngineUnverified", address=self.url, problem=problem.verify_message
            ) from None

    async def websocket(self, token: str) -> WebSocketClient:
        """The same, and `UpgradeRefused`."""
        reader, writer = await self.connect()
        return await open_websocket(reader, writer, self.host_header, "/v1/ws", {"X-Bridle-Token": token})


def unix_address(path: str) -> EngineAddress:
    return EngineAddress(url=f"unix://{path}", path=path)


def engine_address(url: str, *, ca_file: str | None = None) -> EngineAddress:
    """Raises `UsageError` for what is no address, and for one to which a token would travel in the clear."""
    no_address = UsageError(f'"{url}" is no address of an engine. Write one like https://host:8421')
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # a port that is none, half of a pair of brackets
        raise no_address from None
    if parts.scheme == "unix":
        return unix_address(parts.path)
    host, is_secure = parts.hostname, parts.scheme == "https"
    if parts.scheme not in ("http", "https") or not host or parts.path not in ("", "/"):
        raise no_address
    if not is_secure and host not in ("127.0.0.1", "::1", "localhost"):
        raise UsageError(f"{url} would send the token in the clear. Use https://")
    port = port or (443 if is_secure else 80)
    return EngineAddress(url=url, host=host, port=port, is_secure=is_secure, ca_file=ca_file)
