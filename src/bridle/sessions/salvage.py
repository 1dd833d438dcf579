"""Reading around damage: every row that can still be read, and of a broken log the events behind the break.

A page that cannot be read fails whatever touches it. A stretch of rows that fails is halved until what fails is one
row, so what lies beside the damage is read and nothing behind it is given up. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import apsw
import msgspec

from bridle.protocol.codec import EXPIRED, decode_payload
from bridle.protocol.events import SessionCreated
from bridle.sessions import chain
from bridle.sessions.database import Connection
from bridle.sessions.log_reader import LogName
from bridle.sessions.tips import Tip

STRETCH_ROWS = 500
_BEYOND_ALL = 2**40

_ROWS = """select id, log, kind, ts_ms, originator, turn, agent_path, invocation, payload, blob, salt, digest, chain
  from events where log = ? and id between ? and ? order by id"""
_LAST_EVENT = "select id from events where log = ? and id <= ? order by id desc limit 1"
_LOGS = "select key, id, session from logs where key between ? and ? order by key"
_LAST_LOG = "select key from logs where key <= ? order by key desc limit 1"
_LOGS_OF_EVENTS = "select distinct log from events where log between ? and ? order by log"
_LAST_LOG_OF_EVENTS = "select log from events where log <= ? order by log desc limit 1"
_SESSION_OF = "select id from sessions where log = ?"
_FIRST = "select payload from events where log = ? and id = 1"
_ORIGIN = "select origin from logs where key = ?"
_BLOB = "select bytes from blobs where sha256 = ?"
_BLOB_AT = "select bytes from blobs where rowid = ?"
_BLOBS = "select rowid, sha256 from blobs where rowid between ? and ? order by rowid"
_LAST_BLOB = "select rowid from blobs where rowid <= ? order by rowid desc limit 1"

Row = tuple[Any, ...]
Blob = Callable[[bytes], bytes | None]


def one_row(connection: Connection, statement: str, *values: Any) -> Row | None:
    """A row, or None where there is none that can be read."""
    try:
        return connection.execute(statement, values).fetchone()
    except apsw.Error:
        return None


def rows_around(connection: Connection, statement: str, first: int, last: int, *values: Any) -> Iterator[Row]:
    """The readable rows numbered `first` to `last`, in order; the number is their first column.

    `statement` takes `values`, then the two numbers, and ends with `order by` the number.
    """
    for start in range(first, last + 1, STRETCH_ROWS):
        yield from _halved(connection, statement, values, start, min(last, start + STRETCH_ROWS - 1))


def _halved(
    connection: Connection, statement: str, values: tuple[Any, ...], first: int, last: int
) -> Iterator[Row]:
    found: list[Row] = []
    try:
        found.extend(connection.execute(statement, (*values, first, last)))
    except apsw.Error:
        if found:
            yield from found
            yield from _halved(connection, statement, values, found[-1][0] + 1, last)
        elif first < last:
            middle = (first + last) // 2
            yield from _halved(connection, statement, values, first, middle)
            yield from _halved(connection, statement, values, middle + 1, last)
        else:
            # A row that stands between two pages is reached by way of the one it is looked for from.
            row = one_row(connection, f"{statement} desc", *values, first, last)
            if row is not None:
                yield row
        return
    yield from found


def last_readable(connection: Connection, statement: str, *values: Any) -> int:
    """The highest number that can be read, 0 for none. `statement` takes `values` and what it must not exceed.

    Where the end itself is damaged, this is the last one before that damage.
    """
    found, low, high = 0, 0, _BEYOND_ALL
    middle = high
    while high > low:
        try:
            row = connection.execute(statement, (*values, middle)).fetchone()
        except apsw.Error:
            high = middle - 1
        else:
            found, low = max(found, row[0] if row is not None else 0), middle
        middle = (low + high + 1) // 2
    return found


class Numbered(msgspec.Struct, frozen=True):
    """How to read a table that SQLite numbers: its last row up to a number, the numbers of a stretch, one row."""

    last: str
    numbers: str
    row: str


def table_around(connection: Connection, table: Numbered) -> Iterator[Row]:
    """The readable rows of a table, one at a time: some are large."""
    for (number,) in rows_around(connection, table.numbers, 1, last_readable(connection, table.last)):
        row = one_row(connection, table.row, number)
        if row is not None:
            yield row


def from_both_ends(connection: Connection, forwards: str, backwards: str) -> Iterator[Row]:
    """The rows of a table that has names for keys, from each end until one cannot be read."""
    seen: set[Row] = set()
    for statement in (forwards, backwards):
        try:
            for row in connection.execute(statement):
                if row in seen:
                    return
                seen.add(row)
                yield row
        except apsw.Error:
            continue
        return


def logs_around(connection: Connection) -> list[LogName]:
    """Every log that is listed, or has events without being listed any more."""
    end = last_readable(connection, _LAST_LOG)
    listed = {row[0]: LogName(row[2], row[1], row[0]) for row in rows_around(connection, _LOGS, 1, end)}
    with_events = rows_around(connection, _LOGS_OF_EVENTS, 1, last_readable(connection, _LAST_LOG_OF_EVENTS))
    unlisted = (_unlisted(connection, key) for (key,) in with_events if key not in listed)
    return sorted((*listed.values(), *filter(None, unlisted)), key=lambda name: name.key)


def _unlisted(connection: Connection, key: int) -> LogName | None:
    """A log as its first event names it; None where that is lost too: nobody knows whose events they are."""
    row = one_row(connection, _FIRST, key)
    try:
        created = decode_payload("SessionCreated", row[0]) if row is not None and row[0] is not None else None
    except msgspec.DecodeError:
        return None
    if not isinstance(created, SessionCreated):
        return None
    session = one_row(connection, _SESSION_OF, key)
    return None if session is None else LogName(session[0], created.log, key)


def blobs_around(connection: Connection) -> Blob:
    """Finds a large content also where the index over them is damaged. None for one that is gone or was changed."""
    places: dict[bytes, int] = {}

    def found(key: bytes) -> bytes | None:
        row = one_row(connection, _BLOB, key)
        if row is None:
            if not places:
                end = last_readable(connection, _LAST_BLOB)
                places.update((digest, number) for number, digest in rows_around(connection, _BLOBS, 1, end))
            row = one_row(connection, _BLOB_AT, places.get(key))
        return row[0] if row is not None and sha256(row[0]).digest() == key else None

    return found


def end_of_log(connection: Connection, name: LogName, tip: Tip | None) -> int:
    """The last event a log is known to have had."""
    return max(0 if tip is None else tip.event_id, last_readable(connection, _LAST_EVENT, name.key))


def intact(connection: Connection, name: LogName, end: int) -> Iterator[tuple[Row, bytes]]:
    """The events up to `end` that are as they were written, in order, each with its content.

    Up to the first one that is left out they are proven: each has its digest and follows from the one before it. Behind
    a gap nobody can tell what stood there; what comes after it is checked in the same way.
    """
    blob = blobs_around(connection)
    origin = one_row(connection, _ORIGIN, name.key)
    before = 0
    previous = chain.origin(name.log_id) if origin is None or origin[0] is None else origin[0]
    for row in rows_around(connection, _ROWS, 1, end, name.key):
        number, _, kind, ts_ms, originator, turn, agent_path, invocation, *_, digest, link = row
        place = (turn, agent_path, invocation)
        follows = (
            number != before + 1
            or chain.link(previous, number, kind, ts_ms, originator, place, digest) == link
        )
        before, previous = number, link
        content = _content_of(row, blob)
        if follows and content is not None and _can_be_told(row, content):
            yield (row[1], row[0], *row[2:]), content


def _content_of(row: Row, blob: Blob) -> bytes | None:
    """The content of an event, if it is what was written."""
    payload, key, salt, digest = row[8:12]
    if payload is None and key is None and salt is None:
        return EXPIRED
    content = payload if payload is not None else blob(key) if key is not None else None
    if content is None or chain.digest(salt or b"", content) != digest:
        return None
    return content


def _can_be_told(row: Row, content: bytes) -> bool:
    try:
        decode_payload(row[2], content)
    except msgspec.DecodeError:
        return False
    return True
