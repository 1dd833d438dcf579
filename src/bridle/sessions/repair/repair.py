"""Find damage in the database and save what is whole.

`examine` reads every page, digest, link and tip. `repair` keeps the damaged files aside and writes each log, up to its
first broken link, into a new database (`rescue`). Where only the end of a log was lost, as a cut write-ahead log does,
nothing is rewritten. A file that cannot be opened is kept aside; its sessions come back from a backup.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apsw
import msgspec

from bridle.base.fs import files
from bridle.base.fs.files import FileLock
from bridle.protocol.errors import StoreError
from bridle.protocol.events import SessionCreated
from bridle.sessions.log import log_reader
from bridle.sessions.log.database import Connection, Database, cannot_be_written, copied
from bridle.sessions.log.log_reader import LogName
from bridle.sessions.log.projections import PROJECTED, project
from bridle.sessions.log.tips import Tip, TipFile, tip_at
from bridle.sessions.store import busy

# Each log keeps its events up to the first one that is not as it was written. Other tables keep their rows up
# to the first one that cannot be read.


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
    count = 0
    for row in rows:
        new.execute(f"insert or replace into {table} values({', '.join('?' * len(row))})", row)
        count += 1
    return count


MOST_PROBLEMS = 20
_SIDE_FILES = ("", "-wal", "-shm")
_LOGS = "select key, id, session from logs order by key"
_LAST_EVENT = "select coalesce(max(id), 0) from events where log = ?"
_UNOPENABLE = "the file is not a database, or its first page is damaged"


class DamagedLog(msgspec.Struct, frozen=True, kw_only=True):
    """A damaged log: its proven events, the problem, the known losses. `chain` is the last proven link; with
    `ends_early` only the end is missing."""

    session: str
    log: str
    events: int
    chain: bytes
    problem: str
    lost: int
    ends_early: bool


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an examination. `problems` are about the file, `aside` is the folder of the damaged one. Nothing
    tells whether `without_tip` logs are complete."""

    path: str
    sessions: int = 0
    events: int = 0
    problems: tuple[str, ...] = ()
    damaged: tuple[DamagedLog, ...] = ()
    aside: str = ""
    without_tip: int = 0

    @property
    def whole(self) -> bool:
        return not self.problems and not self.damaged and not self.without_tip


def examine(database: Database) -> Report:
    """Read everything and change nothing. Raises `StoreError` for problems other than damage."""
    if not database.exists():
        return _without_file(database)
    connection = _opened(database)
    if connection is None:
        return _without_file(database, _UNOPENABLE)
    with contextlib.closing(connection):
        return _examined(database, connection)


def repair(database: Database) -> Report:
    """Examine, and save what is whole. Raises `SessionBusy` or `StoreInUse` while another Bridle is at work."""
    connection = _opened(database) if database.exists() else None  # an older schema is upgraded here
    if connection is not None:
        connection.close()
    elif not database.exists():
        with database.errors():
            return _repaired_in_place(database, _without_file(database))
    with database.locked(), database.errors(), contextlib.ExitStack() as opened:
        refuse_while_running(database.folder)
        if connection is None:
            report = _without_file(database, _UNOPENABLE)
        else:
            connection = opened.enter_context(contextlib.closing(database.alone()))
            report = _examined(database, connection)
            if report.whole:
                return report
            _take_ends_as_they_are(database, connection)
        if not report.problems and all(found.ends_early for found in report.damaged):
            return _repaired_in_place(database, report)
        report = msgspec.structs.replace(report, aside=_aside(database))
        with contextlib.ExitStack() as copies:
            _copy_aside(database, report.aside, copies)
            _write_report(report)
            fresh, tips = _saved(database, connection, report.aside)
            if connection is not None:
                with contextlib.suppress(apsw.Error):
                    connection.pragma("wal_checkpoint", "truncate")
            _put_in_place(database, fresh, tips)
    return report


def _repaired_in_place(database: Database, report: Report) -> Report:
    """Continue every log with the events it has."""
    refuse_while_running(database.folder)
    for found in report.damaged:
        _accept_loss(database.folder, found)
    return report


def words(report: Report) -> list[str]:
    if report.whole:
        sessions = "1 session" if report.sessions == 1 else f"{report.sessions:,} sessions"
        return [f"Everything is whole: {sessions}, {report.events:,} events."]
    lines: list[str] = []
    if report.without_tip:
        lines.append(log_reader.tips_gone(os.path.dirname(report.path), report.without_tip))
    if report.problems:
        spared = "" if report.damaged else "; no event of any session is"
        lines.append(f"{report.path} is damaged{spared}.")
    for found in report.damaged:
        lost = "" if not found.lost else f"; {found.lost:,} known to be lost"
        lines.append(f"{found.session}: {found.problem}. {found.events:,} events are whole{lost}.")
    if report.aside:
        saved = (
            "What is whole was saved into a new file."
            if report.sessions
            else "Nothing of it can be read. Restore a backup: bridle sessions import FILE."
        )
        lines.append(f"{saved} The damaged one is in {report.aside}.")
    return lines


# Looking


def _opened(database: Database) -> Connection | None:
    """Open the file, also where it is cut short or its version cannot be read; None where it does not open at all."""
    try:
        return database.connect()
    except StoreError as failure:
        if failure.reason != "StoreDamaged":
            raise
    with contextlib.suppress(apsw.Error):
        return database.open_with(database.path, database.data_key(), short=True)
    return None


def _check_integrity(database: Database, connection: Connection) -> tuple[str, ...]:
    try:
        rows = [str(row[0]) for row in connection.execute(f"pragma integrity_check({MOST_PROBLEMS})")]
    except apsw.Error as problem:
        return (str(problem),)
    lines = [line for row in rows for line in row.splitlines() if not line.startswith("***")]
    if connection.readonly("main") and not cannot_be_written(database.folder):
        lines.append("the file is marked as read-only")
    return tuple(line for line in lines if line != "ok")


def _logs(connection: Connection) -> list[LogName]:
    rows = readable_rows(connection, _LOGS)
    return [LogName(session, log_id, key) for key, log_id, session in rows]


def _examined(database: Database, connection: Connection) -> Report:
    logs = _logs(connection)
    damaged = [found for name in logs if (found := _damage(database, connection, name)) is not None]
    known = {name.log_id for name in logs}
    lost = log_reader.lost_logs(None, database.folder)
    damaged += [_gone(database.folder, log) for log in lost if log not in known]
    (events,) = next(readable_rows(connection, "select count(*) from events"), (0,))
    return Report(
        path=database.path,
        sessions=len(logs),
        events=events,
        problems=_check_integrity(database, connection),
        damaged=tuple(damaged),
        without_tip=len(_without_tip(database, connection)),
    )


def _without_tip(database: Database, connection: Connection) -> list[LogName]:
    try:
        return log_reader.logs_without_tip(connection, database.folder)
    except apsw.Error:  # of a damaged file its problems say enough
        return []


def _damage(database: Database, connection: Connection, name: LogName) -> DamagedLog | None:
    """What is wrong with one log; None where nothing is."""
    tip = tip_at(_tip_path(database.folder, name.log_id))
    proven, follows = Tip(0, b""), False
    try:
        with database.errors():
            for row, _ in log_reader.proven_rows(connection, name):
                proven = Tip(row[0], row[-1])
            follows = True
            log_reader.check_tip(connection, name, tip)
    except StoreError as failure:
        (last,) = next(readable_rows(connection, _LAST_EVENT, name.key), (0,))
        at = failure.data.get("event", proven.event_id + 1)
        lost = max(last, 0 if tip is None else tip.event_id) - proven.event_id
        return DamagedLog(
            session=name.session,
            log=name.log_id,
            events=proven.event_id,
            chain=proven.chain,
            problem=f"damaged at event {at}: {failure.data.get('problem', failure.message)}",
            lost=lost,
            ends_early=follows and lost > 0,
        )
    return None


def _without_file(database: Database, *problems: str) -> Report:
    """There is no file to read: nothing was stored, or all of it is gone."""
    gone = (_gone(database.folder, log) for log in log_reader.lost_logs(None, database.folder))
    return Report(path=database.path, problems=problems, damaged=tuple(gone))


def _gone(folder: str, log: str) -> DamagedLog:
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


def _take_ends_as_they_are(database: Database, connection: Connection) -> None:
    """Where nothing says where a log ended, it ends with what is there from now on."""
    ended = _without_tip(database, connection)
    if ended:
        files.private_folder(os.path.join(database.folder, "tips"))
    for name in ended:
        with contextlib.suppress(apsw.Error):
            _set_tip(database.folder, name.log_id, log_reader.end_of(connection, name))


def _aside(database: Database) -> str:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return files.private_folder(os.path.join(database.folder, f"damaged-{stamp}-{os.urandom(2).hex()}"))


def _copy_aside(database: Database, aside: str, copies: contextlib.ExitStack) -> None:
    for side in _SIDE_FILES:
        copies.enter_context(copied(database.path + side, os.path.join(aside, "sessions.db" + side)))


def _saved(database: Database, connection: Connection | None, aside: str) -> tuple[Database, dict[str, Tip]]:
    """Make a new database with what is whole, in the folder of the damaged one."""
    fresh = database.beside(files.private_folder(os.path.join(aside, "saved")))
    shutil.copy2(database.key_path, fresh.key_path)
    if connection is None:
        fresh.connect().close()
        return fresh, {}
    return fresh, rescue(connection, fresh, _logs(connection))


def _write_report(report: Report) -> None:
    told = [
        *words(report),
        "This is the damaged file, as it was; the key is where it was.",
        *(f"What SQLite says: {problem}" for problem in report.problems),
    ]
    text = "".join(f"{line}\n" for line in told)
    files.write_atomic(os.path.join(report.aside, "report.txt"), text.encode())


def _put_in_place(database: Database, fresh: Database, tips: Mapping[str, Tip]) -> None:
    for side in _SIDE_FILES[1:]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(database.path + side)
    os.replace(fresh.path, database.path)
    shutil.rmtree(fresh.folder)
    shutil.rmtree(os.path.join(database.folder, "tips"), ignore_errors=True)
    files.private_folder(os.path.join(database.folder, "tips"))
    for log_id, tip in tips.items():
        _set_tip(database.folder, log_id, tip)


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
            raise busy(str((lock.holder() or {}).get("session", name)), lock)
        lock.release()
