"""One task, then exit: the answer on stdout, the story on stderr, or everything as JSON.

Where nobody looks on, questions cannot be answered; the engine knows that from how this client attaches.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Protocol, TextIO, TypeAlias

import msgspec

from bridle.base.text.json_answer import checked
from bridle.base.text.phrases import counted, dollars
from bridle.base.text.terminal_text import json_line, visible
from bridle.clients.interaction.render.progress_text import changed_words
from bridle.clients.interaction.render.story import Story, describe_call, did_not_run, edited_files
from bridle.clients.interaction.render.usage import LOCAL, UNKNOWN_COST, Tally
from bridle.clients.run_errors import error_fields
from bridle.clients.structured import asked_again
from bridle.protocol import events as e
from bridle.protocol.child_tree import ChildTree
from bridle.protocol.codec import encode_envelope
from bridle.protocol.commands import CancelTurn, CreateSession, EndSession, RunSlash, SendInput
from bridle.protocol.errors import BridleError, CommandRefused, exit_code_of, sentence
from bridle.protocol.events import Envelope
from bridle.protocol.messages import InputBlock, TextBlock

if TYPE_CHECKING:
    from bridle.clients.hub_stream import HubStream
    from bridle.protocol.connection import Connection

SCHEMA_VERSION = 1
EXIT_TERMINAL_GONE = 129
EXIT_INTERRUPTED = 130
EXIT_READER_GONE = 141
LOOK_AGAIN_S = 0.02
"""How long a reader that is far behind gets before its room is looked at again."""

Format = Literal["text", "json", "stream-json", "hub"]
RunInput: TypeAlias = "tuple[InputBlock, ...] | RunSlash"
"""What a run is about: words for the model, or a command of the person's: git, a prompt by name, an agent, a goal."""
_NOT_CARRIED_OUT = frozenset({"PromptNotTrusted", "Usage", "NoWorktree", "EngineFault"})
"""Notices that are all that comes of a command."""


class Cost(msgspec.Struct, kw_only=True):
    """What the run used. `usd` is None as soon as one price is not known: unknown is not zero."""

    usd: float | None = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    by_model: dict[str, float | None] = {}


def _cost(used: Tally) -> Cost:
    usage = used.usage
    return Cost(
        usd=used.usd,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        by_model=used.by_model,
    )


class GoalResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a goal came to. `changed_files` are those of its check that the model changed: it may pass by them."""

    reached: bool
    rounds: int
    steps: int
    reason: str | None
    changed_files: tuple[str, ...]


class RunResult(msgspec.Struct, kw_only=True, rename="camel"):
    """What a run came to, as `--json` prints it. `exit_code` equals the exit status of the process. `goal` is there
    where the run had one."""

    schema_version: int = SCHEMA_VERSION
    command: str = "run"
    thread_id: str | None = None
    session_id: str | None = None
    success: bool = False
    final_response: str = ""
    events: list[msgspec.Raw] = []
    error: dict[str, str] | None = None
    exit_code: int = msgspec.field(default=1, name="exit_code")
    reason: str | None = None
    denied: list[dict[str, str]] = []
    orphans: list[dict[str, Any]] = []
    changed_files: list[str] = msgspec.field(default_factory=list, name="changed_files")
    not_used: list[str] = msgspec.field(default_factory=list, name="not_used")
    cost: Cost = msgspec.field(default_factory=Cost)
    log_digest: str | None = msgspec.field(default=None, name="log_digest")
    goal: GoalResult | msgspec.UnsetType = msgspec.UNSET
    agents: list[Any] | msgspec.UnsetType = msgspec.UNSET
    """Those that were sent, where any were."""


_ACTS = frozenset({e.ToolCallRequested, e.ToolCallStarted, e.ToolResult})
"""What counts for a run whoever did it: a child's changes are changes too. What it says is not the answer."""
_COLLECTED = _ACTS | {
    e.TextDelta, e.StepStarted, e.StepEnded, e.StepFailed, e.CostIncremented, e.SessionCreated, e.Notice,
    e.ChildStarted,
}  # fmt: skip
"""What `_collect` takes."""
_FOLLOWED = frozenset({
    e.TurnStarted, e.TurnTiming, e.TurnEnded, e.InputAccepted, e.ContextAdded, e.Notice, e.GitEnded, e.Cancelled,
    e.ChildStarted, e.ChildEnded,
})  # fmt: skip
"""What `_follow` looks at. The type of a Struct is asked for fast only so; `match` takes longer than what it finds."""


class Onlooker(Protocol):
    """A person at a terminal who looks on, and may be asked. Raises: nothing but for `begin`, `BridleError`."""

    async def begin(self, connection: Connection, session: str) -> None:
        """From now on questions of the session may be put to them."""
        ...

    def take(self, envelope: Envelope) -> None: ...
    def stream(self, text: str) -> None:
        """More of the answer, which they read as it comes."""
        ...

    def end_text(self) -> None: ...
    async def end(self) -> None: ...


class Printer:
    """Follows one run and writes it down: `run`, then `finish`, which prints what came of it.

    `write_line` gets one line per call, without a line end; `problem` the line that says why a run came to nothing,
    which is said to those too who want no story. `streams`: what the model says is printed as it comes, in place of
    the answer. `onlooker` is there where a person is; with `renders` they get the answer, not `out`. Neither `out` nor
    `write_line` may block; while `is_full` no more is read, unless the run is being stopped: then what nobody reads is
    only in the log. `hub` is there for the form of that name.
    """

    def __init__(
        self,
        *,
        form: Format,
        out: TextIO,
        write_line: Callable[[str], None],
        story: Story,
        problem: Callable[[str], None] | None = None,
        is_full: Callable[[], bool] = lambda: False,
        streams: bool = False,
        onlooker: Onlooker | None = None,
        renders: bool = False,
        hub: HubStream | None = None,
    ) -> None:
        self._form = form
        self._hub = hub
        self._out = out
        self._say = write_line
        self._say_problem = problem or write_line
        self._story = story
        self._result = RunResult()
        self._text: list[str] = []
        self._calls: dict[str, str] = {}
        self._begun: set[str] = set()
        self._used = Tally()
        self._children: ChildTree | None = None
        self._elsewhere: set[str] = set()
        """Calls of agents in worktrees of their own: the files they name are not those here."""
        self._not_run = 0
        self._took_ms = 0.0
        self._steps = 0
        self._ended: e.TurnEnded | None = None
        self._cost_said: list[str] = []
        self._mode = "default"
        self._sandbox = ""
        self._confined = "off"
        self._network = ""
        self._named = False
        self._schema: dict[str, Any] | None = None
        self._misfit: str | None = None  # what is wrong with the answer, while it can be asked for again
        self._asked_again = False
        self._seen = 0
        self._deadline_s: float | None = None
        self._unwritten: OSError | None = None
        self._interrupted_code = EXIT_INTERRUPTED
        self._is_full = is_full
        self._streams = streams
        self._onlooker = onlooker
        self._reader = onlooker if renders else None
        self._line_open = False
        self.stopped: int | None = None
        """The exit code of what stopped the run, a deadline or a signal; None where nothing has."""

    @property
    def session(self) -> str | None:
        return self._result.session_id

    async def run(self, connection: Connection, create: CreateSession, content: RunInput) -> None:
        """Sends the prompt, or gives the command, and follows what comes of it to the end."""
        try:
            created = await connection.send(create)
            self._result.session_id = self._result.thread_id = created.session
            since = (created.opened or 1) - 1 if create.resume else 0
            if self._onlooker is not None:
                await self._onlooker.begin(connection, created.session)
            self._result.exit_code = await self._turn(connection, content, since)
            if self._misfit is not None and self.stopped is None:
                await self._ask_again(connection, self._misfit)
            if not self.log_failed and not self.unwritten:
                await self._look_up(connection, created.session)
        except BridleError as failure:
            self.fail(failure)
        except asyncio.CancelledError:
            self._result.exit_code = self._stopped()
        finally:
            if self._onlooker is not None:
                await self._onlooker.end()

    async def _turn(self, connection: Connection, content: RunInput, since: int) -> int:
        """Sends words or gives a command, and follows what comes of it; returns the exit code."""
        session = self._result.session_id or ""
        if isinstance(content, RunSlash):
            given = await connection.send(msgspec.structs.replace(content, session=session))
            if content.name == "goal":
                return await self._follow_goal(connection, session, since, given.event or 0)
            return await self._follow(connection, session, since, given.event)
        sent = await connection.send(SendInput(session=session, content=content, mode="queue"))
        return await self._follow(connection, session, since, sent.event or 0)

    async def _follow_goal(self, connection: Connection, session: str, since: int, taken: int) -> int:
        """To the end of the goal that event `taken` says was given."""
        async for envelope in self._shown_events(connection, session, since):
            match envelope.event if e.concerns(envelope) and (envelope.id or 0) > taken else None:
                case e.TurnTiming() as timing:
                    self._took_ms += timing.work_ms
                case e.TurnEnded(steps=steps):
                    self._steps += steps
                    self._result.final_response = "".join(self._text)
                case e.Notice(reason="GoalNotBegun" | "EngineFault") as refused:
                    self.fail(BridleError(refused.reason, **refused.data))
                    return self._result.exit_code
                case e.GoalEnded() as ended:
                    return self._goal_ended(ended)
                case _:
                    pass
        return EXIT_READER_GONE if self._unwritten is not None else 1

    async def _ask_again(self, connection: Connection, problem: str) -> None:
        """Once: a model that is told what is wrong with its answer mostly mends it."""
        self._asked_again, self._misfit = True, None
        self._result.error = self._result.reason = None
        self._say(f"the answer does not fit the schema ({visible(problem, newlines=False)}); asked once more")
        self._result.exit_code = await self._turn(
            connection, (TextBlock(text=asked_again(problem)),), self._seen
        )

    async def _look_up(self, connection: Connection, session: str) -> None:
        """The files calls changed, and for programs the last link of the session's chain, which stands for its log.

        For that the session ends first: its end is in the log too. Where the log failed nobody knows what is kept.
        """
        if self._form == "text" and not self._calls:
            return
        if self._form != "text":
            with suppress(CommandRefused):  # it has ended already
                await connection.send(EndSession(session=session, leaving=True))
        from bridle.protocol.queries import DescribeLog

        try:
            found = await connection.ask(DescribeLog(session=session))
        except BridleError:
            return
        self._result.log_digest = found.digest
        changed = {one.call_id: one.paths for one in found.changes}
        here = (call_id for call_id in self._calls if call_id not in self._elsewhere)
        files = (path for call_id in here for path in changed.get(call_id, ()))
        self._result.changed_files = list(dict.fromkeys((*self._result.changed_files, *files)))

    def fail(self, failure: BridleError) -> None:
        """A run that could not begin or go on: one sentence, once, and the exit code of its reason."""
        if self._result.error is not None and self._result.error["message"].startswith(failure.message):
            return
        error = error_fields(failure)
        message = error["message"] + (self._what_had_begun() if failure.reason == "StoreFailed" else "")
        self._result.error = {**error, "message": message}
        self._result.reason = failure.reason
        self._result.success = False
        self._result.orphans = failure.data.get("orphans", [])
        self._result.exit_code = failure.exit_code
        self._say_problem(visible(message))

    def _what_had_begun(self) -> str:
        """The calls nobody will ever hear the end of."""
        begun = [words for call_id, words in self._calls.items() if call_id in self._begun]
        return f" Had begun, and may have happened: {'; '.join(begun)}." if begun else ""

    @property
    def answer(self) -> str:
        """What the model said last; nothing where it had to fit a schema and does not."""
        fits = self._schema is None or self._result.success
        return self._result.final_response if fits else ""

    @property
    def log_failed(self) -> bool:
        """Whether the run ended because its log could not be written any more."""
        return self._result.reason == "StoreFailed"

    @property
    def confined(self) -> bool:
        """Whether anything held the commands of this run."""
        return self._confined != "off"

    @property
    def unwritten(self) -> bool:
        """Whether the output could not be written."""
        return self._unwritten is not None

    def expect(self, schema: dict[str, Any] | None) -> None:
        """The answer must fit this JSON Schema."""
        self._schema = schema

    def interrupt(self, exit_code: int) -> None:
        """The turn that ends now ends because somebody stopped the run."""
        self._interrupted_code = self.stopped = exit_code

    def reach_deadline(self, timeout_s: float) -> None:
        """The turn that ends now ends because its time is up."""
        self._deadline_s = timeout_s
        self.stopped = exit_code_of("DeadlineReached")

    async def _follow(self, connection: Connection, session: str, since: int, own_input: int | None) -> int:
        """To the end of the turn of `own_input`; without one, of the command that was given, or the turn it led to."""
        own_turn, last, unheard = False, None, _UnheardAgents()
        async for envelope in self._shown_events(connection, session, since):
            if type(envelope.event) not in _FOLLOWED:
                continue
            tells = unheard.take(envelope)
            match envelope.event if e.concerns(envelope) else None:
                case e.TurnStarted(input=number):
                    own_turn = number == own_input or tells
                case e.TurnTiming() as timing:
                    self._took_ms += timing.work_ms
                case e.TurnEnded(stop="end_turn", steps=steps) if own_turn and unheard:
                    self._steps += steps  # who works in the background is waited for
                case e.TurnEnded() as ended if own_turn:
                    return self._turn_ended(ended)
                case e.InputAccepted(child="") if (
                    own_input is None
                ):  # a prompt that a person has just agreed to
                    own_input = envelope.id
                case e.Notice(reason=reason) as refused if own_input is None and reason in _NOT_CARRIED_OUT:
                    self.fail(BridleError(reason, **refused.data))
                    return self._result.exit_code
                case e.ChildEnded() as last if envelope.invocation is None:
                    self._took_ms += self._work_ms(last)
                case e.ContextAdded(source="agent") if own_input is None and last is not None:
                    return self._agents_ended(last)
                case e.GitEnded() as ended if own_input is None:
                    return self._git_ended(ended)
                case e.Cancelled() if own_input is None:
                    return self._stopped()
                case _:
                    pass
        return EXIT_READER_GONE if self._unwritten is not None else 1

    async def _shown_events(
        self, connection: Connection, session: str, since: int
    ) -> AsyncGenerator[Envelope]:
        """The events, each once it is shown, as fast as somebody reads them; to the end where nobody does any more."""
        async for envelope in connection.events(session, since=since):
            self._seen = envelope.id or self._seen
            self._show(envelope, own=e.concerns(envelope))
            if self._onlooker is not None:
                self._onlooker.take(envelope)
            if self._unwritten is not None:
                await self._give_up(connection, session)
                return
            yield envelope
            while self._is_full() and self.stopped is None:  # noqa: ASYNC110  the one who reads is no task of ours
                await asyncio.sleep(LOOK_AGAIN_S)

    @staticmethod
    async def _give_up(connection: Connection, session: str) -> None:
        try:
            await connection.send(CancelTurn(session=session))
        except BridleError:
            return

    def _show(self, envelope: Envelope, *, own: bool) -> None:
        if type(envelope.event) in (_COLLECTED if own else _ACTS):
            self._collect(envelope.event)
        for line in self._story.told(envelope):
            if not _said_at_the_end(envelope):
                self._say(line)
        if envelope.invocation is not None or envelope.kind in ("ChildStarted", "ChildEnded"):
            self._take_of_child(envelope)
        if self._form == "json" and envelope.id is not None:
            self._result.events.append(msgspec.Raw(encode_envelope(envelope)))
        elif self._form == "stream-json":
            body = {
                "schemaVersion": SCHEMA_VERSION,
                "command": "run",
                "threadId": self._result.thread_id,
                "eventType": envelope.kind,
                "event": msgspec.Raw(encode_envelope(envelope)),
                **self._whose(envelope),
            }
            self._write_json(body)
        elif self._hub is not None:
            for told in self._hub.of(envelope):
                self._write_json(told)

    def _take_of_child(self, envelope: Envelope) -> None:
        if self._children is None:
            self._children = ChildTree()
        self._children.take(envelope)
        if isinstance(envelope.event, e.ToolCallRequested) and self._children.is_apart(envelope.invocation):
            self._elsewhere.add(envelope.event.call_id)

    def _whose(self, envelope: Envelope) -> dict[str, Any]:
        """The agent that was sent and who sent it, beside what it did; the event itself names no parent."""
        child = None if self._children is None else self._children.entries.get(envelope.invocation or "")
        if child is None:
            return {}
        path = list(child.path)
        return {"invocationId": child.invocation, "parentInvocationId": child.parent, "agentPath": path}

    def _collect(self, event: e.AnyEvent) -> None:
        match event:  # for each case the type is asked, which takes a while: what comes often comes first
            case e.TextDelta(text=text):
                self._text.append(text)
                if self._streams:
                    self._write_words(text)
            case e.ToolCallRequested():
                self._calls[event.call_id] = describe_call(event.tool, event.input)
            case e.ToolCallStarted(call_id=call_id):
                self._begun.add(call_id)
            case e.ToolResult():
                self._collect_result(event)
            case e.StepStarted():
                self._text.clear()
                self._name_model(event)
            case e.ChildStarted():  # first where a person sent it
                self._name_model(event)
            case e.StepEnded():
                self._end_line()
            case e.CostIncremented():
                self._used.add(event)
            case e.StepFailed():
                self._text.clear()
                self._end_line()
            case e.SessionCreated(mode=mode, sandbox=sandbox, confined=confined):
                self._confined = confined
                self._mode = mode
                self._sandbox = sandbox
                self._network = _network(event)
            case e.Notice(reason="NotTrusted", data=data):
                self._result.not_used.append(str(data.get("path", "")))
            case _:
                pass

    def _name_model(self, step: e.StepStarted | e.ChildStarted) -> None:
        """Once: which model, which stance, which session."""
        if not self._named:
            self._named = True
            facts = (
                f"model {step.provider}:{step.model}",
                f"mode {self._mode}",
                f"sandbox {self._sandbox}" if self._sandbox else "",
                self._network,
                self._result.session_id or "",
            )
            self._say(visible(" · ".join(filter(None, facts)), newlines=False))

    def _collect_result(self, result: e.ToolResult) -> None:
        self._not_run += did_not_run(result, began=result.call_id in self._begun)
        self._begun.discard(result.call_id)
        if result.outcome in ("denied", "blocked"):
            self._result.denied.append(
                {
                    "tool": result.tool,
                    "call": self._calls.get(result.call_id, result.tool),
                    "reason": result.reason or "",
                }
            )
        changed = self._result.changed_files
        files = () if result.call_id in self._elsewhere else edited_files(result)
        changed += [file.path for file in files if file.path not in changed]

    def _turn_ended(self, ended: e.TurnEnded) -> int:
        result = self._result
        result.final_response = "".join(self._text)
        self._steps += ended.steps
        ended = self._judged(ended)
        if self._misfit is not None:  # it is not the end yet
            return exit_code_of(ended.reason)
        result.reason = ended.reason
        result.success = ended.stop == "end_turn"
        if not result.success:
            result.reason = ended.reason or ended.stop
            result.error = {"name": result.reason, "message": ended.message or ended.stop}
        self._ended, self._cost_said = ended, self._cost_words()
        if result.success:
            return 0
        return self._interrupted_code if ended.stop == "cancelled" else exit_code_of(ended.reason)

    def _git_ended(self, ended: e.GitEnded) -> int:
        """A dry run that says what it would do is a success: the message it drafted is the answer."""
        from bridle.clients.interaction.questions.git_form import git_lines

        result = self._result
        dry = ended.reason == "DryRun"
        result.success, result.reason = ended.reason is None or dry, ended.reason
        if dry:
            self._say(visible(ended.message))
            result.final_response = str(ended.data.get("draft", ""))
        elif result.success:
            result.final_response = "\n".join(git_lines(ended))
        else:
            result.error = {"name": ended.reason or "", "message": ended.message}
            for line in git_lines(ended):
                self._say_problem(line)
        if self._streams and self.answer:
            self._write_words(self.answer)
        if self.stopped is not None:
            return self._stopped()
        return 0 if result.success else exit_code_of(ended.reason)

    def _work_ms(self, ended: e.ChildEnded) -> int:
        child = None if self._children is None else self._children.entries.get(ended.invocation)
        return 0 if child is None or child.ended_ms is None else child.ended_ms - child.started_ms

    def _agents_ended(self, last: e.ChildEnded) -> int:
        """What the last of the agents said that a command had work is the answer."""
        self._steps += last.steps
        if last.ok:
            self._text[:] = [last.result]
            if self._streams:
                self._write_words(last.result)
            return self._turn_ended(e.TurnEnded(stop="end_turn"))
        return self._turn_ended(e.TurnEnded(stop="error", reason="ChildFailed", message=last.result))

    def _goal_ended(self, ended: e.GoalEnded) -> int:
        """A deadline or a signal of the run's own is why it ended, whatever the goal says of it."""
        result = self._result
        if ended.reached:
            self._say(f"goal     reached in {counted(ended.rounds, 'round')}")
        if words := changed_words(ended.changed):
            self._say_problem(f"warning  {words}")
        result.goal = GoalResult(
            reached=ended.reached,
            rounds=ended.rounds,
            steps=ended.steps,
            reason=ended.reason,
            changed_files=ended.changed,
        )
        as_turn = e.TurnEnded(
            stop="end_turn" if ended.reached else "error", reason=ended.reason, message=ended.message
        )
        if not ended.reached and self.stopped is not None:
            as_turn = e.TurnEnded(stop="cancelled", message=ended.message)
        return self._turn_ended(as_turn)

    def _stopped(self) -> int:
        """A git command, or what had not begun yet, was stopped by its deadline or by somebody."""
        if self._deadline_s is None:
            self._result.reason = "cancelled"
            self._result.error = {"name": "cancelled", "message": "cancelled"}
            return self._interrupted_code
        self.fail(BridleError("DeadlineReached", timeout_s=f"{self._deadline_s:g}"))
        return exit_code_of("DeadlineReached")

    def _judged(self, ended: e.TurnEnded) -> e.TurnEnded:
        """The ending as the caller of a run sees it: a deadline or an answer that does not fit is a failure."""
        if ended.stop == "cancelled" and self._deadline_s is not None:
            return _failed(ended, "DeadlineReached", timeout_s=f"{self._deadline_s:g}")
        if ended.stop == "end_turn" and self._schema is not None:
            answer = checked(self._result.final_response, self._schema)
            if answer.problem is not None:
                self._misfit = None if self._asked_again else answer.problem
                return _failed(ended, "SchemaMismatch", problem=answer.problem)
            self._result.final_response = answer.text
        return ended

    def _closing_line(self, ended: e.TurnEnded) -> str:
        word = "done" if self._result.success else "ended"
        changed = len(self._result.changed_files)
        facts = [
            f"{self._took_ms / 1000:.1f} s",
            counted(self._steps, "step"),
            *self._cost_said,
        ]
        if changed:
            facts.append(f"{counted(changed, 'file')} changed")
        if self._not_run:
            facts.append(f"{counted(self._not_run, 'call')} not run")
        if not self._result.success:
            facts.insert(0, visible(ended.message or ended.stop))
        return f"{word:<8} " + " · ".join(facts)

    def _cost_words(self) -> list[str]:
        """What the run cost; what is not known is not a number, and what is paid to nobody is none."""
        used = self._used
        if not used.by_model:
            return []
        if used.local:
            return [LOCAL]
        return [UNKNOWN_COST if used.usd is None else dollars(used.usd)]

    def finish(self) -> int:
        """Prints the answer or the result, and returns the exit code."""
        result = self._result
        result.cost = _cost(self._used)
        if self._children is not None:
            result.agents = list(self._children.entries.values())
        if self._ended is not None:
            say = self._say if result.success else self._say_problem
            say(self._closing_line(self._ended))
        if self._form == "json":
            self._write_json(result)
        elif self._form == "stream-json":
            last: dict[str, Any] = msgspec.to_builtins(result)
            last.pop("events")  # they were streamed already
            self._write_json({**last, "eventType": "run.result"})
        elif self._hub is not None:
            self._write_json(
                self._hub.result(session=result.session_id, ended=self._ended, error=result.error)
            )
        else:
            if not self._streams and self.answer:
                self._write_words(self.answer)
            self._end_line()
        return result.exit_code if self._unwritten is None else self.without_output(self._unwritten)

    def without_output(self, problem: OSError) -> int:
        """The exit code where the answer went nowhere. A reader who left, or closed the terminal, is told nothing."""
        if isinstance(problem, BrokenPipeError):
            return EXIT_READER_GONE
        if problem.errno == errno.EIO:
            return EXIT_TERMINAL_GONE
        failure = BridleError("OutputUnwritable", problem=problem.strerror, session=self.session)
        self._say_problem(visible(failure.message))
        return failure.exit_code

    def _write_json(self, value: Any) -> None:
        self._write(json_line(value))

    def _write_words(self, text: str) -> None:
        if self._reader is not None:
            self._reader.stream(text)
        else:
            self._write(visible(text) if self._out.isatty() else text)
        self._line_open = bool(text) and not (self._streams and text.endswith("\n"))

    def _end_line(self) -> None:
        if self._line_open:
            self._line_open = False
            if self._reader is not None:
                self._reader.end_text()
            else:
                self._write("\n")

    def _write(self, text: str) -> None:
        if self._unwritten is not None:
            return
        try:
            self._out.write(text)
            self._out.flush()
        except OSError as problem:
            self._unwritten = problem
        except ValueError:  # closed on our side
            self._unwritten = BrokenPipeError()


class _UnheardAgents:
    """Agents in the background of whose end the main one was not told yet, and the inputs that tell it."""

    def __init__(self) -> None:
        self._working: set[str] = set()
        self._inputs: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._working or self._inputs)

    def take(self, envelope: Envelope) -> bool:
        """One more event; whether it begins a turn, or joins one, that tells of an end."""
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


def _said_at_the_end(envelope: Envelope) -> bool:
    """A failure that ends the turn is told once, by the closing line, and what agents came to is the answer."""
    match envelope.event if e.concerns(envelope) else None:
        case e.StepFailed(retry_in_ms=None) | e.GitEnded() | e.GoalEnded() | e.ContextAdded(source="agent"):
            return True
        case e.Notice(reason=reason):
            return reason in (*_NOT_CARRIED_OUT, "GoalNotBegun")
        case e.Error():
            return envelope.turn is not None
        case _:
            return False


def _failed(ended: e.TurnEnded, reason: str, **data: str) -> e.TurnEnded:
    return e.TurnEnded(stop="error", reason=reason, message=sentence(reason, data), steps=ended.steps)


def _network(created: e.SessionCreated) -> str:
    """What commands have of the network, in a word or two; nothing where it is not limited."""
    if created.network == "inherit" or created.confined == "off":
        return ""
    if created.network == "deny":
        return "network off"
    return f"network filtered ({counted(len(created.hosts), 'host')})"
