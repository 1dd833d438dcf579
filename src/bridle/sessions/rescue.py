"""Copy the proven part of a damaged database into a new one.

Each log keeps its events up to the first one that is not as it was written. Other tables keep their rows up to the
first one that cannot be read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import apsw
import msgspec

from bridle.protocol.errors import StoreError
from bridle.protocol.events import SessionCreated
from bridle.sessions import log_reader
from bridle.sessions.database import Connection, Database
from bridle.sessions.log_reader import LogName
from bridle.sessions.projections import PROJECTED, project
from bridle.sessions.tips import Tip

_LOG = "select * from logs where key = ?"
_SESSION = "select * from sessions where id = ?"
_OTHERS = {
    "undo_contents": "select * from undo_contents order by rowid",
    "undo_calls": "select * from undo_calls order by rowid",
    "undo_actions": "select * from undo_actions order by rowid",
    "aliases": "select * from aliases order by alias",
}
_ADD_SESSION = """insert into sessions(id, log, cwd, root, profile, created_ms, updated_ms)
  values(?, ?, ?, ?, ?, ?, ?)"""

Row = tuple[Any, ...]


def readable_rows(connection: Connection, statement: str, *values: Any) -> Iterator[Row]:
    """Yield the rows up to the first one that cannot be read."""
    with contextlib.suppress(apsw.Error):
        yield from connection.execute(statement, values)


def rescue(old: Connection, fresh: Database, names: Iterable[LogName]) -> dict[str, Tip]:
    """Fill a new database and return where each log ends in it."""
    tips: dict[str, Tip] = {}
    with contextlib.closing(fresh.connect()) as new:
        new.execute("begin immediate")
        for name in names:
            _copy_rows(new, "logs", readable_rows(old, _LOG, name.key))
            tips[name.log_id] = _copy_log(old, new, name)
        for table, statement in _OTHERS.items():
            _copy_rows(new, table, readable_rows(old, statement))
        new.execute("update logs set searched_to = 0")
        new.execute("commit")
        new.pragma("wal_checkpoint", "truncate")
    return tips


def _copy_log(old: Connection, new: Connection, name: LogName) -> Tip:
    """Copy the session of a log, its proven events, and everything derived from them."""
    has_session = _copy_rows(new, "sessions", readable_rows(old, _SESSION, name.session))
    new.execute("update sessions set turns = 0, usd = 0, stop = null where id = ?", (name.session,))
    tip = log_reader.end_of(new, name)
    with contextlib.suppress(StoreError, msgspec.DecodeError):
        for row, content in log_reader.proven_rows(old, name):
            envelope = log_reader.envelope_of(name, row[:7], content)
            created = envelope.event
            if not has_session and isinstance(created, SessionCreated):  # its own row cannot be read
                where = (created.cwd, created.cwd, created.profile)
                new.execute(_ADD_SESSION, (name.session, name.key, *where, envelope.ts_ms, envelope.ts_ms))
                has_session = 1
            if row[8] is not None:
                new.execute("insert or ignore into blobs values(?, ?)", (row[8], content))
            _copy_rows(new, "events", [(name.key, *row)])
            if envelope.kind in PROJECTED:
                project(new, name.key, name.log_id, envelope)
            tip = Tip(row[0], row[-1])
    return tip


def _copy_rows(new: Connection, table: str, rows: Iterable[Row]) -> int:
    """Copy rows and return how many there were."""
    count = 0
    for row in rows:
        new.execute(f"insert or replace into {table} values({', '.join('?' * len(row))})", row)
        count += 1
    return count
