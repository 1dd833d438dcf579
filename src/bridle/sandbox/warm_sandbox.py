"""Sandboxes that were started before their command is known, and wait for it inside.

Setting up a sandbox takes longer than most commands. So while a model is asked, the next one is started with a shell in
it that waits for one line: what to become. Everything that could have changed until then is looked at again before the
line is sent: what the policy means here now, the mounts inside, those of this machine. Where anything differs, the
sandbox is thrown away and the command starts as any other. One that a command ran in is never used again.

Nothing stands in the workspace meanwhile. The masks on which mounts were made are moved out of it, into a folder of
Bridle's own on the same file system: a mount moves with what it was made on. They are moved back with the command, and
away again behind it, for the next one.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from bridle.engine.ports import SpawnPolicy

if TYPE_CHECKING:
    from bridle.base.clock import Clock, Timer
    from bridle.base.duplex import InputPipe
    from bridle.base.processes import Output, ProcessGroup
    from bridle.sandbox.command_border import CommandBorder
    from bridle.sandbox.confinement import Confinement
    from bridle.sandbox.masks import HandedMasks
    from bridle.sandbox.plain_spawn import ConfinedProcess

WAITING = ("/bin/sh", "-c", "echo; . /dev/stdin; exit 125", "bridle-waiting")
"""What waits inside. It says so and reads what to become from its stdin, which is closed then; if that ends before, so
does it."""
_READY = b"\n"
_MOST_BYTES = 60_000
"""What a pipe takes at once."""
DELAY_S = 0.005
"""An answer that comes sooner is not worth a sandbox that waits."""


class CommandPlace(NamedTuple):
    """Where and how a command runs, but for what it is."""

    cwd: str
    env: Mapping[str, str]
    policy: SpawnPolicy
    handed: HandedMasks | None = None
    """Where the masks of one command lie for the next."""

    @property
    def is_usual(self) -> bool:
        """Whether it starts where most do, with nothing opened for it alone."""
        policy = self.policy
        opened = policy.git_config or policy.new_repository or policy.agreed or policy.git_tree
        return not opened and self.cwd == policy.workspace and policy.network != "filtered"


class LateOutput:
    """Takes the output of what waits: first that it does, and once it is known who wants it, that of its command."""

    def __init__(self) -> None:
        self._deliver: Output | None = None
        self._early = b""
        self._began: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __call__(self, chunk: bytes) -> asyncio.Future[None] | None:
        if self._deliver is not None:
            return self._deliver(chunk)
        self._early += chunk[: len(_READY) + 1]
        self._begin()
        return None

    @property
    def is_ready(self) -> bool:
        """Whether it waits, and has said nothing else."""
        return self._early == _READY

    async def until_ready(self, process: ProcessGroup) -> bool:
        """Returns once it waits inside; False where it has ended or said something else."""
        process.when_output_ends(self._begin)
        await self._began
        return self.is_ready

    def deliver_to(self, deliver: Output) -> None:
        self._deliver = deliver

    def _begin(self) -> None:
        if not self._began.done():
            self._began.set_result(None)


class WarmSandbox:
    """One that waits inside its `border`. Where it `stood`, nothing that its confinement follows from had changed from
    before its mounts were made until they were looked at. Its folder was `at`, as the kernel describes it."""

    def __init__(
        self,
        border: CommandBorder,
        process: ProcessGroup,
        inlet: InputPipe,
        output: LateOutput,
        *,
        at: os.stat_result,
    ) -> None:
        assert border.mounts is not None
        self.adapter = border.adapter
        self.stood = False
        self._border = border
        self._mounts = border.mounts
        self._process = process
        self._inlet = inlet
        self._output = output
        self._at = at

    async def run(
        self,
        argv: Sequence[str],
        on_output: Output,
        mean: Callable[[], Confinement],
        stands: Callable[[Confinement], bool] = lambda _confinement: False,
    ) -> ConfinedProcess | None:
        """Runs a command in it, if what it may touch is still exactly what `mean` says; None: it certainly did not run,
        and the sandbox is gone. `stands`: it is what was known, and nothing it follows from has changed since."""
        line, confinement = line_of(argv), mean()
        if not line or confinement != self._mounts.confinement or not self._border.begin():
            self.discard()
            return None
        runs = False
        try:  # before masks are put back, by which folders change that are looked at
            if await self._border.ready():
                confinement = mean()
            if self._output.is_ready and self._holds(confinement, stands):
                self._output.deliver_to(on_output)
                runs = self._inlet.send_last(line)
        finally:
            if not runs:
                self._border.begin_later()
                self.discard()
        return self._border.around(self._process) if runs else None

    def discard(self) -> None:
        """Nothing has run in it, so there is nothing to be gentle with."""
        self._process.signal_group(signal.SIGKILL)

    def _holds(self, confinement: Confinement, stands: Callable[[Confinement], bool]) -> bool:
        known = self._mounts.confinement
        if confinement != known:
            return False
        unmoved = self.stood and confinement is known and stands(confinement)
        try:
            held = self._mounts.put_back(unmoved=unmoved) and (
                unmoved or os.path.samestat(self._at, os.stat(self._border.policy.workspace))
            )
        except OSError:
            return False
        finally:
            self._mounts.close()
        return held


def line_of(argv: Sequence[str]) -> bytes:
    """What the shell that waits reads to become this; empty where it cannot be told so.

    The braces close at the very end: half of it is never run.
    """
    program = argv[0]
    if not os.path.isabs(program) or not os.access(program, os.X_OK) or any("\0" in word for word in argv):
        return b""
    try:
        line = os.fsencode(f"{{ exec {' '.join(map(quote, argv))} <>/dev/null; }}\n")
    except UnicodeEncodeError:
        return b""
    return line if len(line) <= _MOST_BYTES else b""


def is_passed_on(variable: str) -> bool:
    """Whether a shell hands a variable of this name on to what it becomes."""
    return variable.isascii() and variable.isidentifier()


class WarmSandboxes:
    """Those of one session, at most one for each mode. `start` starts one; None: none can wait there now. It is tried
    again after another command."""

    def __init__(self, start: Callable[[CommandPlace], Awaitable[WarmSandbox | None]], clock: Clock) -> None:
        from bridle.sandbox.masks import HandedMasks

        self._start = start
        self._clock = clock
        self.handed = HandedMasks()
        """The masks of one command for the next, while a turn lasts."""
        self._wanted: dict[str, CommandPlace] = {}
        self._waiting: dict[str, tuple[CommandPlace, asyncio.Task[WarmSandbox | None]]] = {}
        self._timer: Timer | None = None

    def expect(self) -> None:
        """A command may come soon: those that this turn had need of are started if it takes a while."""
        if self._timer is None and self._wanted.keys() - self._waiting.keys():
            self._timer = self._clock.call_later(DELAY_S, self._start_wanted)

    async def take(self, at: CommandPlace) -> WarmSandbox | None:
        """One that waits for a command of this place, if there is one; it is the caller's then."""
        self._stop_timer()
        if not at.is_usual:
            return None
        mode = at.policy.mode
        self._wanted[mode] = at
        if mode not in self._waiting:
            return None
        place, task = self._waiting.pop(mode)
        if place != at:
            _drop(task)
            return None
        if not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError:
                _drop(task)
                raise
        sandbox = task.result()
        if sandbox is None:
            self._wanted.pop(mode, None)
        return sandbox

    def discard(self) -> None:
        """Nobody will want one soon."""
        self._stop_timer()
        self._wanted.clear()
        self.handed.close()
        while self._waiting:
            _drop(self._waiting.popitem()[1][1])

    def _start_wanted(self) -> None:
        self._timer = None
        for mode, at in self._wanted.items():
            if mode not in self._waiting:
                task = asyncio.ensure_future(self._start(at))
                self._waiting[mode] = at, task

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _drop(task: asyncio.Future[WarmSandbox | None]) -> None:
    """Lets go of one, which may not have started yet."""

    def drop(done: asyncio.Future[WarmSandbox | None]) -> None:
        if not done.cancelled() and done.exception() is None and (sandbox := done.result()) is not None:
            sandbox.discard()

    task.cancel()
    task.add_done_callback(drop)
