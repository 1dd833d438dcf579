"""The operational log of an engine.

Apart from the log of sessions: no words, no inputs, no results, no paths; names, reasons, numbers and times. Loaded
with the first line that is written (see `housekeeping.Notes`).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from bridle.base.clock import Clock
from bridle.base.fs.daily_log import DailyLog, Levels, LogLevel, parse_levels
from bridle.protocol import events as e
from bridle.protocol.errors import SENTENCES, UsageError

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
"""What a line can be about; each may have parts, as in `provider.work`."""
TO_STDERR = "stderr"
EXIT_CREDENTIALS = 4

Entry: TypeAlias = tuple[LogLevel, str, str, dict[str, Any]]
"""Level, component, message, fields."""


def wanted_levels(text: str) -> tuple[Levels, bool]:
    """The levels that `BRIDLE_LOG` or `--log-level` asks for, and whether lines go to stderr too."""
    parts = [part.strip() for part in text.split(",")]
    try:
        levels = parse_levels(",".join(part for part in parts if part != TO_STDERR), COMPONENTS)
    except ValueError as problem:
        raise UsageError(f"The log level {text} cannot be read: {problem}") from None
    return levels, TO_STDERR in parts


def log_folder(state: str) -> str:
    """Where the operational log is, below the state folder."""
    return os.path.join(state, "log")


def open_log(
    state: str,
    wanted: str,
    *,
    clock: Clock,
    secrets: Callable[[], Iterable[str]],
) -> DailyLog:
    """Makes no file before there is something to write."""
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
    """What the log says of an event; None where it says nothing. `provider` is the one in use."""
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
