"""Locate a listening engine: its socket, token and status file in one private folder.

Everything here is cheap to look at: a program that only wants to know whether an engine is there asks `found`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import sys
from collections.abc import Generator

import msgspec

SOCKET_NAME = "engine.sock"
LOCK_NAME = "engine.lock"
"""In the data folder: held by the engine that listens for it."""
_NOTE_NAME = "engine.json"
_TOKEN_NAME = "token"  # noqa: S105  of a file
_LONGEST_ADDRESS = 103
"""What fits into the address of a Unix socket on every system, less its end."""
_LIMIT = 64 * 1024


class EngineNote(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine says of itself beside its socket. `data` is the folder of its sessions. One that does not `stay`
    ends with a program that somebody else started: who wants to be there after that goes elsewhere."""

    pid: int
    version: str
    data: str
    url: str = ""
    stays: bool = True


class EnginePlace(msgspec.Struct, frozen=True):
    """The folder of one engine's socket."""

    folder: str

    @property
    def socket(self) -> str:
        return os.path.join(self.folder, SOCKET_NAME)

    @property
    def token_file(self) -> str:
        return os.path.join(self.folder, _TOKEN_NAME)

    @property
    def note_file(self) -> str:
        return os.path.join(self.folder, _NOTE_NAME)

    def token(self) -> str:
        """The token that the engine wrote for programs of the same person. Raises OSError."""
        return self._private(self.token_file).decode().strip()

    def found(self) -> EngineNote | None:
        """The note of an engine that left a socket here; whether it still answers is found out by asking it."""
        try:
            if not stat.S_ISSOCK(os.lstat(self.socket).st_mode):
                return None
            return msgspec.json.decode(self._private(self.note_file), type=EngineNote)
        except (OSError, ValueError):
            return None

    def _private(self, path: str) -> bytes:
        """What a file of ours holds. Raises OSError where it is somebody else's."""
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if os.fstat(fd).st_uid != os.geteuid():
                raise PermissionError(1, "it belongs to somebody else", path)
            return os.read(fd, _LIMIT)
        finally:
            os.close(fd)


@contextlib.contextmanager
def socket_address(path: str) -> Generator[str]:
    """An address for `bind` and `connect`: the path, or a shorter way to it where it is too long for an address.

    Raises OSError where there is none.
    """
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield path
        return
    if sys.platform != "linux":
        raise OSError(
            f"its path has more than {_LONGEST_ADDRESS} bytes; set XDG_RUNTIME_DIR to a short folder"
        )
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)


def connected_socket(path: str) -> socket.socket:
    """A connection to the socket at this path, which does not block from then on. Raises OSError."""
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with socket_address(path) as address:
            connected.settimeout(2.0)
            connected.connect(address)
        connected.setblocking(False)
    except OSError:
        connected.close()
        raise
    return connected
