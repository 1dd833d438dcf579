"""Run commands under Landlock with a system call filter.

Everything a command could do with a file's contents is decided by the kernel, by the file and not by its name. What
Landlock cannot do is said as data: `Landlock.covers` are the parts of a confinement that are enforced, and besides them

- the names of files can be listed everywhere, also of those that cannot be read;
- mode, owner and times of a person's own files can be changed outside too, but none can be made to run as its owner;
- there are no Unix sockets (only pairs of connected ones) and no pseudo-terminals, because those of other programs
  could not be told apart;
- shared memory works only while nobody else keeps any;
- System V shared memory is shared with the person's other programs.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from bridle.sandbox.adapters import seccomp, thread_limits
from bridle.sandbox.adapters.adapter import CannotConfine, Launch, cache_variables
from bridle.sandbox.confinement import Confinement

# Nothing can be taken away below a path that was allowed. So where something must stay closed, the folders on
# the way to it are carved: instead of such a folder, everything in it but the closed path is allowed, one by
# one. A carved folder can be entered, but nothing can be created in it or removed from it.


LandlockAccess: TypeAlias = Literal["none", "read", "write", "device"]

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  the C library knows no other place
_SEMAPHORE = "sem."
_SETTLED_NS = 100_000_000
"""A folder that changed this shortly before it was listed may have changed again without a new time."""

Identity: TypeAlias = tuple[int, int, int] | None
"""Which file a path leads to, and when its listing changed where that matters; None: there is nothing."""


class LandlockRule(NamedTuple):
    path: str
    access: LandlockAccess


class Rules(NamedTuple):
    """`listed` and `named` are what the rules were made from, as it was just before."""

    allowed: tuple[LandlockRule, ...]
    listed: Mapping[str, Identity]
    named: Mapping[str, Identity]
    settled: bool


def rules_of(confinement: Confinement) -> Rules:
    """Reads the folders that have to be carved; what cannot be listed stays closed."""
    now = time.time_ns()
    shared_memory = _identity(_SHARED_MEMORY, listed=True)
    walk = _Walk(_places(confinement), {_SHARED_MEMORY: shared_memory})
    walk.visit("/", "read")
    changes = [identity[2] for identity in walk.listed.values() if identity is not None]
    return Rules(tuple(walk.allowed), walk.listed, walk.named, all(at < now - _SETTLED_NS for at in changes))


def still_hold(rules: Rules) -> bool:
    """Whether making them again would make the same ones, for the same files."""
    return (
        rules.settled
        and all(_identity(path, listed=True) == seen for path, seen in rules.listed.items())
        and all(_identity(path) == seen for path, seen in rules.named.items())
    )


def _identity(path: str, *, listed: bool = False) -> Identity:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns if listed else 0


def _places(confinement: Confinement) -> dict[str, LandlockAccess]:
    """What is to be done where; the deeper place decides, and of two for the same path the last."""
    places: dict[str, LandlockAccess] = {"/dev": "none"}
    places |= {os.path.join("/dev", name): "device" for name in _DEVICES}
    places[_SHARED_MEMORY] = "write" if _is_unused(_SHARED_MEMORY) else "none"
    places |= dict.fromkeys(confinement.temporary, "none")
    places |= dict.fromkeys(confinement.shown, "read")
    places |= dict.fromkeys(confinement.writable, "write")
    if confinement.scratch:
        places[confinement.scratch] = "write"
    places |= dict.fromkeys(confinement.hidden, "none")
    places |= dict.fromkeys(confinement.emptied, "none")
    return places


def _is_unused(folder: str) -> bool:
    """Whether nobody keeps shared memory there that a command could tamper with."""
    try:
        return all(name.startswith(_SEMAPHORE) for name in os.listdir(folder))
    except OSError:
        return False


class _Walk:
    """Goes down from the root to every place, and allows as much at once as can be allowed."""

    def __init__(self, places: Mapping[str, LandlockAccess], listed: dict[str, Identity]) -> None:
        self.allowed: list[LandlockRule] = []
        self.listed = listed
        self.named = {place: _identity(place) for place in places}
        self._places = places

    def visit(self, path: str, inherited: LandlockAccess) -> None:
        access = self._places.get(path, inherited)
        below = [place for place in self._places if _lies_below(place, path)]
        if access == "none":
            self._visit_nearest(below, access)
        elif any(self._places[place] == "none" for place in below):
            self._carve(path, access, below)
        else:
            self.allowed.append(LandlockRule(path, access))
            self._visit_nearest(below, access)

    def _visit_nearest(self, below: list[str], access: LandlockAccess) -> None:
        for place in below:
            if not any(_lies_below(place, other) for other in below):
                self.visit(place, access)

    def _carve(self, path: str, access: LandlockAccess, below: list[str]) -> None:
        self.listed[path] = _identity(path, listed=True)
        on_the_way = {_step_towards(place, path) for place in below}
        for child in _entries(path):
            if child in on_the_way:
                self.visit(child, access)
            else:
                self.allowed.append(LandlockRule(child, access))


def _entries(folder: str) -> Iterator[str]:
    """What is in a folder. Not the symbolic links: what they lead to has its own rules."""
    try:
        with os.scandir(folder) as entries:
            yield from (entry.path for entry in entries if not entry.is_symlink())
    except OSError:  # it is not ours to read, or has just gone
        return


def _lies_below(path: str, folder: str) -> bool:
    return path != folder and path.startswith(folder if folder == "/" else f"{folder}/")


def _step_towards(path: str, folder: str) -> str:
    start = 1 if folder == "/" else len(folder) + 1
    end = path.find("/", start)
    return path if end < 0 else path[:end]


EXECUTE, WRITE_FILE, READ_FILE = 1 << 0, 1 << 1, 1 << 2
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1 << 0, 1 << 1

_READ = EXECUTE | READ_FILE
_CHANGE = WRITE_FILE | TRUNCATE | REFER | REMOVE_DIR | REMOVE_FILE
_MAKE = MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM
_RIGHTS: dict[LandlockAccess, int] = {
    "none": 0,
    "read": _READ,
    "write": _READ | _CHANGE | _MAKE,
    "device": READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV,
}
_ONLY_FOLDERS = REFER | REMOVE_DIR | REMOVE_FILE | _MAKE
_HANDLED = _READ | _CHANGE | _MAKE | MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV

_SINCE_REFER, _SINCE_TRUNCATE, _SINCE_PORTS, _SINCE_IOCTL, _SINCE_SCOPES = 2, 3, 4, 5, 6
_KEPT = 8
"""How many sets of rules are kept for the next command."""


@cache
def available() -> int:
    """The version of Landlock's interface here; 0: commands cannot be held this way."""
    return thread_limits.landlock_version() if seccomp.supported() else 0


class Landlock:
    """The adapter. Holds a confinement except for what must stay as it is inside a writable folder.

    `temporary` is where the scratch folder of a command is made that has none. `version`: as if the kernel's Landlock
    were that old.
    """

    name = "landlock"
    covers = frozenset(Confinement.__struct_fields__) - {
        "read_only",
        "absent",
        "looked_for",
        "held",
        "filled",
    }
    """Names of `Confinement`'s fields. Of hidden and emptied folders the names of what is in them can be listed."""

    def __init__(self, *, temporary: str = "/tmp", version: int | None = None) -> None:  # noqa: S108
        self._temporary = temporary
        self._version = available() if version is None else min(version, available())
        holds_signals = self._version >= _SINCE_SCOPES
        self._thread = thread_limits.WitnessThread if holds_signals else thread_limits.HeldThread
        self._rulesets: OrderedDict[Confinement, _Ruleset] = OrderedDict()

    def variables(self, confinement: Confinement) -> Mapping[str, str]:
        """Where the scratch folder is, unless it is made for this one command, which is told then."""
        caches = cache_variables(confinement.caches)
        return caches if not confinement.scratch else {"TMPDIR": confinement.scratch, **caches}

    def confined(self, argv: Sequence[str], *, cwd: str, confinement: Confinement) -> Launch:
        del cwd  # its place among the rules is the confinement's business
        if not self._version:
            raise CannotConfine("this kernel has no Landlock")
        if confinement.scratch:
            return self._launch(argv, confinement)
        scratch = self._new_scratch()
        command = ("/usr/bin/env", f"TMPDIR={scratch}", *argv)
        return self._launch(command, msgspec.structs.replace(confinement, scratch=scratch), to_remove=scratch)

    def _launch(self, argv: Sequence[str], confinement: Confinement, *, to_remove: str = "") -> Launch:
        try:
            ruleset = self._ruleset(confinement)
        except OSError as error:
            if to_remove:
                os.rmdir(to_remove)
            raise CannotConfine(f"Landlock refused the rules ({error.strerror})") from error
        program = seccomp.program(
            network_denied=confinement.network != "inherit",
            local_sockets=False,
            strict_truncation=self._version < _SINCE_TRUNCATE,
            strict_modes=True,
        )
        thread = self._thread(partial(_give_up, ruleset, program))
        return Launch(tuple(argv), within=thread, ended=partial(_end, thread, to_remove))

    def _new_scratch(self) -> str:
        scratch = os.path.join(os.path.realpath(self._temporary), f"bridle-{os.urandom(8).hex()}")
        try:
            os.mkdir(scratch, 0o700)
        except OSError as error:
            raise CannotConfine(f"there is no room for temporary files ({error.strerror})") from error
        return scratch

    def _ruleset(self, confinement: Confinement) -> _Ruleset:
        known = self._rulesets.pop(confinement, None)
        if known is None or not known.is_current():
            known = _Ruleset(rules_of(confinement), self._version, network=confinement.network == "inherit")
        self._rulesets[confinement] = known
        if len(self._rulesets) > _KEPT:
            self._rulesets.popitem(last=False)
        return known


def _give_up(ruleset: _Ruleset, program: bytes) -> None:
    thread_limits.gain_no_privileges()
    thread_limits.drop_capabilities()
    thread_limits.landlock_enter(ruleset.fd)
    thread_limits.filter_system_calls(program)


def _end(thread: thread_limits.HeldThread, scratch: str) -> None:
    thread.end()
    if not scratch:
        return
    try:
        os.rmdir(scratch)
    except OSError:  # not empty, and nobody knows how much it is
        threading.Thread(target=_remove, args=(scratch,), name="remove-scratch").start()


def _remove(scratch: str) -> None:
    import shutil

    with contextlib.suppress(RecursionError):  # hundreds of folders in one another
        shutil.rmtree(scratch, ignore_errors=True)


class _Ruleset:
    """The rules as the kernel has them, for as long as the folders they were made from are the same."""

    def __init__(self, rules: Rules, version: int, *, network: bool) -> None:
        self._rules = rules
        handled = _known(_HANDLED, version)
        self.fd = thread_limits.landlock_ruleset(
            files=handled,
            ports=0 if network or version < _SINCE_PORTS else BIND_TCP | CONNECT_TCP,
            scopes=SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS if version >= _SINCE_SCOPES else 0,
        )
        for path, access in rules.allowed:
            self._allow(path, access, handled)

    def is_current(self) -> bool:
        return still_hold(self._rules)

    def _allow(self, path: str, access: LandlockAccess, handled: int) -> None:
        try:
            opened = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # it has gone since the folder was listed
            return
        try:
            # A command may have put a link on the way to where it may write.
            if access == "write" and os.readlink(f"/proc/self/fd/{opened}") != path:
                return
            is_folder = stat.S_ISDIR(os.fstat(opened).st_mode)
            rights = _RIGHTS[access] & handled & (-1 if is_folder else ~_ONLY_FOLDERS)
            thread_limits.landlock_allow(self.fd, opened, rights)
        finally:
            os.close(opened)

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            os.close(self.fd)


def _known(rights: int, version: int) -> int:
    """Of these rights those that a kernel of this version knows."""
    if version < _SINCE_REFER:
        rights &= ~REFER
    if version < _SINCE_TRUNCATE:
        rights &= ~TRUNCATE
    if version < _SINCE_IOCTL:
        rights &= ~IOCTL_DEV
    return rights
