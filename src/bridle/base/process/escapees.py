"""Find and end processes that left their call's session or outlived their engine.

A process that starts a session of its own is not reached by a signal to the group of its call. But when its parent is
gone it becomes our child, because we ask the kernel for that (`adopt`). A child that we did not start may still be
somebody else's: whoever uses us as a library starts processes too, and so does an editor. So one is ended only if there
is proof that a call caused it, and only when that call is over:

- it is in the session that the call began;
- it was started with the call's mark in its environment;
- who started it says so (`Witness`), which no process can evade;
- it was a child of one of those.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from collections.abc import Collection, Iterator
from typing import Protocol, TypeGuard, runtime_checkable

import msgspec

MARK = "INSIDE_BRIDLE"
"""The variable that says which call a process belongs to. Not one of our settings, which begin differently."""

_PR_SET_CHILD_SUBREAPER = 36
_MOST_ROUNDS = 100
_LOOKS_AT_BLANK = 4


@runtime_checkable
class Witness(Protocol):
    """Knows the processes of one call."""

    def claims(self, pid: int) -> bool:
        """Whether a process is of the call's making, whatever it did to look otherwise."""
        ...


def is_witness(starter: object) -> TypeGuard[Witness]:
    """`isinstance` says the same, and takes as long as the rest of a start for it."""
    return hasattr(starter, "claims")


class EndedCall(msgspec.Struct, frozen=True):
    """A call that is over but for what it may have left behind."""

    session: int
    mark: str
    witness: Witness | None = None


class _Known(msgspec.Struct, frozen=True):
    """A process and not just its number, which may be given to another one."""

    pid: int
    began: str


def adopt() -> bool:
    """From now on, whatever is orphaned below us becomes our child; False where the system has no such thing."""
    import ctypes

    try:
        prctl = ctypes.CDLL(None).prctl
    except AttributeError:
        return False
    return prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0) == 0 and os.path.isdir(
        "/proc/self/task"
    )


class Escapees:
    """Belongs to a process that starts all its processes in one place: dead orphans are nobody else's to reap.

    Children that are there from the beginning are never touched.
    """

    def __init__(self) -> None:
        self._strangers = set(_children(os.getpid()))
        self._condemned: set[_Known] = set()
        self._blank: dict[int, int] = {}

    def hunt(self, call: EndedCall, ours: Collection[int]) -> bool:
        """Ends what is left of a call; whether to look again soon. `ours` are those we started.

        What a dying process leaves behind comes to us only when it is dead.
        """
        again = True
        for _ in range(_MOST_ROUNDS):
            again, reaped = self._round(call, ours)
            if not reaped:  # what died while we looked may have left us its children
                break
        if not again:
            self._condemned.clear()
        return again

    def _round(self, call: EndedCall, ours: Collection[int]) -> tuple[bool, bool]:
        """Whether something is dying or cannot be judged yet, and whether something was found dead."""
        children = set(_children(os.getpid()))
        self._strangers &= children
        self._blank = {pid: looks for pid, looks in self._blank.items() if pid in children}
        own_session = os.getsid(0)
        again = reaped = False
        for pid in children.difference(ours, self._strangers):
            session = _session(pid)
            # Nobody can come back to our session, so whoever is in it was not started by a call.
            if session in (None, own_session):
                continue
            if _reaped(pid):
                reaped = True
            elif self._is_proven(pid, session, call):
                self._condemn_children(pid)
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)  # our child, and not reaped: the number is still its own
                    again = True
            elif not _variables(pid) and self._blank.get(pid, 0) < _LOOKS_AT_BLANK:
                # A process that is just becoming another program shows no environment for a moment.
                self._blank[pid] = self._blank.get(pid, 0) + 1
                again = True
        return again, reaped

    def _is_proven(self, pid: int, session: int | None, call: EndedCall) -> bool:
        return (
            session == call.session
            or (call.witness is not None and call.witness.claims(pid))
            or f"{MARK}={call.mark}".encode() in _variables(pid)
            or (bool(self._condemned) and _known(pid) in self._condemned)
        )

    def _condemn_children(self, pid: int) -> None:
        for child in _children(pid):
            if (known := _known(child)) is not None:
                self._condemned.add(known)


def _children(pid: int) -> Iterator[int]:
    """Children of a process; of ours, those of the main thread, to which the kernel gives orphans."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            yield from map(int, file.read().split())
    except FileNotFoundError:
        yield from _children_by_search(pid)
    except OSError:
        return


def _children_by_search(parent: int) -> Iterator[int]:
    """For kernels that keep no list."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _fields(int(name))) and int(fields[1]) == parent:
            yield int(name)


def _fields(pid: int) -> list[str] | None:
    """What the kernel tells of a process, from its state on."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode().split()
    except OSError:
        return None


def birth_of(pid: int) -> str | None:
    """When the process of this number began, as the kernel counts; None where there is none. Two of the same number
    never began at the same time."""
    fields = _fields(pid)
    return None if fields is None else fields[19]


def _known(pid: int) -> _Known | None:
    began = birth_of(pid)
    return None if began is None else _Known(pid, began)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _variables(pid: int) -> list[bytes]:
    """The environment a process was started with; empty if it has none, or cannot be seen."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return [variable for variable in file.read().split(b"\0") if variable]
    except OSError:
        return []


# Every process of a call is started with a mark in its environment (`escapees.MARK`), which its children
# inherit. Who starts them leaves a record of its mark, with its own number, and holds a lock on that, which
# the kernel takes away however it ends: a record that nobody holds is of one that was killed.


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
