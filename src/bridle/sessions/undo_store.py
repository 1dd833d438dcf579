"""The undo store of one session: contents by their digest, and what each call and each undo did, in order.

Everything is in the encrypted database of the sessions. Rows are written before something happens and again after it,
so whatever ends in the middle can be told.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from bridle.base.files import KEPT_OBJECTS
from bridle.protocol.events import InputAccepted, TurnStarted, text_of
from bridle.sessions import log_reader
from bridle.sessions.database import Connection, Database
from bridle.sessions.log_reader import LogName
from bridle.sessions.undo_states import ActionRow, CallRow, Item, Kept, Seen, State, tree_of
from bridle.sessions.writer import Writer

if TYPE_CHECKING:
    from bridle.sessions.undo_objects import ObjectKeeper

DAYS_KEPT = 30
_DAY_MS = 24 * 3600 * 1000
BATCH_BYTES = 4 << 20
"""Contents are written in parts of this size, so that a large workspace does not fill the memory."""

_CALLS = """select number, call_id, turn, tool, does, started_ms, open, undone, kept from undo_calls
  where log = ? order by number"""
_ACTIONS = """select number, calls, turn, redo_of, done, reversed, started_ms, items from undo_actions
  where log = ? order by number"""
_NEXT_CALL = "select coalesce(max(number), 0) + 1 from undo_calls where log = ?"
_NEXT_ACTION = "select coalesce(max(number), 0) + 1 from undo_actions where log = ?"
_ADD_CALL = "insert into undo_calls values(?, ?, ?, ?, ?, ?, ?, 1, 0, ?)"
_DROP_CALL = "delete from undo_calls where log = ? and number = ?"
_END_CALL = "update undo_calls set open = 0, kept = ? where log = ? and number = ?"
_ADD_ACTION = "insert into undo_actions values(?, ?, ?, ?, ?, 0, 0, ?, ?)"
_ADD_CONTENT = "insert or ignore into undo_contents values(?, ?)"
_AWAIT = "insert or replace into undo_awaited values(?, ?, ?)"
_DROP_AWAITED = "delete from undo_awaited where since_ms < ?"
_HAS_CONTENT = "select 1 from undo_contents where sha256 = ?"
_ROOT_OF_LOG = "select cwd from sessions where id = (select session from logs where key = ?)"
_LAST_LOG_HERE = """select max(log) from undo_calls where log in
  (select l.key from logs l join sessions s on s.id = l.session where s.cwd = ?)"""
_FIRST_OF_TURN = "select first_id from turns where log = ? and turn = ?"
_OLD = "select 1 from undo_calls where started_ms < ? limit 1"

_kept = msgspec.msgpack.Decoder(Kept)
_items = msgspec.msgpack.Decoder(tuple[Item, ...])
_texts = msgspec.json.Decoder(tuple[str, ...])


Contents: TypeAlias = Mapping[bytes, bytes]
"""By their digest."""


class NewCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is about to run; calls of a session are numbered in the order they begin."""

    number: int
    call_id: str
    turn: int | None
    tool: str
    does: str
    started_ms: int
    kept: Kept


class UndoStore:
    """The part of the undo store that belongs to one log.

    Writing belongs to any thread, reading to the one of the session store. Who reads finds everything written before.
    """

    def __init__(
        self, name: LogName, *, writer: Writer, database: Database, reader: Callable[[], Connection]
    ) -> None:
        self._name = name
        self._writer = writer
        self._database = database
        self._reader = reader

    @contextlib.contextmanager
    def elsewhere(self) -> Generator[UndoStore]:
        """The same store for another thread, which reads through a connection of its own."""
        with self._database.errors(), contextlib.closing(self._database.connect()) as connection:
            yield UndoStore(
                self._name, writer=self._writer, database=self._database, reader=lambda: connection
            )

    def _settled(self) -> Connection:
        """To read what was written before, committed or not."""
        self._writer.settle()
        return self._reader()

    # Contents

    def keeping(self, now_ms: int, most_bytes: int | None = None) -> Keeping:
        """Takes contents in, part by part; with `most_bytes` only so much, and `TooMuch` is raised for more."""
        return Keeping(self._writer, self._name.key, now_ms, most_bytes)

    def content(self, digest: bytes) -> bytes | None:
        """What has this digest, checked; None where it is gone."""
        found = (
            self._settled().execute("select bytes from undo_contents where sha256 = ?", (digest,)).fetchone()
        )
        if found is None or sha256(found[0]).digest() != digest:
            return None
        return found[0]

    def objects(self) -> ObjectKeeper:
        """What is kept of the objects of repositories: files beside the database, under the names git gave them."""
        from bridle.sessions.undo_objects import ObjectKeeper  # not before there is a repository

        return ObjectKeeper(os.path.join(self._database.folder, KEPT_OBJECTS))

    # Calls

    def begin(self, call: NewCall, contents: Contents) -> None:
        """A call will run. It is stored before, or together with, whatever is appended to the log from now on."""
        row = self._row(call)

        def insert(connection: Connection) -> None:
            _add_contents(connection, contents)
            connection.execute(_ADD_CALL, row)

        self._writer.change(insert)

    def begin_whole(self, call: NewCall, contents: Contents, *, sweeps: int) -> bool:
        """The same for a call that saw the whole tree, some of it as an earlier session knew it. Blocks for a commit.

        False, and nothing is stored, where a content it relies on was dropped since there had been so many `sweeps`.
        """
        row = self._row(call)

        def insert(connection: Connection) -> bool:
            if _sweeps(connection) != sweeps:
                named = {seen.state.sha256 for seen in call.kept.seen if seen.state is not None}
                relied_on = named - contents.keys() - {b""}
                if len(_stored(connection, relied_on)) < len(relied_on):
                    return False
            _add_contents(connection, contents)
            connection.execute(_ADD_CALL, row)
            return True

        return self._writer.run(insert)

    def _row(self, call: NewCall) -> tuple[Any, ...]:
        about = (call.call_id, call.turn, call.tool, call.does, call.started_ms)
        return (self._name.key, call.number, *about, msgspec.msgpack.encode(call.kept))

    def end(self, number: int, kept: Kept, contents: Contents | None = None) -> None:
        """The call is over, stored as its beginning is. One that changed and saw nothing new leaves no trace."""
        key = self._name.key
        leaves_a_trace = kept.has_changes or kept.missed or (kept.seen and not kept.exact)
        encoded = msgspec.msgpack.encode(kept) if leaves_a_trace else None

        def update(connection: Connection) -> None:
            if encoded is None:
                connection.execute(_DROP_CALL, (key, number))
            else:
                _add_contents(connection, contents or {})
                connection.execute(_END_CALL, (encoded, key, number))

        self._writer.change(update)

    def next_number(self) -> int:
        """The number of the next call. Only one process runs a session, so it may go on counting from there."""
        (number,) = _one(self._settled(), _NEXT_CALL, self._name.key)
        return number

    def calls(self) -> list[CallRow]:
        """What is stored of this session's calls, in the order they began."""
        return _call_rows(self._settled(), self._name.key)

    def sweeps(self) -> int:
        """How often contents were dropped. As long as it stays the same, what is stored is."""
        return _sweeps(self._settled())

    def last_tree(self) -> dict[str, Seen]:
        """The tree as this session knew it last, or another session of the same folder.

        A file whose content is gone is left out: it will be read again.
        """
        connection = self._settled()
        key = self._name.key
        rows = _call_rows(connection, key)
        if not any(row.kept.whole for row in rows):
            (folder,) = _one(connection, _ROOT_OF_LOG, key)
            (other,) = _one(connection, _LAST_LOG_HERE, folder)
            rows = _call_rows(connection, other) if other is not None else []
        tree = tree_of(rows) if any(row.kept.whole for row in rows) else {}
        wanted = {seen.state.sha256 for seen in tree.values() if seen.state is not None and seen.state.sha256}
        gone = wanted - _stored(connection, wanted)
        return {
            path: seen for path, seen in tree.items() if seen.state is None or seen.state.sha256 not in gone
        }

    # Undos

    def begin_action(
        self,
        items: Sequence[Item],
        *,
        calls: Sequence[str],
        turn: int | None,
        redo_of: int | None,
        started_ms: int,
    ) -> int:
        """An undo or redo will change these files. It is on its way to the disk before the first of them changes."""
        key = self._name.key
        encoded = msgspec.msgpack.encode(tuple(items))

        def insert(connection: Connection) -> int:
            (number,) = _one(connection, _NEXT_ACTION, key)
            listed = msgspec.json.encode(tuple(calls)).decode()
            connection.execute(_ADD_ACTION, (key, number, listed, turn, redo_of, started_ms, encoded))
            return number

        return self._writer.run(insert)

    def close_action(self, number: int) -> None:
        """An action that was cut off is left as it is, for good: another one takes its place."""
        key = self._name.key

        def delete(connection: Connection) -> None:
            connection.execute(
                "delete from undo_actions where log = ? and number = ? and done = 0", (key, number)
            )

        self._writer.run(delete)

    def actions(self) -> list[ActionRow]:
        """The undos and redos of this session, in order."""
        with self._database.errors():
            rows = self._settled().execute(_ACTIONS, (self._name.key,)).fetchall()
        return [
            ActionRow(
                number=number,
                calls=_texts.decode(calls),
                turn=turn,
                redo_of=redo_of,
                done=bool(done),
                reversed=bool(is_reversed),
                started_ms=started_ms,
                items=_items.decode(items),
            )
            for number, calls, turn, redo_of, done, is_reversed, started_ms, items in rows
        ]

    # Words for people

    def title_of(self, turn: int) -> str:
        """What the turn was about: the words that began it."""
        connection = self._settled()
        found = connection.execute(_FIRST_OF_TURN, (self._name.key, turn)).fetchone()
        for record in log_reader.records(connection, self._name, found[0] - 1, 1) if found else ():
            if isinstance(event := record.envelope.event, TurnStarted):
                for begun in log_reader.records(connection, self._name, event.input - 1, 1):
                    if isinstance(begun.envelope.event, InputAccepted):
                        return text_of(begun.envelope.event.content)
        return ""

    # Age

    def forget_old(self, now_ms: int) -> None:
        """Drops what is older than `DAYS_KEPT`, of every session, and the contents nobody needs any more."""
        before_ms = now_ms - DAYS_KEPT * _DAY_MS
        if self._settled().execute(_OLD, (before_ms,)).fetchone() is not None:
            self._writer.run(lambda connection: _forget(connection, before_ms, now_ms))
            self.objects().forget_old(now_ms, DAYS_KEPT)


class TooMuch(Exception):
    """There are more contents than were to be taken in."""


class Keeping:
    """Contents on their way into the store; `rest` gives those that are not stored yet."""

    def __init__(self, writer: Writer, log: int, now_ms: int, most_bytes: int | None = None) -> None:
        self._writer = writer
        self._log = log
        self._now_ms = now_ms
        self._most_bytes = most_bytes
        self._contents: dict[bytes, bytes] = {}
        self._bytes = 0

    def __call__(self, digest: bytes, data: bytes) -> None:
        self._contents[digest] = data
        self._bytes += len(data)
        if self._most_bytes is not None and self._bytes > self._most_bytes:
            raise TooMuch
        if self._bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Stores what was given so far, and blocks until it is. The row that names it is awaited."""
        contents = self.rest()

        def insert(connection: Connection) -> None:
            _add_contents(connection, contents)
            connection.executemany(_AWAIT, ((self._log, digest, self._now_ms) for digest in contents))

        if contents:
            self._writer.run(insert)

    def get(self, digest: bytes) -> bytes | None:
        """One of the contents that are not stored yet."""
        return self._contents.get(digest)

    def rest(self) -> Contents:
        contents, self._contents, self._bytes = self._contents, {}, 0
        return contents


def _add_contents(connection: Connection, contents: Contents) -> None:
    connection.executemany(_ADD_CONTENT, contents.items())


def _call_rows(connection: Connection, key: int) -> list[CallRow]:
    return [
        CallRow(
            number=number,
            call_id=call_id,
            turn=turn,
            tool=tool,
            does=does,
            started_ms=started_ms,
            open=bool(is_open),
            undone=bool(undone),
            kept=_kept.decode(kept),
        )
        for number, call_id, turn, tool, does, started_ms, is_open, undone, kept in connection.execute(
            _CALLS, (key,)
        )
    ]


def _one(connection: Connection, statement: str, *values: Any) -> tuple[Any, ...]:
    found = connection.execute(statement, values).fetchone()
    assert found is not None
    return found


def _sweeps(connection: Connection) -> int:
    (count,) = _one(connection, "pragma user_version")
    return count


def _stored(connection: Connection, digests: Iterable[bytes]) -> set[bytes]:
    return {digest for digest in digests if connection.execute(_HAS_CONTENT, (digest,)).fetchone()}


def _forget(connection: Connection, before_ms: int, now_ms: int) -> None:
    """A tree begins with a whole look, so a session keeps all of its calls until the last of them is old."""
    connection.execute("delete from undo_actions where started_ms < ?", (before_ms,))
    connection.execute(
        "delete from undo_calls where log not in (select log from undo_calls where started_ms >= ?)",
        (before_ms,),
    )
    sweep_contents(connection, now_ms)


def sweep_contents(connection: Connection, now_ms: int) -> None:
    """Drops the contents that no call and no undo names any more, inside the caller's transaction.

    One whose row is still awaited stays for a day.
    """
    connection.execute(_DROP_AWAITED, (now_ms - _DAY_MS,))
    needed: set[bytes] = {row[0] for row in connection.execute("select sha256 from undo_awaited")}

    def need(states: Iterable[State | None]) -> None:
        needed.update(state.sha256 for state in states if state is not None)

    for (kept,) in connection.execute("select kept from undo_calls"):
        row = _kept.decode(kept)
        need(seen.state for seen in row.seen)
        need(state for change in row.changes for state in (change.before, change.after))
    for (items,) in connection.execute("select items from undo_actions"):
        need(state for item in _items.decode(items) for state in (item.before, item.after))
    stored = [row[0] for row in connection.execute("select sha256 from undo_contents")]
    if dropped := [(digest,) for digest in stored if digest not in needed]:
        connection.executemany("delete from undo_contents where sha256 = ?", dropped)
        connection.execute(f"pragma user_version = {(_sweeps(connection) + 1) % 2**31}")
