"""Choose the sandbox adapter of this machine by trying it, and store the result.

Looking costs a process or two. The answer is kept in Bridle's state folder together with everything it depends on: the
kernel, this boot, the namespaces and limits this process is in, the user, the program. What is installed is no answer:
a program that is there may be unable to do anything here.

Nothing the workspace could have put on PATH is ever used.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

import msgspec

from bridle.base.fs.files import private_folder, read_limited, write_atomic
from bridle.base.process.processes import CannotStart, Processes, is_scarce
from bridle.sandbox.adapters.adapter import CannotConfine
from bridle.sandbox.adapters.adapter_start import HeldBack, start
from bridle.sandbox.confinement import Confinement
from bridle.sandbox.plain_spawn import UNCONFINED, find_program

if TYPE_CHECKING:
    from bridle.sandbox.adapters.adapter import Adapter

AdapterName: TypeAlias = Literal["bubblewrap", "landlock", "unshare", "sandbox-exec"]
ORDER: tuple[AdapterName, ...] = get_args(AdapterName)
"""Strongest first."""
GAPS: Mapping[str, str] = {
    "landlock": "commands can change policy files in the workspace (.git/hooks, .git/config, AGENTS.md, "
    ".mcp.json, .vscode), and list names everywhere",
    "unshare": "system calls are not filtered: commands can use io_uring, the kernel's keys and Unix sockets in sight",
}
"""What an adapter does not keep commands from, as the end of a sentence; one that is not named keeps all we know of."""

_KERNEL_SETTINGS = (
    "kernel/random/boot_id",
    "kernel/unprivileged_userns_clone",
    "kernel/apparmor_restrict_unprivileged_userns",
    "user/max_user_namespaces",
)
_GIVEN_UP = ("CapEff:", "NoNewPrivs:", "Seccomp")
_FILE = "sandbox.json"
_FORMAT = 1
_MAX_BYTES = 4_096
_TRY_S = 10.0
_NO_ANSWER = f"it did not answer within {_TRY_S:g} s"
_TRY = ["/bin/sh", "-c", 'echo x >"$1" && if echo x >"$2"; then exit 9; fi', "sh"]
"""Writes where it may, and then where it must not be able to."""


class ConfiningWay(msgspec.Struct, frozen=True):
    """One way to confine: an adapter, and which of its variants."""

    name: AdapterName
    variant: str = ""


class TriedAdapter(msgspec.Struct, frozen=True):
    """What came of trying a way; `problem` is empty where it held."""

    way: ConfiningWay
    problem: str = ""


class ChosenAdapter(msgspec.Struct, frozen=True):
    """`adapter` is None where nothing can confine. `attempts` tells why, or what was passed over; not if remembered."""

    adapter: Adapter | None
    way: ConfiningWay | None
    attempts: tuple[TriedAdapter, ...] = ()


class _Answer(msgspec.Struct, frozen=True):
    format: int
    circumstances: str
    name: str | None
    variant: str = ""


class Chooser:
    """Chooses for one process. `only` forces one adapter, and is neither remembered nor answered from memory."""

    def __init__(self, processes: Processes, *, state: str, only: AdapterName | None = None) -> None:
        self._processes = processes
        self._state = state
        self._only: AdapterName | None = only
        self._chosen: ChosenAdapter | None = None
        self._answer: _Answer | None = None
        self._lock = asyncio.Lock()

    def known(self) -> str:
        """The name of what was found out to hold commands, now or before; `env-only`: nothing does. Empty while nobody
        knows. Nothing is started."""
        if self._chosen is not None:
            return self._chosen.way.name if self._chosen.way else UNCONFINED
        self._answer = self._answer or (None if self._only else self._remembered())
        return "" if self._answer is None else self._answer.name or UNCONFINED

    async def choose(self) -> ChosenAdapter:
        """The strongest way that held when it was tried.

        Raises `CannotStart` where there was too little of something, or no place, to try: that says nothing about what
        would hold.
        """
        async with self._lock:
            if self._chosen is None:
                answer = self._answer or (None if self._only else self._remembered())
                self._chosen = _from(answer) if answer is not None else None
            if self._chosen is None:
                self._chosen = await self._tried()
                silent = any(attempt.problem == _NO_ANSWER for attempt in self._chosen.attempts)
                if not self._only and not silent:  # a busy machine is no circumstance to remember
                    self._remember(self._chosen)
            return self._chosen

    async def adapter(self) -> Adapter | None:
        return (await self.choose()).adapter

    def drop(self) -> None:
        """What was chosen did not hold after all: the next `choose` looks again."""
        self._chosen = self._answer = None
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    async def attempt(self, way: ConfiningWay) -> TriedAdapter:
        """Tries one way with a real process."""
        adapter = adapter_for(way)
        return TriedAdapter(way, "it is not there" if adapter is None else await self.try_adapter(adapter))

    async def try_adapter(self, adapter: Adapter) -> str:
        """Why the adapter does not hold a command; empty if it does."""
        import shutil
        import tempfile

        try:
            folder = tempfile.mkdtemp(prefix="sandbox-", dir=private_folder(self._state))
        except OSError as error:
            raise CannotStart(adapter.name, "the state folder cannot be written") from error
        try:
            return await self._held(adapter, _Ground(folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def _tried(self) -> ChosenAdapter:
        attempts: list[TriedAdapter] = []
        for way in _ways(self._names()):
            if attempts and attempts[-1].problem == _NO_ANSWER and attempts[-1].way.name == way.name:
                continue  # another variant of it would not answer either
            attempts.append(await self.attempt(way))
            if not attempts[-1].problem:
                return ChosenAdapter(adapter_for(way), way, tuple(attempts))
        return ChosenAdapter(None, None, tuple(attempts))

    async def _held(self, adapter: Adapter, ground: _Ground) -> str:
        confinement = Confinement(writable=(ground.inside,), scratch=ground.scratch, network="deny")
        output = bytearray()
        try:
            argv = [*_TRY, ground.written, ground.escaped]
            launch = adapter.confined(argv, cwd=ground.inside, confinement=confinement)
            async with (
                asyncio.timeout(_TRY_S),
                await start(
                    self._processes,
                    launch,
                    cwd=ground.inside,
                    env={"PATH": "/usr/bin:/bin", **adapter.variables(confinement)},
                    on_output=output.extend,
                    ended=launch.ended,
                ) as process,
            ):
                code = await process.wait()
        except CannotConfine as refused:
            return refused.problem
        except HeldBack as held_back:
            return ground.problem(held_back.process.returncode or 1, held_back.said)
        except TimeoutError:
            return _NO_ANSWER
        except (CannotStart, OSError) as error:
            if is_scarce(error):
                raise CannotStart(adapter.name, "no resources") from error
            return f"it did not start ({error.reason if isinstance(error, CannotStart) else error.strerror})"
        return ground.problem(code, bytes(output))

    def _names(self) -> tuple[AdapterName, ...]:
        return (self._only,) if self._only else ORDER

    @property
    def _path(self) -> str:
        return os.path.join(self._state, _FILE)

    def _remembered(self) -> _Answer | None:
        """What was found out before, if it was us, under the same circumstances."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                status = os.fstat(fd)
                if status.st_uid != os.getuid() or status.st_mode & 0o177777 != stat.S_IFREG | 0o600:
                    return None
                answer = msgspec.json.decode(read_limited(fd, _MAX_BYTES).data, type=_Answer)
            finally:
                os.close(fd)
        except (OSError, msgspec.MsgspecError):
            return None
        known = answer.format == _FORMAT and answer.circumstances == _circumstances()
        return answer if known and (answer.name is None or answer.name in ORDER) else None

    def _remember(self, chosen: ChosenAdapter) -> None:
        answer = _Answer(
            format=_FORMAT,
            circumstances=_circumstances(),
            name=chosen.way.name if chosen.way else None,
            variant=chosen.way.variant if chosen.way else "",
        )
        with contextlib.suppress(OSError):  # then it is found out again
            write_atomic(
                os.path.join(private_folder(self._state), _FILE), msgspec.json.encode(answer), durable=False
            )


class _Ground:
    """Folders to try an adapter in."""

    def __init__(self, folder: str) -> None:
        self.inside, self._outside, self.scratch = (
            os.path.join(os.path.realpath(folder), name) for name in ("inside", "outside", "scratch")
        )
        for made in (self.inside, self._outside, self.scratch):
            os.mkdir(made, 0o700)
        self.written = os.path.join(self.inside, "x")
        self.escaped = os.path.join(self._outside, "x")

    def problem(self, code: int, output: bytes) -> str:
        if os.path.exists(self.escaped):
            return "a command could write outside"
        if code or not os.path.exists(self.written):
            said = output.decode("utf-8", "replace").strip().rpartition("\n")[2]
            return f"it failed ({said or f'exit {code}'})"
        return ""


def adapter_for(way: ConfiningWay) -> Adapter | None:
    """The adapter, ready to be used; None where this machine does not have it."""
    match way.name:
        case "bubblewrap":
            from bridle.sandbox.adapters.bubblewrap import VARIANTS, Bubblewrap, Variant

            program = find_program("bwrap")
            variants: list[Variant] = [variant for variant in VARIANTS if variant == way.variant]
            return Bubblewrap(program, variant=variants[0]) if program and variants else None
        case "landlock":
            from bridle.sandbox.adapters import landlock

            return landlock.Landlock() if landlock.available() else None
        case "unshare":
            from bridle.sandbox.adapters.unshare import Unshare, programs

            found = programs()
            return Unshare(found) if found else None
        case "sandbox-exec":
            from bridle.sandbox.adapters.sandbox_exec import PROGRAM, SandboxExec

            return SandboxExec() if sys.platform == "darwin" and os.access(PROGRAM, os.X_OK) else None


def _ways(names: Iterable[AdapterName]) -> Iterator[ConfiningWay]:
    """Everything worth trying here, strongest first."""
    for name in names:
        if name == "bubblewrap":
            from bridle.sandbox.adapters.bubblewrap import VARIANTS

            ways = [ConfiningWay(name, variant) for variant in VARIANTS]
        else:
            ways = [ConfiningWay(name)]
        if adapter_for(ways[0]) is not None:
            yield from ways


def _from(answer: _Answer) -> ChosenAdapter | None:
    if answer.name is None:
        return ChosenAdapter(None, None)
    way = ConfiningWay(cast("AdapterName", answer.name), answer.variant)
    adapter = adapter_for(way)
    return ChosenAdapter(adapter, way) if adapter is not None else None


def _circumstances() -> str:
    system = os.uname()
    parts = [system.sysname, system.release, system.machine, str(os.getuid())]
    for name in ("bwrap", "unshare"):
        program = find_program(name) or ""
        status = os.stat(program) if program else None
        parts += [program, f"{status.st_mtime_ns}.{status.st_size}.{status.st_mode}" if status else ""]
    for namespace in ("user", "mnt"):  # a container has others
        with contextlib.suppress(OSError):
            parts.append(f"{namespace}={os.stat(f'/proc/self/ns/{namespace}').st_ino}")
    for name in _KERNEL_SETTINGS:
        with contextlib.suppress(OSError):
            parts.append(f"{name}={read_limited(f'/proc/sys/{name}', 64).data.decode().strip()}")
    with contextlib.suppress(OSError):  # what this process has given up already
        status = read_limited("/proc/self/status", _MAX_BYTES).data.decode("ascii", "replace")
        parts += [line for line in status.splitlines() if line.startswith(_GIVEN_UP)]
    return "|".join(parts)
