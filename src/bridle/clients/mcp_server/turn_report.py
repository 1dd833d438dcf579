"""What came of a turn, for the program that had it run: folded from the events of the turn."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from bridle.clients.interaction.render.call_text import describe_call
from bridle.clients.interaction.render.event_rows import (
    NOT_IN_TRANSCRIPTS,
    EventRow,
    EventRows,
    RowKind,
    path_lines,
)
from bridle.protocol import events as e
from bridle.protocol.child_tree import ChildState

LEFT_OUT: Final = NOT_IN_TRANSCRIPTS - {"waiting"} | frozenset[RowKind](
    {"input", "delta", "said", "answer", "child_said", "edit", "output", "ended", "gap"}
)
"""Rows that are in the report itself, or too long for progress lines."""


class DeniedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that did not run. `call` is what a person reads of it, `reason` is stable."""

    tool: str
    call: str
    reason: str


class WaitingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for a person's word; `agents` are the names down to whoever makes it, where that was sent."""

    call_id: str
    tool: str
    call: str
    agents: tuple[str, ...] = ()


class SentAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that was sent in the turn, and what it came to. `path` are the names down to it."""

    path: tuple[str, ...]
    task: str
    state: ChildState
    steps: int
    cost: float | None


class TurnSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`cost` is dollars, null where a price is not known. `turns` are requests to the model, as agents count them.
    `agents` were sent; what they used and did is in the rest too."""

    cost: float | None
    turns: int
    tools_used: tuple[str, ...]
    agents: tuple[SentAgent, ...] = ()


class TurnReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn stands. `stop`, `reason` and `message` are there once it has ended; `answer` is what was said last.

    `log_digest` stands for everything in the session's log; null where the log could not be looked at.
    """

    session: str
    input: int | None
    state: Literal["running", "ended"]
    stop: str | None
    reason: str | None
    message: str | None
    answer: str
    summary: TurnSummary
    files_changed: tuple[str, ...]
    denied: tuple[DeniedCall, ...]
    waiting: tuple[WaitingCall, ...]
    log_digest: str | None
    attach: str


def attach_words(session: str) -> str:
    return f"bridle attach {session}"


class TurnFold:
    """The events of one turn, one after the other: the turn that began with `input`, or the one it `joins`."""

    def __init__(self, session: str, input_: int, *, joins: bool = False) -> None:
        self.session = session
        self._input = input_
        self._heard = joins
        self._rows = EventRows(left_out=LEFT_OUT)
        self._said: list[str] = []
        self._steps = 0
        self._tools: dict[str, None] = {}
        self._calls: dict[str, str] = {}
        self._denied: list[DeniedCall] = []
        self._waiting: dict[str, WaitingCall] = {}
        self.ended: e.TurnEnded | None = None

    @property
    def call_ids(self) -> frozenset[str]:
        """The calls of this turn, whoever made them."""
        return frozenset(self._calls)

    def take(self, envelope: e.Envelope) -> list[str]:
        if e.concerns(envelope):
            match envelope.event:
                case e.TurnStarted(input=number):
                    self._heard = self._heard or number >= self._input
                case e.TurnEnded() as ended if self._heard:
                    self.ended = ended
                case _:
                    pass
        if not self._heard:
            return []
        rows = self._rows.take(envelope)
        self._collect(envelope)
        return [line for row in rows for line in self._lines(row)]

    def _lines(self, row: EventRow) -> list[str]:
        """The lines of a row. A question holds the turn up: its line says how to attach and answer it."""
        if row.kind != "waiting":
            return path_lines(row)
        who = row.text.replace(": ", f": {row.path} → ", 1) if row.path else row.text
        return [f"{who}   {attach_words(self.session)}"]

    def _collect(self, envelope: e.Envelope) -> None:
        match envelope.event:
            case e.StepStarted() if e.concerns(envelope):
                self._said.clear()
            case e.StepFailed() if e.concerns(envelope):
                self._said.clear()
            case e.TextDelta(text=text) if e.concerns(envelope):
                self._said.append(text)
            case e.StepEnded():
                self._steps += 1
            case e.PermissionRequested(call_id=call_id, tool=tool):
                call = self._calls.get(call_id, tool)
                path = envelope.agent_path
                self._waiting[call_id] = WaitingCall(call_id=call_id, tool=tool, call=call, agents=path)
            case e.PermissionDecided(call_id=call_id):
                self._waiting.pop(call_id, None)
            case e.ToolCallRequested() as call:
                self._calls[call.call_id] = describe_call(call.tool, call.input)
            case e.ToolResult() as result:
                self._result(result)
            case _:
                pass

    def _result(self, result: e.ToolResult) -> None:
        self._waiting.pop(result.call_id, None)
        if result.outcome in ("denied", "blocked"):
            call = self._calls.get(result.call_id, result.tool)
            self._denied.append(DeniedCall(tool=result.tool, call=call, reason=result.reason or ""))
        else:
            self._tools[result.tool] = None

    def report(self, *, files_changed: tuple[str, ...] = (), log_digest: str | None = None) -> TurnReport:
        ended = self.ended
        return TurnReport(
            session=self.session,
            input=self._input,
            state="running" if ended is None else "ended",
            stop=None if ended is None else ended.stop,
            reason=None if ended is None else ended.reason,
            message=None if ended is None else ended.message,
            answer="".join(self._said),
            summary=TurnSummary(
                cost=self._rows.fold.used.usd,
                turns=self._steps,
                tools_used=tuple(self._tools),
                agents=tuple(
                    SentAgent(path=one.path, task=one.task, state=one.state, steps=one.steps, cost=one.usd)
                    for one in self._rows.fold.children.entries.values()
                ),
            ),
            files_changed=files_changed,
            denied=tuple(self._denied),
            waiting=tuple(self._waiting.values()),
            log_digest=log_digest,
            attach=attach_words(self.session),
        )


def report_text(report: TurnReport) -> str:
    """The same as words, for a model that reads no structured content: the answer first."""
    facts: list[Any] = [f"session {report.session}"]
    if report.state == "running":
        facts.insert(0, "the turn still runs; wait_for_turn waits for it")
    elif report.stop != "end_turn":
        facts.insert(0, f"the turn ended: {report.message or report.reason or report.stop}")
    cost = report.summary.cost
    facts.append("cost unknown" if cost is None else f"cost ${cost:.4f}")
    if report.files_changed:
        facts.append(f"changed {', '.join(report.files_changed)}")
    facts += [f"agent {'/'.join(one.path)}: {one.state}" for one in report.summary.agents]
    facts += [f"not run: {one.call} ({one.reason})" for one in report.denied]
    facts += [f"waits for a person: {one.call} ({report.attach})" for one in report.waiting]
    return "\n\n".join(filter(None, (report.answer, f"[{' · '.join(facts)}]")))
