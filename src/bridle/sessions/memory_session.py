"""What is kept of sessions in memory, and what follows from an event."""

from __future__ import annotations

import threading

import msgspec

from bridle.engine.ports import Lease, Record, StoredSession
from bridle.engine.undo_records import ActionRow, CallRow
from bridle.protocol.codec import with_payload
from bridle.protocol.events import (
    ChildStarted,
    CostIncremented,
    Envelope,
    InputAccepted,
    ModelChanged,
    PrefixSet,
    SessionCreated,
    TurnEnded,
    TurnStarted,
    UndoApplied,
)
from bridle.sessions.projections import title_from


class MemorySession(msgspec.Struct, kw_only=True):
    """All that is kept of one session. `epoch` counts who opened it; `lease` is that of whoever has it open."""

    row: StoredSession
    records: list[Record] = []
    fold: tuple[int, bytes] | None = None
    outputs_key: bytes | None = None
    epoch: int = 0
    lease: Lease | None = None
    calls: list[CallRow] = []
    actions: list[ActionRow] = []

    @property
    def is_used(self) -> bool:
        """Whether anything was said or done in it."""
        called = (one.envelope.kind == "ToolCallRequested" for one in self.records)
        return bool(self.row.title or self.row.turns) or any(called)

    def take_in(self, record: Record) -> None:
        """Appends an event, which keeps its bytes, with everything that follows from it."""
        with_payload(record.envelope, record.payload)
        self.records.append(record)
        self.row = projected(self.row, record.envelope)
        if isinstance(event := record.envelope.event, UndoApplied):
            self._undone(event)

    def _undone(self, applied: UndoApplied) -> None:
        replace = msgspec.structs.replace
        numbered = {action.number: action for action in self.actions}
        if (action := numbered.get(applied.action)) is not None:
            numbered[action.number] = replace(action, done=True)
            if applied.redone and (before := numbered.get(action.redo_of or 0)) is not None:
                numbered[before.number] = replace(before, reversed=True)
        self.actions = list(numbered.values())
        self.calls = [
            replace(call, undone=not applied.redone) if call.call_id in applied.calls else call
            for call in self.calls
        ]


class Memory(msgspec.Struct, kw_only=True):
    """What several stores share: the sessions in the order they were made, names people gave, contents of files.

    Undo works in threads, so whatever looks at it or changes it has `lock`.
    """

    sessions: dict[str, MemorySession] = {}
    aliases: dict[str, str] = {}
    contents: dict[bytes, bytes] = {}
    awaited: dict[bytes, int] = {}
    sweeps: int = 0
    lock: threading.RLock = msgspec.field(default_factory=threading.RLock)


def projected(row: StoredSession, envelope: Envelope) -> StoredSession:
    """What is known of a session once this event is in its log."""
    event = envelope.event
    if isinstance(event, CostIncremented):
        return msgspec.structs.replace(row, usd=row.usd + (event.usd or 0.0))
    if envelope.agent_path:  # a child's turns and models are not the session's
        return row
    updated_ms = max(row.updated_ms, envelope.ts_ms)
    match event:
        case InputAccepted() | ChildStarted(call_id=""):
            title = row.title if row.renamed or row.title else title_from(event)
            return msgspec.structs.replace(row, title=title, updated_ms=updated_ms)
        case SessionCreated(profile=profile, resumed=True):
            return msgspec.structs.replace(row, profile=profile)
        case TurnStarted():
            return msgspec.structs.replace(row, turns=row.turns + 1, stop=None, updated_ms=updated_ms)
        case TurnEnded(stop=stop):
            return msgspec.structs.replace(row, stop=stop, updated_ms=updated_ms)
        case PrefixSet(provider=provider, model=model) | ModelChanged(provider=provider, model=model):
            return msgspec.structs.replace(row, model=f"{provider}:{model}", updated_ms=updated_ms)
        case _:
            return row
