"""What a log that ended in the middle still owes: results for open calls, and an end for the open turn.

Nothing is run again and nothing is invented. A call that could not change anything is closed as interrupted; one that
could is an orphan, and only a person, or the caller in a person's name, says what became of it.
"""

from __future__ import annotations

from bridle.engine.conversation import Conversation, OpenCall
from bridle.protocol.errors import sentence
from bridle.protocol.events import DurableEvent, ToolResult, TurnEnded


def orphans(conversation: Conversation) -> tuple[OpenCall, ...]:
    """The calls that may or may not have happened."""
    return tuple(
        call for call in conversation.open_calls if call.started is not None and call.started.mutating
    )


def closing_events(conversation: Conversation) -> list[DurableEvent]:
    """The events that close an interrupted turn. Orphans are closed as unknown: call this when that was decided."""
    results: list[DurableEvent] = [_result(call) for call in conversation.open_calls]
    if not conversation.turn_is_open:
        return results
    message = sentence("TurnInterrupted", {})
    return [*results, TurnEnded(stop="interrupted", reason="TurnInterrupted", message=message, steps=0)]


def _result(call: OpenCall) -> ToolResult:
    happened = call.started is not None and call.started.mutating
    reason = "OutcomeUnknown" if happened else "Interrupted"
    return ToolResult(
        call_id=call.call.call_id,
        tool=call.call.tool,
        outcome="unknown" if happened else "cancelled",
        content=sentence(reason, {}),
        reason=reason,
    )
