"""Commands inside bubblewrap: namespaces of their own, no capabilities, a file system of mounts, a system call filter.

What to mount goes through a file descriptor: the list of processes shows a short line, file names may have any bytes.

Sockets without a name in the file system belong to the network. Where that is inherited, a Landlock domain (of kernels
that know this scope, 6.12 and later) keeps commands from those of other programs, such as the display's.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Literal, TypeAlias

from bridle.base.files import private_folder
from bridle.sandbox.adapters import CannotConfine, Launch
from bridle.sandbox.caches import cache_variables
from bridle.sandbox.confinement import Confinement, Network
from bridle.sandbox.gate import Gate, PreparedMounts
from bridle.sandbox.gentle_end import terminate_inside
from bridle.sandbox.masks import HandedMasks, Masks
from bridle.sandbox.mount_check import (
    MountTable,
    expected_mounts,
    first_difference,
    mounted_now,
    read_table,
)
from bridle.sandbox.mount_list import Mount, make_room, mounts_of
from bridle.sandbox.thread_limits import HeldThread

Variant: TypeAlias = Literal["full", "without-userns-limit", "host-proc"]
VARIANTS: tuple[Variant, ...] = ("full", "without-userns-limit", "host-proc")
"""Strongest first. The second is for old versions, the third for containers in which /proc cannot be mounted."""
Filter: TypeAlias = Callable[[bool], bytes]
"""The system call filter for a command whose network is its own, or not; empty: none for this machine."""

_SINCE_SCOPES = 6
TEMPORARY = "/tmp"  # noqa: S108  it is the command's own


def system_call_filter(network_denied: bool) -> bytes:
    from bridle.sandbox import seccomp

    if not seccomp.supported():
        return b""
    return seccomp.program(network_denied=network_denied, own_network=network_denied)


class Bubblewrap:
    """Confines with the `bwrap` at `program`."""

    name = "bubblewrap"

    def __init__(
        self, program: str, *, variant: Variant = "full", call_filter: Filter = system_call_filter
    ) -> None:
        self._program = program
        self._variant: Variant = variant
        self._filter = call_filter

    @property
    def variant(self) -> Variant:
        return self._variant

    def variables(self, confinement: Confinement) -> Mapping[str, str]:
        return {"TMPDIR": TEMPORARY, **cache_variables(confinement.caches)}

    def confined(self, argv: Sequence[str], *, cwd: str, confinement: Confinement) -> Launch:
        return self.ahead(argv, cwd=cwd, network=confinement.network, look=lambda: confinement)

    def ahead(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        network: Network,
        look: Callable[[], Confinement],
        handed: HandedMasks | None = None,
    ) -> Launch:
        return self._launch(argv, cwd, network, look, Masks(handed=handed))[0]

    def waiting(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        network: Network,
        look: Callable[[], Confinement],
        handed: HandedMasks | None = None,
    ) -> tuple[Launch, WaitingMounts]:
        """As `ahead` does, for what will wait; and its mounts, to be looked at again before it goes on."""
        masks, outside = Masks(handed=handed), MountTable()
        try:
            launch, gate, made = self._launch(argv, cwd, network, look, masks, outside)
        except BaseException:
            outside.close()
            raise
        return launch, WaitingMounts(masks, gate, made, outside)

    def _launch(
        self,
        argv: Sequence[str],
        cwd: str,
        network: Network,
        look: Callable[[], Confinement],
        masks: Masks,
        outside: MountTable | None = None,
    ) -> tuple[Launch, Gate, list[tuple[Sequence[Mount], Confinement]]]:
        made = list[tuple[Sequence[Mount], Confinement]]()

        def prepare() -> PreparedMounts:
            confinement = look()
            mounts = mounts_of(confinement)
            made.append((mounts, confinement))
            if confinement.scratch:  # bubblewrap looks for what it binds before it comes to the wait
                private_folder(confinement.scratch)
            _hold(masks, files=confinement.filled)

            def make() -> None:
                make_room(mounts, confinement)
                _hold(masks, confinement.absent)

            return PreparedMounts(
                [*self._options(mounts, confinement, gate.wait), "--chdir", cwd],
                make,
                lambda: expected_mounts(mounts, confinement, outside.mounts if outside else mounted_now()),
            )

        gate = Gate(prepare, waits=outside is not None)
        fds = gate.theirs
        try:
            filtered: list[str] = []
            if program := self._filter(network != "inherit"):
                fds.append(_readable(program))
                filtered = ["--seccomp", str(fds[-1])]
            scope = _socket_scope(self._program) if network == "inherit" else None
        except BaseException:
            for fd in fds:
                os.close(fd)
            gate.close()
            raise
        thread = HeldThread(scope) if scope is not None else None

        def ended() -> None:
            masks.release(None if thread is None else thread.end)
            if thread is not None:
                thread.end()

        options = (self._program, *gate.arguments, *filtered, "--")
        launch = Launch(
            argv=(*options, *argv),
            pass_fds=tuple(fds),
            own_network_at=None if network == "inherit" else len(options),
            within=thread,
            gate=gate,
            limits=not _is_privileged(self._program),
            ended=ended,
            terminate=terminate_inside,
            privileged=_is_privileged(self._program),
        )
        return launch, gate, made

    def _options(self, mounts: Sequence[Mount], confinement: Confinement, wait: Sequence[str]) -> list[str]:
        """What to do. At `wait`, everything is there that is to be mounted, and not yet everything to mount it on."""
        options = [
            "--die-with-parent",
            "--new-session",
            "--unshare-all",
            "--unshare-user",
            "--cap-drop",
            "ALL",
        ]
        if self._variant == "full":
            options.append("--disable-userns")
        if confinement.network == "inherit":
            options.append("--share-net")
        root, *others = mounts
        options += [*_mounted(root, confinement.scratch), "--dev", "/dev"]
        if self._variant == "host-proc":
            options += ["--ro-bind", "/proc", "/proc"]
        else:
            options += ["--proc", "/proc"]
            if os.getuid() == 0:  # whose files in /proc/sys are writable without any capability
                options += ["--remount-ro", "/proc"]
        options += wait
        options += _all_mounted(tuple(others), confinement.scratch)
        return options


class WaitingMounts:
    """The mounts of a sandbox that waits. Its masks stand in the workspace only when it is needed."""

    def __init__(
        self,
        masks: Masks,
        gate: Gate,
        made: Sequence[tuple[Sequence[Mount], Confinement]],
        outside: MountTable,
    ) -> None:
        self._masks = masks
        self._gate = gate
        self._made = made
        self._outside = outside
        self._inside: MountTable | None = None

    @property
    def confinement(self) -> Confinement:
        return self._made[0][1]

    def put_away(self, make_folder: Callable[[], str]) -> None:
        """Looks at the mounts, and moves the masks out of the workspace, into a folder on the same file system. Raises
        `OSError` where that cannot be, or a mount is none that was meant: then this sandbox must not wait."""
        self._inside = MountTable(self._table)
        if difference := self._difference(self._inside.listed):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), difference)
        if self._masks:
            self._masks.put_away(make_folder())

    def put_back(self, *, unmoved: bool = False) -> bool:
        """Puts the masks where they were. Whether all mounts are what they were meant to be, and those outside what
        they were. Raises `OSError` where something else stands in the place of a mask, or nothing is left of the
        sandbox.

        The kernel tells when something was mounted, unmounted or mounted otherwise. It does not tell when something was
        renamed or replaced on which or from which something is mounted: where the caller does not know that all of it
        is `unmoved`, the mounts are compared once more, as those of every sandbox are before its command runs.
        """
        self._masks.put_back()
        if self._inside is None or self._inside.has_changed() or self._outside.has_changed():
            return False
        return unmoved or not self._difference(read_table(self._table))

    def close(self) -> None:
        """Nobody will look at them any more: what is open here keeps the mounts of a sandbox from going with it.
        Harmless when called again."""
        self._outside.close()
        if self._inside is not None:
            self._inside.close()

    @property
    def _table(self) -> str:
        return f"/proc/{self._gate.child}/mountinfo"

    def _difference(self, listed: bytes) -> str:
        """Where a mount is none that was meant; empty if there is none such."""
        return first_difference(os.fsdecode(listed), expected_mounts(*self._made[0], self._outside.mounts))


@cache
def _is_privileged(program: str) -> bool:
    """Whether it runs as root: then it is not ours to limit while it works."""
    return bool(os.stat(program).st_mode & stat.S_ISUID)


@cache
def _socket_scope(program: str) -> Callable[[], None] | None:
    """What a thread does so that nothing it starts reaches nameless sockets of others; None where that cannot be.

    A bubblewrap that is root's own would lose the privileges it needs.
    """
    from bridle.sandbox import landlock, thread_limits

    try:
        if landlock.available() < _SINCE_SCOPES or _is_privileged(program):
            return None
        ruleset = thread_limits.landlock_ruleset(files=0, ports=0, scopes=landlock.SCOPE_ABSTRACT_SOCKETS)
    except OSError:
        return None

    def give_up() -> None:
        thread_limits.gain_no_privileges()
        thread_limits.landlock_enter(ruleset)

    return give_up


@lru_cache(maxsize=8)
def _all_mounted(mounts: tuple[Mount, ...], scratch: str) -> tuple[str, ...]:
    """Mostly the same from one command to the next."""
    options = [option for mount in mounts for option in _mounted(mount, scratch)]
    for mount in mounts:
        if mount.kind == "room":  # what is written there would be gone with the command, without a word
            options += ["--remount-ro", mount.path]
    return tuple(options)


def _mounted(mount: Mount, scratch: str) -> Iterator[str]:
    path = mount.path
    match mount.kind:
        case "writable":
            yield from ("--bind", path, path)
        case "read-only" | "shown":
            yield from ("--ro-bind", path, path)
        case "hidden" if not mount.is_folder:
            # A device that may not be opened here: whoever reads it is refused.
            yield from ("--ro-bind", "/dev/null", path)
        case "hidden":
            yield from ("--perms", "0111" if mount.crossed else "0000", "--tmpfs", path)
        case "temporary" if scratch:
            yield from ("--bind", scratch, path)
        case "temporary":
            yield from ("--perms", "1777", "--tmpfs", path)
        case "masked":  # a new folder is made faster than one of the disk is bound
            yield from ("--perms", "0555", "--tmpfs", path)
        case "empty" | "room":
            yield from ("--perms", "0755", "--tmpfs", path)


def _hold(masks: Masks, folders: Iterable[str] = (), files: Iterable[tuple[str, bytes]] = ()) -> None:
    try:
        masks.add(folders, files)
    except OSError as error:
        raise CannotConfine(f"{error.filename} could not be protected ({error.strerror})") from error


def _readable(data: bytes) -> int:
    """A descriptor from which `data` can be read."""
    fd = os.memfd_create("bridle", os.MFD_CLOEXEC)
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd
