"""Turn events into rows of text: the only place that makes sentences for users out of events.

A client draws the rows its own way and leaves out kinds that it does not show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias, assert_never

import msgspec

from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible, visible_line
from bridle.base.text.untrusted import unwrapped
from bridle.clients.interaction.questions.change_forms import git_lines, undo_lines
from bridle.clients.interaction.render import progress_text as progress
from bridle.clients.interaction.render.call_text import (
    allowed_text,
    approver,
    describe_call,
    excerpt,
    grant_words,
    has_excerpt,
    outcome_line,
    plain_line,
    short_text,
    typed_output,
)
from bridle.clients.interaction.render.edit_rows import edit_rows
from bridle.clients.interaction.render.session_fold import AgentFold, Call, SessionFold, edited_files
from bridle.clients.interaction.render.start_info import StartLine, mode_line, network_text
from bridle.clients.interaction.render.usage import compacted_lines
from bridle.protocol import events as e
from bridle.protocol.codec import is_expired
from bridle.protocol.errors import sentence
from bridle.protocol.messages import FileMention, ImageBlock, InputBlock, TextBlock
from bridle.protocol.questions import UndoPreview

RowKind: TypeAlias = Literal[
    "start",  # model, mode and sandbox, at the first request
    "input",  # text of the user
    "command",  # a command that the user typed
    "delta",  # a part of the answer
    "said",  # the whole text of a step that makes calls
    "answer",  # the whole text of any other step
    "child_said",  # the text of a subagent's step
    "printed",  # all output of a command that the user typed
    "call",  # a call that has ended
    "told_call",  # a call that has ended and that other rows report
    "edit",  # changes of a call in files
    "output",  # output of a command
    "plan",
    "note",
    "warning",
    "degraded",
    "retry",  # a failed request that is sent again
    "failure",  # a failed request that ends the turn
    "refusal",  # a command that was not carried out
    "error",
    "git",
    "goal",
    "goal_reached",
    "goal_missed",
    "agent",  # a subagent started or ended
    "agent_answer",  # the result of subagents that the user started
    "waiting",  # a question for the user
    "setting",
    "grant",
    "queue",
    "diff",  # a diff that the user added to the conversation
    "ended",  # the turn ended
    "child_ended",  # the turn of a subagent ended
    "branch",
    "gap",  # an event whose content has expired
]
"""`input`, `delta`, `said`, `answer`, `child_said`, `printed` and `diff` hold raw text; others are safe to print."""

REFUSALS: Final = frozenset({"PromptNotTrusted", "Usage", "NoWorktree", "EngineFault"})
"""Reasons of notices that are the only result of a command."""
NOT_IN_TRANSCRIPTS: Final = frozenset[RowKind]({
    "start", "command", "told_call", "waiting", "setting", "grant", "queue", "diff", "branch",
    "child_ended",
})  # fmt: skip
"""Rows that plain transcripts leave out: they are about the client, or other rows report them."""
_FLAT: Final = frozenset[RowKind]({"grant", "setting"})
"""Rows that concern the whole session, even if a subagent caused them."""
_QUEUE_WORDS: Final = {"hold": "held", "release": "queued", "first": "next"}


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row. `depth` counts the levels below the main agent; `path` names the subagent, and `label` too where readers
    need to tell several apart. The other fields hold the data that clients draw in their own way."""

    kind: RowKind
    text: str = ""
    depth: int = 0
    label: str = ""
    path: str = ""
    call: Call | None = None
    setting: StartLine | None = None
    todos: tuple[e.Todo, ...] = ()
    images: tuple[str, ...] = ()
    ended: e.TurnEnded | None = None

    @property
    def lead(self) -> str:
        """The indentation and label before each line of a nested row."""
        return "  " * self.depth + (f"{self.label}: " if self.label else "")


class Wording(msgspec.Struct, frozen=True, kw_only=True):
    """Words that depend on the client: commands to undo and redo, a hint behind a compaction, and the reader's name as
    their token gives it (empty for the user at the engine's terminal)."""

    undo: str = "/undo"
    redo: str = "/redo"
    compaction_hint: str = ""
    reader: str = ""


class EventRows:
    """Folds the events of a session and returns the rows of each. Rows of `left_out` kinds are dropped."""

    def __init__(self, *, left_out: frozenset[RowKind] = frozenset(), wording: Wording | None = None) -> None:
        self.fold = SessionFold()
        self._left_out = left_out
        self._wording = wording or Wording()
        self._last_agent: str | None = None

    def take(self, envelope: e.Envelope) -> list[EventRow]:
        self.fold.take(envelope)
        rows = [row for row in rows_of(envelope, self.fold, self._wording) if row.kind not in self._left_out]
        is_start_or_end = isinstance(envelope.event, e.ChildStarted | e.ChildEnded)
        if not rows or rows[0].kind in _FLAT or (envelope.invocation is None and not is_start_or_end):
            return rows
        own = self.fold.children.entries.get(envelope.invocation or "")
        depth = len(envelope.agent_path)
        several = sum(len(one.path) == depth for one in self.fold.children.working) > 1
        changed = self._last_agent != envelope.invocation and not is_start_or_end
        label = visible_line(own.label) if own is not None and (several or changed) else ""
        started = envelope.event.invocation if isinstance(envelope.event, e.ChildStarted) else None
        self._last_agent = started or envelope.invocation
        path = progress.path_words(envelope.agent_path)
        return [msgspec.structs.replace(row, depth=depth, label=label, path=path) for row in rows]


def plain_lines(row: EventRow) -> list[str]:
    """The row as lines of plain text, without the lead of a nested row."""
    result = None if row.call is None else row.call.result
    match row.kind:
        case "edit" if result is not None:
            files = edited_files(result)
            rows = edit_rows(files, names=result.tool == "apply_patch" or len(files) > 1)
            return ["".join(piece.text for piece in one).rstrip() for one in rows]
        case "output" if result is not None:
            return [f"    {plain_line(line)}" for line in excerpt(result)]
        case "child_said":
            return progress.said_lines(row.text, None)
        case "printed" | "said" | "answer" | "input":
            return visible(row.text).splitlines()
        case _:
            return [row.text] if row.text else []


def nested_lines(row: EventRow) -> list[str]:
    """The row as lines of plain text, indented below the agent that started the subagent."""
    return [f"{row.lead}{line}" for line in plain_lines(row)]


def path_lines(row: EventRow) -> list[str]:
    """The row as lines of plain text, each behind the path of its subagent."""
    return [f"{row.path}: {line}" if row.path else line for line in plain_lines(row)]


def rows_of(envelope: e.Envelope, fold: SessionFold, wording: Wording) -> Iterator[EventRow]:
    event, agent = envelope.event, fold.agent(envelope.invocation)
    is_main = envelope.invocation is None
    match event:
        case e.TextDelta(text=text):
            if is_main:
                yield EventRow(kind="delta", text=text)
        case e.ToolCallRequested(call_id=call_id):
            if agent.calls[call_id].is_typed:
                yield EventRow(kind="command", text=visible(str(event.input.get("command", ""))))
        case e.ToolResult():
            if agent.ended is not None:
                yield from _call_rows(agent.ended, wording)
        case e.StepStarted() | e.ChildStarted():
            if e.concerns(envelope) and fold.requests == 1:
                yield EventRow(kind="start", text=_start_text(event, fold, envelope.session))
            if isinstance(event, e.ChildStarted):
                yield EventRow(kind="agent", text=progress.sent_line(fold.children.entries[event.invocation]))
        case e.ChildEnded(invocation=invocation):
            if (child := fold.children.entries.get(invocation)) is not None:
                yield EventRow(kind="agent", text=progress.ended_line(child))
        case e.StepEnded(calls=calls):
            yield from _said_rows(agent, is_main=is_main, makes_calls=bool(calls))
        case e.StepFailed(retry_in_ms=retry_in_ms):
            kind = "failure" if retry_in_ms is None else "retry"
            yield EventRow(kind=kind, text=failure_text(event, agent.provider))
        case e.TurnEnded(stop=stop, message=message):
            yield from _said_rows(agent, is_main=is_main, makes_calls=False)
            text = "" if stop == "end_turn" else f"ended: {visible(message or stop)}"
            yield EventRow(kind="ended" if is_main else "child_ended", text=text, ended=event)
        case e.InputAccepted(content=content, goal=goal, child=child):
            if is_main and goal is None and not child:
                images = tuple(block.url for block in content if isinstance(block, ImageBlock))
                yield EventRow(kind="input", text=e.text_of(content), images=images)
        case e.PermissionRequested(call_id=call_id, tool=tool):
            call = agent.calls.get(call_id)
            what = tool if call is None else describe_call(call.tool, call.input)
            yield EventRow(kind="waiting", text=f"waits for a person: {what}")
        case e.QuestionAsked():
            yield EventRow(kind="waiting", text="waits for a person")
        case e.TodosChanged(todos=todos):
            if agent.has_new_plan:
                yield EventRow(kind="plan", text=progress.plan_line(todos), todos=todos)
        case e.Cancelled():
            if is_main:  # the end of a subagent reports it
                yield EventRow(kind="note", text="stopped")
        case e.GoalBegun() | e.GoalChecked():
            yield EventRow(kind="goal", text=progress.goal_line(event))
        case e.GoalEnded(reached=reached):
            yield EventRow(kind="goal_reached" if reached else "goal_missed", text=progress.goal_line(event))
            if warning := progress.check_warning(event):
                yield EventRow(kind="warning", text=warning)
        case e.GitEnded():
            yield from (EventRow(kind="git", text=line) for line in git_lines(event))
        case e.Degraded(message=message):
            yield EventRow(kind="degraded", text=visible(message))
        case e.Error(message=message):
            yield EventRow(kind="error", text=visible(message))
        case e.Notice():
            yield from _notice_rows(event)
        case e.ContextAdded():
            yield from _context_rows(event, is_main=is_main)
        case e.InputChanged():
            yield from _queue_rows(event, fold, is_main=is_main)
        case e.GrantAdded() | e.GrantRevoked() | e.ModelChanged() | e.ModeChanged() | e.EffortChanged():
            yield from _setting_rows(event, is_main=is_main, in_turn=fold.in_turn)
        case e.UnknownEvent():
            if is_expired(event):
                yield EventRow(kind="gap", text=gap_text(1))
        case e.Branched(at=at):
            yield EventRow(kind="branch", text=f"branched here (event {at})")
        case (
            e.Compacted() | e.SkillRegistryChanged() | e.ApprovalGiven() | e.HookTimeout() | e.HookError()
            | e.MCPServerDown() | e.BackgroundStarted() | e.BackgroundEnded() | e.UndoApplied() | e.AsideAsked()
            | e.AsideAnswered() | e.StreamGap()
        ):  # fmt: skip
            yield from (EventRow(kind="note", text=line) for line in _note_lines(event, agent, wording))
        case (
            e.SessionCreated() | e.TurnStarted() | e.TurnTiming() | e.SessionEnded() | e.CommandTaken()
            | e.ThinkingDelta() | e.CostIncremented() | e.PrefixSet() | e.PermissionDecided() | e.ToolCallStarted()
            | e.ToolCallProgress() | e.QuestionAnswered() | e.ChildMemoryUpdated() | e.CustomEvent()
            | e.TokenExpiring() | e.Presence() | e.ClientRequest()
        ):  # fmt: skip
            return  # seen by their effect, or by the rows of later events
        case _:
            assert_never(event)


def failure_text(failed: e.StepFailed, provider: str, *, left_s: float | None = None) -> str:
    """A failed request, in fewer words than its own message if it is sent again. `left_s` is the rest of the wait."""
    if failed.retry_in_ms is None:
        return visible(failed.message)
    wait = f"{failed.retry_in_ms / 1000 if left_s is None else left_s:.3g} s"
    tried = "" if failed.attempts is None else f" (try {failed.attempt + 1} of {failed.attempts})"
    if tried and failed.reason == "RateLimited":
        limit = f"(rate limit, {tried.strip(' ()')})"
        return visible(f"{provider} asks us to wait {wait} {limit}. Ctrl-C stops.")
    if tried and failed.reason == "StreamSilent":  # its message says so itself
        return visible(failed.message)
    return visible(f"{failed.message} Trying again in {wait}{tried}.")


def gap_text(count: int) -> str:
    """A line in place of events whose content has expired."""
    return f"The content of {counted(count, 'event')} has expired and is not kept any more."


def input_words(content: tuple[InputBlock, ...]) -> str:
    """An input as the user would write it again."""
    parts = [
        block.text if isinstance(block, TextBlock) else f"@{block.path}"
        for block in content
        if isinstance(block, TextBlock | FileMention)
    ]
    return visible("".join(parts))


def _start_text(event: e.StepStarted | e.ChildStarted, fold: SessionFold, session: str) -> str:
    created = fold.created
    facts = [f"model {event.provider}:{event.model}", f"mode {created.mode if created else 'default'}"]
    if created is not None:
        facts += [f"sandbox {created.sandbox}" if created.sandbox else "", network_text(created)]
    return visible_line(" · ".join(filter(None, (*facts, session))))


def _said_rows(agent: AgentFold, *, is_main: bool, makes_calls: bool) -> Iterator[EventRow]:
    if agent.said.strip():
        kind = "child_said" if not is_main else "said" if makes_calls else "answer"
        yield EventRow(kind=kind, text=agent.said)


def _call_rows(call: Call, wording: Wording) -> Iterator[EventRow]:
    assert call.result is not None
    if printed := typed_output(call):
        yield EventRow(kind="printed", text=printed, call=call)
    line = outcome_line(call, wording.reader)
    if not line:
        yield EventRow(kind="told_call", text=describe_call(call.tool, call.input), call=call)
        return
    yield EventRow(kind="call", text=line, call=call)
    if edited_files(call.result):
        yield EventRow(kind="edit", call=call)
    if has_excerpt(call):
        yield EventRow(kind="output", call=call)


def _notice_rows(notice: e.Notice) -> Iterator[EventRow]:
    is_refusal = notice.reason in REFUSALS or notice.reason == "GoalNotBegun"
    yield EventRow(kind="refusal" if is_refusal else "note", text=visible(notice.message))
    if notice.reason == "NothingToUndo" and "preview" in notice.data:
        preview = msgspec.convert(notice.data["preview"], UndoPreview)
        yield from (EventRow(kind="note", text=line) for line in undo_lines(preview))


def _context_rows(event: e.ContextAdded, *, is_main: bool) -> Iterator[EventRow]:
    match event:
        case e.ContextAdded(source="pin", content=(*_, TextBlock(text=text))):
            yield EventRow(kind="note", text=f"pinned   {short_text(text)}")
        case e.ContextAdded(source="agent", content=(_, TextBlock(text=answer))):
            for line in visible(unwrapped("agent-result", answer)).splitlines():
                yield EventRow(kind="agent_answer", text=line)
        case e.ContextAdded(source="skill", content=(TextBlock(text=text), *_)):
            if name := progress.skill_named(text):
                yield EventRow(kind="note", text=f"skill    {name}")
        case e.ContextAdded(source="instructions", content=(TextBlock(text=text), *_)):
            file = text.partition("\n")[0].removeprefix("# Instructions from ")
            yield EventRow(kind="note", text=f"rules    {short_text(file)}")
        case e.ContextAdded(source="diff", content=content) if is_main:
            yield EventRow(kind="diff", text=e.text_of(content))
        case _:
            return


def _queue_rows(event: e.InputChanged, fold: SessionFold, *, is_main: bool) -> Iterator[EventRow]:
    match event.change:
        case "edit":
            yield EventRow(kind="note", text=f"edited   {short_text(e.text_of(event.content))}")
        case "drop":
            text = short_text(e.text_of(event.content)) or "a queued message"
            yield EventRow(kind="note", text=f"dropped  {text}")
        case "hold" | "release" | "first":
            pending = fold.inputs.get(event.input)
            text = "" if pending is None else " ".join(input_words(pending.event.content).split())
            if is_main:
                yield EventRow(kind="queue", text=f"{_QUEUE_WORDS[event.change]:<8} {text}")


def _setting_rows(
    event: e.GrantAdded | e.GrantRevoked | e.ModelChanged | e.ModeChanged | e.EffortChanged,
    *,
    is_main: bool,
    in_turn: bool,
) -> Iterator[EventRow]:
    later = "from the next turn on" if in_turn else ""
    match event:
        case e.GrantAdded():
            yield EventRow(kind="grant", text=f"allowed  {grant_words(event)}")
        case e.GrantRevoked():
            yield EventRow(kind="grant", text="revoked  the next such call asks again")
        case e.ModelChanged(holds=holds):
            if is_main and holds != "this_turn":  # a notice reports that
                when = later if holds == "from_next_turn" else ""
                yield _setting_row(StartLine("model", f"{event.provider}:{event.model}", when))
        case e.ModeChanged(mode=mode):
            yield _setting_row(mode_line(mode))
        case e.EffortChanged(effort=effort):
            yield _setting_row(StartLine("effort", effort, later))


def _setting_row(line: StartLine) -> EventRow:
    return EventRow(kind="setting", text=visible_line(f"{line.name}: {line.words}"), setting=line)


def _note_lines(
    event: e.Compacted
    | e.SkillRegistryChanged
    | e.ApprovalGiven
    | e.HookTimeout
    | e.HookError
    | e.MCPServerDown
    | e.BackgroundStarted
    | e.BackgroundEnded
    | e.UndoApplied
    | e.AsideAsked
    | e.AsideAnswered
    | e.StreamGap,
    agent: AgentFold,
    wording: Wording,
) -> list[str]:
    match event:
        case e.Compacted():
            return compacted_lines(event, agent.prefix, hint=wording.compaction_hint)
        case e.SkillRegistryChanged():
            return progress.skill_change_lines(event)
        case e.ApprovalGiven(by=by, given=given, keys=keys):
            return [f"{f'{given} of {keys}':<9}{approver(by)} said yes; another person has to as well"]
        case e.HookTimeout(command=command, timeout_ms=timeout_ms):
            data: dict[str, Any] = {
                "event": event.event,
                "command": command,
                "timeout_s": f"{timeout_ms / 1000:g}",
            }
            return [visible(sentence("HookTimeout", data))]
        case e.HookError(command=command, message=message):
            return [visible(f"Hook {command} failed at {event.event}: {message}")]
        case e.MCPServerDown(name=name, reason=reason, attempts=attempts):
            data = {"name": name, "problem": reason, "attempts": attempts}
            return [visible(sentence("MCPServerUnavailable", data))]
        case e.BackgroundStarted(call_id=call_id, command=command):
            call = agent.calls.get(call_id)
            allowed = "" if call is None else allowed_text(call, wording.reader)
            return [f"started  {f'{short_text(command)} (in the background)':<30} {allowed}".rstrip()]
        case e.BackgroundEnded(outcome=outcome):
            job = agent.ended_job
            what = f"{short_text(job)} (in the background)" if job else "background command"
            return [f"{'stopped' if outcome == 'cancelled' else 'ended':<8} {what}"]
        case e.UndoApplied():
            return undone_lines(event, wording)
        case e.AsideAsked(question=question):
            return [f"btw      {short_text(question)}"]
        case e.AsideAnswered(answer=answer, message=message):
            return [f"         {line}" for line in visible(answer or message or "").splitlines()]
        case e.StreamGap(first=first, last=last):
            return [f"{last - first + 1} events were skipped here"]


def undone_lines(applied: e.UndoApplied, wording: Wording) -> list[str]:
    undo, redo = wording.undo, wording.redo
    if name := applied.worktree:
        undo, redo = f"/worktrees undo {name}", f"/worktrees redo {name}"
    done = f"Done again. {undo} takes it back." if applied.redone else f"Undone. {redo} brings it back."
    lines = [f"{done} The conversation is unchanged; the model has been told."]
    if applied.left:
        left = ", ".join(visible_line(path) for path in applied.left)
        lines.append(f"Left as they are: {left}")
    return lines
