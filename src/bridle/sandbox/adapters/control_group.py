"""Limit the processes and memory of an engine's commands with a control group.

It can be had where the kernel's groups are there and a part of them is ours to write: root, a systemd session of a
person, a container that hands its own on. Both forms of the kernel's interface are known. Where there is none, nothing
counts these two, and that is said.

The group is made with the first command that waits at a gate, and goes with the engine. Its name says whose it is: what
a killed engine left is ended and taken away by the next one. Where commands have no process namespace, a keeper in the
group ends them as soon as their engine is gone (`Processes.keep`).
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import NamedTuple

from bridle.base.fs.files import read_limited
from bridle.base.process.escapees import birth_of

_ROOT = "/sys/fs/cgroup"
_NAME = "bridle-run."
_MAX_BYTES = 64 * 1024
_SHARE = 0.9
"""No command needs all of the machine's memory; without some left nobody could stop it."""


class SharedLimits(NamedTuple):
    """How much the commands of an engine may use together."""

    processes: int
    memory_mib: int


def memory_mib(most: SharedLimits) -> int:
    """What is really allowed of a machine's memory."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return min(most.memory_mib, int(machine * _SHARE))


class GroupParents(NamedTuple):
    """The folders in which groups may be made: one for both controllers, or one for each in the older form."""

    processes: str
    memory: str
    older: bool


class ControlGroup:
    """The group of this process. Harmless where there is none: `holds` says so."""

    def __init__(self, parents: GroupParents | None, most: SharedLimits) -> None:
        self._folders: tuple[str, ...] = ()
        self._events: dict[str, tuple[str, str]] = {}
        self._met: dict[str, int] = {}
        self.most = most
        if parents is not None:
            with contextlib.suppress(OSError):
                self._make(parents)

    @property
    def holds(self) -> bool:
        return bool(self._folders)

    @property
    def counting(self) -> str:
        """The folder that counts processes."""
        return self._folders[0]

    def take(self, pid: int) -> None:
        """Counts this process and what it starts from now on. A group that cannot any more holds nothing."""
        try:
            for folder in self._folders:
                _write(os.path.join(folder, "cgroup.procs"), pid)
        except ProcessLookupError:
            return  # it has ended
        except OSError:
            self.close()

    def met(self) -> str:
        """Which limit commands have met since this was last asked, in a few words; empty if none."""
        words = {
            "processes": f"the commands of a session may have at most {self.most.processes:,} processes together "
            "(sandbox.max_processes)",
            "memory": f"the commands of a session may use at most {memory_mib(self.most):,} MiB together "
            "(sandbox.max_memory_mib)",
        }
        for name, (file, key) in self._events.items():
            now = _count(file, key)
            before, self._met[name] = self._met.get(name, 0), now
            if now > before:
                return words[name]
        return ""

    def close(self) -> None:
        """Nothing runs in it any more."""
        for folder in self._folders:
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        self._folders = ()

    def _make(self, parents: GroupParents) -> None:
        name = f"{_NAME}{_our_world()}.{os.getpid()}.{birth_of(os.getpid())}.{os.urandom(4).hex()}"
        folders = tuple(dict.fromkeys(os.path.join(parent, name) for parent in parents[:2]))
        for parent in dict.fromkeys(parents[:2]):
            _sweep(parent)
        processes, memory = folders[0], folders[-1]
        limit = "memory.limit_in_bytes" if parents.older else "memory.max"
        try:
            for folder in folders:
                os.mkdir(folder)
            _write(os.path.join(processes, "pids.max"), self.most.processes)
            _write(os.path.join(memory, limit), memory_mib(self.most) << 20)
        except OSError:
            for folder in folders:
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
            raise
        killed = "memory.oom_control" if parents.older else "memory.events"
        self._events = {
            "processes": (os.path.join(processes, "pids.events"), "max"),
            "memory": (os.path.join(memory, killed), "oom_kill"),
        }
        self._folders = folders


def writable_parents(own: str = "/proc/self/cgroup", root: str = _ROOT) -> GroupParents | None:
    """Where this process may make groups that count both; None where it may not."""
    try:
        lines = read_limited(own, _MAX_BYTES).data.decode().splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    groups = {
        kinds: path for _, kinds, path in (line.split(":", 2) for line in lines if line.count(":") >= 2)
    }
    if (path := groups.get("")) is not None:
        here = os.path.normpath(f"{root}/{path}")
        for parent in (os.path.dirname(here), here):  # a group that has processes can hand nothing on
            if _hands_on(parent, root) and os.access(os.path.join(parent, "cgroup.procs"), os.W_OK):
                return GroupParents(parent, parent, older=False)
    found = {
        kind: os.path.normpath(f"{root}/{kind}/{path}")
        for kinds, path in groups.items()
        for kind in kinds.split(",")
        if kind in ("pids", "memory")
    }
    if len(found) == 2 and all(os.access(folder, os.W_OK) for folder in found.values()):
        return GroupParents(found["pids"], found["memory"], older=True)
    return None


def _hands_on(parent: str, root: str) -> bool:
    """Whether groups made there count both."""
    if parent != root and not parent.startswith(f"{root}/"):
        return False
    try:
        handed = read_limited(os.path.join(parent, "cgroup.subtree_control"), _MAX_BYTES).data.split()
    except OSError:
        return False
    return {b"pids", b"memory"} <= set(handed) and os.access(parent, os.W_OK)


def _sweep(parent: str) -> None:
    """Takes away the groups of engines that are gone, with what still lives in them."""
    for name in os.listdir(parent):
        if name.startswith(_NAME) and _is_left(name):
            folder = os.path.join(parent, name)
            with contextlib.suppress(OSError):  # something in it is still dying
                _end_all(folder)
                os.rmdir(folder)


def _is_left(name: str) -> bool:
    """Whether the engine that made this group is certainly gone, and no other process just has its number."""
    world, _, whose = name.removeprefix(_NAME).partition(".")
    pid, _, rest = whose.partition(".")
    return world == _our_world() and pid.isdigit() and birth_of(int(pid)) != rest.partition(".")[0]


def _our_world() -> str:
    """The process namespace in which our number is ours."""
    return str(os.stat("/proc/self/ns/pid").st_ino)


def _end_all(folder: str) -> None:
    opened: dict[int, int] = {}
    try:
        for pid in _inhabitants(folder):
            with contextlib.suppress(OSError):
                opened[pid] = os.pidfd_open(pid)
        for pid in _inhabitants(folder):  # who is in here now and was opened before is nobody else
            if pid in opened:
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(opened[pid], signal.SIGKILL)
    finally:
        for fd in opened.values():
            os.close(fd)


def _inhabitants(folder: str) -> Iterator[int]:
    """Those that can be seen from here; others are 0."""
    with open(os.path.join(folder, "cgroup.procs"), encoding="ascii") as file:
        yield from filter(None, map(int, file))


def _count(file: str, key: str) -> int:
    try:
        lines = read_limited(file, _MAX_BYTES).data.decode("ascii", "replace").splitlines()
    except OSError:
        return 0
    pairs = (line.split() for line in lines)
    return next((int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] == key), 0)


def _write(path: str, value: int) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)
