"""Copy events into a new log with new ids and a new chain.

Ids are rewritten in the typed fields that hold them and nowhere else; fields of newer versions stay. Events go to the
disk in parts, so that nobody who writes beside us waits long. The session appears when the last one is there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, cast

import msgspec

from bridle.base.fs import files
from bridle.base.ids import CALL, LOG, SESS, is_id, rewritten
from bridle.engine.ports import Record
from bridle.protocol.codec import EXPIRED, decode_payload, encode_payload
from bridle.protocol.events import Branched, Envelope
from bridle.sessions.log import chain, log_reader
from bridle.sessions.log.database import Connection
from bridle.sessions.log.log_reader import LogName
from bridle.sessions.log.projections import LEDGER, PROJECTED, RUN, project
from bridle.sessions.log.tips import TipFile
from bridle.sessions.log.writer import LogTail, insert_events
from bridle.sessions.shelf import Shelf

BATCH_EVENTS = 500

CALL_FIELDS = {
    "StepEnded": "calls",
    "UndoApplied": "calls",
    "ToolCallRequested": "call_id",
    "PermissionRequested": "call_id",
    "ApprovalGiven": "call_id",
    "PermissionDecided": "call_id",
    "ToolCallStarted": "call_id",
    "ToolResult": "call_id",
    "BackgroundStarted": "call_id",
    "BackgroundEnded": "call_id",
    "ChildStarted": "call_id",
    "GoalChecked": "call_id",
    "QuestionAsked": "question_id",
    "QuestionAnswered": "question_id",
}
"""The field of each kind that names calls: one id, a list of ids, or a list of calls that have one."""

_INSERT_LOG = "insert into logs(id, session, created_ms, origin) values(?, ?, ?, ?)"
_INSERT_SESSION = """insert into sessions(id, log, cwd, root, profile, title, renamed, created_ms, updated_ms,
  branch_of, imported_ms) values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The beginning of a new session. A branch follows from the parent's link `chain`; `branched` is the event that
    says so."""

    cwd: str
    root: str
    profile: str
    title: str = ""
    renamed: bool = False
    branch_of: str | None = None
    branched: Branched | None = None
    imported: bool = False
    chain: bytes | None = None


def carried(kind: str, payload: bytes, log_id: str) -> bytes:
    if kind == "SessionCreated" and payload != EXPIRED:
        return _changed(payload, log=log_id)
    field = CALL_FIELDS.get(kind)
    if field is None or payload == EXPIRED:
        return payload
    named = msgspec.json.decode(payload).get(field)
    return payload if named is None else _changed(payload, **{field: _renamed(named, log_id)})


def new_session(shelf: Shelf, origin: Origin, records: Iterable[Record]) -> str:
    """Makes a session of these events, numbered from 1, and returns its id. Blocks until it is committed."""
    session, log_id = shelf.ids.new(SESS), shelf.ids.new(LOG)
    now_ms = shelf.clock.now_ms()
    start = None if origin.chain is None else chain.branch_origin(log_id, origin.chain)

    def insert_log(connection: Connection) -> int:
        connection.execute(_INSERT_LOG, (log_id, session, now_ms, start))
        return connection.last_insert_rowid()

    name = LogName(session, log_id, shelf.writer.run(insert_log))
    files.private_folder(f"{shelf.folder}/tips")
    tip = TipFile(shelf.tip_path(log_id))
    with contextlib.closing(tip):
        tail = LogTail(name.key, log_id, 0, start or chain.origin(log_id), tip)
        copied = copies(session, log_id, records)
        while batch := list(islice(copied, BATCH_EVENTS)):
            shelf.writer.run(lambda connection, batch=batch: _insert(connection, name, tail, batch))
        if origin.branched is not None:
            said = branched_event(session, tail.event_id + 1, origin.branched, now_ms)
            shelf.writer.run(lambda connection: _insert(connection, name, tail, [said]))
        shelf.writer.run(lambda connection: _begin(connection, name, origin, now_ms))
        tip.write(tail.event_id, tail.chain)
    return session


def copies(session: str, log_id: str, records: Iterable[Record]) -> Iterator[tuple[Envelope, bytes]]:
    """The events as they stand in another log of another session. Raises ValueError where one is missing."""
    for number, record in enumerate(records, 1):
        envelope, payload = record.envelope, carried(record.envelope.kind, record.payload, log_id)
        if envelope.id != number:
            raise ValueError(f"event {envelope.id} cannot follow event {number - 1}")
        event = envelope.event
        if payload is not record.payload:
            event = decode_payload(envelope.kind, payload)
        yield msgspec.structs.replace(envelope, session=session, event=event), payload


def _insert(
    connection: Connection, name: LogName, tail: LogTail, batch: list[tuple[Envelope, bytes]]
) -> None:
    insert_events(connection, tail, batch)
    for envelope, _ in batch:
        if envelope.kind in LEDGER:
            project(connection, name.key, name.log_id, envelope)


def _begin(connection: Connection, name: LogName, origin: Origin, now_ms: int) -> None:
    """The session's row, and everything in it that follows from the events."""
    imported_ms = now_ms if origin.imported else None
    place = (name.session, name.key, origin.cwd, origin.root, origin.profile, origin.title)
    row = (*place, int(origin.renamed), now_ms, now_ms, origin.branch_of, imported_ms)
    connection.execute(_INSERT_SESSION, row)
    for envelope in log_reader.of_kinds(connection, name, PROJECTED - LEDGER - {RUN}):
        project(connection, name.key, name.log_id, envelope)


def branched_event(session: str, number: int, event: Branched, now_ms: int) -> tuple[Envelope, bytes]:
    """What a branch says of where it comes from."""
    envelope = Envelope(id=number, kind="Branched", session=session, originator="", ts_ms=now_ms, event=event)
    return envelope, encode_payload(event)


def _changed(payload: bytes, **fields: Any) -> bytes:
    return msgspec.json.encode({**msgspec.json.decode(payload), **fields})


def _renamed(named: object, log_id: str) -> object:
    match named:
        case str():
            return rewritten(named, log_id) if is_id(named, CALL) else named
        case list():
            return [_renamed(one, log_id) for one in cast("list[object]", named)]
        case {"call_id": str()}:
            call = cast("dict[str, object]", named)
            return {**call, "call_id": _renamed(call["call_id"], log_id)}
        case _:
            return named
