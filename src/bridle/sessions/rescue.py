"""Copying what can be read out of a damaged database into a new one.

Each log keeps the events that are proven, up to the first one that is not, and its session goes on from there. What
could be read behind that becomes a session of its own, its rest: numbered and chained anew, with a note at every gap,
to be read and never gone on with. A conversation with holes is not one a model could be asked to continue.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from itertools import chain as joined
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from bridle.base import files
from bridle.base.ids import LOG, SESS, Ids
from bridle.protocol.codec import encode_payload
from bridle.protocol.events import Envelope, Notice, SessionCreated
from bridle.sessions import chain, log_reader
from bridle.sessions.database import Connection, Database
from bridle.sessions.log_reader import LogName
from bridle.sessions.projections import LEDGER, PROJECTED, project
from bridle.sessions.salvage import (
    Numbered,
    Row,
    end_of_log,
    from_both_ends,
    intact,
    one_row,
    table_around,
)
from bridle.sessions.tips import Tip, TipFile
from bridle.sessions.writer import LogTail, insert_events

BATCH_EVENTS = 500
_ONE_OF = {"logs": "select * from logs where key = ?", "sessions": "select * from sessions where id = ?"}
_NUMBERED = {
    "undo_contents": Numbered(
        "select rowid from undo_contents where rowid <= ? order by rowid desc limit 1",
        "select rowid from undo_contents where rowid between ? and ? order by rowid",
        "select * from undo_contents where rowid = ?",
    ),
    "undo_calls": Numbered(
        "select rowid from undo_calls where rowid <= ? order by rowid desc limit 1",
        "select rowid from undo_calls where rowid between ? and ? order by rowid",
        "select * from undo_calls where rowid = ?",
    ),
    "undo_actions": Numbered(
        "select rowid from undo_actions where rowid <= ? order by rowid desc limit 1",
        "select rowid from undo_actions where rowid between ? and ? order by rowid",
        "select * from undo_actions where rowid = ?",
    ),
}
_ALIASES = ("select * from aliases order by alias", "select * from aliases order by alias desc")
_ADD_LOG = "insert into logs(key, id, session, created_ms) values(?, ?, ?, ?)"
_ADD_SESSION = """insert into sessions(id, log, cwd, root, profile, created_ms, updated_ms)
  values(?, ?, ?, ?, ?, ?, ?)"""
_ADD_REST = """insert into sessions(id, log, cwd, root, profile, title, renamed, created_ms, updated_ms, rest_of)
  select ?1, ?2, cwd, root, profile, ?3, 1, created_ms, updated_ms, id from sessions where id = ?4"""
_ADD_LONE_REST = """insert into sessions(id, log, cwd, root, profile, title, renamed, created_ms, updated_ms, rest_of)
  values(?1, ?2, '', '', 'default', ?3, 1, ?5, ?5, ?4)"""


class Rescued(NamedTuple):
    """Where each log ends in the new database, and the rest of each session that has one."""

    tips: dict[str, Tip]
    rests: dict[str, str]


def rescue(old: Connection, fresh: Database, names: Iterable[LogName], tips: dict[str, Tip]) -> Rescued:
    """Copies everything that can be read. `tips` are the ends the logs are known to have had."""
    done = Rescued({}, {})
    with contextlib.closing(fresh.connect()) as new:
        new.execute("begin immediate")
        listed = list(names)
        for name in listed:
            _copy_log_row(old, new, name)
        for name in listed:
            _copy_log(old, new, fresh, name, end_of_log(old, name, tips.get(name.log_id)), done)
        for table, how in _NUMBERED.items():
            _copy_rows(new, table, table_around(old, how))
        _copy_rows(new, "aliases", from_both_ends(old, *_ALIASES))
        new.execute("update logs set searched_to = 0")
        new.execute("commit")
        new.pragma("wal_checkpoint", "truncate")
    return done


def _copy_log_row(old: Connection, new: Connection, name: LogName) -> None:
    if not _copy_row(old, new, "logs", name.key):  # its own row is lost, and its first event named it
        new.execute(_ADD_LOG, (name.key, name.log_id, name.session, 0))


def _copy_log(
    old: Connection, new: Connection, fresh: Database, name: LogName, end: int, done: Rescued
) -> None:
    """The proven events of a log with all that is derived from them, the session they belong to, and its rest."""
    kept = _copy_row(old, new, "sessions", name.session)
    if kept:
        new.execute("update sessions set turns = 0, usd = 0, stop = null where id = ?", (name.session,))
    tip = log_reader.end_of(new, name)
    events = intact(old, name, end)
    for row, content in events:
        if row[1] != tip.event_id + 1:
            rest = _copy_rest(new, fresh, name, tip.event_id, joined([(row, content)], events))
            done.rests[name.session] = rest.session
            done.tips[rest.log_id] = log_reader.end_of(new, rest)
            break
        envelope = log_reader.envelope_of(name, row[1:8], content)
        if not kept and isinstance(envelope.event, SessionCreated):
            kept = _make_session(new, name, envelope, envelope.event)
        if row[8] is None and row[9] is not None:
            new.execute("insert or ignore into blobs values(?, ?)", (row[9], content))
        new.execute(_insert("events", row), row)
        if envelope.kind in PROJECTED:
            project(new, name.key, name.log_id, envelope)
        tip = Tip(row[1], row[12])
    done.tips[name.log_id] = tip


def _make_session(new: Connection, name: LogName, envelope: Envelope, created: SessionCreated) -> bool:
    """A session whose own row is lost, as its first event tells it."""
    where = (created.cwd, created.cwd, created.profile)
    new.execute(_ADD_SESSION, (name.session, name.key, *where, envelope.ts_ms, envelope.ts_ms))
    return True


# The rest


def _copy_rest(
    new: Connection, fresh: Database, of: LogName, after: int, events: Iterable[tuple[Row, bytes]]
) -> LogName:
    """Makes a session of the events behind the gap that follows event `after`. What became of calls is not derived."""
    ids = Ids(_now_ms, os.urandom)
    session, log_id = ids.new(SESS), ids.new(LOG)
    new.execute("insert into logs(id, session, created_ms) values(?, ?, ?)", (log_id, session, _now_ms()))
    rest = LogName(session, log_id, new.last_insert_rowid())
    tips = files.private_folder(os.path.join(fresh.folder, "tips"))
    with contextlib.closing(TipFile(os.path.join(tips, log_id))) as tip:
        tail = LogTail(rest.key, log_id, 0, chain.origin(log_id), tip)
        told = _told(of, rest, after, events)
        began = False
        while batch := list(islice(told, BATCH_EVENTS)):
            if not began:
                _begin_rest(new, of, rest, batch[0][0].ts_ms)
                began = True
            insert_events(new, tail, batch)
            for envelope, _ in batch:
                if envelope.kind in PROJECTED - LEDGER:
                    project(new, rest.key, log_id, envelope)
    return rest


def _begin_rest(new: Connection, of: LogName, rest: LogName, ts_ms: int) -> None:
    row = one_row(new, "select title from sessions where id = ?", of.session)
    title = f'rest of "{row[0]}"' if row is not None and row[0] else f"rest of {of.session}"
    statement = _ADD_REST if row is not None else _ADD_LONE_REST
    values = (rest.session, rest.key, title, of.session)
    new.execute(statement, values if row is not None else (*values, ts_ms))


def _told(
    of: LogName, rest: LogName, after: int, events: Iterable[tuple[Row, bytes]]
) -> Iterator[tuple[Envelope, bytes]]:
    """The events of a rest, numbered from 1, with a note wherever some are missing."""
    number = 0
    for row, content in events:
        if row[1] != after + 1:
            number += 1
            note = _gap(of, after + 1, row[1] - 1)
            yield (
                Envelope(
                    id=number, kind="Notice", session=rest.session, originator="", ts_ms=row[3], event=note
                ),
                encode_payload(note),
            )
        number += 1
        after = row[1]
        envelope = log_reader.envelope_of(of, row[1:8], content)
        yield msgspec.structs.replace(envelope, id=number, session=rest.session), content


def _gap(of: LogName, first: int, last: int) -> Notice:
    lost = (
        f"Event {first} of {of.session} is"
        if first == last
        else f"Events {first} to {last} of {of.session} are"
    )
    return Notice(
        reason="EventsLost",
        message=f"{lost} lost: the file was damaged there.",
        data={"session": of.session, "first": first, "last": last},
    )


# Rows


def _copy_row(old: Connection, new: Connection, table: str, key: int | str) -> bool:
    row = one_row(old, _ONE_OF[table], key)
    if row is not None:
        new.execute(_insert(table, row), row)
    return row is not None


def _copy_rows(new: Connection, table: str, rows: Iterable[Row]) -> None:
    for row in rows:
        new.execute(_insert(table, row), row)


def _insert(table: str, row: tuple[Any, ...]) -> str:
    return f"insert or replace into {table} values({', '.join('?' * len(row))})"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
