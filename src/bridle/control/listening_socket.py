"""The sockets an engine listens on, and the files beside the Unix socket by which its clients find it.

One engine listens for a data folder: it holds a lock there for as long as it lives, so a socket that somebody left is
taken over and of two that start at once one is told so.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import stat

import msgspec

from bridle.base.fs.files import FileLock, private_folder, write_atomic
from bridle.base.net.engine_place import LOCK_NAME, EngineNote, EnginePlace, socket_address
from bridle.protocol.errors import CommandRefused, UsageError

_BACKLOG = 128


class EngineSocket:
    """The Unix socket of an engine, its token and its note, from `open_engine_socket` until `close`."""

    def __init__(self, place: EnginePlace, lock: FileLock, opened: socket.socket, note: EngineNote) -> None:
        self.place = place
        self.socket = opened
        self._lock = lock
        self._note = note

    def announce(self, token: str, *, url: str = "") -> None:
        """From now on clients find it: the token for programs of the same person, then what it is."""
        self._note = msgspec.structs.replace(self._note, url=url)
        write_atomic(self.place.token_file, token.encode(), durable=False)
        write_atomic(self.place.note_file, msgspec.json.encode(self._note), durable=False)

    def close(self) -> None:
        if not self._lock.held:
            return
        self.socket.close()
        for path in _files(self.place):
            with contextlib.suppress(OSError):
                os.unlink(path)
        self._lock.release()


def open_engine_socket(place: EnginePlace, *, data: str, version: str, stays: bool = True) -> EngineSocket:
    """Takes the lock of the data folder, then the place. Raises `EngineRunning` where another engine has it."""
    note = EngineNote(pid=os.getpid(), version=version, data=data, stays=stays)
    try:
        lock = FileLock(os.path.join(private_folder(data), LOCK_NAME))
        if not lock.acquire(note={"pid": note.pid, "socket": place.socket[-200:]}):
            holder = lock.holder() or {}
            raise CommandRefused("EngineRunning", pid=holder.get("pid", "?"), socket=place.socket)
        try:
            _make_private(place.folder)
            for path in _files(place):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)  # of an engine that was killed: the lock says that none is alive
            return EngineSocket(place, lock, _bound(place.socket), note)
        except BaseException:
            lock.release()
            raise
    except OSError as problem:
        why = problem.strerror or str(problem)
        if isinstance(problem, FileExistsError):
            why = f"{problem.filename} is a file, and a folder belongs there. Move it away"
        raise CommandRefused("SocketUnusable", socket=place.socket, problem=why) from None


def _files(place: EnginePlace) -> tuple[str, ...]:
    return place.socket, place.token_file, place.note_file


def _make_private(folder: str) -> None:
    """A folder that only we can look into. Raises OSError where it is somebody else's."""
    private_folder(folder)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(1, f"{folder} belongs to somebody else")
    if stat.S_IMODE(status.st_mode) != 0o700:
        os.chmod(folder, 0o700)


def _bound(path: str) -> socket.socket:
    """A socket that is private from the moment it has a name."""
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with socket_address(path) as address:
            opened.bind(address)
        opened.listen(_BACKLOG)
        opened.setblocking(False)
    except BaseException:
        opened.close()
        raise
    finally:
        os.umask(before)
    return opened


class TcpAddress(msgspec.Struct, frozen=True):
    """Where to listen, as `HOST:PORT` says it."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def shown(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def tcp_address(text: str, name: str = "--listen") -> TcpAddress:
    """Read `127.0.0.1:8421`, `[::1]:8421` or `localhost:8421`, named by the option or setting `name`."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if host == "localhost":
        host = "127.0.0.1"
    try:
        address = ipaddress.ip_address(host)
        number = int(port) if port.isascii() and port.isdigit() else -1
    except ValueError:
        address, number = None, -1
    if not colon or address is None or not 0 <= number < 65536:
        raise UsageError(f'{name} takes an address and a port, such as 127.0.0.1:8421, not "{text}"')
    return TcpAddress(str(address), number)


def open_tcp_socket(wanted: TcpAddress) -> tuple[socket.socket, TcpAddress]:
    """A socket that listens there, and where that is: port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in wanted.host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((wanted.host, wanted.port))
        opened.listen(_BACKLOG)
        opened.setblocking(False)
    except OSError as problem:
        opened.close()
        why = problem.strerror or str(problem)
        raise CommandRefused("ListenRefused", address=wanted.shown, problem=why) from None
    return opened, TcpAddress(wanted.host, opened.getsockname()[1])
