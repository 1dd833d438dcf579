"""Run one task, then exit: the answer on stdout, progress on stderr, or everything as JSON.

Without a user at a terminal, questions cannot be answered; the engine knows that from the way this client attaches.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO, TypeAlias

import msgspec

from bridle.base.text.phrases import counted, dollars
from bridle.base.text.terminal_text import json_line, visible, visible_line
from bridle.clients.interaction.questions.change_forms import git_lines
from bridle.clients.interaction.render.event_rows import REFUSALS, EventRow, EventRows, RowKind, path_lines
from bridle.clients.interaction.render.session_fold import SessionFold
from bridle.clients.interaction.render.usage import LOCAL, UNKNOWN_COST, Tally
from bridle.clients.run_result import SCHEMA_VERSION, RunOutcome, complete_result, schema_retry_prompt
from bridle.protocol import events as e
from bridle.protocol.codec import encode_envelope
from bridle.protocol.commands import CancelTurn, CreateSession, EndSession, RunSlash, SendInput
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.events import Envelope
from bridle.protocol.messages import InputBlock, TextBlock
from bridle.protocol.queries import DescribeLog

if TYPE_CHECKING:
    from bridle.clients.hub_stream import HubStream
    from bridle.clients.line.run_terminal import RunTerminal
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
        reader: RunTerminal | None,
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


LOOK_AGAIN_S: Final = 0.02
"""The pause before a slow reader's buffer is checked again."""

RunInput: TypeAlias = "tuple[InputBlock, ...] | RunSlash"
"""The input of a run: text for the model, or a command such as git, a named prompt, an agent or a goal."""


class Printer:
    """Follows one run: `run`, then `finish`, which prints the result and returns the exit code.

    `write_line` gets one progress line per call, without a line end; `problem` gets lines that a quiet run shows too.
    `detail` adds edits and the text between calls. `streams`: text of the model is printed as it comes. `onlooker` is a
    user at a terminal; with `renders` they get the answer in place of `out`. Neither `out` nor `write_line` may block;
    while `is_full`, no event is read, unless the run is being stopped. `hub` is set for the format of that name.
    """

    def __init__(
        self,
        *,
        form: Format,
        out: TextIO,
        write_line: Callable[[str], None],
        problem: Callable[[str], None] | None = None,
        detail: bool = False,
        is_full: Callable[[], bool] = lambda: False,
        streams: bool = False,
        onlooker: RunTerminal | None = None,
        renders: bool = False,
        hub: HubStream | None = None,
    ) -> None:
        self.outcome = RunOutcome()
        self._rows = EventRows(left_out=LEFT_OUT)
        self._progress = RunProgress(write_line, problem or write_line, detail=detail)
        self._answer = RunAnswer(form, out, streams=streams, reader=onlooker if renders else None, hub=hub)
        self._onlooker = onlooker
        self._is_full = is_full
        self._seen = 0

    @property
    def session(self) -> str | None:
        return self.outcome.result.session_id

    @property
    def unwritten(self) -> bool:
        """True if the output could not be written."""
        return self._answer.unwritten is not None

    async def run(self, connection: Connection, create: CreateSession, content: RunInput) -> None:
        outcome = self.outcome
        try:
            created = await connection.send(create)
            outcome.result.session_id = outcome.result.thread_id = created.session
            since = (created.opened or 1) - 1 if create.resume else 0
            if self._onlooker is not None:
                await self._onlooker.begin(connection, created.session)
            await self._turn(connection, content, since)
            if outcome.misfit is not None and outcome.stopped is None:
                problem = visible_line(outcome.misfit)
                self._progress.say(f"the answer does not fit the schema ({problem}); asked once more")
                again = (TextBlock(text=schema_retry_prompt(outcome.misfit)),)
                outcome.ask_again()
                await self._turn(connection, again, self._seen)
            if outcome.result.reason != "StoreFailed" and not self.unwritten:
                await self._describe_log(connection, created.session)
        except BridleError as failure:
            self.fail(failure)
        except asyncio.CancelledError:
            self._progress.say_failure(outcome.cancel())
        finally:
            if self._onlooker is not None:
                await self._onlooker.end()

    def fail(self, failure: BridleError) -> None:
        """End a run that could not begin or continue: one message, once, and the exit code of its reason."""
        self._progress.say_failure(self.outcome.fail(failure))

    async def _turn(self, connection: Connection, content: RunInput, since: int) -> None:
        """Send the input and follow its turn, command or goal to the end."""
        session = self.session or ""
        self.outcome.result.exit_code = 1
        if isinstance(content, RunSlash):
            given = await connection.send(msgspec.structs.replace(content, session=session))
            if content.name == "goal":
                await self._follow_goal(connection, session, since, given.event or 0)
            else:
                await self._follow(connection, session, since, given.event)
        else:
            sent = await connection.send(SendInput(session=session, content=content, mode="queue"))
            await self._follow(connection, session, since, sent.event or 0)

    async def _follow_goal(self, connection: Connection, session: str, since: int, taken: int) -> None:
        """Follow the goal that began with event `taken`."""
        async for envelope in self._shown_events(connection, session, since):
            match envelope.event if e.concerns(envelope) and (envelope.id or 0) > taken else None:
                case e.TurnTiming(work_ms=work_ms):
                    self.outcome.took_ms += work_ms
                case e.TurnEnded() as ended:
                    self.outcome.end_goal_turn(ended)
                case e.Notice(reason="GoalNotBegun" | "EngineFault") as refused:
                    self.fail(BridleError(refused.reason, **refused.data))
                    return
                case e.GoalEnded() as ended:
                    self.outcome.end_goal(ended)
                    return
                case _:
                    pass

    async def _follow(self, connection: Connection, session: str, since: int, own_input: int | None) -> None:
        """Follow the turn of `own_input`; without one, the command that was given, or the turn it led to."""
        outcome, own_turn, last, unheard = self.outcome, False, None, _UnheardAgents()
        async for envelope in self._shown_events(connection, session, since):
            tells = unheard.take(envelope)
            match envelope.event if e.concerns(envelope) else None:
                case e.TurnStarted(input=number):
                    own_turn = number == own_input or tells
                case e.TurnTiming(work_ms=work_ms):
                    outcome.took_ms += work_ms
                case e.TurnEnded(stop="end_turn", steps=steps) if own_turn and unheard:
                    outcome.steps += steps  # background subagents are still at work
                case e.TurnEnded() as ended if own_turn:
                    outcome.end_turn(ended)
                    return
                case e.InputAccepted(child="") if own_input is None:  # the user approved a prompt
                    own_input = envelope.id
                case e.Notice(reason=reason) as refused if own_input is None and reason in REFUSALS:
                    self.fail(BridleError(reason, **refused.data))
                    return
                case e.ChildEnded(invocation=invocation) as last if envelope.invocation is None:
                    child = self._rows.fold.children.entries.get(invocation)
                    if child is not None and child.ended_ms is not None:
                        outcome.took_ms += child.ended_ms - child.started_ms
                case e.ContextAdded(source="agent") if own_input is None and last is not None:
                    self._end_agents(last)
                    return
                case e.GitEnded() as ended if own_input is None:
                    self._end_git(ended)
                    return
                case e.Cancelled() if own_input is None:
                    self._progress.say_failure(outcome.cancel())
                    return
                case _:
                    pass

    async def _shown_events(
        self, connection: Connection, session: str, since: int
    ) -> AsyncGenerator[Envelope]:
        """The events, each after it was shown, as fast as they are read. Cancels the turn once stdout is closed."""
        async for envelope in connection.events(session, since=since):
            self._seen = envelope.id or self._seen
            rows = self._rows.take(envelope)
            self.outcome.take(envelope, self._rows.fold, keeps_event=self._answer.form == "json")
            self._answer.take(envelope, rows, self._rows.fold)
            self._progress.take(envelope, rows)
            if self._onlooker is not None:
                self._onlooker.take(envelope)
            if self.unwritten:
                with suppress(BridleError):
                    await connection.send(CancelTurn(session=session))
                return
            yield envelope
            while self._is_full() and self.outcome.stopped is None:  # noqa: ASYNC110  the reader is no task of ours
                await asyncio.sleep(LOOK_AGAIN_S)

    def _end_agents(self, last: e.ChildEnded) -> None:
        """End a command that started subagents: the result of the last one is the answer."""
        if last.ok:
            self._answer.stream(last.result)
            self.outcome.end_turn(e.TurnEnded(stop="end_turn", steps=last.steps), answer=last.result)
        else:
            ended = e.TurnEnded(stop="error", reason="ChildFailed", message=last.result, steps=last.steps)
            self.outcome.end_turn(ended)

    def _end_git(self, ended: e.GitEnded) -> None:
        self.outcome.end_git(ended)
        if ended.reason == "DryRun":
            self._progress.say(visible(ended.message))
        elif not self.outcome.result.success:
            for line in git_lines(ended):
                self._progress.say_problem(line)
        self._answer.stream(self.outcome.answer)
        if self.outcome.stopped is not None:
            self._progress.say_failure(self.outcome.cancel())

    async def _describe_log(self, connection: Connection, session: str) -> None:
        """Ask for the files that calls changed and, for programs, the digest of the log.

        For the digest the session ends first: its end is in the log too.
        """
        if self._answer.form == "text" and not self.outcome.calls:
            return
        if self._answer.form != "text":
            with suppress(CommandRefused):  # it has ended already
                await connection.send(EndSession(session=session, leaving=True))
        with suppress(BridleError):
            found = await connection.ask(DescribeLog(session=session))
            self.outcome.result.log_digest = found.digest
            self.outcome.add_changes({one.call_id: one.paths for one in found.changes})

    def finish(self) -> int:
        complete_result(self.outcome.result, self._rows.fold)
        self._progress.close(self.outcome, self._rows.fold.used)
        self._answer.finish(self.outcome)
        problem = self._answer.unwritten
        return self.outcome.result.exit_code if problem is None else self.without_output(problem)

    def without_output(self, problem: OSError) -> int:
        """The exit code of a run whose output went nowhere."""
        return unwritten_code(problem, self.session, self._progress.say_problem)


class _UnheardAgents:
    """Background subagents whose end the main agent has not been told, and the inputs that tell it."""

    def __init__(self) -> None:
        self._working: set[str] = set()
        self._inputs: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._working or self._inputs)

    def take(self, envelope: Envelope) -> bool:
        """Take an event. Returns True if it begins or joins a turn that reports an end."""
        match envelope.event if envelope.invocation is None else None:
            case e.ChildStarted(background=True, invocation=child):
                self._working.add(child)
            case e.InputAccepted(child=child) if child and envelope.id is not None:
                self._working.discard(child)
                self._inputs.add(envelope.id)
            case e.TurnStarted(input=number) | e.ContextAdded(input=number) if number in self._inputs:
                self._inputs.discard(number)
                return True
            case _:
                pass
        return False
