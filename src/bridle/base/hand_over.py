"""Handing a command over to a process that stands by with everything loaded, instead of carrying it out here.

Most of a short command is Python that loads. So it is handed over (`standby`): its words, its environment, its folder
and its three streams. What is left here passes on the signals that come, and ends as the command did. Where nobody
stands by, or the one who does declines, nothing has happened, and the command is carried out here as ever.

Whoever hands over is in a hurry: nothing is imported here that a bare Python has not loaded.
"""

from __future__ import annotations

import _socket
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # the real one would import typing
    import signal as _signal
    from collections.abc import Mapping, Sequence
else:
    import _signal  # all of `signal` but for the names of its numbers

STANDBY_NAME = "standby.sock"
"""Of the socket, in the folder of an engine that listens."""
TOKEN_NAME = "token"  # noqa: S105  of a file
AGREED, NO_ROOM, GO = b"+", b"-", b"!"
LENGTH_BYTES = STATUS_BYTES = 4
STREAMS = 3
ANSWER_S = 0.5
"""So long somebody waits for the answer; who gets none carries the command out himself."""
DECLINED = 254
"""How a command ends that is for whoever handed it over to carry out; nothing was done."""
_PASSED_ON = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM, _signal.SIGWINCH)
_CREDENTIALS_BYTES = 12
MOST_TOKEN_BYTES = 4096


class StandbyGone(Exception):
    """Whoever was carrying the command out is gone, and how far it came is not known."""


def hand_over(folder: str, version: str, arguments: Sequence[str]) -> int | None:
    """Has a command carried out by who stands by in the folder of an engine: its exit code, or None where it is to be
    carried out here. If a signal ended it, the same one ends this process. Raises `StandbyGone`."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        if not _is_agreed(connection, folder, version, arguments):
            return None
        before = {number: _signal.getsignal(number) for number in (*_PASSED_ON, _signal.SIGTSTP)}
        passed_on = _pass_signals_on(connection, before)
        code = os.waitstatus_to_exitcode(_status_of(connection)) if _begins(connection) else DECLINED
        if code == DECLINED:
            for number, handler in before.items():
                _signal.signal(number, handler)
            for number in passed_on:  # too late for the other, or they would have ended it
                os.kill(os.getpid(), number)
            return None
    finally:
        connection.close()
    if code >= 0:
        return code
    if -code != _signal.SIGKILL:
        _signal.signal(-code, _signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code


def ask_standby(folder: str, version: str) -> bytes:
    """What who stands by answers to a command of ours, of which none begins: `AGREED`, `NO_ROOM`, or nothing where it
    declines. Raises OSError."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        return _answer(connection, folder, version, ())
    finally:
        connection.close()


def start_of(version: str, token: bytes) -> list[bytes]:
    """What has to be the same in both processes: the program, how Python was told to run it, and the token that every
    client of the engine needs."""
    given = sys._xoptions  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  the only way to know
    how = sys.version, tuple(sys.flags), given, sys.warnoptions, sys.getfilesystemencoding()
    return [version.encode(), os.fsencode(__file__), repr(how).encode(), token]


def _is_agreed(connection: _socket.socket, folder: str, version: str, arguments: Sequence[str]) -> bool:
    try:
        is_agreed = _answer(connection, folder, version, arguments) == AGREED
        connection.settimeout(None)
    except OSError:
        return False
    return is_agreed


def _answer(connection: _socket.socket, folder: str, version: str, arguments: Sequence[str]) -> bytes:
    """What who stands by in a folder says to a command; nothing where that is somebody else. Raises OSError."""
    connection.settimeout(ANSWER_S)
    _connect(connection, folder)
    if _user_at(connection) != os.geteuid():
        return b""
    try:  # noqa: SIM105  contextlib is not loaded
        _send(connection, start_of(version, _token_in(folder)), arguments)
    except (BrokenPipeError, ConnectionResetError):  # it has answered without hearing us
        pass
    return connection.recv(len(AGREED))


def _connect(connection: _socket.socket, folder: str) -> None:
    """By a short way, for a path may be too long for an address."""
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        connection.connect(f"/proc/self/fd/{place}/{STANDBY_NAME}")
    finally:
        os.close(place)


def _token_in(folder: str) -> bytes:
    file = os.open(f"{folder}/{TOKEN_NAME}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return os.read(file, MOST_TOKEN_BYTES)
    finally:
        os.close(file)


def _send(connection: _socket.socket, start: list[bytes], arguments: Sequence[str]) -> None:
    streams = (sys.stdin, sys.stdout, sys.stderr)
    parts = [
        *start,
        *(word.encode() for stream in streams for word in (stream.encoding, stream.errors or "strict")),
        b"%d" % len(arguments),
        *map(os.fsencode, arguments),
        *(name + b"=" + value for name, value in os.environb.items()),
    ]
    data = b"\0".join(parts)
    connection.sendall(len(data).to_bytes(LENGTH_BYTES, "big") + data)


def _user_at(connection: _socket.socket) -> int:
    given = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS_BYTES)
    return int.from_bytes(given[4:8], sys.byteorder)


def _pass_signals_on(connection: _socket.socket, before: Mapping[_signal.Signals, object]) -> list[int]:
    """What comes here from now on reaches who carries the command out, and is in the list; what was ignored stays so,
    in both."""
    passed_on: list[int] = []

    def tell(number: int) -> None:
        try:
            connection.send(bytes((number,)))
        except OSError:  # it is over, and whoever waits is told
            return

    def pass_on(number: int, _frame: object) -> None:
        passed_on.append(number)
        tell(number)

    def pause(_number: int, _frame: object) -> None:
        tell(_signal.SIGSTOP)
        os.kill(os.getpid(), _signal.SIGSTOP)
        tell(_signal.SIGCONT)

    for number, handler in before.items():
        if handler != _signal.SIG_IGN:
            _signal.signal(number, pause if number == _signal.SIGTSTP else pass_on)
    return passed_on


def _begins(connection: _socket.socket) -> bool:
    """Lets the command begin, in our folder and with our streams; False where nobody waits for it any more. Before
    that nobody has them: one that stood still with them would keep a pipe open, and its reader waiting."""
    try:
        here = os.open(".", os.O_PATH | os.O_DIRECTORY)
        try:
            fds = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (*range(STREAMS), here))
            connection.sendmsg([GO], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
        finally:
            os.close(here)
    except OSError:
        return False
    return True


def _status_of(connection: _socket.socket) -> int:
    """How the command ended."""
    said = b""
    try:
        while len(said) < STATUS_BYTES:
            piece = connection.recv(STATUS_BYTES - len(said))
            if not piece:
                raise StandbyGone
            said += piece
    except OSError:
        raise StandbyGone from None
    return int.from_bytes(said, "big")
