"""One hook's program, from its start to its end: fed, limited in time and output, and gone afterwards.

Its whole group ends with it, so what it left in the background ends too. At its deadline it gets SIGTERM and, 5 s
later, SIGKILL; when the turn is cancelled, both come at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from bridle.base.clock import Clock
from bridle.base.processes import CannotStart
from bridle.engine.deadline import Deadline
from bridle.engine.ports import Process, Spawn, SpawnPolicy
from bridle.safety.hooks.context import HookContext, as_stdin, as_variables
from bridle.safety.hooks.definitions import Hook
from bridle.safety.hooks.hook_answers import LIMIT_BYTES, HookAnswer, KeptOutput, UnusableAnswer, answer_of

KILL_AFTER_S = 5.0
_NOT_FOUND, _NOT_STARTED = 127, 126
"""The exit codes a shell gives for a program that is missing, and for one that cannot be started."""


class StartHook(Protocol):
    """Starts a hook's program: with the rights of the person, or `confined` like the commands of the session.

    It finds the environment of the session, cleaned, and `variables` on top. Raises `CannotStart`.
    """

    async def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        variables: Mapping[str, str],
        stdin: bytes,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None],
        confined: bool,
    ) -> Process: ...


class HookRun(NamedTuple):
    """How a hook's program ended. `problem` is set when it could not be started or had to be killed."""

    exit_code: int
    stdout: KeptOutput
    stderr: KeptOutput
    took_ms: int
    problem: str = ""
    timed_out: bool = False

    @property
    def answer(self) -> HookAnswer | UnusableAnswer:
        return (
            UnusableAnswer(self.problem)
            if self.problem
            else answer_of(self.exit_code, self.stdout, self.stderr)
        )


def started_by(spawn: Spawn, env: Mapping[str, str], policy: SpawnPolicy | None = None) -> StartHook:
    """Starts hooks like everything else: confined ones by `policy`, those of the person without a border."""

    async def start(
        argv: Sequence[str],
        *,
        cwd: str,
        variables: Mapping[str, str],
        stdin: bytes,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None],
        confined: bool,
    ) -> Process:
        border = policy if confined and policy is not None else SpawnPolicy(mode="off", workspace=cwd)
        return await spawn(
            argv,
            cwd=cwd,
            env=env,
            policy=msgspec.structs.replace(border, variables=variables),
            call_id="",
            stdin=stdin,
            on_output=on_output,
            on_error=on_error,
        )

    return start


async def run_command(
    hook: Hook, context: HookContext, *, start: StartHook, clock: Clock, kill_after_s: float = KILL_AFTER_S
) -> HookRun:
    """Runs the program to its end or its deadline. Cancelling the caller ends the program's whole group."""
    stdout, stderr = _Beginning(), _Beginning()
    begun = clock.monotonic()

    def ran(exit_code: int, problem: str = "", *, timed_out: bool = False) -> HookRun:
        took_ms = round((clock.monotonic() - begun) * 1000)
        return HookRun(exit_code, stdout.kept, stderr.kept, took_ms, problem, timed_out)

    try:
        process = await start(
            hook.argv,
            cwd=hook.folder or context.cwd,
            variables=as_variables(context),
            stdin=as_stdin(context),
            on_output=stdout.add,
            on_error=stderr.add,
            confined=hook.confined or hook.scope == "project",
        )
    except CannotStart as refused:
        code = _NOT_FOUND if refused.reason == "not found" else _NOT_STARTED
        return ran(code, f"it could not be started: {refused.reason}")
    try:
        async with Deadline(clock, hook.timeout_ms / 1000):
            return ran(await process.wait())
    except TimeoutError:
        await process.stop(kill_after_s)
        return ran(process.returncode or 0, f"no answer within {hook.timeout_ms / 1000:g} s", timed_out=True)
    finally:
        await process.stop()


class _Beginning:
    """Keeps the first bytes of a stream, however long it goes on."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._cut = False

    def add(self, chunk: bytes) -> None:
        room = LIMIT_BYTES - len(self._data)
        self._data += chunk[:room]
        self._cut = self._cut or len(chunk) > room

    @property
    def kept(self) -> KeptOutput:
        return KeptOutput(bytes(self._data), self._cut)
