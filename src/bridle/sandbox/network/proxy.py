"""The network proxy of a sandboxed command.

A name is looked up once, every address it has is judged, and the connection goes to exactly an address that was judged.
Addresses of this machine, of the network around it and of a cloud's metadata are never reached, whatever a rule says.
The command is a stranger: it has so many connections, so much time for a head and so long a silence, and no more.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from bridle.base.clock import Clock
from bridle.base.net.addresses import NOT_AN_ADDRESS, address_problem, url_problem
from bridle.base.net.hosts import host_rule, is_host_name, rule_for
from bridle.base.net.http_dial import Attempt, TimeLimit, first_connected, unreached
from bridle.base.net.web import Connect, Resolve, addresses_of, connect_to, look_up
from bridle.engine.ports import Hosts
from bridle.sandbox.adapters.adapter import CannotConfine, Launch
from bridle.sandbox.network.proxy_request import END, MAX_HEAD_BYTES, ProxyRefused, ProxyRequest, read_request

MOST_AT_ONCE = 64
MOST_IN_ALL = 20_000
HEAD_S = 10.0
CONNECT_S = 10.0
IDLE_S = 300.0
MOST_HOSTS = 20
"""So many of the hosts that were reached, and of those that were not, are kept."""

MOST_NOTES = 5

_PARTING_S = 1.0
_PARTING_BYTES = 256 * 1024
_PAUSE_S = 0.1
_CHUNK = 64 * 1024
_MAX_TRIED = 8


class OutsideNetwork(NamedTuple):
    """The network as the proxy has it. `resolve` is asked once for each connection, `connect` gets what was judged."""

    clock: Clock
    resolve: Resolve = look_up
    connect: Connect = connect_to


class HostProxy:
    """For one command. It serves whoever connects to `listener`, until it is closed or had so many connections."""

    def __init__(
        self, hosts: Sequence[str], outside: OutsideNetwork, *, most_in_all: int = MOST_IN_ALL
    ) -> None:
        self._rules = [host_rule(text) for text in hosts]
        self._outside = outside
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._most_in_all = most_in_all
        self._too_many = False
        self.reached: dict[str, None] = {}
        self.refused: dict[str, str] = {}
        """Why, as a sentence, for each host."""

    def serve(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._start(self._accept(listener), listener)

    def close(self) -> None:
        """Ends every connection. May be repeated."""
        for task in self._tasks:
            task.cancel()

    def notes(self) -> list[str]:
        """What was not reached and how it could be, a sentence each."""
        told = [*self.refused.values()]
        if more := told[MOST_NOTES:]:
            least = "at least " if len(told) == MOST_HOSTS else ""
            told[MOST_NOTES:] = [
                f"{least}{len(more)} more {'hosts were' if more[1:] else 'host was'} not reached"
            ]
        if self._too_many:
            told.append(f"it made more than {self._most_in_all} connections; no more were taken")
        return told

    def _start(self, work: Coroutine[Any, Any, None], served: socket.socket) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _task: served.close())  # also where it never came to begin
        return task

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(self._most_in_all):
            await self._room.acquire()
            client = None
            while client is None:
                try:
                    client, _ = await loop.sock_accept(listener)
                except OSError:  # no descriptor left, or the other side was gone already
                    await self._outside.clock.sleep(_PAUSE_S)
            self._start(self._serve(client), client).add_done_callback(lambda _task: self._room.release())
            await asyncio.sleep(0)  # where many wait, the rest of the engine has its turn between them
        self._too_many = True

    async def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            try:
                head, rest = await self._read_head(client)
                request = read_request(head)
                server = await self._connected(request)
            except ProxyRefused as refusal:
                await self._part(client, _answer(refusal))
                return
            with contextlib.closing(server):
                await _Passage(client, server, self._outside.clock).pass_on(request, rest)
            await self._part(client)

    async def _read_head(self, client: socket.socket) -> tuple[bytes, bytes]:
        """The head with its empty line, and what came behind it."""
        loop = asyncio.get_running_loop()
        data = bytearray()
        async with TimeLimit(self._outside.clock, HEAD_S):
            while (end := data.find(END)) < 0:
                if len(data) > MAX_HEAD_BYTES:
                    raise ProxyRefused("The head of the request is too long")
                if not (chunk := await loop.sock_recv(client, _CHUNK)):
                    raise ConnectionResetError
                data += chunk
        end += len(END)
        if end > MAX_HEAD_BYTES:
            raise ProxyRefused("The head of the request is too long")
        return bytes(data[:end]), bytes(data[end:])

    async def _connected(self, request: ProxyRequest) -> socket.socket:
        """A connection to an address that was judged. Raises `ProxyRefused`."""
        host, port = request.host, request.port
        self._check_rules(host, port)
        try:
            async with TimeLimit(self._outside.clock, CONNECT_S):
                addresses = await addresses_of(host, self._outside.resolve)
                if not addresses:
                    raise ProxyRefused(f"{host} was not reached: the name of the host was not found", 502)
                for address in addresses:
                    if (problem := address_problem(address)) is not None:
                        self._refuse(host, port, f"it leads to a {problem}, which no rule allows")
                attempts: list[Attempt] = [
                    partial(self._outside.connect, address, port) for address in addresses
                ]
                server = await first_connected(attempts[:_MAX_TRIED], self._outside.clock)
        except TimeoutError:
            raise ProxyRefused(f"{host} was not reached within {CONNECT_S:g} s", 502) from None
        except OSError as error:
            raise ProxyRefused(f"{host} was not reached: {unreached(error)[1]}", 502) from None
        _keep(self.reached, rule_for(host, port), None)
        return server

    def _check_rules(self, host: str, port: int) -> None:
        problem = url_problem(f"http://[{host}]/" if ":" in host else f"http://{host}/")
        if problem == NOT_AN_ADDRESS:
            self._refuse(host, port, "it is not the name of a host")
        if problem is not None:
            self._refuse(host, port, f"it is a {problem}, which no rule allows")
        if not is_host_name(host):
            self._refuse(host, port, "hosts are allowed by name, not by number")
        if not any(rule.covers(host, port) for rule in self._rules):
            rule = rule_for(host, port)
            sentence = f"{rule} was not reached; allow it with --allow-host {rule} or sandbox.hosts"
            _keep(self.refused, rule, sentence)
            raise ProxyRefused(sentence, 403)

    def _refuse(self, host: str, port: int, why: str) -> None:
        name = rule_for(f"[{host}]" if ":" in host else host, port)
        _keep(self.refused, name, f"{name} was not reached: {why}")
        raise ProxyRefused(f"{name} was not reached: {why}", 403)

    async def _part(self, client: socket.socket, last: bytes = b"") -> None:
        """Says what is left to say, and hears the other side out for a moment: to hang up would take it back."""
        loop = asyncio.get_running_loop()
        async with TimeLimit(self._outside.clock, _PARTING_S):
            await loop.sock_sendall(client, last)
            client.shutdown(socket.SHUT_WR)
            for _ in range(_PARTING_BYTES // _CHUNK):
                if not await loop.sock_recv(client, _CHUNK):
                    break


class _Passage:
    """One connection through the proxy, until the server has said everything or both were silent for long."""

    def __init__(self, client: socket.socket, server: socket.socket, clock: Clock) -> None:
        self._client = client
        self._server = server
        for end in (client, server):
            with contextlib.suppress(OSError):  # of what is no TCP
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._clock = clock
        self._chunks = 0

    async def pass_on(self, request: ProxyRequest, rest: bytes) -> None:
        if request.head:
            out = asyncio.create_task(self._request(request, rest))
        else:
            await self._send(self._client, b"HTTP/1.1 200 Connection established\r\n\r\n")
            out = asyncio.create_task(self._tunnel(rest))
        back = asyncio.create_task(self._flow(self._server, self._client))
        try:
            await self._until(out, back)
        finally:
            out.cancel()
            back.cancel()
            await asyncio.gather(out, back, return_exceptions=True)

    async def _until(self, out: asyncio.Task[None], back: asyncio.Task[None]) -> None:
        """Returns when nothing comes back any more, the way out failed, or nothing passed for a while."""
        seen = -1
        while seen < self._chunks:
            seen = self._chunks
            pause = asyncio.create_task(self._clock.sleep(IDLE_S))
            try:
                while not pause.done():
                    waiting = {task for task in (out, back, pause) if not task.done()}
                    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                    if back.done() or (out.done() and out.exception() is not None):
                        return
            finally:
                pause.cancel()

    async def _tunnel(self, rest: bytes) -> None:
        await self._send(self._server, rest)
        await self._flow(self._client, self._server)
        self._server.shutdown(socket.SHUT_WR)

    async def _request(self, request: ProxyRequest, rest: bytes) -> None:
        """Exactly one request: what comes behind it may be another, for another host."""
        loop = asyncio.get_running_loop()
        await self._send(self._server, request.head)
        left = request.body_size
        while left:
            rest = rest or await loop.sock_recv(self._client, _CHUNK)
            if not rest:
                raise ConnectionResetError
            await self._send(self._server, rest[:left])
            left, rest = left - len(rest[:left]), rest[left:]
        if rest or await loop.sock_recv(self._client, 1):
            raise ConnectionResetError

    async def _flow(self, source: socket.socket, target: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(source, _CHUNK):
            await self._send(target, data)

    async def _send(self, target: socket.socket, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(target, data)
        self._chunks += 1
        await asyncio.sleep(0)  # a fast one would never give the rest of the engine its turn


def _keep(kept: dict[str, Any], host: str, value: object) -> None:
    if len(kept) < MOST_HOSTS:
        kept.setdefault(host, value)


def _answer(refusal: ProxyRefused) -> bytes:
    """The sentence is the phrase of the status as well: of a refused tunnel most programs show nothing else."""
    body = f"{refusal.problem}.\n".encode("ascii", "replace")
    head = (
        f"HTTP/1.1 {refusal.status} {refusal.problem}\r\ncontent-type: text/plain\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode("ascii", "replace") + body


# A socket belongs to the network it was made in, whoever holds it. So the first program in the new network is
# a few lines of ours: they make a socket that listens there, hand it out to us, and become what was to be
# run. Nothing of ours runs beside the command, no file leads in or out, and without a door there is no
# command.


PORT = 64_800
"""Of the command's own network, where nobody else has taken it."""
_FIRST = r"""
import _signal as signal, _socket as s, fcntl, os, struct, sys
door, port, *argv = sys.argv[1:]
try:
    ear = s.socket()
    loopback = struct.Struct("16sh14x")  # an interface of this name, and its flags
    _, flags = loopback.unpack(fcntl.ioctl(ear.fileno(), 0x8913, loopback.pack(b"lo", 0)))
    if not flags & 1:
        fcntl.ioctl(ear.fileno(), 0x8914, loopback.pack(b"lo", flags | 1))
    ear.bind(("127.0.0.1", int(port)))
    ear.listen(128)
    door = s.socket(fileno=int(door))
    door.sendmsg([b"!"], [(s.SOL_SOCKET, s.SCM_RIGHTS, struct.pack("i", ear.fileno()))])
    door.close()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and would leave ignored
        signal.signal(number, signal.SIG_DFL)
    with open("/proc/self/environ", "rb") as given:  # without what Python adds to its own
        env = dict(line.split(b"=", 1) for line in given.read().split(b"\0") if b"=" in line)
    os.execvpe(argv[0], argv, env)
except OSError as error:
    print(f"sandbox: {error.strerror or error}; nothing was run", file=sys.stderr)
    os._exit(125)
"""
_HERE = "localhost,127.0.0.1,::1"


class WayOut:
    """For one command. Belongs to the running loop; `close` it when the command is over, or never began."""

    def __init__(self, hosts: Sequence[str], outside: OutsideNetwork) -> None:
        self._proxy = HostProxy(hosts, outside)
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._ours, self._arrived)

    def through(self, launch: Launch) -> Launch:
        """The same launch, with the door made first. Raises `CannotConfine`."""
        at = launch.own_network_at
        if at is None or not sys.executable:
            raise CannotConfine("this kind of sandbox has no network of its own")
        door = self._theirs.detach()
        # Where it leads: the link may lie in a folder that commands do not see.
        first = (os.path.realpath(sys.executable), "-I", "-S", "-c", _FIRST, str(door), str(PORT))
        return launch._replace(
            argv=(*launch.argv[:at], *first, *launch.argv[at:]), pass_fds=(*launch.pass_fds, door)
        )

    def close(self) -> None:
        """May be repeated."""
        self._shut()
        self._theirs.close()
        self._proxy.close()

    def notes(self) -> list[str]:
        return self._proxy.notes()

    def hosts(self) -> Hosts:
        return {"reached": [*self._proxy.reached], "refused": [*self._proxy.refused]}

    def _arrived(self) -> None:
        """The listening socket of the other network, or the news that there will be none."""
        room = socket.CMSG_SPACE(array.array("i").itemsize)
        try:
            _, passed, _, _ = self._ours.recvmsg(1, room)
        except BlockingIOError:
            return
        except OSError:
            passed = []
        self._shut()
        for level, kind, data in passed:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self._proxy.serve(socket.socket(fileno=array.array("i", data)[0]))

    def _shut(self) -> None:
        if self._ours.fileno() >= 0:
            self._loop.remove_reader(self._ours)
            self._ours.close()


def proxy_variables() -> Mapping[str, str]:
    """What tells programs to go through the proxy, and that this machine itself is reached without."""
    proxy = f"http://127.0.0.1:{PORT}"
    names = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), proxy)
    both = {**names, "NO_PROXY": _HERE}
    return {**both, **{name.lower(): value for name, value in both.items()}, "NODE_USE_ENV_PROXY": "1"}
