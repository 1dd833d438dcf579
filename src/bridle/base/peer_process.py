"""Who is at the other end of a Unix socket, and whether one of our commands started it.

A process that comes from a call descends from the engine that ran the call: an orphan among them becomes the engine's
child (`escapees.adopt`), so no fork leads out of that line, ours or that of another engine. Every such process is also
started with a mark in its environment, which its children inherit. A process that nothing can be known of is none we
would trust.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Collection

import msgspec

from bridle.base.escapees import MARK

_MOST_ANCESTORS = 512
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
    if pid is None:
        return True
    for distance in range(_MOST_ANCESTORS):
        if distance and pid in engines:
            return True
        if pid <= 1:
            return False
        if _is_marked(pid):
            return True
        parent = _parent_of(pid)
        if parent is None:
            return True  # it is gone, and who it was cannot be told any more
        pid = parent
    return True


def _parent_of(pid: int) -> int | None:
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
