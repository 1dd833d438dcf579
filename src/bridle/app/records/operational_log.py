"""The operational log of an engine: names, reasons, numbers and times; no text, inputs, results or paths."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from bridle.base.clock import Clock
from bridle.base.fs.daily_log import DailyLog, Levels, LogLevel, parse_levels
from bridle.protocol import events as e
from bridle.protocol.errors import SENTENCES, UsageError
from bridle.protocol.events import Envelope

LOG_VARIABLE = "BRIDLE_LOG"
NOTED = frozenset({"Error", "StepFailed", "Degraded", "HookError", "HookTimeout", "MCPServerDown"})
"""Event kinds that are logged at the usual level."""
NOTED_IN_DETAIL = NOTED | {
    "SessionCreated",
    "SessionEnded",
    "StepStarted",
    "StepEnded",
    "ToolCallStarted",
    "ToolResult",
    "Notice",
    "TurnEnded",
    "TurnTiming",
}
"""Event kinds that are logged once a level was chosen."""
COMPONENTS = (
    "auth",
    "engine",
    "hook",
    "mcpclient",
    "mcpserver",
    "multiplex",
    "provider",
    "skill",
    "store",
    "transport",
)
"""Components of log lines. Each may have parts, as in `provider.work`."""
TO_STDERR = "stderr"
EXIT_CREDENTIALS = 4

Entry: TypeAlias = tuple[LogLevel, str, str, dict[str, Any]]
"""Level, component, message, fields."""


def wanted_levels(text: str) -> tuple[Levels, bool]:
    """Return the levels in `BRIDLE_LOG` or `--log-level`, and whether lines go to stderr too."""
    parts = [part.strip() for part in text.split(",")]
    try:
        levels = parse_levels(",".join(part for part in parts if part != TO_STDERR), COMPONENTS)
    except ValueError as problem:
        raise UsageError(f"The log level {text} cannot be read: {problem}") from None
    return levels, TO_STDERR in parts


def log_folder(state: str) -> str:
    """Return the folder of the operational log."""
    return os.path.join(state, "log")


def open_log(
    state: str,
    wanted: str,
    *,
    clock: Clock,
    secrets: Callable[[], Iterable[str]],
) -> DailyLog:
    """Open the log. Its file is made with the first line."""
    levels, to_stderr = wanted_levels(wanted)
    return DailyLog(
        log_folder(state),
        "bridle",
        clock=clock,
        levels=levels,
        secrets=secrets,
        echo=_to_stderr if to_stderr else None,
    )


def _to_stderr(line: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def entry_of(event: e.AnyEvent, provider: str) -> Entry | None:
    """Return the log entry of an event, if it has one. `provider` is the one in use."""
    of_provider = f"provider.{provider}" if provider else "provider"
    match event:
        case e.Error(reason=reason, data=data):
            return "error", _failed_component(reason, data), "failed", {"reason": reason}
        case e.StepFailed(step=step, attempt=attempt, reason=reason, retry_in_ms=retry_in_ms):
            about = {"reason": reason, "step": step, "attempt": attempt, "retry_in_ms": retry_in_ms}
            return "warning", of_provider, "request failed", about
        case e.Degraded(what=what, reason=reason):
            return "warning", "engine", "degraded", {"what": what, "reason": reason}
        case e.HookError(event=moment, exit_code=exit_code):
            return "warning", "hook", "hook failed", {"event": moment, "exit_code": exit_code}
        case e.HookTimeout(event=moment, timeout_ms=timeout_ms):
            return "warning", "hook", "hook timed out", {"event": moment, "timeout_ms": timeout_ms}
        case e.MCPServerDown(name=name, reason=reason, attempts=attempts):
            return (
                "warning",
                "mcpclient",
                "server down",
                {"server": name, "reason": reason, "attempts": attempts},
            )
        case e.SessionCreated(resumed=resumed, sandbox=sandbox, mode=mode):
            return "debug", "engine", "session begins", {"resumed": resumed, "sandbox": sandbox, "mode": mode}
        case e.SessionEnded(cause=cause):
            return "debug", "engine", "session ends", {"cause": cause}
        case e.StepStarted(step=step, provider=name, model=model):
            return "debug", f"provider.{name}", "request", {"step": step, "model": model}
        case e.StepEnded(step=step, stop=stop, usage=usage):
            tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
            return "debug", of_provider, "answer", {"step": step, "stop": stop, **tokens}
        case e.ToolCallStarted(call_id=call_id, tool=tool, mutating=mutating):
            return "debug", "engine", "call begins", {"call": call_id, "tool": tool, "mutating": mutating}
        case e.ToolResult(
            call_id=call_id, tool=tool, outcome=outcome, reason=reason, duration_ms=duration_ms
        ):
            about = {"outcome": outcome, "reason": reason, "duration_ms": duration_ms}
            return "debug", "engine", "call ends", {"call": call_id, "tool": tool, **about}
        case e.Notice(reason=reason):
            return "debug", "engine", "notice", {"reason": reason}
        case e.TurnEnded(stop=stop, reason=reason, steps=steps):
            return "debug", "engine", "turn ends", {"stop": stop, "reason": reason, "steps": steps}
        case e.TurnTiming(durations_ms=durations_ms):
            times = {f"{name.replace('.', '_')}_ms": round(took, 1) for name, took in durations_ms.items()}
            return "debug", "engine", "turn times", times
        case _:
            return None


def _failed_component(reason: str, data: dict[str, Any]) -> str:
    known = SENTENCES.get(reason)
    if known is not None and known.exit_code == EXIT_CREDENTIALS:
        return "auth"
    if reason.startswith(("Store", "Log", "NoSpace")):
        return "store"
    provider = data.get("provider")
    return f"provider.{provider}" if isinstance(provider, str) and provider else "engine"


class Notes:
    """The operational log of an engine, opened with its first line.

    `wanted` are levels as in `BRIDLE_LOG`. `secrets` are the keys in use, which are never written.
    """

    def __init__(
        self,
        state: str,
        wanted: str,
        *,
        clock: Clock,
        secrets: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._state = state
        self._wanted = wanted
        self._clock = clock
        self._secrets = secrets
        self._log: DailyLog | None = None
        self._of_levels: dict[str, Notes] = {}
        self.kinds = NOTED_IN_DETAIL if wanted else NOTED
        if wanted:
            self._opened()  # report an unreadable level before anything starts

    def with_levels(self, wanted: str) -> Notes:
        """Return the log with the levels of a session's settings. Environment and options win over settings."""
        if not wanted or self._wanted:
            return self
        if wanted not in self._of_levels:
            self._of_levels[wanted] = Notes(self._state, wanted, clock=self._clock, secrets=self._secrets)
        return self._of_levels[wanted]

    def event(self, envelope: Envelope, provider: str) -> None:
        """Log an event whose kind is in `kinds`."""
        if (entry := entry_of(envelope.event, provider)) is not None:
            level, component, msg, fields = entry
            self._opened().write(
                level, component, msg, session=envelope.session, turn=envelope.turn, **fields
            )

    def detail(self, component: str, msg: str, **fields: str | float | None) -> None:
        """Log a detail if a level was chosen."""
        if self._wanted:
            self._opened().write("debug", component, msg, **fields)

    def write(self, level: LogLevel, component: str, msg: str, **fields: str | float | None) -> None:
        """Log something that happened outside of sessions."""
        self._opened().write(level, component, msg, **fields)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
        for notes in self._of_levels.values():
            notes.close()

    def _opened(self) -> DailyLog:
        if self._log is None:
            self._log = open_log(self._state, self._wanted, clock=self._clock, secrets=self._secrets)
        return self._log


def log_wanted(
    env: Mapping[str, str], *, level: str | None, verbose: bool, to_stderr: bool
) -> Mapping[str, str]:
    """Return the environment with the log options applied."""
    asked = [part for part in (level or ("debug" if verbose else ""), "stderr" if to_stderr else "") if part]
    if not asked:
        return env
    if level is None and not verbose and (before := env.get(LOG_VARIABLE)):
        asked.insert(0, before)
    return {**env, LOG_VARIABLE: ",".join(asked)}
