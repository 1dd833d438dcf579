"""Events under the dotted names that other tools know, as lines of a transcript or of a chain. Pure.

Only events with a name here are written; the log itself holds everything. Names, fields, numbers and ids follow from
events alone, so the same log always gives the same lines. In a chain, each line names the one before it:

    {"version": 1, "seq": 7, "uuid": "…", "parentUuid": "…", "timestamp": "…", "sessionId": "sess_…",
     "turnId": "turn_2", "cwd": "/home/me", "event": {"type": "assistant.completed", …}}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias, assert_never
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec

from bridle.base.clock import iso_ms
from bridle.base.secrets.redact import redact
from bridle.protocol import events as e
from bridle.protocol.codec import is_expired
from bridle.protocol.messages import FileMention, ImageBlock, InputBlock, Usage

Fields: TypeAlias = dict[str, Any]

_HOOK_NOTICES = {"HookWarned": "warn", "HookPatched": "patch"}
_HOOK_BLOCKS = frozenset({"HookBlocked", "HookFailed", "HookHashChanged", "HookNotApproved"})


class Told(msgspec.Struct, frozen=True):
    """One thing that happened: its dotted name, and what belongs to it."""

    name: str
    fields: Fields


class Target(msgspec.Struct, frozen=True):
    """The target of a permission."""

    kind: Literal["tool", "agent"]
    name: str

    @property
    def fields(self) -> Fields:
        return {"targetType": self.kind, "targetName": self.name}


class InvocationFields:
    """Whose doing each event of a session is. It takes them in order, from the first one on."""

    def __init__(self) -> None:
        self._parents: dict[str, str | None] = {}

    def of(self, envelope: e.Envelope) -> Fields:
        """The agent that was sent, its path and who sent it; nothing for the main one."""
        if isinstance(envelope.event, e.ChildStarted):
            self._parents[envelope.event.invocation] = envelope.invocation
        path = envelope.agent_path
        if not path and envelope.invocation is None:
            return {}
        return {
            "invocationId": envelope.invocation,
            "parentInvocationId": self._parents.get(envelope.invocation or ""),
            "agent": path[-1] if path else None,
            "agentPath": list(path) or None,
        }


class DottedEvents:
    """Takes the events of one session in order, from its first one on."""

    def __init__(self) -> None:
        self._said: dict[str | None, list[str]] = {}
        """The words of each running answer, by the invocation that asked for it."""
        self._targets: dict[str, Target] = {}

    def of(self, envelope: e.Envelope) -> Iterator[Told]:
        """The names of this event: none, one, or two where it means two things."""
        event = envelope.event
        match event:
            case e.SessionCreated():
                yield Told("session.started", _session(event))
            case e.SessionEnded(cause=cause):
                yield Told("session.ended", {"cause": cause})
            case e.InputAccepted(goal=goal, child=child) if goal is not None or child:
                return  # nobody said it
            case e.InputAccepted():  # what a child is told nobody typed
                name = "user.message" if envelope.invocation is None else "agent.invocation.handoff"
                yield Told(name, _message(event))
            case e.PrefixSet(tools=tools) if envelope.invocation is not None:
                names = [tool.name for tool in tools]
                yield Told("agent.invocation.tool_policy.applied", {"tools": names})
            case e.ContextAdded(source="hook"):
                yield Told("hook.fired", {"decision": "context", "text": e.text_of(event.content)})
            case e.Notice(reason=reason) if reason in _HOOK_NOTICES:
                yield Told("hook.fired", {"decision": _HOOK_NOTICES[reason], "message": event.message})
            case e.HookTimeout() | e.HookError():
                yield Told("hook.failed", _hook(event))
            case e.StepStarted() | e.TextDelta() | e.StepEnded() | e.StepFailed() | e.CostIncremented():
                yield from self._step(event, envelope.invocation)
            case e.Compacted():
                name = "agent.session.context_compacted" if envelope.agent_path else "context.compacted"
                yield Told(name, _compacted(event))
            case e.ToolCallRequested() | e.ToolCallStarted() | e.ToolResult():
                yield from self._call(event)
            case e.PermissionRequested() | e.PermissionDecided():
                yield self._permission(event)
            case e.ChildStarted() | e.ChildEnded():
                yield from _child(event)
            case e.ChildMemoryUpdated():
                yield Told("agent.session.memory_updated", _memory(event))
            case e.TurnEnded():
                yield from self._words(envelope.invocation, complete=False)
                yield Told("turn.ended", _turn(event))
            case e.GoalBegun(text=text):
                yield Told("goal.started", {"text": text, "check": event.check.command})
            case e.GoalChecked():
                yield Told("goal.checked", _fields(event, "round", "passed", "problem"))
            case e.GoalEnded():
                yield Told("goal.ended", _goal(event))
            case e.UnknownEvent() if is_expired(event):
                yield Told("content.expired", {"kind": event.kind})
            case (
                e.TurnStarted() | e.CommandTaken() | e.ApprovalGiven() | e.TurnTiming() | e.Cancelled()
                | e.Branched() | e.PrefixSet() | e.ContextAdded() | e.ThinkingDelta() | e.BackgroundStarted()
                | e.BackgroundEnded() | e.UndoApplied() | e.GitEnded() | e.QuestionAsked() | e.QuestionAnswered()
                | e.TodosChanged() | e.ModelChanged() | e.ModeChanged() | e.EffortChanged() | e.InputChanged()
                | e.AsideAsked() | e.AsideAnswered() | e.GrantAdded() | e.GrantRevoked() | e.MCPServerDown()
                | e.SkillRegistryChanged() | e.Degraded() | e.Notice() | e.Error() | e.CustomEvent()
                | e.ToolCallProgress() | e.StreamGap() | e.TokenExpiring() | e.Presence() | e.ClientRequest()
                | e.UnknownEvent()
            ):  # fmt: skip
                return
            case _:
                assert_never(event)

    def _step(
        self,
        event: e.StepStarted | e.TextDelta | e.StepEnded | e.StepFailed | e.CostIncremented,
        invocation: str | None,
    ) -> Iterator[Told]:
        match event:
            case e.StepStarted():
                self._said.pop(invocation, None)
                yield Told("context.compiled", {"step": event.step})
                yield Told("model.request", _fields(event, "step", "provider", "model"))
            case e.TextDelta(text=text):
                self._said.setdefault(invocation, []).append(text)
                yield Told("model.text.delta", {"text": text})
            case e.StepEnded():
                yield from self._words(invocation, complete=True)
                if event.stop == "content_filter":
                    yield Told("model.content_filter", {"step": event.step})
            case e.StepFailed():
                self._said.pop(invocation, None)
                if event.retry_in_ms is not None:
                    yield Told("provider.retry", _retry(event))
            case e.CostIncremented():
                cost = _fields(event, "provider", "model", "usd")
                yield Told("model.usage", {**cost, **usage_fields(event.usage)})

    def _words(self, invocation: str | None, *, complete: bool) -> Iterator[Told]:
        """The answer as a whole; a turn that was cut off keeps the words somebody has read.

        Put together it may show a secret that none of its parts did.
        """
        if text := "".join(self._said.pop(invocation, ())):
            yield Told("model.text", {"text": redact(text), "complete": complete})

    def _call(self, event: e.ToolCallRequested | e.ToolCallStarted | e.ToolResult) -> Iterator[Told]:
        call: Fields = {"callId": event.call_id, "tool": event.tool}
        match event:
            case e.ToolCallRequested():
                self._targets[event.call_id] = _target(event.tool, event.input)
                yield Told("tool.requested", {**call, "step": event.step, "input": event.input})
                if event.tool == e.DELEGATE:
                    asked = {"callId": event.call_id, "agent": event.input.get("agent")}
                    yield Told("agent.invocation.requested", asked)
            case e.ToolCallStarted():
                yield Told("tool.started", {**call, "input": event.input, "mutating": event.mutating})
            case e.ToolResult():
                self._targets.pop(event.call_id, None)
                if event.reason in _HOOK_BLOCKS:
                    yield Told("hook.fired", {"decision": "block", **call})
                name = "tool.completed" if event.outcome == "ok" else "tool.failed"
                yield Told(name, {**call, **_result(event)})

    def _permission(self, event: e.PermissionRequested | e.PermissionDecided) -> Told:
        target = self._targets.get(event.call_id) or Target("tool", event.tool)
        about = {"callId": event.call_id, **target.fields}
        if isinstance(event, e.PermissionRequested):
            asked = {"decision": "ask", "risk": event.risk, "why": event.why, "input": event.input}
            return Told("permission.requested", {**about, **asked})
        name = "permission.granted" if event.verdict == "allow" else "permission.denied"
        decided = {"decision": event.verdict, "decidedBy": event.decided_by, "rule": event.rule}
        said = {"answeredBy": event.answered_by, "reason": event.reason, "note": event.note}
        if event.answered_name:
            said["answeredName"] = event.answered_name
        return Told(name, {**about, **decided, **said})


def _fields(event: object, *names: str) -> Fields:
    """These fields of an event, in camel case."""
    parts = (name.split("_") for name in names)
    camel = (first + "".join(map(str.capitalize, rest)) for first, *rest in parts)
    return dict(zip(camel, (getattr(event, name) for name in names), strict=True))


def given_fields(fields: Fields) -> Fields:
    """Those that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def usage_fields(usage: Usage) -> dict[str, int]:
    return _fields(usage, "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


def _target(tool: str, given: Fields) -> Target:
    agent = given.get("agent")
    if tool == e.DELEGATE and isinstance(agent, str):
        return Target("agent", agent)
    return Target("tool", tool)


def _session(event: e.SessionCreated) -> Fields:
    return {**_fields(event, "cwd", "profile", "mode", "resumed"), "sandbox": event.sandbox or None}


def _goal(event: e.GoalEnded) -> Fields:
    return {**_fields(event, "reached", "rounds", "reason"), "changedFiles": list(event.changed)}


def _message(event: e.InputAccepted) -> Fields:
    return {
        "text": e.text_of(event.content),
        "images": _count(event.content, ImageBlock),
        "files": [block.path for block in event.content if isinstance(block, FileMention)] or None,
        "mode": event.mode,
        "identity": event.identity,
    }


def _count(content: tuple[InputBlock, ...], kind: type[InputBlock]) -> int | None:
    return sum(isinstance(block, kind) for block in content) or None


def _hook(event: e.HookTimeout | e.HookError) -> Fields:
    if isinstance(event, e.HookTimeout):
        return _fields(event, "event", "command", "timeout_ms")
    return _fields(event, "event", "command", "exit_code", "message")


def _compacted(event: e.Compacted) -> Fields:
    return {
        **_fields(event, "why", "by", "summary", "tokens_before", "tokens_after", "summary_tokens"),
        "messagesDropped": event.dropped.messages,
        "messagesKept": event.kept.messages,
        "resultsCleared": len(event.cleared),
    }


def _retry(event: e.StepFailed) -> Fields:
    return _fields(event, "step", "attempt", "attempts", "reason", "message", "retry_in_ms")


def _result(event: e.ToolResult) -> Fields:
    return _fields(event, "outcome", "content", "reason", "duration_ms")


def _child(event: e.ChildStarted | e.ChildEnded) -> Iterator[Told]:
    child = {"childInvocationId": event.invocation, "childAgent": event.agent}
    if isinstance(event, e.ChildStarted):
        model = {"provider": event.provider or None, "model": event.model or None}
        sent = {"task": event.task, **model, "callId": event.call_id or None}
        yield Told("agent.invocation.started", {**child, **sent})
        return
    name = "completed" if event.ok else "cancelled" if event.stop == "cancelled" else "failed"
    came_to = {"steps": event.steps, "costUsd": event.usd, "toolsUsed": list(event.tools_used)}
    said = {"result": event.result, "stop": event.stop, "stoppedBy": event.stopped_by or None}
    yield Told(f"agent.invocation.{name}", {**child, **said, **came_to})


def _memory(event: e.ChildMemoryUpdated) -> Fields:
    kept = event.memory
    return {
        "childAgent": event.agent,
        "memoryKey": event.memory_id,
        "summary": kept.summary,
        "findings": list(kept.findings),
        "decisions": list(kept.decisions),
        "openQuestions": list(kept.questions),
        "relevantFiles": list(kept.files),
        "lastResults": [{"task": one.task, "resultPreview": one.preview} for one in kept.results],
        "tokens": event.tokens,
        "tokensBefore": event.tokens_before or None,
        "entriesDropped": event.dropped or None,
    }


def _turn(event: e.TurnEnded) -> Fields:
    return _fields(event, "stop", "reason", "message", "steps")


# {"type": "tool.completed", "sessionId": "sess_…", "rootSessionId": "sess_…", "eventId": 17, …, "ts":
# 1700000000000}


_encode = msgspec.json.Encoder().encode


def events_lines(envelopes: Iterable[e.Envelope]) -> Iterator[bytes]:
    """The transcript of a whole session, each line with its newline."""
    form = EventsForm()
    for envelope in envelopes:
        yield from form.lines(envelope)


class EventsForm:
    """The same for a session as it grows: it takes the events in order, from the first one on."""

    def __init__(self) -> None:
        self._dotted = DottedEvents()
        self._invocations = InvocationFields()

    def lines(self, envelope: e.Envelope) -> Iterator[bytes]:
        whose = self._invocations.of(envelope)
        for told in self._dotted.of(envelope):
            yield _encode(_line(told, envelope, whose)) + b"\n"

    def about(self, envelope: e.Envelope) -> None:
        """Return None: this transcript has no file beside it."""


def _line(told: Told, envelope: e.Envelope, whose: Fields) -> dict[str, Any]:
    """An agent's own part of the session is named by its path in it."""
    path = envelope.agent_path
    line: dict[str, Any] = {
        "type": told.name,
        "sessionId": envelope.session,
        "rootSessionId": envelope.session,
        "eventId": envelope.id,
        "turn": envelope.turn,
        "agentSessionId": "/".join((envelope.session, *path)) if path else None,
        **whose,
        **told.fields,
        "ts": envelope.ts_ms,
    }
    return {name: value for name, value in line.items() if value is not None}


VERSION = 1
NAMES = {
    "user.message": "user.message",
    "model.text.delta": "assistant.delta",
    "model.text": "assistant.completed",
    "tool.started": "tool.started",
    "permission.requested": "tool.permission",
    "permission.granted": "tool.permission",
    "permission.denied": "tool.permission",
    "tool.completed": "tool.completed",
    "tool.failed": "tool.completed",
}
"""Dotted names and their names in a chain. Ends of turns are written too, with their tokens."""
CHILD_NAMES = {
    "agent.invocation.started": "agent.started",
    "agent.invocation.completed": "agent.completed",
    "agent.invocation.failed": "agent.completed",
    "agent.invocation.cancelled": "agent.completed",
    "model.text": "agent.message",
    "tool.started": "agent.tool.started",
    "tool.completed": "agent.tool.completed",
    "tool.failed": "agent.tool.completed",
}
"""The same for subagents: none of these names is used for the conversation itself."""
_OF_CHILD = frozenset(name for name in CHILD_NAMES if name.startswith("agent."))


def chain_lines(envelopes: Iterable[e.Envelope]) -> Iterator[bytes]:
    """The transcript of a whole session, each line with its newline."""
    form = ChainForm()
    for envelope in envelopes:
        yield from form.lines(envelope)


class ChainForm:
    """The same for a session as it grows: it takes the events in order, from the first one on."""

    def __init__(self) -> None:
        self._dotted = DottedEvents()
        self._invocations = InvocationFields()
        self._used: Counter[str] = Counter()
        self._seq = 0
        self._parent: UUID | None = None
        self._cwd = ""
        self._created_ms: int | None = None

    def lines(self, envelope: e.Envelope) -> Iterator[bytes]:
        if self._created_ms is None:
            self._created_ms = envelope.ts_ms
        if isinstance(envelope.event, e.SessionCreated):
            self._cwd = envelope.event.cwd
        if isinstance(envelope.event, e.CostIncremented):
            self._used.update(usage_fields(envelope.event.usage))
        whose, is_own = given_fields(self._invocations.of(envelope)), e.concerns(envelope)
        for told in self._dotted.of(envelope):
            if (event := self._event(told, is_own=is_own)) is not None:
                yield _encode({**self._line(event, envelope), **whose}) + b"\n"

    def about(self, envelope: e.Envelope) -> bytes:
        """The session as one object, up to its event `envelope`, for the file beside the transcript."""
        facts = {
            "version": VERSION,
            "sessionId": envelope.session,
            "cwd": self._cwd,
            "createdAt": iso_ms(self._created_ms or envelope.ts_ms),
            "updatedAt": iso_ms(envelope.ts_ms),
            "lastSeq": self._seq,
            "lastUuid": None if self._parent is None else str(self._parent),
        }
        return _encode(facts) + b"\n"

    def _event(self, told: Told, *, is_own: bool) -> Fields | None:
        if told.name == "turn.ended" and is_own:
            return self._turn(told.fields)
        names = NAMES if is_own and told.name not in _OF_CHILD else CHILD_NAMES
        name = names.get(told.name)
        return None if name is None else {"type": name, **given_fields(told.fields)}

    def _turn(self, fields: Fields) -> Fields:
        usage = dict(self._used)
        self._used.clear()
        name = "turn.completed" if fields["stop"] in ("end_turn", "max_tokens") else "turn.failed"
        return {"type": name, **given_fields(fields), "usage": usage}

    def _line(self, event: Fields, envelope: e.Envelope) -> dict[str, Any]:
        self._seq += 1
        parent, self._parent = self._parent, _uuid(envelope.session, self._seq)
        return {
            "version": VERSION,
            "seq": self._seq,
            "uuid": str(self._parent),
            "parentUuid": None if parent is None else str(parent),
            "timestamp": iso_ms(envelope.ts_ms),
            "sessionId": envelope.session,
            "turnId": None if envelope.turn is None else f"turn_{envelope.turn}",
            "cwd": self._cwd,
            "event": event,
        }


def _uuid(session: str, seq: int) -> UUID:
    return uuid5(NAMESPACE_URL, f"bridle:{session}/{seq}")
