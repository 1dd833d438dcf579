"""Run commands in bubblewrap.

What to mount goes through a file descriptor: the list of processes shows a short line, file names may have any bytes.

Sockets without a name in the file system belong to the network. Where that is inherited, a Landlock domain (of kernels
that know this scope, 6.12 and later) keeps commands from those of other programs, such as the display's.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Literal, TypeAlias

from bridle.sandbox.adapters import landlock, seccomp, thread_limits
from bridle.sandbox.adapters.adapter import CannotConfine, Launch, cache_variables, terminate_inside
from bridle.sandbox.adapters.gate import Gate
from bridle.sandbox.adapters.mount_check import Mount, expected_mounts, make_room, mounted_now, mounts_of
from bridle.sandbox.adapters.thread_limits import HeldThread
from bridle.sandbox.confinement import Confinement
from bridle.sandbox.policy_files.git_placeholders import Masks

Variant: TypeAlias = Literal["full", "without-userns-limit", "host-proc"]
VARIANTS: tuple[Variant, ...] = ("full", "without-userns-limit", "host-proc")
"""Strongest first. The second is for old versions, the third for containers in which /proc cannot be mounted."""
Filter: TypeAlias = Callable[[bool], bytes]
"""The system call filter for a command whose network is its own, or not; empty: none for this machine."""

_SINCE_SCOPES = 6
TEMPORARY = "/tmp"  # noqa: S108  it is the command's own


def system_call_filter(network_denied: bool) -> bytes:
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
        network, privileged = confinement.network, _is_privileged(self._program)
        mounts = mounts_of(confinement)
        make_room(mounts, confinement)
        masks = _hold(confinement)
        fds: list[int] = []
        gate: Gate | None = None
        try:
            options = [*self._options(mounts, confinement), "--chdir", cwd]
            gate = Gate(options, expected_mounts(mounts, confinement, mounted_now()))
            fds += gate.theirs
            filtered: list[str] = []
            if program := self._filter(network != "inherit"):
                fds.append(_readable(program))
                filtered = ["--seccomp", str(fds[-1])]
            scope = _socket_scope(self._program) if network == "inherit" else None
        except BaseException:
            for fd in fds:
                os.close(fd)
            if gate is not None:
                gate.close()
            masks.release()
            raise
        thread = HeldThread(scope) if scope is not None else None

        def ended() -> None:
            masks.release(None if thread is None else thread.end)
            if thread is not None:
                thread.end()

        enclosing = (self._program, *gate.arguments, *filtered, "--")
        return Launch(
            argv=(*enclosing, *argv),
            pass_fds=tuple(fds),
            own_network_at=None if network == "inherit" else len(enclosing),
            within=thread,
            gate=gate,
            limits=not privileged,
            ended=ended,
            terminate=terminate_inside,
        )

    def _options(self, mounts: Sequence[Mount], confinement: Confinement) -> list[str]:
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
        options += [option for mount in others for option in _mounted(mount, confinement.scratch)]
        for mount in others:
            if mount.kind == "room":  # what is written there would be gone with the command, without a word
                options += ["--remount-ro", mount.path]
        return options


@cache
def _is_privileged(program: str) -> bool:
    """Whether it runs as root: then it is not ours to limit while it works."""
    return bool(os.stat(program).st_mode & stat.S_ISUID)


@cache
def _socket_scope(program: str) -> Callable[[], None] | None:
    """What a thread does so that nothing it starts reaches nameless sockets of others; None where that cannot be.

    A bubblewrap that is root's own would lose the privileges it needs.
    """
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


def _hold(confinement: Confinement) -> Masks:
    try:
        return Masks(confinement.absent, confinement.filled)
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
