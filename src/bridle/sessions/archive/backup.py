"""Copy the store while it is in use, and verify the copy.

It is the database as it is, encrypted with the same key, and beside it the file of the key as it stands: both are
needed, and whatever unlocks that key here. It comes in again as sessions (`restore`), or by hand as the database.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Generator

import apsw
import msgspec

from bridle.base.fs import files
from bridle.base.secrets.redact import redact
from bridle.engine.store_ports import Backup, Restored
from bridle.protocol.codec import encode_envelope
from bridle.protocol.errors import StoreError, UsageError
from bridle.sessions.archive.import_session import import_lines
from bridle.sessions.log import log_reader
from bridle.sessions.log.database import Connection, Database
from bridle.sessions.log.log_key import KeyFile
from bridle.sessions.log.log_reader import LogName
from bridle.sessions.shelf import Shelf
from bridle.sessions.store import one_line

KEY = ".key"
"""What the name of a backup's key ends with."""
_FIRST_BYTES = bytes((16, 0))
_FIRST_AT = 16
_LOGS = "select l.key, l.id, l.session from logs l join sessions s on s.log = l.key order by s.updated_ms"
_SESSION = """select cwd, title, renamed, pinned from sessions
  where id = ? and expired_ms is null and rest_of is null"""
_IS_HERE = "select 1 from sessions where id = ?1 union select 1 from aliases where alias = ?1"
_KEEP_ROW = "update sessions set title = ?, renamed = ?, pinned = ? where id = ?"


def back_up(database: Database, path: str) -> Backup:
    """Writes a backup. Raises `UsageError` where something has its name, `StoreError` where not all can be read."""
    path = os.path.abspath(path)
    with _new_files(path, KEY, beside=("-wal", "-shm")) as partial:
        with database.errors(), contextlib.closing(database.connect()) as connection:
            connection.execute("vacuum into ?", (partial,))
        made = _verified(database, partial, path)
        shutil.copyfile(database.key_path, partial + KEY)
    return made


def _verified(database: Database, partial: str, path: str) -> Backup:
    """What is in a backup, if every page and every event of it is as it was written."""
    try:
        with contextlib.closing(database.open_with(partial, database.data_key())) as connection:
            connection.pragma("journal_mode", "wal")  # as the database itself is
            names = _logs(connection)
            if connection.execute("pragma quick_check(1)").fetchall() != [("ok",)]:
                raise StoreError("StoreDamaged", path=database.path, problem="the backup is not whole")
            for name in names:
                log_reader.check_chain(connection, name)
            (events,) = connection.execute("select count(*) from events").fetchone() or (0,)
    except apsw.Error as problem:
        raise StoreError("StoreDamaged", path=database.path, problem=str(problem)) from problem
    return Backup(path=path, key_path=path + KEY, sessions=len(names), events=events)


def _logs(connection: Connection) -> list[LogName]:
    return [LogName(session, log_id, key) for key, log_id, session in connection.execute(_LOGS)]


@contextlib.contextmanager
def _new_files(path: str, *endings: str, beside: tuple[str, ...] = ()) -> Generator[str]:
    """Yield a name to write under; `path` and a file for each ending in `beside` exist afterwards. Raises
    `UsageError` where a name is taken or cannot be written."""
    for taken in (path, *(path + ending for ending in endings)):
        if os.path.lexists(taken):
            raise UsageError(f"{taken} is there already; nothing was written")
    partial = f"{path}.{os.urandom(4).hex()}.part"
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield partial
        for ending in (*endings, ""):
            os.chmod(partial + ending, 0o600)
            _sync(partial + ending)
            os.link(partial + ending, path + ending)
        files.sync_folder(os.path.dirname(path))
    except OSError as problem:
        raise UsageError(f"{path} cannot be written ({problem.strerror})") from None
    finally:
        for ending in ("", *endings, *beside):
            with contextlib.suppress(OSError):
                os.unlink(partial + ending)


def _sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# In again


def is_backup(path: str) -> bool:
    """Whether a file is a database of ours rather than the lines of an export.

    What stands before the bytes that tell it is random, and may be how such a line begins; none has a zero in it.
    """
    with open(path, "rb") as file:
        first = file.read(_FIRST_AT + len(_FIRST_BYTES))
    return first[_FIRST_AT:] == _FIRST_BYTES


def restore(shelf: Shelf, path: str, *, cwd: str, notice: Callable[[str], None]) -> Restored:
    """Take in the sessions of a backup that are not here. Those written with our own key keep their folders; others
    belong to `cwd`. Raises `UsageError` for a file that does not open, `LogDamaged` for a changed one."""
    database = shelf.database
    key_path = path + KEY if os.path.exists(path + KEY) else database.key_path
    key = KeyFile(key_path, database_path=path, wrap=database.key_wrap).read(notice)
    ours = database.exists() and key == database.data_key()
    made: list[str] = []
    left_out = 0
    try:
        with contextlib.closing(database.open_with(path, key, frozen=True)) as backup:
            for name in _logs(backup):
                session = _restored(shelf, backup, name, None if ours else cwd)
                left_out += session is None
                made += [session] if session else []
    except apsw.Error as problem:
        raise UsageError(f"{path} does not open with {key_path} ({problem})") from None
    except (
        msgspec.ValidationError,
        TypeError,
        ValueError,
    ) as problem:  # whoever has its key may have changed it
        raise UsageError(f"{path} is no backup of ours ({problem})") from None
    return Restored(sessions=tuple(made), left_out=left_out)


def _restored(shelf: Shelf, backup: Connection, name: LogName, cwd: str | None) -> str | None:
    found = backup.execute(_SESSION, (name.session,)).fetchone()
    row = None if found is None else msgspec.convert(found, tuple[str, str, int, int])
    here = shelf.reader().execute(_IS_HERE, (name.session,)).fetchone() if shelf.database.exists() else None
    if row is None or here is not None:
        return None
    log_reader.check_chain(backup, name)
    its_own, title, renamed, pinned = row
    lines = (encode_envelope(record.envelope) for record in log_reader.all_records(backup, name))
    session = import_lines(shelf, lines, cwd=its_own if cwd is None else cwd, profile="default")

    def keep_row(connection: Connection) -> None:
        connection.execute(_KEEP_ROW, (one_line(redact(title)), renamed, pinned, session))

    shelf.writer.run(keep_row)
    return session
