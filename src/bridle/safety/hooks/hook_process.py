"""One hook's program, from its start to its end: fed, limited in time and output, and gone afterwards.

Its whole group ends with it, so what it left in the background ends too. At its deadline it gets SIGTERM and, 5 s
later, SIGKILL; when the turn is cancelled, both come at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, cast, get_args

import msgspec

from bridle.base.clock import Clock
from bridle.base.process.processes import CannotStart
from bridle.engine.deadline import Deadline
from bridle.engine.ports import Process, Spawn, SpawnPolicy
from bridle.safety.hooks.definitions import Hook, HookContext, as_stdin, as_variables

# A JSON object with a `decision` on stdout is the answer, whatever the exit code. Without one the exit code
# counts: 0 passes, 2 blocks with stderr as the reason, everything else is a failure. An object that was meant
# as a decision and cannot be read as one is a failure too: a slip in a gate must not open it.


HookDecision: TypeAlias = Literal["allow", "warn", "block", "ask"]
DECISIONS: tuple[str, ...] = get_args(HookDecision)

EXIT_BLOCK = 2
LIMIT_BYTES = 64 * 1024
"""How much is kept of stdout and of stderr."""
CUT = "\n[cut: more than 64 KB]"
MESSAGE_CHARACTERS = 4_000
_INTENT = b'"decision"'


class KeptOutput(NamedTuple):
    """The beginning of a stream; `cut` says that there was more."""

    data: bytes
    cut: bool = False

    @property
    def text(self) -> str:
        """For people: whatever the bytes are, with a marker where the end is missing."""
        return self.data.decode("utf-8", "replace") + (CUT if self.cut else "")


class HookAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook wants. No decision means it has nothing to say."""

    decision: HookDecision | None = None
    message: str = ""
    patch: dict[str, Any] | None = None
    metadata: dict[str, Any] = {}


class UnusableAnswer(NamedTuple):
    """The hook failed to answer. `problem` reads as the end of a sentence."""

    problem: str


def answer_of(exit_code: int, stdout: KeptOutput, stderr: KeptOutput) -> HookAnswer | UnusableAnswer:
    """The answer of a program that ended by itself."""
    said = _object_in(stdout)
    if isinstance(said, UnusableAnswer):
        return said
    if said is not None and "decision" in said:
        return _decided(said)
    if exit_code == 0:
        return HookAnswer()
    if exit_code == EXIT_BLOCK:
        return HookAnswer(decision="block", message=_short(stderr.text) or "it gave no reason")
    ended = f"exit code {exit_code}" if exit_code > 0 else f"killed by signal {-exit_code}"
    reason = _short(stderr.text)
    return UnusableAnswer(f"{ended}: {reason}" if reason else ended)


def _object_in(stdout: KeptOutput) -> dict[str, Any] | UnusableAnswer | None:
    """The JSON object that is the whole of stdout or its last line."""
    text = stdout.data.strip()
    if stdout.cut:
        return UnusableAnswer("its answer is longer than 64 KB") if text.startswith(b"{") else None
    for candidate in (text, text.rpartition(b"\n")[2]):
        if not candidate.startswith(b"{"):
            continue
        try:
            return cast("dict[str, Any]", msgspec.json.decode(candidate))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            if candidate is text and b"\n" in text:
                continue  # perhaps braces in some log, and the answer on the last line
            return UnusableAnswer("its answer is not valid JSON") if _INTENT in candidate else None
    return None


def _decided(said: dict[str, Any]) -> HookAnswer | UnusableAnswer:
    decision, patch = said["decision"], said.get("patch")
    message, metadata = said.get("message"), said.get("metadata")
    if decision not in DECISIONS:
        return UnusableAnswer(f"its decision {_short(str(decision), 40)!r} is none of {', '.join(DECISIONS)}")
    if patch is not None and not isinstance(patch, dict):
        return UnusableAnswer("its patch is not an object")
    return HookAnswer(
        decision=cast("HookDecision", decision),
        message=_short(message) if isinstance(message, str) else "",
        patch=cast("dict[str, Any] | None", patch),
        metadata=cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else {},
    )


def patched(given: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """The input with the patch laid over it: its keys replace, null takes a key out."""
    return {
        name: value for name, value in {**given, **patch}.items() if value is not None or name not in patch
    }


def _short(text: str, characters: int = MESSAGE_CHARACTERS) -> str:
    text = text.strip()
    return text if len(text) <= characters else text[:characters] + "…"


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
