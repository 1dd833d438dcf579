"""The sessions of one user: making, finding, opening and naming them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from bridle.base.clock import Clock, iso_ms
from bridle.base.fs import files
from bridle.base.ids import LOG, RUN, SESS, Ids, short_ids
from bridle.engine.ports import Description, Lease, Record, StoredSession
from bridle.protocol.errors import CommandRefused, StoreError, UsageError
from bridle.protocol.events import Envelope
from bridle.sessions.log import log_reader
from bridle.sessions.log.database import Connection, Database, keep_log
from bridle.sessions.log.log_key import KeyWrap
from bridle.sessions.log.log_reader import LogName
from bridle.sessions.log.session_log import OUTPUTS_KEY, StoredLog
from bridle.sessions.log.tips import Tip, TipFile, tip_at
from bridle.sessions.log.writer import LogTail, Writer
from bridle.sessions.shelf import Shelf

if TYPE_CHECKING:
    from bridle.sessions.log.undo_store import UndoTables

_FIELDS = (
    "id", "log", "log_key", "cwd", "root", "profile", "title", "labels", "pinned", "created_ms", "updated_ms", "model",
    "turns", "stop", "renamed", "usd", "branch_of", "imported_ms", "expired_ms", "headless", "rest_of",
)  # fmt: skip
"""The fields of a `SessionRow` in the order of `_ROWS`."""
_ROWS = """select s.id, l.id, l.key, s.cwd, s.root, s.profile, s.title, s.labels, s.pinned, s.created_ms,
  s.updated_ms, s.model, s.turns, s.stop, s.renamed, s.usd, s.branch_of, s.imported_ms, s.expired_ms, s.headless,
  s.rest_of
  from sessions s join logs l on l.key = s.log"""
_BEHIND = "(?1 is null or s.cwd = ?1) and (?2 is null or (s.updated_ms, s.id) < (?2, ?3))"
_LIST = f"{_ROWS} where {_BEHIND} order by s.updated_ms desc, s.id desc limit ?4"
_GONE_ON_WITH = f"{_ROWS} where s.cwd = ? and s.rest_of is null"
_LAST_USED = "order by s.updated_ms desc, s.id desc limit 1"
_NEWEST = f"{_GONE_ON_WITH} {_LAST_USED}"
_NEWEST_USED = f"""{_GONE_ON_WITH} and (s.title <> '' or s.turns > 0
  or exists (select 1 from events e where e.log = s.log and e.kind = 'ToolCallRequested')) {_LAST_USED}"""  # noqa: S608  our own words
_COUNT = f"select count(*) from sessions s where {_BEHIND}"  # noqa: S608  our own words
_NEIGHBOURS = """select (select max(id) from sessions where id < value), value,
  (select min(id) from sessions where id > value) from json_each(?)"""
_ONE = f"{_ROWS} where s.id = ?"
_BY_ALIAS = f"{_ROWS} join aliases a on a.session = s.id where a.alias = ?"

_HOLDER = "select epoch, holder from logs where key = ?"
_TAKE = "update logs set epoch = epoch + 1, holder = ? where key = ?"
_TAKE_UNCHANGED = """update logs set epoch = epoch + 1, holder = ? where key = ? and epoch = ?
  and ? = (select coalesce(max(id), 0) from events where log = logs.key)"""
_IS_THERE = "select 1 from logs where key = ? and id = ?"
_LAST_EVENT = "select id, kind from events where log = ? order by id desc limit 1"
_FOLD = """select f.bytes from folds f join events e on e.log = f.log and e.id = f.id
  where f.log = ? and e.chain = f.chain"""

TITLE_CHARS = 200

Row = TypeVar("Row", bound=StoredSession)

_labels = msgspec.json.Decoder(tuple[str, ...])


class SessionRow(StoredSession, frozen=True, kw_only=True):
    """A session as the database has it: `log_key` is the short name of its log there."""

    log_key: int

    @property
    def name(self) -> LogName:
        return LogName(self.id, self.log, self.log_key)


class SessionStore:
    """Every session in `folder`. Nothing is made on disk before the first session is created.

    Reading methods block for a look at the database; writing ones for a commit. `notice` gets the sentences a
    person should see ("Database is upgrading…"). `key_wrap` is what the data key is wrapped with, if with anything.
    With `durable` off nothing is synced to the disk. Use it from one thread, and `close` it.
    """

    def __init__(
        self,
        folder: str,
        *,
        ids: Ids,
        clock: Clock,
        notice: Callable[[str], None] = lambda text: None,
        waits_for_room: bool = False,
        key_wrap: KeyWrap | None = None,
        durable: bool = True,
    ) -> None:
        self._folder = os.path.abspath(folder)
        self._ids = ids
        self._clock = clock
        self._notice = notice
        self._database = Database(
            self._folder, now_ms=clock.now_ms, notice=notice, key_wrap=key_wrap, durable=durable
        )
        self._writer = Writer(self._database, waits_for_room=waits_for_room)
        self._waits_for_room = waits_for_room
        self._reading: Connection | None = None

    @property
    def shelf(self) -> Shelf:
        """For what works on stored sessions as a whole (`stored_archive`)."""
        return Shelf(
            folder=self._folder,
            database=self._database,
            writer=self._writer,
            reader=self._reader,
            ids=self._ids,
            clock=self._clock,
        )

    def create(
        self,
        cwd: str,
        *,
        profile: str,
        aliases: Sequence[str] = (),
        root: str | None = None,
        headless: bool = False,
    ) -> StoredLog:
        now_ms = self._clock.now_ms()
        session, log_id = self._ids.new(SESS), self._ids.new(LOG)
        lease = Lease(holder=self._ids.new(RUN), epoch=1)

        def insert(connection: Connection) -> int:
            connection.execute(
                "insert into logs(id, session, created_ms, epoch, holder) values(?, ?, ?, ?, ?)",
                (log_id, session, now_ms, lease.epoch, lease.holder),
            )
            key = connection.last_insert_rowid()
            connection.execute(
                "insert into sessions(id, log, cwd, root, profile, created_ms, updated_ms, headless)"
                " values(?, ?, ?, ?, ?, ?, ?, ?)",
                (session, key, cwd, root or cwd, profile, now_ms, now_ms, int(headless)),
            )
            connection.executemany(
                "insert or replace into aliases values(?, ?)", [(alias, session) for alias in aliases]
            )
            return key

        name = LogName(session, log_id, self._writer.run(insert))
        return self._opened(name, lease, accept_loss=False)

    def open(self, session_id: str, *, accept_loss: bool = False) -> StoredLog:
        """Open the log for appending and take its lease, as `engine.store_ports.SessionStore.open` says."""
        row = self.row(session_id)
        refuse_rest(row)
        return self._opened(row.name, None, accept_loss=accept_loss)

    def list(
        self, *, cwd: str | None = None, after: tuple[int, str] | None = None, limit: int | None = None
    ) -> list[SessionRow]:
        """Sessions, of one folder or all, the one used last first; as `engine.store_ports.SessionStore.list` says."""
        return self._rows(_LIST, cwd, *(after or (None, None)), -1 if limit is None else limit)

    def count(self, *, cwd: str | None = None, after: tuple[int, str] | None = None) -> int:
        if not self._database.exists():
            return 0
        with self._database.errors():
            ((found,),) = self._reader().execute(_COUNT, (cwd, *(after or (None, None)))).fetchall()
        return found

    def short_ids(self, sessions: Sequence[str]) -> dict[str, str]:
        wanted = msgspec.json.encode(sessions).decode()
        with self._database.errors():
            found = self._reader().execute(_NEIGHBOURS, (wanted,)).fetchall()
        short = short_ids({one for three in found for one in three if one is not None})
        return {one: short[one] for one in sessions}

    def newest(self, cwd: str) -> SessionRow:
        """Return the session used last in `cwd`, as `engine.store_ports.SessionStore.newest` says."""
        for row in self._rows(_NEWEST_USED, cwd) or self._rows(_NEWEST, cwd):
            return row
        self._refuse_lost_logs()
        raise CommandRefused("NoSessionHere", cwd=cwd)

    def find(self, text: str, *, cwd: str | None = None, exact: bool = False) -> SessionRow:
        """Find the meant session, as `engine.store_ports.SessionStore.find` says."""
        if found := self._rows(_ONE, text) or self._rows(_BY_ALIAS, text):
            return found[0]
        if not (matches := [] if exact else meant_by(text, self.list(), cwd)):
            self._refuse_lost_logs()
        return the_one(matches, text)

    def rename(self, session_id: str, title: str) -> None:
        self.row(session_id)
        title = one_line(title)

        def update(connection: Connection) -> None:
            connection.execute(
                "update sessions set title = ?1, renamed = ?1 <> '' where id = ?2", (title, session_id)
            )

        self._writer.run(update)

    def pin(self, session_id: str, *, pinned: bool) -> None:
        self.row(session_id)

        def update(connection: Connection) -> None:
            connection.execute("update sessions set pinned = ? where id = ?", (int(pinned), session_id))

        self._writer.run(update)

    def by_alias(self, alias: str) -> SessionRow | None:
        """The session that somebody gave this name, or that has this very id."""
        return next(iter((*self._rows(_BY_ALIAS, alias), *self._rows(_ONE, alias))), None)

    def events(self, session_id: str, *, after: int = 0) -> Iterator[Envelope]:
        """The committed events above `after`. Needs no lock: the session may be running elsewhere."""
        return (record.envelope for record in self.records(session_id, after=after))

    def records(self, session_id: str, *, after: int = 0) -> Iterator[Record]:
        return log_reader.all_records(self._reader(), self.row(session_id).name, after)

    def costs(self, row: SessionRow, *, since_ms: int = 0) -> Iterator[Envelope]:
        """What a session paid since a time: its `CostIncremented` events. Nothing else of the log is decoded."""
        with self._database.errors():
            yield from log_reader.of_kinds(self._reader(), row.name, ("CostIncremented",), since_ms)

    def _last_event(self, row: SessionRow) -> tuple[int, str | None]:
        with self._database.errors():
            return self._reader().execute(_LAST_EVENT, (row.log_key,)).fetchone() or (0, None)

    def describe(self, session_id: str) -> Description:
        row = self.row(session_id)
        last_id, last_kind = self._last_event(row)
        return Description(session=row, lease=self._held_by(row), last_id=last_id, last_kind=last_kind)

    def _held_by(self, row: SessionRow) -> Lease | None:
        """The lease of a log whose holder is alive."""
        lock = files.FileLock(os.path.join(self._folder, "locks", row.log))
        if not os.path.exists(lock.path):
            return None
        try:
            with lock:
                if lock.acquire():
                    return None
        except OSError as problem:
            if problem.errno == errno.EROFS:  # nobody works with what nobody can write
                return None
            raise
        with self._database.errors():
            epoch, holder = self._reader().execute(_HOLDER, (row.log_key,)).fetchone() or (0, "")
        return Lease(holder=holder, epoch=epoch)

    def digest(self, session_id: str) -> str:
        with self._database.errors():
            return log_reader.end_of(self._reader(), self.row(session_id).name).chain.hex()

    def verify(self, session_id: str, *, last: int | None = None) -> None:
        """Checks content, chain and tip as `StoredLog.verify` does. Needs no lock: the session may run elsewhere."""
        row = self.row(session_id)
        with self._database.errors():
            tip = tip_at(os.path.join(self._folder, "tips", row.log))  # first: events may be ahead of it
            log_reader.check_chain(self._reader(), row.name, last)
            log_reader.check_tip(self._reader(), row.name, tip)

    def fold(self, session_id: str) -> bytes | None:
        with self._database.errors():
            found = self._reader().execute(_FOLD, (self.row(session_id).log_key,)).fetchone()
        return None if found is None else found[0]

    def outputs_key(self, session_id: str) -> bytes | None:
        """What long outputs of a session are encrypted with; None where nothing ever was. Needs no lock."""
        with self._database.errors():
            found = self._reader().execute(OUTPUTS_KEY, (self.row(session_id).log_key,)).fetchone()
        return None if found is None else found[0]

    def undo_of(self, session_id: str) -> UndoTables:
        """What was kept of a session's files. Needs no lock to be read: the session may run elsewhere."""
        from bridle.sessions.log.undo_store import UndoTables  # the door of what undo keeps

        return UndoTables(
            self.row(session_id).name, writer=self._writer, database=self._database, reader=self._reader
        )

    def enough(self) -> bool:
        return not self._writer.stuck and self._database.has_room()

    def stuck(self) -> bool:
        return self._writer.stuck

    def close(self) -> None:
        """Write what is queued and close the database. Close the open logs first. If writing failed, the write-ahead
        log stays."""
        self._writer.close()
        reader, self._reading = self._reading, None
        if reader is not None:
            if self._writer.failed:
                keep_log(reader)
            reader.close()

    def _opened(self, name: LogName, lease: Lease | None, *, accept_loss: bool) -> StoredLog:
        """With the lease a new log has, or with the next one. The run lock tells whether its holder is alive."""
        with self._database.errors():
            locks = files.private_folder(os.path.join(self._folder, "locks"))
            told = self._told_that_tips_are_gone()
            tips = files.private_folder(os.path.join(self._folder, "tips"))
            lock = files.FileLock(os.path.join(locks, name.log_id))
            run = lease.holder if lease is not None else self._ids.new(RUN)
            note = {"pid": os.getpid(), "started": iso_ms(self._clock.now_ms()), "run": run}
            if not lock.acquire(note={**note, "terminal": _terminal(), "session": name.session}):
                raise busy(name.session, lock, run=run)
            try:
                self._refuse_gone(name)
                lease, ticket = (lease, 0) if lease is not None else self._taken(name, run)
                tip = TipFile(os.path.join(tips, name.log_id))
                if tip.is_new and not (accept_loss or told):
                    self._tell_of_missing_tip(name)
                end = self._end(name, tip, accept_loss=accept_loss)
            except BaseException:
                lock.release()
                raise
        tail = LogTail(name.key, name.log_id, end.event_id, end.chain, tip, lease)
        return StoredLog(
            name,
            tail,
            lease=lease,
            lock=lock,
            writer=self._writer,
            database=self._database,
            reader=self._reader,
            ticket=ticket,
        )

    def _taken(self, name: LogName, run: str) -> tuple[Lease, int]:
        """Return the next lease of a log, and the ticket to wait for. On a full disk it is taken with the first row.
        Raises `NoSpace` while rows of an earlier opening still wait: taking the lease would drop them."""

        def epoch(connection: Connection) -> int:
            found = connection.execute(_HOLDER, (name.key,)).fetchone()
            return found[0] if found else 0

        def take(connection: Connection) -> Lease:
            connection.execute(_TAKE, (run, name.key))
            return Lease(holder=run, epoch=epoch(connection))

        self._writer.settle_left(name.key)
        try:
            return self._writer.run(take), 0
        except StoreError as failure:
            if failure.reason != "NoSpace" or not self._waits_for_room:
                raise
        before = epoch(self._reader())
        seen = (run, name.key, before, log_reader.end_of(self._reader(), name).event_id)

        def take_unchanged(connection: Connection) -> None:
            connection.execute(_TAKE_UNCHANGED, seen)

        return Lease(holder=run, epoch=before + 1), self._writer.change(take_unchanged)

    def _end(self, name: LogName, tip: TipFile, *, accept_loss: bool) -> Tip:
        try:
            end = log_reader.end_of(self._reader(), name)
            if accept_loss or tip.read() is None:
                tip.write(end.event_id, end.chain)
            log_reader.check_tip(self._reader(), name, tip.read())
        except BaseException:
            tip.close()
            raise
        return end

    def _told_that_tips_are_gone(self) -> bool:
        """Says so before the folder is made again: it is there from the first session on."""
        if os.path.isdir(os.path.join(self._folder, "tips")):
            return False
        if ended := log_reader.logs_without_tip(self._reader(), self._folder):
            self._notice(log_reader.tips_gone(self._folder, len(ended)))
        return bool(ended)

    def _tell_of_missing_tip(self, name: LogName) -> None:
        if log_reader.end_of(self._reader(), name).event_id:
            self._notice(log_reader.tips_gone(self._folder, 1))

    def without_tip(self) -> int:
        """How many logs have events and nothing that says where they ended."""
        with self._database.errors():
            return len(log_reader.logs_without_tip(self._reader(), self._folder))

    def _refuse_gone(self, name: LogName) -> None:
        """Whoever had the run lock a moment ago may have deleted the log, and its key may be that of another one."""
        if self._reader().execute(_IS_THERE, (name.key, name.log_id)).fetchone() is None:
            raise CommandRefused("UnknownSession", session=name.session)

    def _refuse_lost_logs(self) -> None:
        """Raises `LogsLost` where a log has a tip and is not in the database: the file lost more than an end."""
        connection = self._reader() if self._database.exists() else None
        if lost := log_reader.lost_logs(connection, self._folder):
            raise StoreError("LogsLost", path=self._database.path, count=len(lost))

    def row(self, session_id: str) -> SessionRow:
        rows = self._rows(_ONE, session_id)
        if not rows:
            raise CommandRefused("UnknownSession", session=session_id)
        return rows[0]

    def _rows(self, statement: str, *values: str | int | None) -> list[SessionRow]:
        if not self._database.exists():
            return []
        with self._database.errors():
            return [_session_row(row) for row in self._reader().execute(statement, values)]

    def _reader(self) -> Connection:
        if self._reading is None:
            self._reading = self._database.connect()
            self._reading.pragma("query_only", 1)
        return self._reading


def _session_row(row: tuple[Any, ...]) -> SessionRow:
    values: dict[str, Any] = dict(zip(_FIELDS, row, strict=True))
    values |= {name: bool(values[name]) for name in ("pinned", "renamed", "headless")}
    values["labels"] = _labels.decode(values["labels"])
    return SessionRow(**values)


def meant_by(text: str, rows: Sequence[Row], cwd: str | None) -> list[Row]:
    """Those that a title, a label or the beginning of an id may mean; those in `cwd`, where there are several."""
    named = [row for row in rows if text and row.title == text] or [row for row in rows if text in row.labels]
    matches = [*named, *(row for row in rows if _begins(row.id, text) and row not in named)]
    if len(matches) > 1 and cwd is not None:
        matches = [row for row in matches if row.cwd == cwd] or matches
    return matches


def the_one(matches: Sequence[Row], text: str) -> Row:
    """The only one that was meant. Raises `CommandRefused` (`UnknownSession`, `AmbiguousSession`)."""
    if not matches:
        raise CommandRefused("UnknownSession", session=text)
    if len(matches) > 1:
        raise CommandRefused("AmbiguousSession", session=text, matches=_named(matches))
    return matches[0]


def _begins(session_id: str, text: str) -> bool:
    typed = text.upper().removeprefix("SESS_")
    return bool(typed) and session_id.removeprefix("sess_").startswith(typed)


def _named(rows: Sequence[StoredSession]) -> str:
    shown = ", ".join(f"{row.id} ({row.title})" if row.title else row.id for row in rows[:5])
    return shown if len(rows) <= 5 else f"{shown} and {len(rows) - 5} more"


def one_line(title: str) -> str:
    """A title as it is kept: one line, no longer than a list can show."""
    return " ".join(title.split())[:TITLE_CHARS]


def refuse_rest(row: StoredSession) -> None:
    """Raises `UsageError` for a session that has holes where its file was damaged."""
    if row.rest_of is not None:
        raise UsageError(
            f"{row.id} is what could be read behind a damage of {row.rest_of}. It can be read and not gone on with: "
            f"bridle sessions show {row.id}"
        )


def busy(session: str, lock: files.FileLock, *, run: str = "") -> CommandRefused:
    """Why a session cannot be had by this `run`: another one holds its lock."""
    holder = lock.holder() or {}
    terminal = holder.get("terminal")
    return CommandRefused(
        "SessionBusy",
        session=session,
        pid=holder.get("pid", "unknown"),
        started=holder.get("started", "unknown"),
        where=f"terminal on {terminal}, " if terminal else "",
        run=run,
        other_run=holder.get("run", "unknown"),
    )


def _terminal() -> str:
    """The terminal a person sits at, without its folder; empty where there is none."""
    try:
        return os.ttyname(0).removeprefix("/dev/")
    except OSError:
        return ""
