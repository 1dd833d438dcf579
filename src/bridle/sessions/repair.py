"""Damage found, and what can be read saved: the database is never mended in place.

`examine` reads everything: every page, every digest and link, every tip. `repair` puts the damaged files aside, where
they stay, and writes what can be read into a new database (`rescuing`). Where only the end of a log was lost, as a cut
write-ahead log does, nothing needs to be rewritten.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Generator, Mapping

import apsw
import msgspec

from bridle.base import files
from bridle.base.files import FileLock
from bridle.protocol.errors import StoreError
from bridle.sessions import log_reader
from bridle.sessions.database import Connection, Database, copied
from bridle.sessions.log_reader import LogName
from bridle.sessions.rescue import Rescued, rescue
from bridle.sessions.salvage import end_of_log, intact, logs_around, one_row
from bridle.sessions.store import busy
from bridle.sessions.tips import Tip, TipFile, tip_at
from bridle.sessions.unopened import is_misread, readable_copy

MOST_PROBLEMS = 20
_SIDE_FILES = ("", "-wal", "-shm")
_LOGS = "select l.key, l.id, l.session from logs l order by l.key"


class DamagedLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log that is not whole: how many events of it are proven, what is wrong, how many are known to be lost.

    `rest` is how many events behind the damage can be read; `rest_session` where a repair has put them. `ends_early`:
    what is there is whole, and its end is missing.
    """

    session: str
    log: str
    events: int
    chain: bytes
    problem: str
    lost: int
    ends_early: bool
    rest: int = 0
    rest_session: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at and what is wrong. `problems` are about the file; `aside` is where the damaged one went.

    `without_tip` logs have nothing that says where they ended: what is there is whole, and may not be all.
    """

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
    """Looks at everything and changes nothing. Raises `StoreError` where that is not a question of damage."""
    if not database.exists():
        return _missing(database)
    connection = _opened(database)
    if connection is None:
        with tempfile.TemporaryDirectory(prefix="bridle-") as folder, _copy_opened(database, folder) as copy:
            return _unopenable(database, copy)
    with contextlib.closing(connection):
        return _examined(database, connection)


def repair(database: Database) -> Report:
    """Examines, and saves what can be read. Raises `SessionBusy` or `StoreInUse` while another Bridle is at work."""
    if not database.exists():
        with database.errors():
            refuse_while_running(database.folder)
            report = _missing(database)
            for found in report.damaged:
                _accept_loss(database.folder, found)
            return report
    connection = _opened(database)  # an older form is brought up to date first
    if connection is None:
        return _put_aside_unopened(database)
    connection.close()
    with database.locked(), database.errors():
        refuse_while_running(database.folder)
        with contextlib.closing(database.alone()) as connection:
            report = _examined(database, connection)
            if report.whole:
                return report
            _take_ends_as_they_are(database, connection)
            if not report.problems and all(found.ends_early for found in report.damaged):
                for found in report.damaged:
                    _accept_loss(database.folder, found)
                return report
            aside = _aside(database)
            with contextlib.ExitStack() as copies:
                _copy_aside(database, aside, copies)
                _write_report(msgspec.structs.replace(report, aside=aside))
                fresh, rescued = _saved(database, connection, aside)
                with contextlib.suppress(apsw.Error):
                    connection.pragma("wal_checkpoint", "truncate")
                _put_in_place(database, fresh, rescued.tips)
            report = _with_rests(report, rescued, aside)
            _write_report(report)
        return report


def _put_aside_unopened(database: Database) -> Report:
    """Saves what a readable copy of a file that cannot be opened still holds, if anything."""
    with database.locked(), database.errors():
        refuse_while_running(database.folder)
        aside = _aside(database)
        with contextlib.ExitStack() as copies:
            _copy_aside(database, aside, copies)
            folder = files.private_folder(os.path.join(aside, "copy"))
            copy = copies.enter_context(_copy_opened(database, folder))
            report = msgspec.structs.replace(_unopenable(database, copy), aside=aside)
            _write_report(report)
            fresh, rescued = _saved(database, copy, aside)
            _put_in_place(database, fresh, rescued.tips)
        shutil.rmtree(folder)
        report = _with_rests(report, rescued, aside)
        _write_report(report)
        return report


def words(report: Report) -> list[str]:
    """The report in sentences, one a line."""
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
        rest = "" if not found.rest else f"; {found.rest:,} more can be read behind the damage"
        lost = "" if not found.lost else f"; {found.lost:,} known to be lost"
        lines.append(f"{found.session}: {found.problem}. {found.events:,} events are whole{rest}{lost}.")
        if found.rest_session:
            lines.append(
                f"What was read behind the damage, to be read only: bridle sessions show {found.rest_session}"
            )
    if report.aside:
        lines.append(f"What can be read was saved into a new file. The damaged one is in {report.aside}.")
    return lines


# Looking


def _opened(database: Database) -> Connection | None:
    """A connection, also where its version cannot be read any more: then it is taken to be this one.

    None where not even the list of tables can be read, or the file is shorter than it should be.
    """
    with database.errors():
        misread = is_misread(database.path)
    try:
        connection = database.connect()
    except StoreError as failure:
        if failure.reason != "StoreDamaged":
            raise
    else:
        if not misread:
            return connection
        connection.close()
        return None
    try:
        return database.open_with(database.path, database.data_key())
    except apsw.Error:
        return None


@contextlib.contextmanager
def _copy_opened(database: Database, folder: str) -> Generator[Connection | None]:
    """A copy of a file that cannot be opened, made readable in an empty folder; None where nothing can be read."""
    try:
        connection = readable_copy(database, folder)
    except apsw.Error:
        yield None
        return
    with contextlib.closing(connection):
        yield connection


def _unopenable(database: Database, copy: Connection | None) -> Report:
    """What a readable copy tells of a file that cannot be opened itself."""
    problem = "the file is shorter than it should be, or its first page is damaged"
    if copy is None:
        return msgspec.structs.replace(_missing(database), problems=(problem,))
    report = _examined(database, copy)
    return msgspec.structs.replace(report, problems=(problem, *report.problems))


def _quick_check(connection: Connection) -> tuple[str, ...]:
    try:
        rows = [str(row[0]) for row in connection.execute(f"pragma quick_check({MOST_PROBLEMS})")]
    except apsw.Error as problem:
        return (str(problem),)
    lines = [line for row in rows for line in row.splitlines() if not line.startswith("***")]
    return () if lines == ["ok"] else tuple(lines)


def _logs(connection: Connection) -> tuple[list[LogName], bool]:
    """The logs that can be found, and whether these are certainly all."""
    try:
        return [LogName(session, log_id, key) for key, log_id, session in connection.execute(_LOGS)], True
    except apsw.Error:
        return logs_around(connection), False


def _examined(database: Database, connection: Connection) -> Report:
    problems = _quick_check(connection)
    logs, complete = _logs(connection)
    if not complete:
        problems = (*problems, "the list of logs cannot be read to its end")
    damaged = [found for name in logs if (found := _damage(database, connection, name)) is not None]
    known = {name.log_id for name in logs}
    lost = log_reader.lost_logs(connection if complete else None, database.folder)
    damaged += [_gone(database.folder, log) for log in lost if log not in known]
    counted = one_row(connection, "select count(*) from events")
    return Report(
        path=database.path,
        sessions=len(logs),
        events=0 if counted is None else counted[0],
        problems=problems,
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
    follows = False
    try:
        with database.errors():
            log_reader.check_chain(connection, name)
            follows = True
            log_reader.check_tip(connection, name, tip)
    except StoreError as failure:
        end = end_of_log(connection, name, tip)
        events, link, rest = 0, b"", 0
        for row, _ in intact(connection, name, end):
            if row[1] == events + 1 and not rest:
                events, link = row[1], row[12]
            else:
                rest += 1
        data = failure.data
        at = data.get("event", events + 1) if follows else events + 1
        lost = max(0, end - events - rest)
        return DamagedLog(
            session=name.session,
            log=name.log_id,
            events=events,
            chain=link,
            problem=f"damaged at event {at}: {data.get('problem', failure.message)}",
            lost=lost,
            ends_early=follows and lost > 0,
            rest=rest,
        )
    return None


def _missing(database: Database) -> Report:
    """There is no file: nothing was stored, or all of it is gone."""
    gone = (_gone(database.folder, log) for log in log_reader.lost_logs(None, database.folder))
    return Report(path=database.path, damaged=tuple(gone))


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


def _take_ends_as_they_are(database: Database, connection: Connection) -> None:
    """Where nothing says where a log ended, it ends with what is there from now on."""
    ended = _without_tip(database, connection)
    if ended:
        files.private_folder(os.path.join(database.folder, "tips"))
    for name in ended:
        with contextlib.suppress(apsw.Error):
            _set_tip(database.folder, name.log_id, log_reader.end_of(connection, name))


def _aside(database: Database) -> str:
    """A folder of its own for the damaged files."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return files.private_folder(os.path.join(database.folder, f"damaged-{stamp}-{os.urandom(2).hex()}"))


def _copy_aside(database: Database, aside: str, copies: contextlib.ExitStack) -> None:
    for side in _SIDE_FILES:
        copies.enter_context(copied(database.path + side, os.path.join(aside, "sessions.db" + side)))


def _saved(database: Database, connection: Connection | None, aside: str) -> tuple[Database, Rescued]:
    """Makes a new database with what can be read, in the folder of the damaged one."""
    fresh = database.beside(files.private_folder(os.path.join(aside, "saved")))
    shutil.copy2(database.key_path, fresh.key_path)
    if connection is None:
        fresh.connect().close()
        return fresh, Rescued({}, {})
    names, _ = _logs(connection)
    found = ((name.log_id, tip_at(_tip_path(database.folder, name.log_id))) for name in names)
    return fresh, rescue(connection, fresh, names, {log: tip for log, tip in found if tip is not None})


def _with_rests(report: Report, rescued: Rescued, aside: str) -> Report:
    damaged = tuple(
        msgspec.structs.replace(found, rest_session=rescued.rests.get(found.session, ""))
        for found in report.damaged
    )
    return msgspec.structs.replace(report, damaged=damaged, aside=aside)


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
    database.forget_head()
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
