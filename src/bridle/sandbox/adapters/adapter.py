"""The adapter protocol, and limits for each process."""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from bridle.base.process.processes import Within
from bridle.sandbox.confinement import Confinement

# A signal to the process group of bubblewrap or `unshare` ends those at once, and the kernel then kills the
# command without a word: git leaves its lock behind, a server its socket. So the signal goes past them, to
# what they enclose.


_ENCLOSING = 2
"""The process that was started, and the first process of the namespace."""


def terminate_inside(pid: int) -> bool:
    """Sends SIGTERM to everything that the enclosed first process has started; whether there was anything.

    For the process of a `Launch` of Bubblewrap or Unshare that still runs. If False, signal the group.
    """
    level = [pid]
    for _ in range(_ENCLOSING):
        level = [child for parent in level for child in _children(parent)]
    inside = list(level)
    while level:
        level = [child for parent in level for child in _children(parent)]
        inside += level
    sent = False
    for process in inside:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGTERM)
            sent = True
    return sent


def _children(pid: int) -> list[int]:
    """The children of a process, whichever of its threads started them; none if the kernel does not say."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    except OSError:
        return found
    return found


# fmt: off
_FOLDERS = {
    # everything that follows the XDG rules
    "XDG_CACHE_HOME": "xdg",
    # JavaScript
    "npm_config_cache": "npm", "pnpm_config_store_dir": "pnpm-store", "YARN_CACHE_FOLDER": "yarn",
    "YARN_GLOBAL_FOLDER": "yarn-berry", "COREPACK_HOME": "corepack", "BUN_INSTALL_CACHE_DIR": "bun", "DENO_DIR": "deno",
    # Python
    "PIP_CACHE_DIR": "pip", "UV_CACHE_DIR": "uv", "POETRY_CACHE_DIR": "poetry", "PIPENV_CACHE_DIR": "pipenv",
    "PRE_COMMIT_HOME": "pre-commit",
    # Rust: the installed programs are found on PATH and in RUSTUP_HOME; only what cargo downloads goes here
    "CARGO_HOME": "cargo", "SCCACHE_DIR": "sccache",
    # Go
    "GOPATH": "go", "GOMODCACHE": "go/pkg/mod", "GOCACHE": "go-build",
    # Java, .NET, PHP, Ruby, C
    "GRADLE_USER_HOME": "gradle", "NUGET_PACKAGES": "nuget", "DOTNET_CLI_HOME": "dotnet",
    "COMPOSER_CACHE_DIR": "composer", "BUNDLE_USER_CACHE": "bundler", "CCACHE_DIR": "ccache",
}
_FILES = {
    "npm_config_userconfig": "npmrc",  # the person's own may hold a token, and npm gives up if it cannot read it
}
# fmt: on


@functools.lru_cache(maxsize=8)
def cache_variables(folder: str) -> Mapping[str, str]:
    """What a command is told so that its downloads land in `folder`; nothing if that is empty. Nothing needs to exist
    in there."""
    if not folder:
        return {}
    named = {variable: os.path.join(folder, name) for variable, name in (_FOLDERS | _FILES).items()}
    named["UV_LINK_MODE"] = "copy"  # the cache and the project are two mounts, which no hard link joins
    if not any(character.isspace() for character in folder):
        named["MAVEN_ARGS"] = f"-Dmaven.repo.local={folder}/maven"
    return named


# A file has a largest size, a crash leaves no copy of the memory lying about, and not every number of files
# can be open. Memory and the number of processes have no such limits: those that the kernel has (RLIMIT_AS,
# RLIMIT_NPROC) count what Node, Go and Java only reserve, and the processes of the person besides. They are
# counted in a `control_group`, where there is one. Limits are inherited. They are set on a command that waits
# at its gate, from outside; one that has no gate is started by a shell that sets its own, and waits for a
# line until it is counted.


OPEN_FILES = 65_536
"""Above all that builds and servers open; below what makes programs slow that close everything they might have open."""

UNLIMITED = "memory and the number of processes are not limited"
"""What people are told of the rest."""
_BLOCK = 512
_LETTERS = {resource.RLIMIT_CORE: "c", resource.RLIMIT_FSIZE: "f", resource.RLIMIT_NOFILE: "n"}
_UNLIMITED = resource.RLIM_INFINITY
_STARTING = 'while [ "$1" != -- ]; do ulimit "$1" "$2" || exit 125; shift 2; done; shift; exec "$@"'
_WAITING = f"read -r go || exit 125; {_STARTING}"
_WAITING_WITHOUT_INPUT = f"{_WAITING} </dev/null"
GO = b"\n"
"""What a command waits for on its stdin."""


_MET = ("File size limit exceeded", "File too large")
_SIGXFSZ = 25


class CommandLimits(NamedTuple):
    """`file_mib`: the largest file a command may make. `counting` puts a process where it is counted with others, and
    what it starts from then on; None where nothing counts."""

    file_mib: int = 16_384
    counting: Callable[[int], None] | None = None

    def set_on(self, pid: int) -> None:
        """Raises `OSError` where another user's process runs under that number, or none."""
        for kind, both in self._lowered():
            resource.prlimit(pid, kind, both)

    def starting(self, argv: Sequence[str]) -> tuple[str, ...]:
        """What starts `argv` with these limits."""
        return self._by_shell(_STARTING, argv)

    def waiting(self, argv: Sequence[str], *, has_input: bool) -> tuple[str, ...]:
        """What starts `argv` with these limits once `GO` has come on its stdin; never if that closes before. What
        follows is the input of `argv`, where that has any."""
        return self._by_shell(_WAITING if has_input else _WAITING_WITHOUT_INPUT, argv)

    def _by_shell(self, script: str, argv: Sequence[str]) -> tuple[str, ...]:
        words: list[str] = []
        for kind, both in self._lowered():
            unit = _BLOCK if kind == resource.RLIMIT_FSIZE else 1
            for letter, value in zip("SH", both, strict=True):
                if value != _UNLIMITED:
                    words += [f"-{letter}{_LETTERS[kind]}", str(value // unit)]
        return ("/bin/sh", "-c", script, "bridle-limits", *words, "--", *argv)

    def was_met(self, exit_code: int, output: str) -> bool:
        """Whether a command seems to have ended by these limits."""
        return exit_code in {-_SIGXFSZ, 128 + _SIGXFSZ} or any(words in output for words in _MET)

    def _lowered(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """Soft and hard limits that are lower than our own; nothing is ever raised."""
        file_bytes = self.file_mib * 1024**2
        for kind, value in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_NOFILE, OPEN_FILES),
            (resource.RLIMIT_FSIZE, file_bytes),
        ):
            soft, hard = (
                value if limit == _UNLIMITED else min(limit, value) for limit in resource.getrlimit(kind)
            )
            yield kind, (soft, hard)


def _nothing() -> None:
    pass


class NeverRan(Exception):
    """The command was certainly not run. `problem` says why; empty where the sandbox's own words do."""

    def __init__(self, problem: str = "") -> None:
        super().__init__(problem)
        self.problem = problem


class HeldCommand(Protocol):
    """A command that waits, after its process was started, until it has been looked at once more."""

    async def opened(self, limits: CommandLimits | None, ready: Callable[[], Awaitable[object]]) -> None:
        """Returns once the command runs, with these limits, and not before `ready` has returned. Raises `NeverRan` when
        it certainly did not; its process may be there yet."""
        ...

    def close(self) -> None:
        """Nobody will open it any more. Harmless when called again, and when it was opened."""
        ...


class Launch(NamedTuple):
    """How a confined command is started. `adapter_start.start` does what is said here.

    `pass_fds` belong to whoever starts it, and are closed once it has started. `own_network_at` is where in `argv` the
    programs begin that run in a network of their own; None: none do. `gate` is then to be opened, and sets the limits
    of the command where it `limits`. `ended` is called exactly once when nothing of it runs any more, or when it could
    not be started. `terminate` asks what is enclosed by the process to end, and says whether there was anything to ask;
    without it, or if not, the process group is asked. `dying_with_us` starts it, where it has no gate, so that the
    kernel kills it when we die; that is so before it runs.
    """

    argv: tuple[str, ...]
    pass_fds: tuple[int, ...] = ()
    own_network_at: int | None = None
    within: Within | None = None
    gate: HeldCommand | None = None
    limits: bool = False
    ended: Callable[[], None] = _nothing
    terminate: Callable[[int], bool] | None = None
    dying_with_us: tuple[str, ...] = ()


class Adapter(Protocol):
    """One way to confine. `name` is what results and people are told."""

    @property
    def name(self) -> str: ...

    def variables(self, confinement: Confinement) -> Mapping[str, str]:
        """What a command must be told to find its way: where the temporary folder and the caches are."""
        ...

    def confined(self, argv: Sequence[str], *, cwd: str, confinement: Confinement) -> Launch:
        """Makes ready to start `argv` (its program an absolute path or found on PATH). Raises `CannotConfine`."""
        ...


class CannotConfine(Exception):
    """This machine does not let the adapter do it. `problem` reads as the end of a sentence."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
