"""Starting commands where nothing can enclose them: with a clean environment, and saying so.

Secrets live in environment variables. What a command finds there is a list of names that are known to hold
none; every other variable stays behind, whatever it is called.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from bridle.base.process.processes import CannotStart

if TYPE_CHECKING:
    from bridle.base.process.duplex import InputPipe
    from bridle.base.process.processes import Output, Processes, ProcessGroup
    from bridle.engine.ports import BeginCall, EndCall, Hosts, SpawnPolicy
    from bridle.protocol.events import Notice

# fmt: off
ALLOWED_NAMES = frozenset({
    # who and where
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "TMPDIR", "TZ",
    # language and terminal; each category by name, because people smuggle things through ssh as `LC_…`
    "LANG", "LANGUAGE", "LC_ALL", "LC_ADDRESS", "LC_COLLATE", "LC_CTYPE", "LC_IDENTIFICATION",
    "LC_MEASUREMENT", "LC_MESSAGES", "LC_MONETARY", "LC_NAME", "LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE",
    "LC_TIME", "TERM", "COLORTERM", "NO_COLOR", "COLUMNS", "LINES",
    # where programs keep their files; not XDG_RUNTIME_DIR: the sockets of agents and keyrings are there
    "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_DIRS",
    "XDG_DATA_DIRS",
    # which toolchain is active
    "VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "GOPATH", "GOROOT", "CARGO_HOME", "RUSTUP_HOME", "NVM_DIR",
    "PYENV_ROOT",
    # certificates of the local network
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
})
# fmt: on
NEVER_PREFIX = "BRIDLE_"
_SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin", "/run/current-system/sw/bin")


def allowed_environment(env: Mapping[str, str], also: Collection[str] = ()) -> dict[str, str]:
    """The variables a command may see: known harmless ones and those in `also`; never Bridle's own."""
    return {
        name: value
        for name, value in env.items()
        if (name in ALLOWED_NAMES or name in also) and not name.upper().startswith(NEVER_PREFIX)
    }


def find_program(name: str) -> str | None:
    """Where a program of the system itself is. PATH is not asked: a workspace may have put something on it."""
    candidates = (os.path.join(folder, name) for folder in _SYSTEM_FOLDERS)
    return next((path for path in candidates if os.path.isfile(path) and os.access(path, os.X_OK)), None)


UNCONFINED = "env-only"
"""Nothing on this machine can hold a command."""
OFF = "off"
"""Nothing was meant to."""
OWN_NETWORK = frozenset({"bubblewrap", "unshare"})
"""What can give a command a network of its own, so that one way out of it can be held."""


async def _end_unchecked() -> None:
    pass


async def begin_unchecked() -> EndCall:
    """Begin a call of a process that nothing is checked of."""
    return _end_unchecked


async def _settled_at_once() -> None:
    pass


class ConfinedProcess:
    """A started process and what holds it."""

    def __init__(
        self,
        started: ProcessGroup,
        sandbox: str,
        explain: Callable[[int, str], str] = lambda _code, _output: "",
        put_aside: Sequence[Notice] = (),
        hosts: Callable[[], Hosts] = dict,
        follow_put_aside: Callable[[Callable[[Notice], None]], BeginCall] = lambda _tell: begin_unchecked,
        settled: Callable[[], Awaitable[None]] = _settled_at_once,
    ) -> None:
        self.pid = started.pid
        self.sandbox = sandbox
        self._settled = settled
        self.when_output_ends = started.when_output_ends
        self._started = started
        self._explain = explain
        self.put_aside = put_aside
        self.hosts = hosts
        self._follow = follow_put_aside

    @property
    def returncode(self) -> int | None:
        return self._started.returncode

    async def wait(self) -> int:
        """As that of a process, once it is known what it made."""
        exit_code = await self._started.wait()
        await self._settled()
        return exit_code

    async def stop(self, grace_s: float = 0.3) -> None:
        """As that of a process, once it is known what it made."""
        await self._started.stop(grace_s)
        await self._settled()

    def follow_put_aside(self, tell: Callable[[Notice], None]) -> BeginCall:
        return self._follow(tell)

    def blocked(self, output: str) -> str:
        return self._explain(self.returncode, output) if self.returncode is not None else ""


class EnvOnlySpawn:
    """Starts processes with the rights of the person and a clean environment. The policy is not enforced.

    Where that says which hosts may be reached, nothing runs: whoever named some did not mean all.
    """

    def __init__(self, processes: Processes, *, also: Collection[str] = ()) -> None:
        self._processes = processes
        self._also = frozenset(also)

    @property
    def adapter(self) -> str:
        return "env-only"

    async def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        policy: SpawnPolicy,
        call_id: str,
        on_output: Output,
        on_error: Output | None = None,
        stdin: bytes | InputPipe | None = None,
    ) -> ConfinedProcess:
        if policy.network == "filtered" and policy.mode != "off":
            raise CannotStart(argv[0], "no network filter")
        started = await self._processes.start(
            argv,
            cwd=cwd,
            env={**allowed_environment(env, self._also), **policy.variables},
            on_output=on_output,
            on_error=on_error,
            stdin=stdin,
        )
        return ConfinedProcess(started, OFF if policy.mode == "off" else UNCONFINED)
