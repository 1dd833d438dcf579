"""A database file that cannot be opened: cut short, or spoiled in the pages that list its tables.

Everything is done to a copy. Its first page is made anew (`head` knows where the tables begin), and the events, which
are most of it, are read from every page that holds some, whether anything still leads to that page or not: a page is
read as if it were a whole table. What such a page says is proven later, by digests and links.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Generator, Iterable, Mapping
from hashlib import sha256
from typing import Any

import apsw

from bridle.sessions import head
from bridle.sessions.database import Connection, Database

PAGE_BYTES = 4096
_PLAIN_BYTES = slice(16, 24)
_PLAIN = bytes((16, 0, 2, 2, 64, 64, 32, 32))
"""The part of the first page that is neither encrypted nor proven: the size of pages and how they are written."""
_PAGES_AT_ONCE = 500
_SCANNED = ("events", "blobs")
_ADD_PAGE = "insert into sqlite_schema values('table', ?1, ?1, ?2, ?3)"
_EVENT_COLUMNS = (
    "log, id, kind, ts_ms, originator, turn, agent_path, invocation, payload, blob, salt, digest, chain"
)
_KEEP_EVENT = "insert or ignore into events values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_KEEP_BLOB = "insert or ignore into blobs values(?, ?)"


def is_misread(path: str) -> bool:
    """Whether the file says of itself that its pages have another form than ours have.

    Not while this process has it open: closing it once drops every lock of the process on it.
    """
    with open(path, "rb") as file:
        first = file.read(_PLAIN_BYTES.stop)
    return len(first) == _PLAIN_BYTES.stop and first[_PLAIN_BYTES] != _PLAIN


def readable_copy(database: Database, folder: str) -> Connection:
    """A connection to a copy, made in an empty folder, that holds what the file holds and can be opened.

    Raises `apsw.Error` where that is not possible.
    """
    kept = head.read(database.head_path)
    roots = (
        kept.roots if kept is not None else _roots_of_a_new_one(database.beside(os.path.join(folder, "new")))
    )
    copy = os.path.join(folder, "sessions.db")
    _copy(database.path, copy)
    if os.path.exists(database.path + "-wal"):
        shutil.copyfile(database.path + "-wal", copy + "-wal")
        _fold_back(database, copy, roots)
    pages = _list_tables_anew(database, copy, roots)
    with (
        contextlib.closing(database.open_with(copy, database.data_key(), short=True)) as reader,
        contextlib.closing(database.open_with(copy, database.data_key(), short=True)) as writer,
    ):
        _gather(reader, writer, pages)
    return database.open_with(copy, database.data_key(), short=True)


def _roots_of_a_new_one(fresh: Database) -> dict[str, int]:
    with contextlib.closing(fresh.connect()) as connection:
        return dict(connection.execute(head.ROOTS).fetchall())


def _copy(path: str, target: str) -> None:
    """Without a last page of which only a part is there."""
    shutil.copyfile(path, target)
    os.truncate(target, os.path.getsize(target) // PAGE_BYTES * PAGE_BYTES)


def _fold_back(database: Database, copy: str, roots: Mapping[str, int]) -> None:
    """Brings the write-ahead log into the copy, as far as it is whole."""
    with contextlib.suppress(apsw.Error):
        try:
            connection = database.open_with(copy, database.data_key(), short=True)
        except apsw.Error:
            _list_tables_anew(database, copy, roots)
            connection = database.open_with(copy, database.data_key(), short=True)
        with contextlib.closing(connection):
            connection.pragma("wal_checkpoint", "truncate")
    for side in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(copy + side)


# The first page


def _list_tables_anew(database: Database, copy: str, roots: Mapping[str, int]) -> int:
    """Gives the copy a first page that lists every table where it begins, and new, empty tables for what is scanned.

    Whatever these need is behind the last page the file had; how many those are is returned.
    """
    pages = max(os.path.getsize(copy) // PAGE_BYTES, *roots.values())
    os.truncate(copy, pages * PAGE_BYTES)  # a page of zeros cannot be read either
    made = copy + ".made"
    os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with contextlib.closing(database.open_with(made, database.data_key())) as connection:
        connection.execute("create table filler(bytes)")
        connection.execute("insert into filler values(zeroblob(?))", (pages * PAGE_BYTES,))
        database.migrate(connection)
        connection.pragma("writable_schema", 1)
        connection.executemany(
            "update sqlite_schema set rootpage = ? where name = ? and tbl_name not in (?, ?)",
            ((root, name, *_SCANNED) for name, root in roots.items()),
        )
        connection.execute("delete from sqlite_schema where name = 'filler'")
        connection.pragma("journal_mode", "wal")
    with open(made, "r+b") as target, open(copy, "rb") as source:
        source.seek(PAGE_BYTES)
        target.seek(PAGE_BYTES)
        shutil.copyfileobj(source, target)
    os.replace(made, copy)
    return pages


# Every page


def _gather(reader: Connection, writer: Connection, pages: int) -> None:
    """Fills the new tables with the rows of every page that has some.

    Who reads does not write: a connection that has met a damaged page refuses to.
    """
    for first in range(2, pages + 1, _PAGES_AT_ONCE):
        numbers = range(first, min(pages + 1, first + _PAGES_AT_ONCE))
        _show_as_tables(writer, numbers)
        with _transaction(writer):
            for number in numbers:
                writer.executemany(
                    _KEEP_EVENT, filter(_is_event, _rows(reader, f"events_{number}", "log, id"))
                )
                writer.executemany(_KEEP_BLOB, filter(_is_blob, _rows(reader, f"blobs_{number}", "rowid")))
    _show_as_tables(writer, ())


def _show_as_tables(writer: Connection, numbers: Iterable[int]) -> None:
    """Makes tables of pages: each is read as the only one of a table of events, and of one of large contents."""
    with _transaction(writer):
        writer.execute(
            "delete from sqlite_schema where name glob 'events_[0-9]*' or name glob 'blobs_[0-9]*'"
        )
        for number in numbers:
            events = f"create table events_{number}({_EVENT_COLUMNS}, primary key(log, id)) without rowid"
            blobs = f"create table blobs_{number}(sha256, bytes)"
            writer.execute(_ADD_PAGE, (f"events_{number}", number, events))
            writer.execute(_ADD_PAGE, (f"blobs_{number}", number, blobs))
        version = writer.pragma("schema_version")
        writer.pragma("schema_version", version + 1)  # everybody reads the list anew


@contextlib.contextmanager
def _transaction(writer: Connection) -> Generator[None]:
    writer.execute("begin immediate")
    yield
    writer.execute("commit")


def _rows(connection: Connection, table: str, order: str) -> list[tuple[Any, ...]]:
    """What can be read of a page, and of the pages it leads to, from both ends."""
    found: list[tuple[Any, ...]] = []
    for way in ("", " desc"):
        by = ", ".join(f"{column}{way}" for column in order.split(", "))
        try:
            found.extend(connection.execute(f"select * from {table} order by {by}"))  # noqa: S608  our own names
        except apsw.Error:
            continue
        break
    return found


def _is_event(row: tuple[Any, ...]) -> bool:
    log, number, kind, ts_ms, originator, turn, agent_path, invocation, payload, blob, salt, digest, link = (
        row
    )
    return (
        all(isinstance(value, int) for value in (log, number, ts_ms))
        and all(isinstance(value, str) for value in (kind, originator))
        and all(isinstance(value, str | None) for value in (agent_path, invocation))
        and all(isinstance(value, bytes | None) for value in (payload, blob, salt))
        and all(isinstance(value, bytes) and len(value) == sha256().digest_size for value in (digest, link))
        and isinstance(turn, int | None)
    )


def _is_blob(row: tuple[Any, ...]) -> bool:
    key, content = row
    return isinstance(key, bytes) and isinstance(content, bytes) and sha256(content).digest() == key
