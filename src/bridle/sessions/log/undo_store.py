"""The undo store of a session: contents by digest, and the record of each call.

Everything is in the encrypted database of the sessions. Rows are written before something happens and again after it,
so whatever ends in the middle can be told.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any, TypeVar

import msgspec

from bridle.base.threads import in_thread
from bridle.engine.ports import Lease
from bridle.engine.undo_records import DAYS_KEPT, ActionRow, CallRow, Contents, Item, Kept, NewCall, State
from bridle.protocol.events import InputAccepted, TurnStarted, text_of
from bridle.sessions.log import log_reader
from bridle.sessions.log.database import Connection, Database
from bridle.sessions.log.log_reader import LogName
from bridle.sessions.log.writer import Writer, lease_lost

Result = TypeVar("Result")

_DAY_MS = 24 * 3600 * 1000

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
_CONTENT = "select bytes from undo_contents where sha256 = ?"
_HAS_CONTENT = "select 1 from undo_contents where sha256 = ?"
_ROOT_OF_LOG = "select cwd from sessions where id = (select session from logs where key = ?)"
_LAST_LOG_HERE = """select max(log) from undo_calls where log in
  (select l.key from logs l join sessions s on s.id = l.session where s.cwd = ?)"""
_FIRST_OF_TURN = "select first_id from turns where log = ? and turn = ?"
_OLD = "select 1 from undo_calls where started_ms < ? limit 1"

_kept = msgspec.msgpack.Decoder(Kept)
_items = msgspec.msgpack.Decoder(tuple[Item, ...])
_texts = msgspec.json.Decoder(tuple[str, ...])


class UndoTables:
    """Implements `engine.store_ports.UndoStore`. It changes something only while `lease` holds its log; without a
    lease it only reads."""

    def __init__(
        self,
        name: LogName,
        *,
        writer: Writer,
        database: Database,
        reader: Callable[[], Connection],
        lease: Lease | None = None,
    ) -> None:
        self._name = name
        self._writer = writer
        self._database = database
        self._reader = reader
        self._lease = lease

    def _change(self, work: Callable[[Connection], None]) -> None:
        def change(connection: Connection) -> None:
            if lease_lost(connection, self._name.key, self._lease) is None:
                work(connection)

        self._writer.change(change)

    async def _run(self, work: Callable[[Connection], Result]) -> Result:
        """Makes a change and returns when it is committed. Raises `LeaseLost`."""
        return await in_thread(lambda: self._writer.run_held(self._name.key, self._lease, work))

    async def _settled(self) -> Connection:
        """To read a row that was written before, committed or not."""
        await in_thread(self._writer.settle)
        return self._reader()

    async def _read(self, work: Callable[[Connection], Result]) -> Result:
        """The same for many rows, in a thread."""

        def read() -> Result:
            self._writer.settle()
            with self._database.errors(), contextlib.closing(self._database.connect()) as connection:
                return work(connection)

        return await in_thread(read)

    # Contents

    async def keep(self, contents: Contents, now_ms: int) -> None:
        key = self._name.key

        def insert(connection: Connection) -> None:
            _add_contents(connection, contents)
            connection.executemany(_AWAIT, ((key, digest, now_ms) for digest in contents))

        await self._run(insert)

    async def content(self, digest: bytes) -> bytes | None:
        found = (await self._settled()).execute(_CONTENT, (digest,)).fetchone()
        if found is None or sha256(found[0]).digest() != digest:
            return None
        return found[0]

    async def stored(self, digests: Iterable[bytes]) -> set[bytes]:
        return await self._read(lambda connection: _stored(connection, digests))

    # Calls

    async def begin(self, call: NewCall, contents: Contents) -> None:
        row = self._row(call)

        def insert(connection: Connection) -> None:
            _add_contents(connection, contents)
            connection.execute(_ADD_CALL, row)

        self._change(insert)

    async def begin_whole(self, call: NewCall, contents: Contents, *, sweeps: int) -> bool:
        row = self._row(call)

        def insert(connection: Connection) -> bool:
            if _sweeps(connection) != sweeps:
                relied_on = call.kept.named() - contents.keys()
                if len(_stored(connection, relied_on)) < len(relied_on):
                    return False
            _add_contents(connection, contents)
            connection.execute(_ADD_CALL, row)
            return True

        return await self._run(insert)

    def _row(self, call: NewCall) -> tuple[Any, ...]:
        about = (call.call_id, call.turn, call.tool, call.does, call.started_ms)
        return (self._name.key, call.number, *about, msgspec.msgpack.encode(call.kept))

    async def end(self, number: int, kept: Kept, contents: Contents | None = None) -> None:
        key = self._name.key
        encoded = msgspec.msgpack.encode(kept) if kept.leaves_a_trace else None

        def update(connection: Connection) -> None:
            if encoded is None:
                connection.execute(_DROP_CALL, (key, number))
            else:
                _add_contents(connection, contents or {})
                connection.execute(_END_CALL, (encoded, key, number))

        self._change(update)

    async def next_number(self) -> int:
        (number,) = _one(await self._settled(), _NEXT_CALL, self._name.key)
        return number

    async def calls(self) -> list[CallRow]:
        return await self._read(lambda connection: _call_rows(connection, self._name.key))

    async def sweeps(self) -> int:
        return _sweeps(await self._settled())

    async def calls_nearby(self) -> list[CallRow]:
        def read(connection: Connection) -> list[CallRow]:
            (folder,) = _one(connection, _ROOT_OF_LOG, self._name.key)
            (other,) = _one(connection, _LAST_LOG_HERE, folder)
            return _call_rows(connection, other) if other is not None else []

        return await self._read(read)

    # Undos

    async def begin_action(
        self,
        items: Sequence[Item],
        *,
        calls: Sequence[str],
        turn: int | None,
        redo_of: int | None,
        started_ms: int,
    ) -> int:
        key = self._name.key
        encoded = msgspec.msgpack.encode(tuple(items))

        def insert(connection: Connection) -> int:
            (number,) = _one(connection, _NEXT_ACTION, key)
            listed = msgspec.json.encode(tuple(calls)).decode()
            connection.execute(_ADD_ACTION, (key, number, listed, turn, redo_of, started_ms, encoded))
            return number

        return await self._run(insert)

    async def close_action(self, number: int) -> None:
        key = self._name.key

        def delete(connection: Connection) -> None:
            connection.execute(
                "delete from undo_actions where log = ? and number = ? and done = 0", (key, number)
            )

        await self._run(delete)

    async def actions(self) -> list[ActionRow]:
        rows = await self._read(lambda connection: connection.execute(_ACTIONS, (self._name.key,)).fetchall())
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

    async def title_of(self, turn: int) -> str:
        connection = await self._settled()
        found = connection.execute(_FIRST_OF_TURN, (self._name.key, turn)).fetchone()
        for record in log_reader.records(connection, self._name, found[0] - 1, 1) if found else ():
            if isinstance(event := record.envelope.event, TurnStarted):
                for begun in log_reader.records(connection, self._name, event.input - 1, 1):
                    if isinstance(begun.envelope.event, InputAccepted):
                        return text_of(begun.envelope.event.content)
        return ""

    # Age

    async def forget_old(self, now_ms: int) -> bool:
        before_ms = now_ms - DAYS_KEPT * _DAY_MS
        if (await self._settled()).execute(_OLD, (before_ms,)).fetchone() is None:
            return False
        await in_thread(lambda: self._writer.run(lambda connection: _forget(connection, before_ms, now_ms)))
        return True


def _add_contents(connection: Connection, contents: Contents) -> None:
    connection.executemany(_ADD_CONTENT, contents.items())


def _call_rows(connection: Connection, key: int) -> list[CallRow]:
    def row(found: tuple[Any, ...]) -> CallRow:
        values: dict[str, Any] = dict(zip(CallRow.__struct_fields__, found, strict=True))
        values |= {"open": bool(values["open"]), "undone": bool(values["undone"])}
        values["kept"] = _kept.decode(values["kept"])
        return CallRow(**values)

    return [row(found) for found in connection.execute(_CALLS, (key,))]


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
    """Drop the contents that no row names any more, inside the caller's transaction. One whose row is awaited stays
    for a day."""
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
