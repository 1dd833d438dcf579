"""The output of a run: progress lines on stderr, and the answer or JSON on stdout."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TextIO

import msgspec

from bridle.base.text.phrases import counted, dollars
from bridle.base.text.terminal_text import json_line, visible
from bridle.clients.interaction.render.event_rows import EventRow, RowKind, path_lines
from bridle.clients.interaction.render.session_fold import SessionFold
from bridle.clients.interaction.render.usage import LOCAL, UNKNOWN_COST, Tally
from bridle.clients.run_result import SCHEMA_VERSION, RunOutcome
from bridle.protocol import events as e
from bridle.protocol.codec import encode_envelope
from bridle.protocol.errors import BridleError

if TYPE_CHECKING:
    from bridle.clients.hub_stream import HubStream
    from bridle.protocol.connection import Connection

EXIT_TERMINAL_GONE: Final = 129
EXIT_READER_GONE: Final = 141

Format = Literal["text", "json", "stream-json", "hub"]

LEFT_OUT: Final = frozenset[RowKind]({
    "input", "command", "child_said", "told_call", "output", "waiting", "setting", "grant", "queue", "diff", "branch",
    "gap", "git", "goal_missed", "refusal", "ended", "child_ended",
})  # fmt: skip
"""Rows of no run, rows of programs, and rows that the closing line repeats."""
_ANSWER: Final = frozenset[RowKind]({"delta", "answer"})
_ONLY_IN_DETAIL: Final = frozenset[RowKind]({"said", "edit"})
_CLOSING: Final = frozenset[RowKind]({"failure", "agent_answer"})


class Onlooker(Protocol):
    """A user at a terminal who watches the run and may be asked. Only `begin` raises `BridleError`."""

    async def begin(self, connection: Connection, session: str) -> None:
        """Start to put questions of the session to the user."""
        ...

    def take(self, envelope: e.Envelope) -> None: ...
    def stream(self, text: str) -> None:
        """Draw more of the answer."""
        ...

    def end_text(self) -> None: ...
    async def end(self) -> None: ...


class RunProgress:
    """Progress lines. `say` gets one line per call, without a line end; `say_problem` gets lines that a quiet run shows
    too. With `detail`, edits and the text between calls are shown."""

    def __init__(
        self, say: Callable[[str], None], say_problem: Callable[[str], None], *, detail: bool
    ) -> None:
        self._hidden = _ANSWER if detail else _ANSWER | _ONLY_IN_DETAIL
        self.say = say
        self.say_problem = say_problem

    def take(self, envelope: e.Envelope, rows: list[EventRow]) -> None:
        """Show the rows of an event."""
        for row in rows:
            is_last = row.kind in _CLOSING or (row.kind == "error" and envelope.turn is not None)
            if row.kind in self._hidden or (is_last and e.concerns(envelope)):
                continue
            for line in path_lines(row):
                (self.say_problem if row.kind == "warning" else self.say)(line)

    def say_failure(self, message: str) -> None:
        if message:
            self.say_problem(visible(message))

    def close(self, outcome: RunOutcome, used: Tally) -> None:
        """Show the time, steps and cost of a run that had a turn."""
        if outcome.turn is None:
            return
        result, ended = outcome.result, outcome.turn
        facts = [f"{outcome.took_ms / 1000:.1f} s", counted(outcome.steps, "step"), *_cost_words(used)]
        if result.changed_files:
            facts.append(f"{counted(len(result.changed_files), 'file')} changed")
        if outcome.not_run:
            facts.append(f"{counted(outcome.not_run, 'call')} not run")
        if result.success:
            self.say(f"done     {' · '.join(facts)}")
        else:
            self.say_problem(f"ended    {' · '.join((visible(ended.message or ended.stop), *facts))}")


def _cost_words(used: Tally) -> list[str]:
    if not used.by_model:
        return []
    return [LOCAL if used.local else UNKNOWN_COST if used.usd is None else dollars(used.usd)]


class RunAnswer:
    """The answer, or JSON, on stdout. With `streams`, text is written as it comes. An onlooker given as `reader` draws
    the answer in place of `out`. `unwritten` is the failure after which nothing is written."""

    def __init__(
        self,
        form: Format,
        out: TextIO,
        *,
        streams: bool,
        reader: Onlooker | None,
        hub: HubStream | None,
    ) -> None:
        self.form: Format = form
        self.unwritten: OSError | None = None
        self._out = out
        self._streams = streams
        self._reader = reader
        self._hub = hub
        self._is_line_open = False

    def take(self, envelope: e.Envelope, rows: list[EventRow], fold: SessionFold) -> None:
        """Write the text of an event, or the event itself as JSON."""
        for row in rows:
            if row.kind == "delta":
                self.stream(row.text)
            elif row.kind in ("said", "answer", "retry", "failure") and e.concerns(envelope):
                self.end_line()
        if self.form == "stream-json":
            body = {
                "schemaVersion": SCHEMA_VERSION,
                "command": "run",
                "threadId": envelope.session,
                "eventType": envelope.kind,
                "event": msgspec.Raw(encode_envelope(envelope)),
                **_agent_fields(envelope, fold),
            }
            self._write(json_line(body))
        elif self._hub is not None:
            for one in self._hub.of(envelope):
                self._write(json_line(one))

    def stream(self, text: str) -> None:
        """Write text as it comes, if this run streams."""
        if self._streams:
            self._write_text(text)

    def finish(self, outcome: RunOutcome) -> None:
        """Write the answer that was not streamed, or the result as JSON."""
        result = outcome.result
        if self.form == "json":
            self._write(json_line(result))
        elif self.form == "stream-json":
            last: dict[str, Any] = msgspec.to_builtins(result)
            last.pop("events")  # they were streamed already
            self._write(json_line({**last, "eventType": "run.result"}))
        elif self._hub is not None:
            ended = self._hub.result(session=result.session_id, ended=outcome.turn, error=result.error)
            self._write(json_line(ended))
        else:
            if not self._streams and outcome.answer:
                self._write_text(outcome.answer)
            self.end_line()

    def _write_text(self, text: str) -> None:
        if self._reader is not None:
            self._reader.stream(text)
        else:
            self._write(visible(text) if self._out.isatty() else text)
        self._is_line_open = bool(text) and not (self._streams and text.endswith("\n"))

    def end_line(self) -> None:
        if self._is_line_open:
            self._is_line_open = False
            if self._reader is not None:
                self._reader.end_text()
            else:
                self._write("\n")

    def _write(self, text: str) -> None:
        if self.unwritten is not None:
            return
        try:
            self._out.write(text)
            self._out.flush()
        except OSError as problem:
            self.unwritten = problem
        except ValueError:  # closed on our side
            self.unwritten = BrokenPipeError()


def _agent_fields(envelope: e.Envelope, fold: SessionFold) -> dict[str, Any]:
    """The subagent of an event and its parent, which the event itself does not name."""
    child = fold.children.entries.get(envelope.invocation or "")
    if child is None:
        return {}
    return {
        "invocationId": child.invocation,
        "parentInvocationId": child.parent,
        "agentPath": list(child.path),
    }


def unwritten_code(problem: OSError, session: str | None, say_problem: Callable[[str], None]) -> int:
    """The exit code of a run whose output went nowhere. A reader who left, or closed the terminal, is told nothing."""
    if isinstance(problem, BrokenPipeError):
        return EXIT_READER_GONE
    if problem.errno == errno.EIO:
        return EXIT_TERMINAL_GONE
    failure = BridleError("OutputUnwritable", problem=problem.strerror, session=session)
    say_problem(visible(failure.message))
    return failure.exit_code
