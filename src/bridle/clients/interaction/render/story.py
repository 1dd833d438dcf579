"""Render events as short lines, in the same words for every client.

A call *ran*, was *not run*, or its end is *unknown*; a line about a call that did not run never has an exit code or a
duration.
"""

from __future__ import annotations

from collections.abc import Callable
from shlex import quote
from typing import Any, Literal, TypeAlias, assert_never, get_args

from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible
from bridle.base.text.untrusted import unwrapped
from bridle.clients.interaction.render.output_excerpt import excerpt, plain_line, printed_text
from bridle.clients.interaction.render.progress_text import (
    SAID_LINES,
    ChildStories,
    ToldRow,
    goal_lines,
    said_lines,
    skill_change_lines,
    skill_named,
)
from bridle.protocol import display_values as d
from bridle.protocol import events as e
from bridle.protocol.display_values import (
    AnyShown,
    EditedFile,
    ShownCommand,
    ShownEdit,
    ShownJudgement,
    ShownWait,
)
from bridle.protocol.errors import sentence
from bridle.protocol.messages import TextBlock
from bridle.protocol.questions import UndoPreview

COMMAND_WIDTH = 60
REASON_WIDTH = 120

ChildWords: TypeAlias = Literal["none", "some", "all"]
"""How much is told of what agents say that were sent."""

_Silent: TypeAlias = (
    e.SessionCreated
    | e.InputAccepted
    | e.TurnStarted
    | e.TurnEnded
    | e.TurnTiming
    | e.SessionEnded
    | e.Branched
    | e.CommandTaken
    | e.ThinkingDelta
    | e.CostIncremented
    | e.PermissionRequested
    | e.ToolCallProgress
    | e.QuestionAsked
    | e.QuestionAnswered
    | e.ModelChanged
    | e.ModeChanged
    | e.EffortChanged
    | e.GrantAdded
    | e.GrantRevoked
    | e.ChildEnded
    | e.ChildMemoryUpdated
    | e.CustomEvent
    | e.TokenExpiring
    | e.Presence
    | e.ClientRequest
    | e.UnknownEvent
)
"""What adds no line of its own: it is seen by what it changes, or by what follows."""
_SILENT = frozenset(get_args(_Silent))
_OF_CHILDREN = frozenset({e.ChildStarted, e.ChildEnded})


class Story:
    """Turns events into lines. Keeps what a later line needs: inputs of calls and who allowed them.

    What a command printed is told whole if a person typed it, unless `typed` leaves that to whoever asks for `whole`;
    of the model's own, `outputs` tells a little. `hint` says where to see what a compaction dropped; `undo` and `redo`
    are what one types here for either. `child_words` are told of what agents say that were sent. `reader` is the name
    of whoever reads it, as their token gives it; without one it is the engine's own person.
    """

    def __init__(
        self,
        *,
        diffs: bool = False,
        words: bool = False,
        outputs: bool = False,
        typed: bool = True,
        hint: str = "",
        undo: str = "/undo",
        redo: str = "/redo",
        child_words: ChildWords = "none",
        reader: str = "",
    ) -> None:
        self._reader = reader
        self._diffs = diffs
        self._tells_typed = typed
        self._outputs = outputs
        self._words = words
        self._hint = hint
        self._undo = undo
        self._redo = redo
        self._prefix: e.PrefixSet | None = None
        self._inputs: dict[str, dict[str, Any]] = {}
        self._allowed: dict[str, str] = {}
        self._denied: dict[str, e.PermissionDecided] = {}
        self._text: list[str] = []
        self._typed: set[str] = set()
        self._started: set[str] = set()
        self._background: dict[str, str] = {}
        self._provider = "the provider"
        self._todos: tuple[e.Todo, ...] = ()
        self._has_goal = False
        self._child_words: ChildWords = child_words
        self._children: ChildStories | None = None
        self._sent: set[str] = set()

    def told(self, envelope: e.Envelope) -> list[str]:
        """The lines this event adds to the story of its session: what a child does stands behind its path."""
        if not _is_of_child(envelope):
            return self.lines(envelope.event)
        return [f"{row.path}: {row.text}" if row.path else row.text for row in self.child_rows(envelope)]

    def nested(self, envelope: e.Envelope) -> list[str]:
        """The same with what a child does below whoever sent it."""
        if not _is_of_child(envelope):
            return self.lines(envelope.event)
        return [f"{row.lead}{row.text}" for row in self.child_rows(envelope)]

    def child_rows(self, envelope: e.Envelope) -> list[ToldRow]:
        """The lines of an event that a child brings, or that says of one that it begins or ends; of others none."""
        if not _is_of_child(envelope):
            return []
        if self._children is None:
            self._children = ChildStories(self.lines, self._of_child)
        return self._children.rows(envelope)

    def _of_child(self) -> Callable[[e.AnyEvent], list[str]]:
        return ChildStory(
            diffs=self._diffs,
            outputs=self._outputs,
            child_words=self._child_words,
            reader=self._reader,
        ).lines

    def lines(self, event: e.AnyEvent) -> list[str]:
        """The lines this event adds, mostly none."""
        if type(event) in _SILENT:
            return []
        match event:  # for each case the type is asked, which takes a while: what comes often comes first
            case e.TextDelta():
                self._text.append(event.text)
                return []
            case e.ToolCallRequested():
                self._inputs[event.call_id] = event.input
                if event.step == 0 and event.tool == "bash" and not self._has_goal:  # then it is the check
                    self._typed.add(event.call_id)
                return []
            case e.PermissionDecided():
                self._take_decision(event)
                return []
            case e.ToolCallStarted():
                self._started.add(event.call_id)
                return []
            case e.ToolResult():
                return self._result(event)
            case e.StepStarted():
                self._text.clear()
                self._provider = event.provider
                return []
            case e.StepEnded():
                said = "".join(self._text)
                self._text.clear()
                return self._said(event, said) if said else []
            case e.ApprovalGiven(by=by, given=given, keys=keys):
                return [f"{f'{given} of {keys}':<9}{approver(by)} said yes; another person has to as well"]
            case e.ChildStarted(call_id=call_id):
                self._sent.add(call_id)
                return []
            case e.StepFailed():
                self._text.clear()
                return [visible(self.failure(event))]
            case e.PrefixSet():
                self._prefix = event
                return []
            case e.Compacted():
                from bridle.clients.interaction.render.usage import compacted_lines

                return compacted_lines(event, self._prefix, hint=self._hint)
            case e.ContextAdded():
                return _added(event)
            case e.SkillRegistryChanged():
                return skill_change_lines(event)
            case e.Notice(reason="NothingToUndo", data={"preview": preview}):
                return [visible(event.message), *_in_the_way(preview)]
            case e.Degraded() | e.Notice():
                return [visible(event.message)]
            case e.HookTimeout() | e.HookError():
                return [visible(_hook_trouble(event))]
            case e.MCPServerDown(name=name, reason=reason, attempts=attempts):
                data = {"name": name, "problem": reason, "attempts": attempts}
                return [visible(sentence("MCPServerUnavailable", data))]
            case e.BackgroundStarted():
                what = self._background[event.call_id] = f"{_short(event.command)} (in the background)"
                return [f"started  {what:<30} {self._allowed.pop(event.call_id, '')}".rstrip()]
            case e.BackgroundEnded():
                what = self._background.pop(event.call_id, "background command")
                return [f"{'stopped' if event.outcome == 'cancelled' else 'ended':<8} {what}"]
            case e.UndoApplied():
                return self._undone(event)
            case e.GitEnded():
                from bridle.clients.interaction.questions.git_form import git_lines

                return list(git_lines(event))
            case e.GoalBegun() | e.GoalChecked() | e.GoalEnded():
                self._has_goal = not isinstance(event, e.GoalEnded)
                return goal_lines(event)
            case e.TodosChanged():
                return self._planned(event)
            case e.InputChanged(change="edit", content=content):
                return [f"edited   {_short(e.text_of(content))}"]
            case e.InputChanged(change="drop", content=content):
                return [f"dropped  {_short(e.text_of(content)) or 'a queued message'}"]
            case e.InputChanged():
                return []
            case e.AsideAsked(question=question):
                return [f"btw      {_short(question)}"]
            case e.AsideAnswered(answer=answer, message=message):
                return [f"         {line}" for line in visible(answer or message or "").splitlines()]
            case e.Cancelled():
                return ["stopped"]
            case e.StreamGap():
                return [f"{event.last - event.first + 1} events were skipped here"]
            case e.Error():
                return [visible(event.message)]
            case _:
                return _no_lines(event)

    def failure(self, failed: e.StepFailed, *, left_s: float | None = None) -> str:
        """An attempt that failed: shorter than its sentence, which is for programs, where a person waits.

        `left_s` is what is left of the wait, where somebody looks on.
        """
        if failed.retry_in_ms is None:
            return failed.message
        wait = f"{failed.retry_in_ms / 1000 if left_s is None else left_s:.3g} s"
        if failed.attempts is None:
            return f"{failed.message} Trying again in {wait}."
        tried = f"try {failed.attempt + 1} of {failed.attempts}"
        match failed.reason:
            case "RateLimited":
                return f"{self._provider} asks us to wait {wait} (rate limit, {tried}). Ctrl-C stops."
            case "StreamSilent":  # its sentence says so itself
                return failed.message
            case _:
                return f"{failed.message} Trying again in {wait} ({tried})."

    def _said(self, step: e.StepEnded, text: str) -> list[str]:
        """What is told of words of the model: the answer stands elsewhere."""
        return visible(text).splitlines() if self._words and step.calls else []

    def _take_decision(self, decided: e.PermissionDecided) -> None:
        if decided.verdict == "deny":
            self._denied[decided.call_id] = decided
        elif decided.decided_by == "rule":
            rule, origin = _shown(decided.rule), _shown(decided.origin) or "rule"
            self._allowed[decided.call_id] = f"allowed by {origin} '{rule}'"
        elif decided.decided_by == "yes":
            self._allowed[decided.call_id] = "allowed by --yes"
        elif decided.approvals:
            people = " and ".join(approver(one) for one in decided.approvals)
            self._allowed[decided.call_id] = f"allowed by {people}"
        elif decided.answered_name or decided.answered_by:
            self._allowed[decided.call_id] = f"allowed by {self._who(decided.answered_name)}"

    def _who(self, name: str) -> str:
        return "you" if name == self._reader else _shown(name) or _TERMINAL

    def _result(self, result: e.ToolResult) -> list[str]:
        given = self._inputs.pop(result.call_id, {})
        what = describe_call(result.tool, given)
        if result.call_id in self._sent:
            return []  # of the agent that was sent everything was told
        if result.reason is not None and (said := _judgement(result)):
            return [f"judged   {what:<30} you said: {said}"]
        if result.outcome == "unknown":
            return [f"unknown  {what:<30} Bridle stopped while it ran"]
        if result.outcome == "cancelled" and result.call_id not in self._started:
            return [f"not run  {what:<30} stopped before it began"]
        if result.outcome == "cancelled":
            return [f"stopped  {what}"]
        if self._did_not_run(result):
            return [f"not run  {what:<30} {self._why_not(result, given)}"]
        if result.outcome == "ok" and (result.call_id in self._background or result.tool == "todo"):
            return []  # it was said when it started, and still runs; or the plan was told
        if result.call_id in self._typed:
            told = visible(self.whole(result)).splitlines() if self._tells_typed else []
            return [*told, f"ran      {what:<30} {'   '.join(_facts(result))}".rstrip()]
        facts = [*_facts(result), *filter(None, (self._allowed.pop(result.call_id, ""),))]
        line = f"ran      {what:<30} {'   '.join(facts)}".rstrip()
        return [line, *self._diff(result), *self._output(result)]

    def _did_not_run(self, result: e.ToolResult) -> bool:
        return did_not_run(result, began=result.call_id in self._started)

    def is_typed(self, result: e.ToolResult) -> bool:
        """Whether a person typed the command."""
        return result.call_id in self._typed

    def whole(self, result: e.ToolResult) -> str:
        """What a command printed that a person typed, as it was printed; empty for any other call."""
        if not self.is_typed(result) or self._did_not_run(result) or result.outcome not in _ENDED:
            return ""
        return printed_text(result)

    def excerpt(self, result: e.ToolResult, *, more: str = "") -> list[str]:
        """A little of what a command printed, as it was printed; nothing where all of it was told, or none."""
        told = result.call_id in self._typed or result.call_id in self._background
        if result.tool != "bash" or told or self._did_not_run(result) or result.outcome not in _ENDED:
            return []
        return excerpt(result, more=more)

    def _output(self, result: e.ToolResult) -> list[str]:
        lines = self.excerpt(result) if self._outputs else []
        if not lines:
            return []
        return [f"    {plain_line(line)}" for line in lines]

    def _diff(self, result: e.ToolResult) -> list[str]:
        files = edited_files(result) if self._diffs else ()
        if not files:
            return []
        from bridle.clients.interaction.render.edit_rows import edit_rows  # when the first file was changed

        rows = edit_rows(files, names=result.tool == "apply_patch" or len(files) > 1)
        return ["".join(piece.text for piece in row).rstrip() for row in rows]

    def _planned(self, changed: e.TodosChanged) -> list[str]:
        """How far the plan is, and what is being done; nothing where it is as it was."""
        if changed.todos == self._todos:
            return []
        from bridle.clients.interaction.render.progress_text import (  # most turns have none
            current_item,
            plan_title,
        )

        self._todos = changed.todos
        item = current_item(changed.todos)
        return [f"{plan_title(changed.todos):<39} {f'now: {_short(item)}' if item else ''}".rstrip()]

    def _undone(self, applied: e.UndoApplied) -> list[str]:
        name = applied.worktree
        undo, redo = (
            (f"/worktrees undo {name}", f"/worktrees redo {name}") if name else (self._undo, self._redo)
        )
        done = f"Done again. {undo} takes it back." if applied.redone else f"Undone. {redo} brings it back."
        lines = [f"{done} The conversation is unchanged; the model has been told."]
        if applied.left:
            lines.append(f"Left as they are: {', '.join(_shown(path) for path in applied.left)}")
        return lines

    def _why_not(self, result: e.ToolResult, given: dict[str, Any]) -> str:
        decided = self._denied.pop(result.call_id, None)
        match result.reason:
            case "NoApprover":
                if decided and decided.note:
                    return f"nobody is here to ask: {visible(decided.note, newlines=False)}"
                return f"nobody is here to ask. Let it: {_what_lets(result.tool, given)}"
            case "PermissionTimeout":
                return f"nobody answered in {_waited_s(result):g} s (no one was attached)"
            case "PermissionDenied":
                said = f"{self._who(decided.answered_name) if decided else 'you'} said no"
                return f'{said}: "{visible(decided.note)}"' if decided and decided.note else said
            case "RuleDenied" if decided:
                rule = _shown(decided.rule)
                pattern = rule.partition("(")[2].removesuffix(")") or rule
                return f'rule deny "{pattern}" ({_shown(decided.origin) or "rule"})'
            case "HookBlocked" if result.evidence:
                evidence = result.evidence
                return visible(f"hook {evidence.rule}: {evidence.matched}", newlines=False)
            case _:
                return visible(result.content.partition("\n")[0])


class ChildStory(Story):
    """What one agent does that was sent. Its answer is told here, if anything it says is."""

    def _said(self, step: e.StepEnded, text: str) -> list[str]:
        if self._child_words == "none":
            return super()._said(step, text)
        return said_lines(text, SAID_LINES if self._child_words == "some" else None)


_TERMINAL = "the terminal"
"""Who has no name is the person at the engine's own terminal."""
_SAID = {"happened": "it happened", "did not happen": "it did not", "undone": "undone"}
_VERBS = {
    "read_file": "read",
    "write_file": "write",
    "edit_file": "edit",
    "apply_patch": "patch",
    "ask_user": "ask",
    "web_fetch": "fetch",
}
_PLAIN = frozenset(" ./:=@%+,_-")
"""Beside letters and digits, what a rule takes as it stands: no wildcard, nothing a shell reads."""
_ENDED = frozenset({"ok", "error", "timeout"})
_CHANGED_NOTHING = frozenset({
    "TextNotFound", "PatchDoesNotApply", "ChangedSinceRead", "NeverRead", "ChangedSinceApproval",
    "NoWorktree", "AgentNotCallable", "AgentNotForCaller", "DelegationCycle", "DelegationTooDeep",
})  # fmt: skip


def _no_lines(_event: _Silent) -> list[str]:
    """For what is silent and for nothing else, as the type checker sees to."""
    return []


def _is_of_child(envelope: e.Envelope) -> bool:
    return envelope.invocation is not None or type(envelope.event) in _OF_CHILDREN


def did_not_run(result: e.ToolResult, *, began: bool) -> bool:
    """Whether nothing of the call happened: refused, impossible, or it could not even be started."""
    if result.outcome == "error" and (not began or result.reason in _CHANGED_NOTHING):
        return True
    return result.outcome in ("denied", "blocked") or result.reason == "CannotStart"


def describe_call(tool: str, given: dict[str, Any]) -> str:
    """A call in a few words: the command itself, or the tool's verb and its path."""
    if tool == "bash":
        command, job = str(given.get("command", "")), str(given.get("job", ""))
        return (
            f"{'stop' if given.get('stop') else 'look at'} {_short(job)}" if job else _short(command) or tool
        )
    if tool == e.DELEGATE:
        return _short(f"agent {given.get('agent', '')}: {given.get('task', '')}")
    verb = _VERBS.get(tool, visible(tool, newlines=False))
    about = next(
        (given[name] for name in ("pattern", "path", "question", "url") if isinstance(given.get(name), str)),
        "",
    )
    return f"{verb} {_short(about)}" if about else verb


def _what_lets(tool: str, given: dict[str, Any]) -> str:
    """The options of a run that let such a call happen: any, and a rule for this one where one can name it."""
    edits = tool in ("write_file", "edit_file", "apply_patch")
    about = given.get("command" if tool == "bash" else "path")
    if not isinstance(about, str) or not about:
        rule = "edit" if edits else "" if tool == "bash" else tool
    else:
        name = "edit" if edits else tool
        rule = f"{name}({about})" if len(about) <= COMMAND_WIDTH and _is_plain(about) else ""
    return f"-y, or --allow {quote(visible(rule, newlines=False))}" if rule else "-y"


def _hook_trouble(event: e.HookTimeout | e.HookError) -> str:
    if isinstance(event, e.HookError):
        return f"Hook {event.command} failed at {event.event}: {event.message}"
    data = {"event": event.event, "command": event.command, "timeout_s": f"{event.timeout_ms / 1000:g}"}
    return sentence("HookTimeout", data)


def _is_plain(text: str) -> bool:
    return all(character.isalnum() or character in _PLAIN for character in text)


def _shown(text: str | None) -> str:
    return visible(text or "", newlines=False)


def _added(event: e.ContextAdded) -> list[str]:
    """What joined the conversation, where a person should see that it did."""
    match event:
        case e.ContextAdded(source="pin", content=(*_, TextBlock(text=words))):
            return [f"pinned   {_short(words)}"]
        case e.ContextAdded(source="agent", content=(_, TextBlock(text=answer))):
            return visible(unwrapped("agent-result", answer)).splitlines()
        case e.ContextAdded(source="skill", content=(TextBlock(text=words), *_)):
            return [f"skill    {name}"] if (name := skill_named(words)) else []
        case e.ContextAdded(source="instructions", content=(TextBlock(text=text), *_)):
            return [f"rules    {_short(text.partition(chr(10))[0].removeprefix('# Instructions from '))}"]
        case _:
            return []


def _short(text: str, width: int = COMMAND_WIDTH) -> str:
    shown = visible(text.strip(), newlines=False)
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def _facts(result: e.ToolResult) -> list[str]:
    facts = [] if result.shown is None else _shown_facts(result.shown)
    if result.outcome == "timeout":
        facts.append("stopped: it took too long")
    elif result.outcome == "error" and not facts:
        facts.append(_short(result.content.strip().partition("\n")[0], REASON_WIDTH))
    if result.duration_ms is not None and result.duration_ms >= 100:
        facts.append(f"{result.duration_ms / 1000:.1f} s")
    return facts


def _shown_facts(shown: AnyShown) -> list[str]:
    match shown:
        case d.ShownCommand(exit_code=code, blocked=blocked):
            told = () if code is None else (f"exit {code}",)
            return [*told, "the sandbox blocked something"] if blocked else [*told]
        case d.ShownEdit(files=files):
            removed = [file.removed for file in files if file.removed is not None]
            less = f" -{sum(removed)}" if removed else ""  # of what could not be compared nobody can tell
            return [f"+{sum(file.added for file in files)}{less}"]
        case d.ShownRead():
            return [counted(shown.last_line - shown.first_line + 1, "line")]
        case d.ShownServerResult(pictures=pictures):
            return [counted(pictures, "picture")] if pictures else []
        case d.ShownChild(steps=steps, usd=usd, ended=ended):
            cost = (f"${usd:.2f}",) if usd >= 0.005 else ()
            return [counted(steps, "step"), *cost] if ended else ["in the background"]
        case d.ShownSearch() | d.ShownJudgement() | d.ShownWait():
            return []
        case _:
            assert_never(shown)


def edited_files(result: e.ToolResult) -> tuple[EditedFile, ...]:
    """The files a call changed, each with what its tool says about it."""
    if result.shown is None or result.outcome != "ok":
        return ()
    return result.shown.files if isinstance(result.shown, ShownEdit) else ()


def diff_text(result: e.ToolResult) -> str:
    """What a call changed in files, as one text; empty where it changed none."""
    files = edited_files(result)
    cut = sum(file.cut for file in files)
    return "".join((*(file.diff for file in files), f"… {counted(cut, 'more file')}\n" if cut else ""))


def changed_paths(result: e.ToolResult) -> tuple[str, ...]:
    """The files a call changed, as its tool says or, of a command, as undo saw it."""
    if result.shown is None:
        return ()
    if isinstance(result.shown, ShownCommand):
        return result.shown.changed
    return tuple(file.path for file in edited_files(result))


def _judgement(result: e.ToolResult) -> str:
    """What a person said of a call that nobody saw end; empty where nobody was asked."""
    if result.shown is None:
        return ""
    if not isinstance(result.shown, ShownJudgement) or not result.shown.by:
        return ""
    return _SAID.get(result.shown.judgement, "it is not known")


def _waited_s(result: e.ToolResult) -> float:
    return result.shown.waited_s if isinstance(result.shown, ShownWait) else 60


def _in_the_way(preview: dict[str, Any]) -> list[str]:
    """What keeps an undo from changing anything."""
    import msgspec

    from bridle.clients.interaction.questions.undo_form import undo_lines  # only for this

    return undo_lines(msgspec.convert(preview, UndoPreview))


def approver(by: e.Approval) -> str:
    """Who said yes, for people: a name, or the terminal of the engine."""
    return _shown(by.name) or _TERMINAL
