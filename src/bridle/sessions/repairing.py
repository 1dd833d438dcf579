"""Damage found, and what is whole saved: the database is never mended in place.

`examine` reads everything: every page, every digest and link, every tip. `repair` puts the damaged files aside, where
they stay, and writes what is whole into a new database: of each log the events up to the first one that cannot be
proven. Where only the end of a log was lost, as a cut write-ahead log does, nothing needs to be rewritten.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping
from typing import Any

import apsw
import msgspec

from bridle.base import files
from bridle.base.files import FileLock
from bridle.protocol.codec import decode_payload
from bridle.protocol.errors import StoreError
from bridle.protocol.events import Envelope, SessionCreated
from bridle.sessions import reading
from bridle.sessions.database import Connection, Database
from bridle.sessions.projections import PROJECTED, project
from bridle.sessions.reading import LogName
from bridle.sessions.store import busy
from bridle.sessions.tips import Tip, TipFile, tip_at

MOST_PROBLEMS = 20
_MOST_LOGS = 100_000
_SIDE_FILES = ("", "-wal", "-shm")
_ONE_OF = {"logs": "select * from logs where key = ?", "sessions": "select * from sessions where id = ?"}
_ALL_OF = {
    "aliases": "select * from aliases",
    "undo_contents": "select * from undo_contents",
    "undo_calls": "select * from undo_calls",
    "undo_actions": "select * from undo_actions",
}
_LOGS = "select l.key, l.id, l.session from logs l order by l.key"


class DamagedLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log that is not whole: how many events of it are, what is wrong, how many are known to be lost.

    `ends_early`: what is there is whole, and its end is missing.
    """

    session: str
    log: str
    events: int
    chain: bytes
    problem: str
    lost: int
    ends_early: bool


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at and what is wrong. `problems` are about the file; `aside` is where the damaged one went."""

    path: str
    sessions: int = 0
    events: int = 0
    problems: tuple[str, ...] = ()
    damaged: tuple[DamagedLog, ...] = ()
    aside: str = ""

    @property
    def whole(self) -> bool:
        return not self.problems and not self.damaged


def examine(database: Database) -> Report:
    """Looks at everything and changes nothing. Raises `StoreError` where there is nothing that could be opened."""
    if not database.exists():
        return Report(path=database.path)
    with contextlib.closing(_opened(database)) as connection:
        return _examined(database, connection)


def repair(database: Database) -> Report:
    """Examines, and saves what is whole. Raises `SessionBusy` or `StoreInUse` while another Bridle is at work."""
    if not database.exists():
        return Report(path=database.path)
    _opened(database).close()  # an older form is brought up to date first
    with database.locked():
        refuse_while_running(database.folder)
        with contextlib.closing(database.alone()) as connection, database.errors():
            report = _examined(database, connection)
            if report.whole:
                return report
            if not report.problems and all(found.ends_early for found in report.damaged):
                for found in report.damaged:
                    _accept_loss(database.folder, found)
                return report
            aside, fresh, tips = _saved(database, connection, report)
        with database.errors():
            _put_in_place(database, fresh, tips)
        return msgspec.structs.replace(report, aside=aside)


def words(report: Report) -> list[str]:
    """The report in sentences, one a line."""
    if report.whole:
        sessions = "1 session" if report.sessions == 1 else f"{report.sessions:,} sessions"
        return [f"Everything is whole: {sessions}, {report.events:,} events."]
    lines = [f"{report.path}: {problem}" for problem in report.problems]
    for found in report.damaged:
        lost = "" if not found.lost else f"; {found.lost:,} known to be lost"
        lines.append(f"{found.session}: {found.problem}. {found.events:,} events are whole{lost}.")
    if report.aside:
        lines.append(f"What is whole was saved into a new file. The damaged one is in {report.aside}.")
    return lines


# Looking


def _opened(database: Database) -> Connection:
    """A connection, also where its version cannot be read any more: then it is taken to be this one.

    Raises `StoreLost` where not even the list of tables can be read: nothing can be saved.
    """
    try:
        return database.connect()
    except StoreError as failure:
        if failure.reason != "StoreDamaged":
            raise
    try:
        return database.open_with(database.path, database.data_key())
    except apsw.Error as problem:
        raise StoreError("StoreLost", path=database.path, problem=str(problem)) from problem


def _quick_check(connection: Connection) -> tuple[str, ...]:
    try:
        rows = [str(row[0]) for row in connection.execute(f"pragma quick_check({MOST_PROBLEMS})")]
    except apsw.Error as problem:
        return (str(problem),)
    return () if rows == ["ok"] else tuple(rows)


def _logs(connection: Connection) -> tuple[list[LogName], bool]:
    """The logs that can be read, and whether these are all."""
    try:
        return [LogName(session, log_id, key) for key, log_id, session in connection.execute(_LOGS)], True
    except apsw.Error:
        one = "select key, id, session from logs where key = ?"
        rows = (_row(connection, one, key) for key in range(1, _MOST_LOGS))
        return [LogName(row[2], row[1], row[0]) for row in rows if row is not None], False


def _row(connection: Connection, statement: str, *values: Any) -> tuple[Any, ...] | None:
    try:
        return connection.execute(statement, values).fetchone()
    except apsw.Error:
        return None


def _examined(database: Database, connection: Connection) -> Report:
    problems = _quick_check(connection)
    logs, complete = _logs(connection)
    if not complete:
        problems = (*problems, "the list of logs cannot be read to its end")
    damaged = [found for name in logs if (found := _damage(database, connection, name)) is not None]
    if complete:
        damaged += [_gone(database.folder, log) for log in reading.lost_logs(connection, database.folder)]
    counted = _row(connection, "select count(*) from events")
    return Report(
        path=database.path,
        sessions=len(logs),
        events=0 if counted is None else counted[0],
        problems=problems,
        damaged=tuple(damaged),
    )


def _damage(database: Database, connection: Connection, name: LogName) -> DamagedLog | None:
    """What is wrong with one log; None where nothing is."""
    tip = tip_at(_tip_path(database.folder, name.log_id))
    follows = False
    try:
        with database.errors():
            reading.check_chain(connection, name)
            follows = True
            reading.check_tip(connection, name, tip)
    except StoreError as failure:
        events, chain = 0, b""
        for row, _ in reading.proven(connection, name):
            events, chain = row[1], row[12]
        data = failure.data
        lost = 0 if tip is None else max(0, tip.event_id - events)
        return DamagedLog(
            session=name.session,
            log=name.log_id,
            events=events,
            chain=chain,
            problem=f"damaged at event {data.get('event', events + 1)}: {data.get('problem', failure.message)}",
            lost=lost,
            ends_early=follows and lost > 0,
        )
    return None


def _gone(folder: str, log: str) -> DamagedLog:
    """A log of which only the tip is left."""
    tip = tip_at(_tip_path(folder, log))
    return DamagedLog(
        session=log,
        log=log,
        events=0,
        chain=b"",
        problem="the whole log is gone, as after a power cut",
        lost=0 if tip is None else tip.event_id,
        ends_early=True,
    )


# Saving


def _accept_loss(folder: str, found: DamagedLog) -> None:
    """What is there goes on; what is not leaves no tip behind."""
    if found.events:
        _set_tip(folder, found.log, Tip(found.events, found.chain))
    else:
        os.unlink(_tip_path(folder, found.log))


def _saved(
    database: Database, connection: Connection, report: Report
) -> tuple[str, Database, dict[str, Tip]]:
    """Puts a copy of the damaged files aside, and beside it a new database with what is whole."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    aside = files.private_folder(os.path.join(database.folder, f"damaged-{stamp}-{os.urandom(2).hex()}"))
    for side in _SIDE_FILES:
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(database.path + side, os.path.join(aside, "sessions.db" + side))
    told = [*words(report), "This is the damaged file, as it was; the key is where it was."]
    files.write_atomic(os.path.join(aside, "report.txt"), "".join(f"{line}\n" for line in told).encode())
    fresh = database.beside(files.private_folder(os.path.join(aside, "saved")))
    shutil.copy2(database.key_path, fresh.key_path)
    return aside, fresh, _copied(connection, fresh)


def _put_in_place(database: Database, fresh: Database, tips: Mapping[str, Tip]) -> None:
    for side in _SIDE_FILES[1:]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(database.path + side)
    os.replace(fresh.path, database.path)
    shutil.rmtree(fresh.folder)
    shutil.rmtree(os.path.join(database.folder, "tips"))
    files.private_folder(os.path.join(database.folder, "tips"))
    for log_id, tip in tips.items():
        _set_tip(database.folder, log_id, tip)


def _copied(old: Connection, fresh: Database) -> dict[str, Tip]:
    """What is whole, copied row by row; where each log ends now."""
    with contextlib.closing(fresh.connect()) as new:
        names, _ = _logs(old)
        new.execute("begin immediate")
        for name in names:
            _copy_row(old, new, "logs", name.key)
        tips = {name.log_id: _copy_log(old, new, name) for name in names}
        for table in _ALL_OF:
            _copy_table(old, new, table)
        new.execute("update logs set searched_to = 0")
        new.execute("commit")
        new.pragma("wal_checkpoint", "truncate")
    return tips


def _copy_log(old: Connection, new: Connection, name: LogName) -> Tip:
    """The proven events of a log with all that is derived from them, and the session they belong to."""
    kept = _copy_row(old, new, "sessions", name.session)
    if kept:
        new.execute("update sessions set turns = 0, usd = 0, stop = null where id = ?", (name.session,))
    tip = reading.end_of(new, name)
    for row, content in reading.proven(old, name):
        envelope = _envelope(name, row, content)
        if not kept and isinstance(envelope.event, SessionCreated):
            kept = _make_session(new, name, envelope, envelope.event)
        if row[8] is None and row[9] is not None:
            new.execute("insert or ignore into blobs values(?, ?)", (row[9], content))
        new.execute(_insert("events", row), row)
        if envelope.kind in PROJECTED:
            project(new, name.key, name.log_id, envelope)
        tip = Tip(row[1], row[12])
    return tip


def _envelope(name: LogName, row: tuple[Any, ...], content: bytes) -> Envelope:
    _, event_id, kind, ts_ms, originator, turn, agent_path, invocation, *_ = row
    return Envelope(
        id=event_id,
        kind=kind,
        session=name.session,
        originator=originator,
        ts_ms=ts_ms,
        event=decode_payload(kind, content),
        turn=turn,
        agent_path=() if agent_path is None else msgspec.json.decode(agent_path, type=tuple[str, ...]),
        invocation=invocation,
    )


def _make_session(new: Connection, name: LogName, envelope: Envelope, created: SessionCreated) -> bool:
    """A session whose own row is lost, as its first event tells it."""
    new.execute(
        "insert into sessions(id, log, cwd, root, profile, created_ms, updated_ms) values(?, ?, ?, ?, ?, ?, ?)",
        (name.session, name.key, created.cwd, created.cwd, created.profile, envelope.ts_ms, envelope.ts_ms),
    )
    return True


def _copy_row(old: Connection, new: Connection, table: str, key: int | str) -> bool:
    row = _row(old, _ONE_OF[table], key)
    if row is not None:
        new.execute(_insert(table, row), row)
    return row is not None


def _copy_table(old: Connection, new: Connection, table: str) -> None:
    """Row by row until one cannot be read: these tables can do without."""
    with contextlib.suppress(apsw.Error):
        for row in old.execute(_ALL_OF[table]):
            new.execute(_insert(table, row), row)


def _insert(table: str, row: tuple[Any, ...]) -> str:
    return f"insert or replace into {table} values({', '.join('?' * len(row))})"


def _set_tip(folder: str, log_id: str, tip: Tip) -> None:
    file = TipFile(_tip_path(folder, log_id))
    try:
        file.write(tip.event_id, tip.chain)
    finally:
        file.close()


def _tip_path(folder: str, log_id: str) -> str:
    return os.path.join(folder, "tips", log_id)


def refuse_while_running(folder: str) -> None:
    """Raises `SessionBusy` when one does. What begins later finds the database in use."""
    locks = os.path.join(folder, "locks")
    for name in sorted(os.listdir(locks)) if os.path.isdir(locks) else ():
        lock = FileLock(os.path.join(locks, name))
        if not lock.acquire():
            raise busy(name, lock)
        lock.release()
