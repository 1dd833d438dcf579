"""Who can hold a command inside its confinement on this machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from bridle.base.processes import Within
from bridle.sandbox.confinement import Confinement
from bridle.sandbox.limits import CommandLimits


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
