"""The layer that lets a call pass, asks about it, or denies it. Every evaluation leaves one audit event.

Guards and hooks are step 1 of the order and stand before this layer; a call they stop has its evidence in its result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from shlex import quote
from typing import Literal, TypeAlias

import msgspec

from bridle.engine.known_files import KnownFiles
from bridle.engine.open_questions import PermissionAnswer
from bridle.engine.tools import RunTool, ToolCall, ToolLayer, ToolOutput
from bridle.protocol.display_values import ShownWait
from bridle.protocol.errors import BridleError, StoreError, sentence
from bridle.protocol.events import (
    Evidence,
    FileChange,
    GrantAdded,
    Notice,
    PermissionDecided,
    PermissionRequested,
)
from bridle.safety.call_risk import CallFacts, shown_parts
from bridle.safety.guards import fail_closed
from bridle.safety.permission_policy import Decision, Permissions
from bridle.safety.question_reasons import because, explanation, offers

SOURCE = "permission_engine"
_HINT_CHARACTERS = 160

AskPermission: TypeAlias = Callable[
    [PermissionRequested, Callable[[], bool]], Awaitable[PermissionAnswer | None]
]
"""Puts the question and waits for whoever may answer. None where it is not open any more when its turn has come."""


class HookWord(msgspec.Struct, frozen=True, kw_only=True):
    """A hook's answer to a permission question, in place of a person's."""

    verdict: Literal["allow", "deny"]
    by: str
    message: str = ""


HearHooks: TypeAlias = Callable[[ToolCall, str], Awaitable[HookWord | None]]
"""Asks hooks before a person is asked, with the line that says why; None leaves it to the person."""
ForeseeChanges: TypeAlias = Callable[[ToolCall], Awaitable[tuple[FileChange, ...] | ToolOutput]]
"""What a call would make of files, for whoever is asked about it; or the output of one that could only fail."""
RecordDecision: TypeAlias = Callable[[PermissionDecided | GrantAdded | Notice], object]
"""Appends to the session's log."""


async def _nothing_known(_call: ToolCall) -> tuple[FileChange, ...]:
    return ()


def foreseen_changes(cwd: str, known: KnownFiles) -> ForeseeChanges:
    """What a call's own tool says, worked out beside the loop."""

    async def changes(call: ToolCall) -> tuple[FileChange, ...] | ToolOutput:
        plan = call.definition.changes
        return () if plan is None else await asyncio.to_thread(plan, call.args, call, cwd, known)

    return changes


def permitted(
    permissions: Permissions,
    ask_person: AskPermission,
    record: RecordDecision,
    *,
    hear: HearHooks | None = None,
    changes: ForeseeChanges = _nothing_known,
) -> ToolLayer:
    """Behind this layer a call has been allowed, and the log says by what or by whom.

    Nobody is asked about a change that cannot be made: the call fails with what its tool says of it. That tells of the
    file, so it is for calls whose files the model may read without a question. Nor about an agent that cannot be sent.
    """

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        query = permissions.query(call)
        decision = permissions.decide(query)
        answer: PermissionAnswer | None = None
        foreseen: tuple[FileChange, ...] | ToolOutput = ()
        if decision.verdict == "ask" and not call.by_person:
            foreseen = await changes(call)
            if isinstance(foreseen, ToolOutput):
                if call.definition.handoff is not None or permissions.may_read(call):
                    return msgspec.structs.replace(foreseen, outcome="error")
                foreseen = ()
        if decision.verdict == "ask" and call.by_person and decision.keys == 1:
            answer = PermissionAnswer(answer="once", answered_by=call.originator)
            decision = _answered(decision, answer)
        elif decision.verdict == "ask" and (word := await _heard(hear, call, query, decision, permissions)):
            decision = _by_hook(decision, word)
        elif decision.verdict == "ask" and permissions.yes and not decision.for_person:
            decision = msgspec.structs.replace(decision, verdict="allow", decided_by="yes")
        elif decision.verdict == "ask":
            asked = msgspec.structs.replace(question(call, query, decision, permissions), changes=foreseen)
            answer = await ask_person(asked, lambda: permissions.decide(query).verdict == "ask")
            decision = permissions.decide(query) if answer is None else _answered(decision, answer)
        record(_audit(call, query, decision, answer))
        if decision.verdict != "allow":
            return _denied(call, query, decision, answer, permissions)
        if answer is not None:
            if decision.keys == 1:
                _keep(call, query, answer, permissions, record)
            call = msgspec.structs.replace(call, asked=True)
        if query.obeyed:
            call = msgspec.structs.replace(call, agreed=query.obeyed)
        return await proceed(call)

    return fail_closed(SOURCE, layer)


async def _heard(
    hear: HearHooks | None, call: ToolCall, query: CallFacts, decision: Decision, permissions: Permissions
) -> HookWord | None:
    """A hook's word, if it has one that counts here: what is asked anew each time or of a person, no hook allows."""
    if hear is None:
        return None
    word = await hear(call, explanation(query, decision, permissions.mode, call.definition.safety_notes))
    needs_person = query.asks_anew or decision.for_person
    return None if word is not None and word.verdict == "allow" and needs_person else word


def _by_hook(asked: Decision, word: HookWord) -> Decision:
    return msgspec.structs.replace(
        asked,
        verdict=word.verdict,
        decided_by="hook",
        rule=word.by,
        origin=None,
        reason=None if word.verdict == "allow" else "HookBlocked",
        note=word.message,
    )


def question(
    call: ToolCall, query: CallFacts, decision: Decision, permissions: Permissions
) -> PermissionRequested:
    """What a person is asked about a call, but for the digest that whoever asks puts on it."""
    return PermissionRequested(
        call_id=call.id,
        tool=call.name,
        input=call.input,
        risk=query.risk,
        why=explanation(query, decision, permissions.mode, call.definition.safety_notes),
        subjects=tuple(subject.value for subject in call.subjects),
        because=because(query, decision),
        parts=call.parts or shown_parts(query.script),
        offers=() if decision.keys > 1 else offers(query, persists=permissions.persists),
        keys=decision.keys,
        of_server=call.definition.of_server,
        handoff=handoff(call.args, call) if (handoff := call.definition.handoff) is not None else None,
    )


def _answered(asked: Decision, answer: PermissionAnswer) -> Decision:
    """The person's word; the rule that made us ask stays in the record."""
    return msgspec.structs.replace(
        asked,
        verdict="allow" if answer.allows else "deny",
        decided_by="person" if answer.answered_by is not None else "nobody",
        reason=None if answer.allows else answer.reason or "PermissionDenied",
    )


def _audit(
    call: ToolCall, query: CallFacts, decision: Decision, answer: PermissionAnswer | None
) -> PermissionDecided:
    note = answer.note if answer is not None and answer.note else decision.note
    if not note and decision.for_person and decision.reason == "NoApprover":
        note = " ".join((query.only_person, *(f"({flag})" for flag in query.lifting)))
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
        step=decision.step,
        answered_name=answer.answered_name if answer is not None else "",
        approvals=answer.approvals if answer is not None else (),
        stamp=answer.stamp if answer is not None else None,
    )


def _keep(
    call: ToolCall,
    query: CallFacts,
    answer: PermissionAnswer,
    permissions: Permissions,
    record: RecordDecision,
) -> None:
    """Remembers a yes that was meant for more than once: what the question offered for this answer, and no more.

    An answer that was not offered is a yes for this once.
    """
    offered = [
        offer for offer in offers(query, persists=permissions.persists) if offer.answer == answer.answer
    ]
    for index, offer in enumerate(offered):
        suffix = f"_{index}" if index else ""
        grant = GrantAdded(
            grant_id=f"grant_{call.id.removeprefix('call_')}{suffix}",
            tool=offer.tool,
            pattern=offer.pattern,
            life="saved" if offer.answer == "always" else "session",
            match=offer.match,
        )
        try:
            record(permissions.remember(grant))
        except (OSError, BridleError) as problem:
            if isinstance(problem, StoreError):
                raise
            record(msgspec.structs.replace(grant, life="session"))
            record(_not_saved(problem))


def _waited(waited_s: float) -> ShownWait:
    return ShownWait(waited_s=waited_s)


def _not_saved(problem: OSError | BridleError) -> Notice:
    clause = (
        problem.message if isinstance(problem, BridleError) else problem.strerror or "it cannot be written"
    )
    data = {"problem": clause.rstrip(".")}
    return Notice(reason="GrantNotSaved", message=sentence("GrantNotSaved", data), data=data)


def _denied(
    call: ToolCall,
    query: CallFacts,
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
        "client": (answer and (answer.answered_name or answer.answered_by)) or "nobody",
        "keys": decision.keys,
        "given": len(answer.approvals) if answer is not None else 0,
        "timeout_s": f"{answer.waited_s if answer is not None else 0:g}",
        "hint": "" if query.hides else _hint(query, permissions),
        "hook": decision.rule,
        "message": decision.note,
    }
    content = sentence(reason, data).rstrip()
    if reason == "HookBlocked":
        pass  # its sentence has the hook's own words
    elif answer is not None and answer.note:
        content += f" They said: {answer.note}"
    elif decision.note:
        content += f" Why: {decision.note}." if query.hides else f" {decision.note}"
    return ToolOutput(
        outcome="denied",
        reason=reason,
        content=content,
        shown=_waited(answer.waited_s) if answer is not None and answer.waited_s else None,
        evidence=Evidence(
            source=SOURCE,
            rule=rule if reason == "RuleDenied" or query.hides else reason,
            matched=query.command or ", ".join(path.shown for path in query.paths),
            preview=explanation(query, decision, permissions.mode),
        ),
    )


def _hint(query: CallFacts, permissions: Permissions) -> str:
    """What to add to the command line so that this very call would be allowed."""
    yes = "" if permissions.yes or permissions.mode == "yolo" else " -y"
    flags = f"{' '.join(query.lifting)}{yes}" if query.lifting else ""
    # No rule answers what is asked each time, nor names what a tool keeps.
    naming = "" if query.asks_anew or query.lasts else _naming_it(query)
    only = f"{query.only_person[0].upper()}{query.only_person[1:]}. " if query.only_person else ""
    ways = ", or ".join(filter(None, (naming, flags)))
    return f"{only}To allow it: {ways}" if ways else only.rstrip()


def _naming_it(query: CallFacts) -> str:
    """The rule that is about this very call, as far as one can be."""
    pattern = query.command or (query.paths[0].shown if len(query.paths) == 1 else "")
    literal = bool(pattern) and len(pattern) <= _HINT_CHARACTERS and "\n" not in pattern
    rule = f"{query.tool}({pattern})" if literal else query.tool
    return f"--allow {quote(rule)}"
