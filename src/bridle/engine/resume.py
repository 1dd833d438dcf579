"""What a log that ended in the middle still owes: results for open calls, and an end for the open turn.

Nothing is run again and nothing is invented. A call that could not change anything is closed as interrupted; one that
could is an orphan, and only a person, or the caller in a person's name, says what became of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

from bridle.base.clock import iso_ms
from bridle.engine.conversation import Conversation, OpenCall
from bridle.engine.journal import Journal
from bridle.engine.ports import StoredSession
from bridle.protocol.display_values import ShownJudgement
from bridle.protocol.errors import CommandRefused, sentence
from bridle.protocol.events import (
    ContextAdded,
    Envelope,
    GoalEnded,
    InputChanged,
    Outcome,
    ToolResult,
    TurnEnded,
)
from bridle.protocol.messages import TextBlock

Judgement: TypeAlias = Literal["happened", "did not happen", "unknown", "undone"]

_MEANING: Mapping[Judgement, tuple[Outcome, str]] = {
    "happened": ("ok", "JudgedHappened"),
    "did not happen": ("cancelled", "JudgedNotHappened"),
    "unknown": ("unknown", "OutcomeUnknown"),
    "undone": ("cancelled", "JudgedUndone"),
}


def unexpired(row: StoredSession) -> StoredSession:
    """The session, if its content is still there: a model that remembers nothing would only pretend to go on."""
    if row.expired_ms is not None:
        raise CommandRefused("SessionExpired", session=row.id, day=iso_ms(row.expired_ms)[:10])
    return row


def orphans(conversation: Conversation) -> tuple[OpenCall, ...]:
    """The calls that may or may not have happened."""
    return tuple(
        call for call in conversation.open_calls if call.started is not None and call.started.mutating
    )


def not_after_the_end(envelope: Envelope) -> bool:
    """Whether an event was written by the run a turn belongs to, and not by a later one that closed it."""
    event = envelope.event
    added_later = isinstance(event, ToolResult) and event.reason == "Interrupted"
    return envelope.turn is not None and envelope.kind != "TurnEnded" and not added_later


def close_interrupted(journal: Journal, *, waiting: Collection[OpenCall] = ()) -> None:
    """Close what an interrupted run left open: calls, children from the innermost on, the turn, a goal. Calls in
    `waiting` get no result here; other orphans are closed as unknown. The parents of background children are told."""
    main = journal.conversation
    found = orphans(main)
    for call in main.open_calls:
        if call not in waiting:
            result = judged(call, "unknown") if call in found else _interrupted(call)
            journal_of(call, journal).emit(result)
    children = [child for child in main.children.values() if not child.has_ended]
    for child in reversed(list(main.children.values())):
        _close_turn(journal.within(child))
        if child in children:
            parent = main.children.get(child.invocation.parent or "", main)
            within = journal.within(parent)
            within.end_child(journal.within(child), ok=False, result=sentence("TurnInterrupted", {}))
    _close_turn(journal)
    for child in children:
        if child.in_background:
            journal.emit(cut_short(child.invocation.agent_path[-1]))
    _close_goal(journal)


def cut_short(agent: str) -> ContextAdded:
    """What is said of an agent in the background that ended with its session."""
    return ContextAdded(
        source="agent", content=(TextBlock(text=sentence("ChildCutShort", {"agent": agent})),)
    )


def _close_goal(journal: Journal) -> None:
    """Nothing works on by itself after a crash: the goal has ended, and a round that had not begun is none."""
    main = journal.conversation
    for number, pending in list(main.inputs.items()):
        if pending.event.goal is not None:
            journal.emit(InputChanged(input=number, change="drop", content=pending.event.content))
    goal = main.goal
    if goal is not None and goal.ended is None:
        journal.emit(
            GoalEnded(
                reached=False,
                rounds=goal.rounds,
                steps=goal.steps,
                reason="GoalInterrupted",
                message=sentence("GoalInterrupted", {}),
                changed=goal.changed,
            )
        )


def journal_of(call: OpenCall, journal: Journal) -> Journal:
    """Where the result of a call belongs: the journal of whose call it is."""
    main = journal.conversation
    return journal.within(main.children.get(call.invocation.id or "", main))


def _close_turn(journal: Journal) -> None:
    if journal.conversation.turn_is_open:
        message = sentence("TurnInterrupted", {})
        journal.emit(TurnEnded(stop="interrupted", reason="TurnInterrupted", message=message, steps=0))


def judged(call: OpenCall, judgement: Judgement, *, by: str = "", note: str = "") -> ToolResult:
    """The result of an orphan, by somebody's word: the client `by`, or nobody who looked. `note` is for the model."""
    outcome, reason = _MEANING[judgement]
    return ToolResult(
        call_id=call.call.call_id,
        tool=call.call.tool,
        outcome=outcome,
        content=sentence(reason, {}) + (f" They say: {note}" if note else ""),
        reason=reason,
        shown=ShownJudgement(judgement=judgement, by=by),
    )


def _interrupted(call: OpenCall) -> ToolResult:
    return ToolResult(
        call_id=call.call.call_id,
        tool=call.call.tool,
        outcome="cancelled",
        content=sentence("Interrupted", {}),
        reason="Interrupted",
    )
