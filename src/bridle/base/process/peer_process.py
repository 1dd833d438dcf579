"""Identify the process at the other end of a socket, and the program that started this process.

A process that comes from a call descends from the engine that ran the call: an orphan among them becomes the engine's
child (`escapees.adopt`), so no fork leads out of that line, ours or that of another engine. Every such process is also
started with a mark in its environment, which its children inherit, and with one that it cannot take off
(`own_process`). That mark is known even when its engine was killed and it has emptied its environment. A process of
which nothing is known is not trusted.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import os
import socket
import struct
import sys
from collections.abc import Collection, Iterator

import msgspec

from bridle.base.process.escapees import MARK
from bridle.base.process.own_process import is_of_a_call

_MOST_ANCESTORS = 512
_TCP_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2


class PeerProcess(msgspec.Struct, frozen=True):
    """The user and the process of a peer, None where the system does not tell."""

    uid: int | None
    pid: int | None


def peer_process(connection: socket.socket) -> PeerProcess:
    """The one that made this connection. Raises OSError."""
    if hasattr(socket, "SO_PEERCRED"):
        given = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid, uid, _ = struct.unpack("3i", given)
        return PeerProcess(uid, pid or None)
    if sys.platform == "darwin":
        given = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 76)
        _, uid = struct.unpack_from("II", given)
        pid = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID)
        return PeerProcess(uid, pid or None)
    return PeerProcess(None, None)


def can_tell_descent() -> bool:
    """Whether this system tells who started a process."""
    return os.path.exists("/proc/self/stat")


def comes_from_a_call(pid: int | None, engines: Collection[int]) -> bool:
    """Whether a process was started by a call of one of these engines, by their numbers, or of any that marks its
    own; True where nothing is known of it. An engine itself is none of its calls.
    """
    if not can_tell_descent():
        return False
    if pid is None or is_of_a_call(pid):
        return True
    for distance in range(_MOST_ANCESTORS):
        if distance and pid in engines:
            return True
        if pid <= 1:
            return False
        if _is_marked(pid):
            return True
        parent = parent_of(pid)
        if parent is None:
            return True  # it is gone, and who it was cannot be told any more
        pid = parent
    return True


class TcpEnd(msgspec.Struct, frozen=True):
    """One end of a TCP connection, however the program there spelt the address."""

    packed: bytes
    port: int

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.packed).is_loopback


def tcp_end(host: str, port: int) -> TcpEnd:
    return TcpEnd(_unmapped(ipaddress.ip_address(host.partition("%")[0]).packed), port)


def tcp_peer_comes_from_a_call(own: TcpEnd, peer: TcpEnd, engines: Collection[int]) -> bool:
    """The same for a connection over TCP, by the socket at its other end and every process that has it open.

    One on this machine that is gone, or that nobody of this user can be seen to have open, is not known. Looks at all
    processes: that takes milliseconds.
    """
    if not can_tell_descent():
        return False
    found = _tcp_socket(peer, own)
    if found is None:
        return peer.is_loopback or peer.packed == own.packed
    uid, inode = found
    holders = list(_holders(f"socket:[{inode}]"))
    if not holders:
        return uid == os.geteuid()
    return any(comes_from_a_call(pid, engines) for pid in holders)


def _tcp_socket(local: TcpEnd, remote: TcpEnd) -> tuple[int, int] | None:
    """The user and the inode of a socket of this machine that some process has open."""
    for table in _TCP_TABLES:
        try:
            with open(table, encoding="ascii") as file:
                rows = [line.split() for line in file][1:]
        except OSError:
            continue
        for row in rows:
            if _table_end(row[1]) == local and _table_end(row[2]) == remote and row[9] != "0":
                return int(row[7]), int(row[9])
    return None


def _table_end(text: str) -> TcpEnd:
    """An end as the kernel writes it: words of four bytes in the order of this machine."""
    address, _, port = text.partition(":")
    words = struct.unpack(f">{len(address) // 8}I", bytes.fromhex(address))
    return TcpEnd(_unmapped(struct.pack(f"={len(words)}I", *words)), int(port, 16))


def _unmapped(packed: bytes) -> bytes:
    """The IPv4 address that one of IPv6 stands for."""
    address = ipaddress.ip_address(packed)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return packed if mapped is None else mapped.packed


def _holders(opened: str) -> Iterator[int]:
    """The processes that have this open, of those that can be looked into."""
    for name in os.listdir("/proc"):
        if name.isdigit() and opened in _open_files(f"/proc/{name}/fd"):
            yield int(name)


def _open_files(folder: str) -> Iterator[str]:
    with contextlib.suppress(OSError):  # it ended, or nobody may look into it
        for number in os.listdir(folder):
            with contextlib.suppress(OSError):  # closed by now
                yield os.readlink(f"{folder}/{number}")


def parent_of(pid: int) -> int | None:
    """The process that a process belongs to now; None where it is gone or the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _is_marked(pid: int) -> bool:
    """Whether a process began with the mark of a call. Of another user's process that cannot be seen."""
    mark = MARK.encode() + b"="
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return any(variable.startswith(mark) for variable in file.read(1 << 20).split(b"\0"))
    except OSError:
        return False


# Shells that only pass a command on are looked through. Of an interpreter, the script it runs counts too.


_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish", "ash", "ksh"})
_INTERPRETERS = ("node", "python", "bun", "deno", "ruby", "perl")
_MOST_SHELLS = 8
_CHUNK = 1 << 20


class ParentProgram(msgspec.Struct, frozen=True, kw_only=True):
    """`word` is how it was called, `path` the file that runs, `sha256` that of its bytes; `script` and its bytes where
    the file is an interpreter. Empty where the system does not tell."""

    pid: int
    word: str = ""
    path: str = ""
    sha256: str = ""
    script: str = ""
    script_sha256: str = ""

    @property
    def id(self) -> str:
        """What it is known by: another word, another file, another script are another program."""
        seen = f"{self.word}\0{self.sha256}\0{self.script}\0{self.script_sha256}"
        return hashlib.sha256(seen.encode("utf-8", "surrogateescape")).hexdigest()[:12]

    @property
    def name(self) -> str:
        return os.path.basename(self.script or self.word or self.path) or "unknown program"


def parent_program(pid: int | None = None) -> ParentProgram:
    """The one that started this process, or the process `pid` itself."""
    if pid is None:
        pid = _behind_shells(os.getppid())
    folder = f"/proc/{pid}"
    try:
        words = _read(f"{folder}/cmdline").split("\0")
        path = os.readlink(f"{folder}/exe").removesuffix(" (deleted)")
        sha256 = file_digest(f"{folder}/exe")  # the very file that runs, whatever has its name now
    except OSError:
        return ParentProgram(pid=pid)
    script = _script(words[1:], folder) if os.path.basename(path).startswith(_INTERPRETERS) else ""
    digest = ""
    with contextlib.suppress(OSError):
        digest = file_digest(script) if script else ""
    return ParentProgram(
        pid=pid, word=words[0], path=path, sha256=sha256, script=script, script_sha256=digest
    )


def descends_from(pid: int, ancestor: int) -> bool:
    """Whether a process was started by another, by way of any number of others; a process descends from itself."""
    for _ in range(512):
        if pid == ancestor:
            return True
        parent = parent_of(pid)
        if parent is None or parent < 1:
            return False
        pid = parent
    return False


def _behind_shells(pid: int) -> int:
    for _ in range(_MOST_SHELLS):
        try:
            name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
        except OSError:
            return pid
        above = parent_of(pid)
        if name not in _SHELLS or above is None or above <= 1:
            return pid
        pid = above
    return pid


def _script(words: list[str], folder: str) -> str:
    """The file an interpreter runs: its first word that is no option, where there is such a file."""
    for word in words:
        if word and not word.startswith("-"):
            path = os.path.join(f"{folder}/cwd", word)
            return os.path.realpath(path) if os.path.isfile(path) else ""
    return ""


def file_digest(path: str) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def _read(path: str) -> str:
    with open(path, "rb") as file:
        return os.fsdecode(file.read(1 << 20))
