"""Who can hold a command inside its confinement on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from bridle.base.processes import Within
from bridle.safety.sandbox.confinement import Confinement


def _nothing() -> None:
    pass


class Launch(NamedTuple):
    """How a confined command is started. `pass_fds` belong to whoever starts it, and are closed once it has started.

    `started` is told the process once it runs; `ended` is called exactly once when nothing of it runs any more, or
    when it could not be started. `terminate` asks what is enclosed by the process to end, and says whether there was
    anything to ask; without it, or if not, the process group is asked.
    """

    argv: tuple[str, ...]
    pass_fds: tuple[int, ...] = ()
    within: Within | None = None
    started: Callable[[int], None] = lambda _pid: None
    ended: Callable[[], None] = _nothing
    terminate: Callable[[int], bool] | None = None


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
