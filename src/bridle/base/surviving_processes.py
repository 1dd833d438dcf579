"""Processes that a Bridle started and that still run, though it may be gone. Linux only; elsewhere none are found.

Every process of a call is started with a mark in its environment (`escapees.MARK`), which its children inherit. Who
starts them leaves a record of its mark, with its own number, and holds a lock on that, which the kernel takes away
however it ends: a record that nobody holds is of one that was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal

import msgspec

from bridle.base.escapees import MARK

_COMMAND_CHARACTERS = 200
_START_TICKS = 19
"""Where the time of birth stands behind the name of the program."""


class LeftBehind(msgspec.Struct, frozen=True):
    pid: int
    command: str


def left_behind(folder: str, *, since_s: float) -> list[LeftBehind]:
    """The marked processes that work in `folder` or below it and began at `since_s` (epoch) or later."""
    mark = MARK.encode() + b"="
    found: list[LeftBehind] = []
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return found
    for pid in sorted(numbers):
        try:
            where = os.readlink(f"/proc/{pid}/cwd")
            if where != folder and not where.startswith(f"{folder}/"):
                continue
            marked = any(one.startswith(mark) for one in _read(pid, "environ").split(b"\0"))
            if marked and _began_s(pid) >= since_s:
                found.append(LeftBehind(pid, _command(pid)))
        except (OSError, ValueError, IndexError):  # it ended while we looked, or is somebody else's
            continue
    return [process for process in found if process.command]


class ProcessRecord:
    """That processes with this mark are ours. Raises OSError where that cannot be written down."""

    def __init__(self, folder: str, mark: str) -> None:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._path = os.path.join(folder, mark)
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with contextlib.suppress(
            OSError
        ):  # a file system without locks: then it is never taken for one that is left
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(self._fd, str(os.getpid()).encode())

    def close(self) -> None:
        """None of them runs any more."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        os.close(self._fd)


def recording_processes(folder: str) -> set[int]:
    """The numbers of those that are alive and left a record in `folder`: what descends from one may be of a call."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError, ValueError):
                fd = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW)
                try:
                    if _is_held(fd):
                        found.add(int(os.read(fd, 32)))
                finally:
                    os.close(fd)
    return found


def _is_held(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def end_left_behind(folder: str) -> int:
    """Ends the processes of those that were killed and left a record in `folder`; how many there were."""
    try:
        names = os.listdir(folder)
    except OSError:
        return 0
    ended = 0
    for name in names:
        with contextlib.suppress(OSError):  # it is held: its owner is alive
            path = os.path.join(folder, name)
            fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                ended += _end_marked(f"{MARK}={name}.".encode())
                os.unlink(path)
            finally:
                os.close(fd)
    return ended


def _end_marked(mark: bytes) -> int:
    ended = 0
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        with contextlib.suppress(OSError):  # it ended while we looked, or is somebody else's
            pidfd = os.pidfd_open(pid)  # first: what is read then and signalled is the same process
            try:
                if any(one.startswith(mark) for one in _read(pid, "environ").split(b"\0")):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                    ended += 1
            finally:
                os.close(pidfd)
    return ended


def _began_s(pid: int) -> float:
    """When a process began, in seconds since the epoch."""
    ticks = int(_read(pid, "stat").rpartition(b")")[2].split()[_START_TICKS])
    with open("/proc/stat", encoding="ascii") as file:
        booted_s = next(int(line.split()[1]) for line in file if line.startswith("btime "))
    return booted_s + ticks / os.sysconf("SC_CLK_TCK")


def _command(pid: int) -> str:
    words = _read(pid, "cmdline").decode("utf-8", "replace").split("\0")
    return " ".join(word for word in words if word)[:_COMMAND_CHARACTERS]


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read(1 << 20)
