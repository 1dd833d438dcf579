"""A command that was handed over (`hand_over`): received from whoever may do that, and what the process becomes that
carries it out.

It becomes as much as can be the process that was started: same user, rights, limits and namespaces, or it is declined;
and the words, environment, folder, streams, umask and ignored signals of the other. It is no child of that one, has no
terminal that controls it, and is in the control group of whoever started the standby. Linux only.
"""

from __future__ import annotations

import io
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from bridle.base.hand_over import AGREED, ANSWER_S, GO, LENGTH_BYTES, STREAMS
from bridle.base.peer_process import peer_process

MOST_BYTES = 8 << 20
GO_S = 5.0
"""So long somebody has who was agreed with: gone by then, the command never began."""
_PIECE_BYTES = 256 * 1024
_FDS = STREAMS + 1
_OF_PYTHON = (b"PYTHON", b"LD_", b"OPENSSL_", b"GLIBC_", b"MALLOC_")
"""How variables begin that are read when a program starts."""
_STANDING = (
    b"Uid:", b"Gid:", b"Groups:", b"CapInh:", b"CapPrm:", b"CapEff:", b"CapBnd:", b"CapAmb:", b"NoNewPrivs:",
    b"Seccomp:", b"Seccomp_filters:", b"Cpus_allowed:", b"Mems_allowed:",
)  # fmt: skip
"""Of what the kernel says of a process: its rights."""
_MAY_BE_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


class Handover(NamedTuple):
    """A command that was handed over: by whom, its words, its environment, how each of its streams writes characters,
    and the open files that came with it: the streams, and its folder."""

    caller: int
    arguments: list[str]
    env: dict[bytes, bytes]
    streams: tuple[tuple[str, str], ...]
    fds: tuple[int, ...]


class CommandReceiver:
    """Receives commands, from those who may hand them over and are what we are in all but what they say."""

    def __init__(
        self, listener: socket.socket, start: list[bytes], may_ask: Callable[[int | None], bool]
    ) -> None:
        self._listener = listener
        self._start = start
        self._own = _standing_of("self")
        self._of_python = _of_python(os.environb)
        self._may_ask = may_ask

    def receive(self) -> tuple[socket.socket, Handover]:
        """The next command, which begins now, and the connection to whoever handed it over."""
        self._listener.setblocking(True)
        while True:
            connection, _ = self._listener.accept()
            connection.settimeout(ANSWER_S)
            fds: list[int] = []
            with suppress(OSError, ValueError, IndexError):  # it has gone, or is of another kind
                handover = self._agreed(connection, fds)
                if handover is not None:
                    connection.settimeout(None)
                    return connection, handover
            for fd in fds:
                os.close(fd)
            connection.close()

    def _agreed(self, connection: socket.socket, fds: list[int]) -> Handover | None:
        peer = peer_process(connection)
        if peer.uid != os.geteuid() or peer.pid is None or not self._may_ask(peer.pid):
            return None
        parts = _received(connection).split(b"\0")
        start, rest = parts[: len(self._start)], parts[len(self._start) :]
        words, (count, *rest) = [word.decode() for word in rest[: 2 * STREAMS]], rest[2 * STREAMS :]
        arguments, variables = rest[: int(count)], rest[int(count) :]
        env = {name: value for name, _, value in (variable.partition(b"=") for variable in variables)}
        if start != self._start or _of_python(env) != self._of_python:
            return None
        if _standing_of(str(peer.pid)) != self._own:
            return None
        connection.send(AGREED)
        connection.settimeout(GO_S)
        go, given, _, _ = socket.recv_fds(connection, len(GO), _FDS)
        fds += given
        if go != GO or len(fds) != _FDS:
            return None
        streams = tuple(zip(words[::2], words[1::2], strict=True))
        return Handover(peer.pid, [*map(os.fsdecode, arguments)], env, streams, tuple(fds))


def _received(connection: socket.socket) -> bytes:
    """What was handed over. Raises OSError, ValueError."""
    data, wanted = bytearray(), LENGTH_BYTES
    while len(data) < wanted:
        piece = connection.recv(_PIECE_BYTES)
        data += piece
        if not piece:
            raise ValueError
        if len(data) >= LENGTH_BYTES:
            wanted = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "big")
        if wanted > MOST_BYTES:
            raise ValueError
    return bytes(data[LENGTH_BYTES:])


def become(handover: Handover) -> None:
    """From here on this process is what was handed over."""
    umask, ignored = _umask_and_ignored(handover.caller)
    for fd, given in enumerate(handover.fds[:STREAMS]):
        os.dup2(given, fd)
    os.fchdir(handover.fds[STREAMS])
    close_others()
    os.umask(umask)
    for number in _MAY_BE_IGNORED:
        signal.signal(number, signal.SIG_IGN if ignored >> (number - 1) & 1 else signal.SIG_DFL)
    os.environb.clear()
    os.environb.update(handover.env)
    time.tzset()
    _open_streams(handover.streams)
    sys.argv[1:] = handover.arguments


def _of_python(env: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    return {name: value for name, value in env.items() if name.startswith(_OF_PYTHON)}


def _standing_of(process: str) -> tuple[object, ...]:
    """What a process may do, and within which limits and namespaces. Raises OSError where nobody may know."""
    folder = f"/proc/{process}"
    rights = [line for line in _read(f"{folder}/status").split(b"\n") if line.startswith(_STANDING)]
    spaces = [os.readlink(f"{folder}/ns/{name}") for name in sorted(os.listdir(f"{folder}/ns"))]
    pid = 0 if process == "self" else int(process)
    return (
        rights,
        _read(f"{folder}/limits"),
        spaces,
        os.readlink(f"{folder}/root"),
        os.getpriority(os.PRIO_PROCESS, pid),
    )


def _umask_and_ignored(pid: int) -> tuple[int, int]:
    """The umask of a process, and the signals it ignores as the kernel counts them."""
    lines = _read(f"/proc/{pid}/status").split(b"\n")
    said = {name: value for name, _, value in (line.partition(b":") for line in lines)}
    return int(said[b"Umask"], 8), int(said[b"SigIgn"], 16)


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _open_streams(how: Sequence[tuple[str, str]]) -> None:
    """The three streams, as Python would have opened them in the process that handed them over."""
    for fd, (name, (encoding, errors)) in enumerate(zip(("stdin", "stdout", "stderr"), how, strict=True)):
        mode = "rb" if fd == 0 else "wb"
        by_line = name == "stderr" or os.isatty(fd)
        raw = open(fd, mode, closefd=False)  # noqa: SIM115  as long as we live
        stream = io.TextIOWrapper(raw, encoding=encoding, errors=errors, line_buffering=by_line)
        setattr(sys, name, stream)


def close_others(*kept: int) -> None:
    """Closes every open file but the streams and these."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) >= STREAMS and int(name) not in kept:
            with suppress(OSError):
                os.close(int(name))
