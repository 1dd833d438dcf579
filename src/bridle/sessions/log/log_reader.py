"""Read a log and verify its chain.

Rows are fetched in pages, so a slow reader never holds a snapshot that keeps the write-ahead log from being
folded back into the database.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import apsw
import msgspec

from bridle.engine.ports import Record
from bridle.protocol.codec import EXPIRED, read_payload, with_payload
from bridle.protocol.errors import StoreError, sentence
from bridle.protocol.events import Envelope
from bridle.sessions.log import chain
from bridle.sessions.log.database import Connection
from bridle.sessions.log.tips import Tip, tip_at

PAGE_ROWS = 500

_PAGE = """select id, kind, ts_ms, originator, turn, agent_path, invocation, payload, blob
  from events where log = ? and id > ? order by id limit ?"""
_CHECKED_PAGE = """select id, kind, ts_ms, originator, turn, agent_path, invocation, payload, blob,
  salt, digest, chain from events where log = ? and id > ? order by id limit ?"""
_OF_KINDS = """select id, kind, ts_ms, originator, turn, agent_path, invocation, payload, blob
  from events where log = ? and kind in (select value from json_each(?)) and ts_ms >= ? order by id"""
_LINK = "select chain from events where log = ? and id = ?"
_WITH_EVENTS = """select l.key, l.id, l.session from logs l
  where exists (select 1 from events e where e.log = l.key) order by l.key"""
_LAST = "select id, chain from events where log = ? order by id desc limit 1"
_ORIGIN = "select origin from logs where key = ?"
_BLOB = "select bytes from blobs where sha256 = ?"

_agent_path = msgspec.json.Decoder(tuple[str, ...])


class LogName(msgspec.Struct, frozen=True):
    """A log and the session it belongs to; `key` is its short name inside the database."""

    session: str
    log_id: str
    key: int


def records(connection: Connection, name: LogName, after: int, limit: int) -> Iterator[Record]:
    """Up to `limit` events with an id above `after`. Raises `LogDamaged` for one that cannot be read."""
    return _decoded(connection, name, _fetched(connection, name, _PAGE, after, limit))


def of_kinds(
    connection: Connection, name: LogName, kinds: Collection[str], since_ms: int = 0
) -> Iterator[Envelope]:
    """The events of these kinds that happened since a time; the others are passed over unread."""
    wanted = msgspec.json.encode(sorted(kinds)).decode()
    rows = connection.execute(_OF_KINDS, (name.key, wanted, since_ms)).fetchall()
    return (record.envelope for record in _decoded(connection, name, rows))


def _decoded(connection: Connection, name: LogName, rows: Iterable[tuple[Any, ...]]) -> Iterator[Record]:
    for *columns, payload, blob in rows:
        event_id = columns[0]
        content = _content(connection, name, event_id, payload, blob)
        try:
            envelope = envelope_of(name, columns, content)
        except msgspec.DecodeError as problem:
            raise damaged(name, event_id, f"its content cannot be read ({problem})") from problem
        yield Record(envelope, content)


def envelope_of(name: LogName, columns: Sequence[Any], content: bytes) -> Envelope:
    """The event of a row, whose first columns are these, from `id` to `invocation`. Raises `msgspec.DecodeError`."""
    event_id, kind, ts_ms, originator, turn, agent_path, invocation = columns
    event, is_of_today = read_payload(kind, content)
    envelope = Envelope(
        id=event_id,
        kind=kind,
        session=name.session,
        originator=originator,
        ts_ms=ts_ms,
        event=event,
        turn=turn,
        agent_path=() if agent_path is None else _agent_path.decode(agent_path),
        invocation=invocation,
    )
    return with_payload(envelope, content) if is_of_today else envelope


def all_records(connection: Connection, name: LogName, after: int = 0) -> Iterator[Record]:
    while True:
        record = None
        for record in records(connection, name, after, PAGE_ROWS):
            yield record
        if record is None:
            return
        after = record.envelope.id or after


def up_to(connection: Connection, name: LogName, last: int) -> Iterator[Record]:
    after = 0
    while after < last:
        page = list(records(connection, name, after, min(PAGE_ROWS, last - after)))
        if not page:
            return
        yield from page
        after += len(page)


def end_of(connection: Connection, name: LogName) -> Tip:
    found = connection.execute(_LAST, (name.key,)).fetchone()
    return Tip(0, _origin(connection, name)) if found is None else Tip(*found)


def check_tip(connection: Connection, name: LogName, tip: Tip | None) -> None:
    """Raises `LogDamaged` when the database has lost or changed what the tip says it had."""
    if tip is None or tip.event_id == 0:
        return
    end = end_of(connection, name)
    if end.event_id < tip.event_id:
        missing = tip.event_id - end.event_id
        events = "1 event is" if missing == 1 else f"{missing} events are"
        raise damaged(name, end.event_id + 1, f"{events} missing at the end")
    if _link_of(connection, name, tip.event_id) != tip.chain:
        raise damaged(name, tip.event_id, "it is not the event that was written there")


def check_chain(connection: Connection, name: LogName, last: int | None = None) -> None:
    """Recomputes digests and links, of the whole log or of its `last` events. Raises `LogDamaged`."""
    end = end_of(connection, name).event_id
    after = 0 if last is None else max(0, end - last)
    previous = _origin(connection, name) if after == 0 else _link_of(connection, name, after)
    if previous is None:
        raise damaged(name, after, "it is missing")
    for _ in _proven(connection, name, after, previous):
        pass


def proven_rows(connection: Connection, name: LogName) -> Iterator[tuple[tuple[Any, ...], bytes]]:
    """Yield each event as its columns from `id` to `chain`, with its content. Raises `LogDamaged` at the first one
    that is not as it was written."""
    try:
        origin = _origin(connection, name)
    except apsw.Error as problem:
        raise _unreadable(name, 1, problem) from problem
    return _proven(connection, name, 0, origin)


def _proven(
    connection: Connection, name: LogName, after: int, previous: bytes
) -> Iterator[tuple[tuple[Any, ...], bytes]]:
    """Rows that can be read before one that cannot are given too."""
    while True:
        page: list[tuple[Any, ...]] = []
        failure: apsw.Error | None = None
        try:
            page.extend(connection.execute(_CHECKED_PAGE, (name.key, after, PAGE_ROWS)))
        except apsw.Error as problem:
            failure = problem
        for row in page:
            after += 1
            yield row, _checked(connection, name, after, previous, row)
            previous = row[-1]
        if failure is not None:
            raise _unreadable(name, after + 1, failure) from failure
        if not page:
            return


def lost_logs(connection: Connection | None, folder: str) -> list[str]:
    """The logs that have a tip with events and are not in the database; all that have, where there is none."""
    tips = os.path.join(folder, "tips")
    try:
        rows = () if connection is None else connection.execute("select id from logs")
        known = {str(row[0]) for row in rows}
        names = sorted(os.listdir(tips))
    except (apsw.Error, OSError):
        return []
    unknown = ((name, tip_at(os.path.join(tips, name))) for name in names if name not in known)
    return [name for name, tip in unknown if tip is not None and tip.event_id]


def logs_without_tip(connection: Connection, folder: str) -> list[LogName]:
    """The logs with events of which nothing says where they ended: whether an end was cut off cannot be told."""
    try:
        known = set(os.listdir(os.path.join(folder, "tips")))
    except FileNotFoundError:
        known = set[str]()
    rows = connection.execute(_WITH_EVENTS)
    return [LogName(session, log_id, key) for key, log_id, session in rows if log_id not in known]


def tips_gone(folder: str, count: int) -> str:
    """What a person is told of it."""
    sessions = "1 session" if count == 1 else f"{count:,} sessions"
    return sentence("TipsGone", {"path": os.path.join(folder, "tips"), "sessions": sessions})


def damaged(name: LogName, event_id: int, problem: str) -> StoreError:
    return StoreError("LogDamaged", session=name.session, event=event_id, problem=problem)


def _unreadable(name: LogName, event_id: int, problem: apsw.Error) -> StoreError:
    return damaged(name, event_id, f"the database cannot be read from there on ({problem})")


def _fetched(
    connection: Connection, name: LogName, statement: str, after: int, limit: int
) -> list[tuple[Any, ...]]:
    try:
        return connection.execute(statement, (name.key, after, limit)).fetchall()
    except apsw.Error as problem:
        raise _unreadable(name, after + 1, problem) from problem


def _checked(
    connection: Connection, name: LogName, expected: int, previous: bytes, row: tuple[Any, ...]
) -> bytes:
    event_id, kind, ts_ms, originator, turn, agent_path, invocation, payload, blob, salt, digest, link = row
    if event_id != expected:
        raise damaged(name, expected, "it is missing")
    content = _content(connection, name, event_id, payload, blob)
    expired = payload is None and blob is None and salt is None  # the digest is left, and the link covers it
    if not expired and chain.digest(salt or b"", content) != digest:
        raise damaged(name, event_id, "its content was changed")
    if (
        chain.link(previous, event_id, kind, ts_ms, originator, (turn, agent_path, invocation), digest)
        != link
    ):
        raise damaged(name, event_id, "it does not follow from the event before it")
    return content


def _origin(connection: Connection, name: LogName) -> bytes:
    found = connection.execute(_ORIGIN, (name.key,)).fetchone()
    return chain.origin(name.log_id) if found is None or found[0] is None else found[0]


def _content(
    connection: Connection, name: LogName, event_id: int, payload: bytes | None, blob: bytes | None
) -> bytes:
    if payload is not None:
        return payload
    return EXPIRED if blob is None else _blob(connection, name, event_id, blob)


def _link_of(connection: Connection, name: LogName, event_id: int) -> bytes | None:
    found = connection.execute(_LINK, (name.key, event_id)).fetchone()
    return None if found is None else found[0]


def _blob(connection: Connection, name: LogName, event_id: int, key: bytes) -> bytes:
    try:
        found = connection.execute(_BLOB, (key,)).fetchone()
    except apsw.Error as problem:
        raise damaged(name, event_id, f"its content cannot be read ({problem})") from problem
    if found is None:
        raise damaged(name, event_id, "its content is missing")
    return found[0]
