"""The layer that lets a call pass, asks about it, or denies it. Every evaluation leaves one audit event."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from bridle.engine.questions import PERMISSION_TIMEOUT_S, PermissionAnswer
from bridle.engine.tools import RunTool, ToolCall, ToolLayer, ToolOutput
from bridle.protocol.errors import sentence
from bridle.protocol.events import Evidence, GrantAdded, PermissionDecided
from bridle.safety.closed import fail_closed
from bridle.safety.permissions import Decision, Permissions, Query, explanation

SOURCE = "permission_engine"
_HINT_CHARACTERS = 160

AskPerson: TypeAlias = Callable[[ToolCall, str], Awaitable[PermissionAnswer]]
"""Puts the question with the line that says why, and waits for whoever may answer."""
Record: TypeAlias = Callable[[PermissionDecided | GrantAdded], object]
"""Appends to the session's log."""


def permitted(permissions: Permissions, ask_person: AskPerson, record: Record) -> ToolLayer:
    """Behind this layer a call has been allowed, and the log says by what or by whom."""

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        query = permissions.query(call)
        decision = permissions.decide(query)
        answer: PermissionAnswer | None = None
        if decision.verdict == "ask" and call.by_person:
            answer = PermissionAnswer(answer="once", answered_by=call.originator)
            decision = _answered(decision, answer)
        elif decision.verdict == "ask" and permissions.yes:
            decision = msgspec.structs.replace(decision, verdict="allow", decided_by="yes")
        elif decision.verdict == "ask":
            why = explanation(query, decision, permissions.mode, call.definition.safety_notes)
            answer = await ask_person(call, why)
            decision = _answered(decision, answer)
        record(_audit(call, decision, answer))
        if decision.verdict != "allow":
            return _denied(call, query, decision, answer, permissions)
        if answer is not None:
            _keep(call, query, answer, permissions, record)
        return await proceed(call)

    return fail_closed(SOURCE, layer)


def _answered(asked: Decision, answer: PermissionAnswer) -> Decision:
    """The person's word; the rule that made us ask stays in the record."""
    return msgspec.structs.replace(
        asked,
        verdict="allow" if answer.allows else "deny",
        decided_by="person" if answer.answered_by is not None else "nobody",
        reason=None if answer.allows else answer.reason or "PermissionDenied",
    )


def _audit(call: ToolCall, decision: Decision, answer: PermissionAnswer | None) -> PermissionDecided:
    note = answer.note if answer is not None and answer.note else decision.note
    return PermissionDecided(
        call_id=call.id,
        tool=call.name,
        verdict="allow" if decision.verdict == "allow" else "deny",
        decided_by=decision.decided_by,
        rule=decision.rule,
        origin=decision.origin,
        reason=decision.reason,
        answered_by=answer.answered_by if answer is not None else None,
        note=note,
    )


def _keep(
    call: ToolCall, query: Query, answer: PermissionAnswer, permissions: Permissions, record: Record
) -> None:
    """Remembers a yes that was meant for more than once: exactly this command, exactly this path.

    `always` holds for this session here; keeping it longer is for whoever reads the event.
    """
    grants = _patterns(query, answer)
    for index, pattern in enumerate(grants):
        suffix = f"_{index}" if index else ""
        grant = GrantAdded(
            grant_id=f"grant_{call.id.removeprefix('call_')}{suffix}",
            tool=call.name,
            pattern=pattern,
            life="saved" if answer.answer == "always" else "session",
        )
        record(grant)
        permissions.remember(grant)


def _patterns(query: Query, answer: PermissionAnswer) -> tuple[str, ...]:
    match answer.answer:
        case "once" | "deny":
            return ()
        case "tool":
            return ("",)
        case "pattern" | "always":
            return (
                (query.command,) if query.command is not None else tuple(path.shown for path in query.paths)
            )


def _denied(
    call: ToolCall,
    query: Query,
    decision: Decision,
    answer: PermissionAnswer | None,
    permissions: Permissions,
) -> ToolOutput:
    reason = decision.reason or "PermissionDenied"
    rule = f"rule {decision.rule} ({decision.origin})"
    data = {
        "tool": call.name,
        "risk": query.risk,
        "mode": permissions.mode,
        "rule": rule,
        "client": (answer.answered_by if answer is not None else None) or "nobody",
        "timeout_s": f"{PERMISSION_TIMEOUT_S:g}",
        "hint": _hint(query),
    }
    content = sentence(reason, data)
    if answer is not None and answer.note:
        content += f" They said: {answer.note}"
    elif decision.note:
        content += f" {decision.note}"
    return ToolOutput(
        outcome="denied",
        reason=reason,
        content=content,
        evidence=Evidence(
            source=SOURCE,
            rule=rule if reason == "RuleDenied" else reason,
            matched=query.command or ", ".join(path.shown for path in query.paths),
            preview=explanation(query, decision, permissions.mode),
        ),
    )


def _hint(query: Query) -> str:
    """What to add to the command line so that this very call would be allowed."""
    pattern = query.command or (query.paths[0].shown if len(query.paths) == 1 else "")
    literal = bool(pattern) and len(pattern) <= _HINT_CHARACTERS and "\n" not in pattern
    rule = f"{query.tool}({pattern})" if literal else query.tool
    return f"To allow it: --allow {shlex.quote(rule)}"
