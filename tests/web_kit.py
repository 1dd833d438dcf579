"""The web on one machine: servers that say any bytes, and a network that only seems to be one.

`Network` is the fake: names resolve to what a test says, and every address that is connected to leads to one server on
loopback. What was asked and what was contacted is kept.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from bridle.base.clock import Clock, SystemClock
from bridle.base.net.addresses import address_problem, url_problem
from bridle.base.net.web import JudgeAddress, RefuseBody, Web, WebAnswer, connect_to
from bridle.tools.web_page import why_not_text

PUBLIC = "93.184.215.14"
OTHER = "151.101.1.69"


class Peer:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def gone(self) -> None:
        """Waits until the client has closed the connection."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(1 << 16):
                pass


Talk = Callable[[Peer, str], Awaitable[None]]
"""What a server says to a request, given its path."""


class WebServer:
    """Keeps the head of every request; `talk` answers it, then the connection is closed."""

    def __init__(self, talk: Talk) -> None:
        self.heads: list[str] = []
        self.connections = 0
        self.port = 0
        self._talk = talk
        self._tasks: set[asyncio.Task[None]] = set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        self.connections += 1
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heads.append(head)
                await self._talk(Peer(reader, writer), head.split(" ")[1])
        finally:
            self._tasks.discard(task)
            writer.close()

    @contextlib.asynccontextmanager
    async def listening(self, tls: ssl.SSLContext | None = None) -> AsyncIterator["WebServer"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)


def answer(body: bytes = b"hello", *, status: int = 200, kind: str = "text/plain", **headers: str) -> bytes:
    """A whole answer. Underscores in the names of headers stand for hyphens."""
    given = {"content-type": kind, "content-length": str(len(body)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items() if value]
    return "\r\n".join([f"HTTP/1.1 {status} X", *lines, "", ""]).encode() + body


def saying(answers: Mapping[str, bytes] | bytes) -> WebServer:
    """A server with fixed answers, by path or for everything."""

    async def talk(peer: Peer, path: str) -> None:
        await peer.send(answers if isinstance(answers, bytes) else answers.get(path, answer(status=404)))

    return WebServer(talk)


class Network:
    """Names as a test says, and one server behind every address. A list of lists is one answer after the other."""

    def __init__(self, port: int, names: Mapping[str, list[str] | list[list[str]]] | None = None) -> None:
        self.port = port
        self.names = dict(names or {})
        self.asked: list[str] = []
        self.contacted: list[str] = []

    async def resolve(self, host: str) -> list[str]:
        self.asked.append(host)
        found = self.names.get(host)
        if found is None:
            raise OSError("no such name")
        if found and isinstance(found[0], list):
            return found.pop(0)
        return found

    async def connect(self, address: str, _port: int):
        self.contacted.append(address)
        return await connect_to("127.0.0.1", self.port)

    def web(self, *, env: Mapping[str, str] | None = None, clock: Clock | None = None, tls=None) -> Web:
        return Web(
            env=env or {},
            clock=clock or SystemClock(),
            judge_url=url_problem,
            judge_address=address_problem,
            resolve=self.resolve,
            connect=self.connect,
            tls=tls,
        )

    async def fetch(self, url: str, **options) -> WebAnswer:
        return await self.web(**options).fetch(url, why_not_text)

    async def fetch_wanted(
        self, url: str, wanted: RefuseBody, judge_url: JudgeAddress | None = None
    ) -> WebAnswer:
        """For tools."""
        return await self.web().fetch(url, wanted, judge_url)
