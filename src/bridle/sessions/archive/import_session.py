"""Import an exported session, checking every line.

The events get a session, a log and a chain of their own. What would give rights here does not come in: the session
belongs to the folder it is imported into, and no mode is looser than `default`. Secrets are taken out on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from bridle.base.ids import SESS, is_id
from bridle.base.secrets.secret_openings import might_hold_secret
from bridle.engine.conversation import Conversation
from bridle.engine.journal import redacted
from bridle.engine.ports import Record
from bridle.protocol.codec import DURABLE_KINDS, EVENT_KINDS, decode_envelope, encode_payload, is_expired
from bridle.protocol.errors import UsageError
from bridle.protocol.events import AnyEvent, Envelope, Mode, ModeChanged, Notice, SessionCreated, UnknownEvent
from bridle.sessions.archive.event_copy import Origin, new_session
from bridle.sessions.archive.export import without_secrets
from bridle.sessions.log.database import Connection
from bridle.sessions.shelf import Shelf

MAX_LINE_BYTES = 64 << 20
_LAST_MS = 253_402_300_799_999  # the last moment a date with four digits can name
_LOOSE: frozenset[Mode] = frozenset({"auto", "yolo"})
_KEEP_NAME = (
    "insert or ignore into aliases select ?1, ?2 where not exists (select 1 from sessions where id = ?1)"
)


class UnreadableLine(UsageError):
    """A line that is no event at all, as in a file that was cut off; `place` counts from 1."""

    def __init__(self, message: str, place: int) -> None:
        super().__init__(message)
        self.place = place


def import_lines(shelf: Shelf, lines: Iterable[bytes], *, cwd: str, profile: str, missing: str = "") -> str:
    """Make a session of the lines of an export, as `Archive.import_lines` says."""
    records = harmless_records(lines, cwd, missing)
    session = new_session(shelf, Origin(cwd=cwd, root=cwd, profile=profile, imported=True), records)

    def keep_name(connection: Connection) -> None:
        connection.execute(_KEEP_NAME, (records[0].envelope.session, session))

    shelf.writer.run(keep_name)
    return session


def harmless_records(lines: Iterable[bytes], cwd: str, missing: str = "") -> list[Record]:
    """The events of an export as they may stand here, of the session they had elsewhere. Raises `UsageError`."""
    records = list(_checked(lines, cwd))
    if not records:
        raise UsageError("There is no event in this file")
    if missing:
        records.append(_says_missing(records[-1].envelope, missing))
    _fold(records)
    return records


def _says_missing(last: Envelope, missing: str) -> Record:
    note = Notice(reason="EventsLost", message=missing)
    envelope = Envelope(
        id=(last.id or 0) + 1,
        kind="Notice",
        session=last.session,
        originator="",
        ts_ms=last.ts_ms,
        event=note,
    )
    return Record(envelope, encode_payload(note))


def _fold(records: Iterable[Record]) -> None:
    """Refuses events that could not be gone on with: each may be right and their order impossible."""
    conversation = Conversation()
    for record in records:
        try:
            conversation.apply(record.envelope)
        except (LookupError, ValueError, TypeError):
            raise UsageError(
                f"Event {record.envelope.id} does not fit to those before it. Nothing was imported"
            ) from None


def _checked(lines: Iterable[bytes], cwd: str) -> Iterator[Record]:
    session, number = "", 0
    for place, line in enumerate(lines, 1):
        if not line.strip():
            continue
        number += 1
        envelope = _read(line, place)
        session = session or envelope.session
        if problem := _problem(envelope, number, session):
            raise UsageError(
                f"Line {place} is not the next event of an export: {problem}. Nothing was imported"
            )
        yield _harmless(envelope, cwd)


def _read(line: bytes, place: int) -> Envelope:
    if len(line) > MAX_LINE_BYTES:
        raise UnreadableLine(f"Line {place} is longer than an event can be. Nothing was imported", place)
    try:
        return decode_envelope(line)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as problem:
        raise UnreadableLine(
            f"Line {place} is not an event of an export ({problem}). Nothing was imported", place
        ) from None


def _problem(envelope: Envelope, number: int, session: str) -> str:
    """What is wrong with an event, in a few words; mostly nothing."""
    if envelope.id != number:
        return f"its id is {envelope.id} and not {number}"
    if envelope.session != session or not is_id(session, SESS):
        return "it belongs to another session"
    if envelope.kind in EVENT_KINDS and envelope.kind not in DURABLE_KINDS:
        return f"{envelope.kind} is never stored"
    if not 0 <= envelope.ts_ms <= _LAST_MS:
        return "its time is impossible"
    if envelope.turn is not None and not 0 < envelope.turn < 2**31:
        return "its turn is impossible"
    return ""


def _harmless(envelope: Envelope, cwd: str) -> Record:
    event = _within_bounds(envelope.event, cwd)
    payload = encode_payload(event)
    if might_hold_secret(payload) and not is_expired(event):
        event = _without_secrets(event)
        payload = encode_payload(event)
    return Record(msgspec.structs.replace(envelope, event=event), payload)


def _within_bounds(event: AnyEvent, cwd: str) -> AnyEvent:
    match event:
        case SessionCreated():
            mode: Mode = "default" if event.mode in _LOOSE else event.mode
            return msgspec.structs.replace(event, cwd=cwd, mode=mode)
        case ModeChanged() if event.mode in _LOOSE:
            return ModeChanged(mode="default")
        case _:
            return event


def _without_secrets(event: AnyEvent) -> AnyEvent:
    if isinstance(event, UnknownEvent):
        return UnknownEvent(kind=event.kind, raw=without_secrets(event.raw))
    return redacted(event)
