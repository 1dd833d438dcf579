"""Start a command that an adapter has prepared."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from bridle.base.process.duplex import InputPipe
from bridle.base.process.processes import Output, Processes, ProcessGroup
from bridle.base.threads import in_thread
from bridle.sandbox.adapters.adapter import GO, CommandLimits, Launch, NeverRan

_END_S = 2.0


def _nothing() -> None:
    pass


async def _ready_at_once() -> None:
    pass


class HeldBack(Exception):
    """The command was certainly not run, and nothing of it is there any more. It may be tried again.

    `said` is what the sandbox said about it, `process` the one that has ended.
    """

    def __init__(self, said: bytes, process: ProcessGroup) -> None:
        super().__init__(said)
        self.said = said
        self.process = process


async def start(
    processes: Processes,
    launch: Launch,
    *,
    cwd: str,
    env: Mapping[str, str],
    on_output: Output,
    on_error: Output | None = None,
    stdin: bytes | InputPipe | None = None,
    ready: Callable[[], Awaitable[object]] = _ready_at_once,
    ended: Callable[[], None] = _nothing,
    limits: CommandLimits = CommandLimits(),  # noqa: B008  frozen
) -> ProcessGroup:
    """Starts a launch with `limits` and opens its gate. Raises `CannotStart`, or `HeldBack`; nothing is delivered then.
    Whatever is raised, the command did not run.

    The command does not run before `ready` has returned. `ended` is called, exactly once, when nothing of it runs any
    more or when it could not be started; the launch's own is the caller's to call.
    """
    output = _Delivery(on_output)
    error = None if on_error is None else _Delivery(on_error)
    argv = launch.argv
    held: _HeldInput | None = None
    if not (launch.limits or _is_missing(argv[0], env)):
        if launch.gate is not None:
            argv = limits.starting(argv)
        else:
            argv = (*launch.dying_with_us, *limits.waiting(argv, has_input=stdin is not None))
            held = _HeldInput(stdin)
            stdin = held.pipe
    try:
        process = await processes.start(
            argv,
            cwd=cwd,
            env=env,
            on_output=output,
            on_error=error,
            stdin=stdin,
            pass_fds=launch.pass_fds,
            within=launch.within,
            ended=ended,
            terminate=launch.terminate,
        )
    except BaseException:
        if launch.gate is not None:
            launch.gate.close()
        ended()
        raise
    finally:
        for fd in launch.pass_fds:
            os.close(fd)
    try:
        if not launch.limits and limits.counting is not None:
            await in_thread(partial(limits.counting, process.pid))
        if launch.gate is not None:
            await launch.gate.opened(limits if launch.limits else None, ready)
        elif held is not None:
            await ready()
            held.go()
    except NeverRan as never:
        if never.problem:
            await _kill(process)
            raise HeldBack(os.fsencode(f"{never.problem}\n"), process) from never
        await _end(process)
        raise HeldBack(bytes(output.held if error is None else error.held), process) from never
    except BaseException:
        await _kill(process)
        raise
    finally:
        if launch.gate is not None:
            launch.gate.close()
    for delivery in (output, error):
        if delivery is not None:
            try:
                delivery.begin()
            except Exception as problem:  # noqa: BLE001  the command runs: raised here, it would look as if it did not
                process.fail(problem)
    return process


def _is_missing(program: str, env: Mapping[str, str]) -> bool:
    """Whether starting it fails at once, which says more than a shell would."""
    if "/" in program:
        return os.path.isabs(program) and not os.access(program, os.X_OK)
    folders = env.get("PATH", os.defpath).split(":")
    return not any(os.access(os.path.join(folder, program), os.X_OK) for folder in folders)


async def _kill(process: ProcessGroup) -> None:
    """Nothing of it has run, so there is nothing to be gentle with."""
    process.signal_group(signal.SIGKILL)
    await process.stop()


async def _end(process: ProcessGroup) -> None:
    """It is ending by itself, and has something to say."""
    try:
        async with asyncio.timeout(_END_S):
            await process.wait()
    except TimeoutError:
        await _kill(process)


class _HeldInput:
    """The input of a command that waits for a word on it."""

    def __init__(self, stdin: bytes | InputPipe | None) -> None:
        self._stays = isinstance(stdin, InputPipe)
        self._first = GO + stdin if isinstance(stdin, bytes) else GO
        self.pipe = stdin if isinstance(stdin, InputPipe) else InputPipe()
        self.pipe.hold()

    def go(self) -> None:
        self.pipe.begin_with(self._first)
        if not self._stays:
            self.pipe.close()


class _Delivery:
    """Holds back what comes before the command runs: that is the sandbox speaking."""

    def __init__(self, deliver: Output) -> None:
        self.held = bytearray()
        self._deliver: Output = deliver
        self._begun = False

    def __call__(self, chunk: bytes) -> asyncio.Future[None] | None:
        if self._begun:
            return self._deliver(chunk)
        self.held += chunk
        return None

    def begin(self) -> None:
        self._begun = True
        if self.held:
            self._deliver(bytes(self.held))
