"""Fold events into the state that text about them needs: open calls, subagents, costs, waiting inputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from bridle.clients.interaction.render.usage import Tally
from bridle.protocol import events as e
from bridle.protocol import inbox
from bridle.protocol.child_tree import ChildTree
from bridle.protocol.display_values import EditedFile, ShownCommand, ShownEdit


class Call(msgspec.Struct, kw_only=True):
    """A tool call. `is_typed`: the user typed the command. `has_child`: it started a subagent. `result` is set once it
    has ended."""

    call_id: str
    tool: str
    input: dict[str, Any] = {}
    is_typed: bool = False
    is_started: bool = False
    has_child: bool = False
    in_background: bool = False
    allowed: e.PermissionDecided | None = None
    denied: e.PermissionDecided | None = None
    result: e.ToolResult | None = None


class AgentFold:
    """The state of one agent.

    `calls` are open. `ended` is the call of the last `ToolResult`, `ended_job` the command of the last
    `BackgroundEnded`, and `said` the text of the last `StepEnded` or `TurnEnded`. `has_new_plan` is about the last
    `TodosChanged`.
    """

    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}
        self.ended: Call | None = None
        self.jobs: dict[str, str] = {}
        self.ended_job = ""
        self.provider = "the provider"
        self.prefix: e.PrefixSet | None = None
        self.todos: tuple[e.Todo, ...] = ()
        self.has_new_plan = False
        self.has_goal = False
        self.said = ""
        self._text: list[str] = []

    def take(self, event: e.AnyEvent) -> None:
        match event:  # in order of frequency
            case e.TextDelta(text=text):
                self._text.append(text)
            case e.ToolCallRequested(call_id=call_id, tool=tool):
                is_typed = (
                    event.step == 0 and tool == "bash" and not self.has_goal
                )  # in a goal it is the check
                self.calls[call_id] = Call(call_id=call_id, tool=tool, input=event.input, is_typed=is_typed)
            case e.PermissionDecided():
                call = self._call(event.call_id, event.tool)
                if event.verdict == "deny":
                    call.denied = event
                else:
                    call.allowed = event
            case e.ToolCallStarted(call_id=call_id, tool=tool):
                self._call(call_id, tool).is_started = True
            case e.ToolResult(call_id=call_id, tool=tool):
                self.ended = self.calls.pop(call_id, None) or Call(call_id=call_id, tool=tool)
                self.ended.in_background = call_id in self.jobs
                self.ended.result = event
            case e.StepStarted(provider=provider):
                self._text.clear()
                self.provider = provider
            case e.StepFailed():
                self._text.clear()
            case e.StepEnded() | e.TurnEnded():
                self.said = "".join(self._text)
                self._text.clear()
            case e.ChildStarted(call_id=call_id) if call_id:
                self._call(call_id, e.DELEGATE).has_child = True
            case e.PrefixSet():
                self.prefix = event
            case e.BackgroundStarted(call_id=call_id, command=command):
                self.jobs[call_id] = command
            case e.BackgroundEnded(call_id=call_id):
                self.ended_job = self.jobs.pop(call_id, "")
            case e.TodosChanged(todos=todos):
                self.has_new_plan, self.todos = todos != self.todos, todos
            case e.GoalBegun() | e.GoalChecked():
                self.has_goal = True
            case e.GoalEnded():
                self.has_goal = False
            case _:
                pass

    def _call(self, call_id: str, tool: str) -> Call:
        return self.calls.setdefault(call_id, Call(call_id=call_id, tool=tool))


class SessionFold:
    """The state of a session. `used` includes subagents; `requests` counts model requests of the main agent and started
    subagents; `inputs` wait for their turn."""

    def __init__(self) -> None:
        self.main = AgentFold()
        self.children = ChildTree()
        self.used = Tally()
        self.created: e.SessionCreated | None = None
        self.requests = 0
        self.in_turn = False
        self.inputs: dict[int, inbox.PendingInput] = {}
        self._agents: dict[str, AgentFold] = {}

    def agent(self, invocation: str | None) -> AgentFold:
        """The state of a subagent, or of the main agent for None."""
        return self.main if invocation is None else self._agents.setdefault(invocation, AgentFold())

    def take(self, envelope: e.Envelope) -> None:
        event = envelope.event
        self.children.take(envelope)
        self.agent(envelope.invocation).take(event)
        if not e.concerns(envelope):
            return
        match event:
            case e.SessionCreated():
                self.created = event
            case e.CostIncremented():
                self.used.add(event)
            case e.StepStarted() | e.ChildStarted():
                self.requests += 1
            case e.ChildEnded(invocation=invocation):
                self._agents.pop(invocation, None)
            case e.InputAccepted() if envelope.id is not None:
                inbox.put(
                    self.inputs,
                    inbox.PendingInput(id=envelope.id, event=event, originator=envelope.originator),
                )
            case e.InputChanged():
                inbox.change(self.inputs, event)
            case e.TurnStarted(input=number):
                self.in_turn = True
                self.inputs.pop(number, None)
            case e.TurnEnded():
                self.in_turn = False
            case e.ContextAdded(input=number) if number is not None:
                self.inputs.pop(number, None)
            case _:
                pass


def edited_files(result: e.ToolResult) -> tuple[EditedFile, ...]:
    """The files that a file tool changed."""
    return result.shown.files if result.outcome == "ok" and isinstance(result.shown, ShownEdit) else ()


def changed_paths(result: e.ToolResult) -> tuple[str, ...]:
    """The files that a call changed: those of a file tool, or those that undo saw a command change."""
    if isinstance(result.shown, ShownCommand):
        return result.shown.changed
    return tuple(file.path for file in edited_files(result))


class FileChange(msgspec.Struct, kw_only=True):
    """One file: lines added and removed by every edit of it, and the edits themselves in order."""

    path: str
    added: int = 0
    removed: int = 0
    created: bool = False
    deleted: bool = False
    diffs: list[str] = []


class Changes(msgspec.Struct, kw_only=True):
    """`commands` counts calls that may have changed more files; `undone` counts edits that were undone."""

    files: dict[str, FileChange] = {}
    commands: int = 0
    undone: int = 0


def changes_of(envelopes: Iterable[e.Envelope]) -> Changes:
    """Every successful edit that was not undone. Edits in a subagent's own worktree are not in the session's folder."""
    results: dict[str, e.ToolResult] = {}
    undone: set[str] = set()
    mutating: set[str] = set()
    tree = ChildTree()
    for envelope in envelopes:
        tree.take(envelope)
        if tree.is_apart(envelope.invocation):
            continue
        match envelope.event:
            case e.ToolCallStarted(call_id=call_id, mutating=True):
                mutating.add(call_id)
            case e.ToolResult(outcome="ok" | "error" | "timeout" | "unknown") as result:
                results[result.call_id] = result
            case e.UndoApplied(calls=calls, redone=redone):
                undone = undone - set(calls) if redone else undone | set(calls)
            case _:
                pass
    changes = Changes()
    for call_id, result in results.items():
        edits = edited_files(result)
        if edits and call_id in undone:
            changes.undone += 1
        elif edits:
            _add(changes, edits)
        elif result.tool == "bash" and call_id in mutating and call_id not in undone:
            changes.commands += 1
    return changes


def _add(changes: Changes, edits: Iterable[EditedFile]) -> None:
    for edit in edits:
        file = changes.files.setdefault(edit.path, FileChange(path=edit.path))
        file.added += edit.added
        file.removed += edit.removed or 0
        file.created = file.created or edit.kind == "create"
        file.deleted = edit.kind == "delete"
        if edit.diff:
            file.diffs.append(edit.diff)
