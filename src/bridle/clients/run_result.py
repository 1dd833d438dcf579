"""The result of a run: the object that `--json` prints, the exit code, and answers that must fit a JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from bridle.base.fs.files import read_limited
from bridle.base.secrets.redact import error_marker, redact
from bridle.base.text.json_schema import checked
from bridle.clients.interaction.questions.change_forms import git_lines
from bridle.clients.interaction.render.call_text import describe_call, did_not_run
from bridle.clients.interaction.render.session_fold import SessionFold, edited_files
from bridle.protocol import events as e
from bridle.protocol.codec import encode_envelope
from bridle.protocol.errors import BridleError, UsageError, exit_code_of, sentence

SCHEMA_VERSION: Final = 1
EXIT_INTERRUPTED: Final = 130
MAX_SCHEMA_BYTES: Final = 256 * 1024


class Cost(msgspec.Struct, kw_only=True):
    """The tokens and cost of a run. `usd` is None as soon as one price is unknown."""

    usd: float | None = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    by_model: dict[str, float | None] = {}


class GoalResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a goal. `changed_files` are files of its check that the model changed: it may pass because of
    them."""

    reached: bool
    rounds: int
    steps: int
    reason: str | None
    changed_files: tuple[str, ...]


class RunResult(msgspec.Struct, kw_only=True, rename="camel"):
    """The result of a run as `--json` prints it. `exit_code` equals the exit status of the process. `goal` is set where
    the run had one, `agents` where it started subagents."""

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


class RunOutcome:
    """Collects the result of a run from its events and its end.

    `stopped` is the exit code of a deadline or a signal that stopped the run. `misfit` is the problem of an answer that
    does not fit the schema while the model can still be asked again. `turn` is the end of the run as its caller sees
    it; None for a run without a turn.
    """

    def __init__(self) -> None:
        self.result = RunResult()
        self.schema: dict[str, Any] | None = None
        self.misfit: str | None = None
        self.stopped: int | None = None
        self.turn: e.TurnEnded | None = None
        self.is_sandboxed = False
        self.steps = 0
        self.not_run = 0
        self.took_ms = 0.0
        self._text: list[str] = []
        self.calls: dict[str, str] = {}
        self._begun: set[str] = set()
        self._apart: set[str] = set()
        """Calls of subagents in their own worktrees: they change no files of the workspace."""
        self._asked_again = False
        self._deadline_s: float | None = None

    @property
    def answer(self) -> str:
        """The answer; empty where it had to fit a schema and does not."""
        return self.result.final_response if self.schema is None or self.result.success else ""

    def take(self, envelope: e.Envelope, fold: SessionFold, *, keeps_event: bool) -> None:
        """Add an event that `fold` has taken. Changes and calls of subagents count; their text is not the answer."""
        event = envelope.event
        match event:
            case e.ToolCallRequested(call_id=call_id, tool=tool):
                self.calls[call_id] = describe_call(tool, event.input)
                if fold.children.is_apart(envelope.invocation):
                    self._apart.add(call_id)
            case e.ToolCallStarted(call_id=call_id):
                self._begun.add(call_id)
            case e.ToolResult():
                self._take_result(event)
            case e.TextDelta(text=text) if e.concerns(envelope):
                self._text.append(text)
            case e.StepStarted() | e.StepFailed() if e.concerns(envelope):
                self._text.clear()
            case e.SessionCreated(confined=confined):
                self.is_sandboxed = confined != "off"
            case e.Notice(reason="NotTrusted", data=data):
                self.result.not_used.append(str(data.get("path", "")))
            case _:
                pass
        if keeps_event and envelope.id is not None:
            self.result.events.append(msgspec.Raw(encode_envelope(envelope)))

    def _take_result(self, result: e.ToolResult) -> None:
        self.not_run += did_not_run(result, began=result.call_id in self._begun)
        self._begun.discard(result.call_id)
        if result.outcome in ("denied", "blocked"):
            call = self.calls.get(result.call_id, result.tool)
            self.result.denied.append({"tool": result.tool, "call": call, "reason": result.reason or ""})
        if result.call_id not in self._apart:
            self._add_changed(file.path for file in edited_files(result))

    def add_changes(self, changes: dict[str, tuple[str, ...]]) -> None:
        """Add the files that calls changed, as the log knows them by call."""
        here = (call_id for call_id in self.calls if call_id not in self._apart)
        self._add_changed(path for call_id in here for path in changes.get(call_id, ()))

    def _add_changed(self, paths: Iterable[str]) -> None:
        self.result.changed_files = list(dict.fromkeys((*self.result.changed_files, *paths)))

    def fail(self, failure: BridleError) -> str:
        """End the run with a failure. Returns its message, or "" if it was reported before."""
        result = self.result
        if result.error is not None and result.error["message"].startswith(failure.message):
            return ""
        error = error_fields(failure)
        begun = [words for call_id, words in self.calls.items() if call_id in self._begun]
        if failure.reason == "StoreFailed" and begun:
            error["message"] += f" Had begun, and may have happened: {'; '.join(begun)}."
        result.error, result.reason, result.success = error, failure.reason, False
        result.orphans = failure.data.get("orphans", [])
        result.exit_code = failure.exit_code
        return error["message"]

    def reach_deadline(self, timeout_s: float) -> None:
        """Note that the turn that ends now ends at its deadline."""
        self._deadline_s = timeout_s
        self.stopped = exit_code_of("DeadlineReached")

    def ask_again(self) -> None:
        """Forget the answer that does not fit: the model is asked for another one."""
        self._asked_again, self.misfit = True, None
        self.result.error = self.result.reason = None

    def end_goal_turn(self, ended: e.TurnEnded) -> None:
        """Note a turn of a goal, which may be followed by others."""
        self.steps += ended.steps
        self.result.final_response = "".join(self._text)

    def end_turn(self, ended: e.TurnEnded, *, answer: str | None = None) -> None:
        """End the run with a turn. Without an `answer` it is the text of the last step."""
        result = self.result
        result.final_response = "".join(self._text) if answer is None else answer
        self.steps += ended.steps
        ended = self._checked(ended)
        result.success = ended.stop == "end_turn"
        code = exit_code_of(ended.reason)
        if ended.stop == "cancelled":
            code = EXIT_INTERRUPTED if self.stopped is None else self.stopped
        result.exit_code = 0 if result.success else code
        if self.misfit is not None:  # not the end yet
            return
        result.reason = ended.reason
        if not result.success:
            result.reason = ended.reason or ended.stop
            result.error = {"name": result.reason, "message": ended.message or ended.stop}
        self.turn = ended

    def _checked(self, ended: e.TurnEnded) -> e.TurnEnded:
        """The end as the caller sees it: a deadline, or an answer that does not fit the schema, is a failure."""
        if ended.stop == "cancelled" and self._deadline_s is not None:
            return _failed(ended, "DeadlineReached", timeout_s=f"{self._deadline_s:g}")
        if ended.stop == "end_turn" and self.schema is not None:
            answer = checked(self.result.final_response, self.schema)
            if answer.problem is not None:
                self.misfit = None if self._asked_again else answer.problem
                return _failed(ended, "SchemaMismatch", problem=answer.problem)
            self.result.final_response = answer.text
        return ended

    def end_goal(self, ended: e.GoalEnded) -> None:
        """End the run with its goal. A deadline or a signal takes precedence over the goal's own reason."""
        self.result.goal = GoalResult(
            reached=ended.reached,
            rounds=ended.rounds,
            steps=ended.steps,
            reason=ended.reason,
            changed_files=ended.changed,
        )
        stop: e.TurnStop = (
            "end_turn" if ended.reached else "cancelled" if self.stopped is not None else "error"
        )
        reason = None if stop == "cancelled" else ended.reason
        self.end_turn(e.TurnEnded(stop=stop, reason=reason, message=ended.message))

    def end_git(self, ended: e.GitEnded) -> None:
        """End the run with a git command. A dry run is a success, and its drafted message is the answer."""
        result, is_dry = self.result, ended.reason == "DryRun"
        result.success, result.reason = ended.reason is None or is_dry, ended.reason
        result.exit_code = 0 if result.success else exit_code_of(ended.reason)
        if is_dry:
            result.final_response = str(ended.data.get("draft", ""))
        elif result.success:
            result.final_response = "\n".join(git_lines(ended))
        else:
            result.error = {"name": ended.reason or "", "message": ended.message}

    def cancel(self) -> str:
        """End a run that was stopped before or without a turn. Returns the message of a deadline, or ""."""
        if self._deadline_s is not None:
            return self.fail(BridleError("DeadlineReached", timeout_s=f"{self._deadline_s:g}"))
        self.result.reason = "cancelled"
        self.result.error = {"name": "cancelled", "message": "cancelled"}
        self.result.exit_code = EXIT_INTERRUPTED if self.stopped is None else self.stopped
        return ""


def complete_result(result: RunResult, fold: SessionFold) -> None:
    """Add the cost and the subagents to the result of a run that has ended."""
    used = fold.used
    result.cost = Cost(usd=used.usd, by_model=used.by_model, **msgspec.structs.asdict(used.usage))
    if fold.children.entries:
        result.agents = list(fold.children.entries.values())


def _failed(ended: e.TurnEnded, reason: str, **data: str) -> e.TurnEnded:
    return e.TurnEnded(stop="error", reason=reason, message=sentence(reason, data), steps=ended.steps)


def error_fields(failure: BridleError) -> dict[str, str]:
    """The name and message of a failure; for a session in use, also the runs that collided."""
    message = redact(failure.message, error_marker)  # a key may have been typed where a name belongs
    fields = {"name": failure.reason, "message": message}
    match failure.reason:
        case "SessionBusy":
            runs = {"run": failure.data.get("run", ""), "other_run": failure.data.get("other_run", "")}
        case "TurnInProgress":
            runs = {"run": "", "other_run": failure.data.get("originator", "")}
        case _:
            return fields
    busy = {"code": "SESSION_RUN_IN_PROGRESS", "reason": "same_session_run_in_progress"}
    return {**fields, **busy, **{name: str(run) for name, run in runs.items()}}


def read_schema(path: str) -> dict[str, Any]:
    """The schema in a file. Raises `UsageError` for one that is no JSON Schema."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        schema = msgspec.json.decode(read_limited(path, MAX_SCHEMA_BYTES).data, type=dict[str, Any])
    except OSError as problem:
        raise UsageError(f"The schema {path} cannot be read ({problem.strerror})") from None
    except ValueError as problem:
        raise UsageError(f"The schema {path} is not a JSON object ({problem})") from None
    try:
        validator_for(schema).check_schema(schema)
        validator_for(schema)(schema).is_valid({})
    except SchemaError as problem:
        raise UsageError(f"The schema {path} is not a JSON Schema ({problem.message})") from None
    except RecursionError:
        raise UsageError(f"The schema {path} is nested too deeply. Make it flatter") from None
    return schema


def schema_prompt(schema: dict[str, Any]) -> str:
    """Ask the model for an answer that fits the schema."""
    text = msgspec.json.encode(schema).decode()
    return f"Answer with one JSON value that matches this JSON Schema, and with nothing else:\n{text}"


def schema_retry_prompt(problem: str) -> str:
    """Ask the model for another answer after one that does not fit."""
    return (
        f"That answer does not fit the JSON Schema: {problem}. "
        "Answer again with one JSON value that matches it, and with nothing else."
    )
