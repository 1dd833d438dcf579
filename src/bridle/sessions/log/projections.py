"""Tables derived from events: titles, turns, the ledger of calls.

Everything here is derived from one event and written in the transaction that stores it: it cannot disagree.
"""

from __future__ import annotations

from bridle.protocol.events import (
    ChildStarted,
    CostIncremented,
    Envelope,
    InputAccepted,
    ModelChanged,
    PrefixSet,
    SessionCreated,
    ToolCallStarted,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UndoApplied,
    text_of,
)
from bridle.sessions.log.database import Connection

LEDGER = frozenset({"ToolCallStarted", "ToolResult"})
"""Kinds that say what became of calls."""
_OF_THE_SESSION = frozenset(
    {"InputAccepted", "TurnStarted", "TurnEnded", "PrefixSet", "ModelChanged", "ChildStarted"}
)
_UNDO = "UndoApplied"
_COST = "CostIncremented"
RUN = "SessionCreated"
"""The kind that says with which profile a session goes on. Of a log that came from elsewhere it is not believed."""
PROJECTED = LEDGER | _OF_THE_SESSION | {_UNDO, _COST, RUN}

_TITLE_CHARS = 60

# ?1 the new value, ?2 the event's time, ?3 the session
_SET_TITLE = """update sessions set title = case when renamed or title <> '' then title else ?1 end,
  updated_ms = max(updated_ms, ?2) where id = ?3"""
_COUNT_TURN = """update sessions set turns = turns + 1, stop = ?1,
  updated_ms = max(updated_ms, ?2) where id = ?3"""
_SET_STOP = "update sessions set stop = ?1, updated_ms = max(updated_ms, ?2) where id = ?3"
_ADD_COST = "update sessions set usd = usd + ? where id = ?"
_SET_PROFILE = "update sessions set profile = ?1 where id = ?3"  # to be opened is not to be used
_SET_MODEL = "update sessions set model = ?1, updated_ms = max(updated_ms, ?2) where id = ?3"


def project(connection: Connection, log_key: int, log_id: str, envelope: Envelope) -> None:
    if envelope.kind in LEDGER:
        _ledger(connection, log_id, envelope)
    elif isinstance(envelope.event, UndoApplied):
        _undo(connection, log_key, envelope.event)
    elif isinstance(envelope.event, CostIncremented):
        connection.execute(_ADD_COST, (envelope.event.usd or 0.0, envelope.session))
    elif not envelope.agent_path:  # a child's turns and models are not the session's
        _turn(connection, log_key, envelope)
        _session(connection, envelope)


def title_from(event: InputAccepted | ChildStarted) -> str:
    """The first words of an input, or of what a person has an agent do, on one line."""
    said = event.task if isinstance(event, ChildStarted) else text_of(event.content)
    words = " ".join(said.split())
    if len(words) <= _TITLE_CHARS:
        return words
    cut = words[:_TITLE_CHARS]
    return (cut.rpartition(" ")[0] or cut) + "…"


def _ledger(connection: Connection, log_id: str, envelope: Envelope) -> None:
    # The first word on a call stands; the events keep whatever else was said.
    match envelope.event:
        case ToolCallStarted() as started:
            connection.execute(
                "insert or ignore into tool_call_intents values(?, ?, ?, ?, ?, ?)",
                (
                    started.call_id,
                    log_id,
                    started.tool,
                    started.input_sha256,
                    int(started.mutating),
                    envelope.ts_ms,
                ),
            )
        case ToolResult() as result:
            connection.execute(
                "insert or ignore into tool_call_outcomes values(?, ?, ?, ?)",
                (result.call_id, result.outcome, envelope.ts_ms, f"{log_id}:{envelope.id}"),
            )
        case _:
            pass


def _undo(connection: Connection, log_key: int, applied: UndoApplied) -> None:
    action = (log_key, applied.action)
    connection.execute("update undo_actions set done = 1 where log = ? and number = ?", action)
    if applied.redone:
        connection.execute(
            "update undo_actions set reversed = 1 where log = ?1 and number ="
            " (select redo_of from undo_actions where log = ?1 and number = ?2)",
            action,
        )
    connection.executemany(
        "update undo_calls set undone = ? where log = ? and call_id = ?",
        [(int(not applied.redone), log_key, call) for call in applied.calls],
    )


def _turn(connection: Connection, log_key: int, envelope: Envelope) -> None:
    if envelope.turn is None:
        return
    match envelope.event:
        case TurnStarted():
            connection.execute(
                "insert or ignore into turns values(?, ?, ?, ?, null, null)",
                (log_key, envelope.turn, envelope.id, envelope.ts_ms),
            )
        case TurnEnded() as ended:
            connection.execute(
                "update turns set ended_ms = ?, stop = ? where log = ? and turn = ?",
                (envelope.ts_ms, ended.stop, log_key, envelope.turn),
            )
        case _:
            pass


def _session(connection: Connection, envelope: Envelope) -> None:
    match envelope.event:
        case InputAccepted() | ChildStarted(call_id="") as words:
            statement, value = _SET_TITLE, title_from(words)
        case SessionCreated(profile=profile, resumed=True):
            statement, value = _SET_PROFILE, profile
        case TurnStarted():
            statement, value = _COUNT_TURN, None
        case TurnEnded(stop=stop):
            statement, value = _SET_STOP, stop
        case PrefixSet(provider=provider, model=model) | ModelChanged(provider=provider, model=model):
            statement, value = _SET_MODEL, f"{provider}:{model}"
        case _:
            return
    connection.execute(statement, (value, envelope.ts_ms, envelope.session))
