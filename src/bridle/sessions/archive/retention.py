"""Delete expired content and keep the chain.

A session expires as a whole, some days after it was last used: half a conversation would be none. Pinned sessions and
those somebody is working with stay. Expiry deletes payloads with their salts, blobs, folds, search rows and what undo
kept; kinds that hold no words (`KEPT_KINDS`), titles and costs stay. It goes in small transactions, and is taken up
again where it was cut off.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator

import msgspec

from bridle.base.fs import files
from bridle.engine.store_ports import DaysOf, Due, Expired, ForgetBeside
from bridle.protocol.errors import StoreError
from bridle.sessions.log.database import Connection
from bridle.sessions.log.undo_store import sweep_contents
from bridle.sessions.shelf import Shelf

DAY_MS = 24 * 3600 * 1000
BATCH_EVENTS = 2_000
BATCH_BLOBS = 200
BATCH_SAID = 25
FREE_BYTES = 4 << 20
"""Unused room in the file that is left for what comes next."""
GIVEN_BACK_PAGES = 1_000
"""How many unused pages leave the file in one transaction."""
WAITED_MS = 200
"""So long the end of the write-ahead log is waited for: nobody can write meanwhile."""
_SEARCHED = 2**62
"""No event comes after this one, so nothing of an expired log is taken in any more."""

KEPT_KINDS = frozenset(
    {
        "SessionCreated",
        "ModelChanged",
        "ModeChanged",
        "CostIncremented",
        "TurnTiming",
        "SessionEnded",
        "Branched",
    }
)
"""Events that are metadata throughout: nobody's words, no path but the session's own."""

_UNPINNED = """select s.id, l.key, l.id, s.title, s.profile, s.updated_ms, s.expired_ms is not null
  from sessions s join logs l on l.key = s.log where not s.pinned and not l.purged order by s.updated_ms"""
_EXPIRE = (
    "update sessions set expired_ms = ? where id = ? and not pinned and updated_ms = ? and expired_ms is null"
)
_END_LEASE = "update logs set epoch = epoch + 1, holder = 'its content expired' where key = ?"
_STOP_SEARCH = "update logs set searched_to = ? where key = ?"
_FORGET_CALLS = "update tool_call_intents set args_hash = '' where log_id = ?"
_LAST = "select coalesce(max(id), 0) from events where log = ?"
_EMPTY_EVENTS = """update events set payload = null, blob = null, salt = null where log = ?1 and id > ?2 and id <= ?3
  and salt is not null and kind not in (select value from json_each(?4))"""
_SOME_SAID = "delete from said where key in (select key from said where log = ? limit ?)"
_PURGED = "update logs set purged = 1 where key = ?"
_LOOSE_BLOBS = """delete from blobs where sha256 in (select sha256 from blobs b
  where not exists (select 1 from events e where e.blob = b.sha256) limit ?)"""
_LEFT_LOGS = """select key, id from logs l where created_ms < ?
  and not exists (select 1 from sessions s where s.log = l.key)"""


class _Candidate(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    key: int
    log_id: str
    title: str
    at_ms: int
    updated_ms: int
    begun: bool


def expiring(shelf: Shelf, days_of: DaysOf, *, until_ms: int) -> list[Due]:
    """The sessions whose content expires up to a moment, the first first."""
    return [
        Due(id=found.id, title=found.title, at_ms=found.at_ms)
        for found in _candidates(shelf, days_of)
        if not found.begun and found.at_ms <= until_ms
    ]


def expire(
    shelf: Shelf,
    days_of: DaysOf,
    *,
    beside: ForgetBeside = lambda _session: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Expired:
    """Delete the content of every due session, as `Archive.expire` says. Blocks. `stopped` is asked between
    transactions."""
    now_ms = shelf.clock.now_ms()
    gone: list[str] = []
    busy: list[str] = []
    for found in _candidates(shelf, days_of):
        if stopped():
            break
        if found.at_ms > now_ms and not found.begun:
            continue
        with _alone(shelf, found.log_id) as alone:
            if not alone:
                busy.append(found.id)
            elif found.begun or _begin(shelf, found, now_ms):
                beside(found.id)
                if empty_log(shelf, found.key, found.log_id, stopped=stopped):
                    gone.append(found.id)
    if not stopped() and (_remove_left_logs(shelf, now_ms - DAY_MS) or gone):
        collect(shelf)
    return Expired(sessions=tuple(gone), busy=tuple(busy))


def delete(
    shelf: Shelf, session: str, key: int, log_id: str, *, beside: ForgetBeside = lambda _session: None
) -> bool:
    """Deletes a session and everything that belongs to it. False when somebody is working with it."""
    with _alone(shelf, log_id) as alone:
        if not alone:
            return False
        beside(session)

        def forget(connection: Connection) -> None:
            connection.execute("delete from aliases where session = ?", (session,))
            connection.execute("delete from sessions where id = ?", (session,))

        shelf.writer.run(forget)
        _remove_log(shelf, key, log_id)
    collect(shelf)
    return True


def empty_log(shelf: Shelf, key: int, log_id: str, *, stopped: Callable[[], bool] = lambda: False) -> bool:
    """Deletes the content of a log in parts; its rows, digests and links stay. False when it was stopped."""
    kept = msgspec.json.encode(sorted(KEPT_KINDS)).decode()

    shelf.writer.run(lambda connection: _run(connection, _STOP_SEARCH, _SEARCHED, key))
    if not _forget_said(shelf, key, stopped):
        return False

    def forget(connection: Connection) -> int:
        _forget_derived(connection, key)
        connection.execute(_FORGET_CALLS, (log_id,))
        return _number(connection, _LAST, key)

    last = shelf.writer.run(forget)
    for after in range(0, last, BATCH_EVENTS):
        if stopped():
            return False
        part = (key, after, after + BATCH_EVENTS, kept)
        shelf.writer.run(lambda connection, part=part: _emptied(connection, part))
    shelf.writer.run(lambda connection: _run(connection, _PURGED, key))
    return True


def collect(shelf: Shelf) -> None:
    """Deletes blobs and copies of files nobody refers to, and gives the room back when there is much of it."""
    while shelf.writer.run(_delete_loose_blobs):
        pass
    now_ms = shelf.clock.now_ms()
    shelf.writer.run(lambda connection: sweep_contents(connection, now_ms))
    with (
        contextlib.suppress(StoreError),
        shelf.database.errors(),
        contextlib.closing(shelf.database.connect()) as connection,
    ):
        make_smaller(connection)


def make_smaller(connection: Connection) -> None:
    """Give unused pages back to the disk in short transactions, and cut the write-ahead log, which holds deleted
    content too."""
    size = _number(connection, "pragma page_size")
    while (free := _number(connection, "pragma freelist_count")) * size > FREE_BYTES:
        connection.execute(f"pragma incremental_vacuum({GIVEN_BACK_PAGES})").fetchall()
        if _number(connection, "pragma freelist_count") >= free:
            break
    connection.set_busy_timeout(WAITED_MS)
    connection.execute("pragma wal_checkpoint(truncate)").fetchall()


def _candidates(shelf: Shelf, days_of: DaysOf) -> list[_Candidate]:
    if not shelf.database.exists():
        return []
    with shelf.database.errors():
        rows = shelf.reader().execute(_UNPINNED).fetchall()
    days = {profile: days_of(profile) for profile in {row[4] for row in rows}}
    found: list[_Candidate] = []
    for session, key, log_id, title, profile, updated_ms, begun in rows:
        kept_days = days[profile]
        if kept_days is None and not begun:
            continue
        at_ms = updated_ms + (kept_days or 0) * DAY_MS
        found.append(
            _Candidate(
                id=session,
                key=key,
                log_id=log_id,
                title=title,
                at_ms=at_ms,
                updated_ms=updated_ms,
                begun=bool(begun),
            )
        )
    return sorted(found, key=lambda candidate: candidate.at_ms)


def _begin(shelf: Shelf, found: _Candidate, now_ms: int) -> bool:
    """Marks the session expired, if nobody pinned or used it since we looked. Whoever has it open writes no more."""

    def mark(connection: Connection) -> bool:
        if _changed(connection, _EXPIRE, now_ms, found.id, found.updated_ms) == 0:
            return False
        connection.execute(_END_LEASE, (found.key,))
        return True

    return shelf.writer.run(mark)


@contextlib.contextmanager
def _alone(shelf: Shelf, log_id: str) -> Generator[bool]:
    """Whether nobody else works with this log; nobody begins to until we are done."""
    lock = shelf.lock_of(log_id)
    with shelf.database.errors():
        files.private_folder(os.path.join(shelf.folder, "locks"))
        taken = lock.acquire(note={"pid": os.getpid()})
    try:
        yield taken
    finally:
        lock.release()


def _remove_left_logs(shelf: Shelf, before_ms: int) -> int:
    """Logs without a session are what a copy left behind that was cut off."""
    if not shelf.database.exists():
        return 0
    with shelf.database.errors():
        left = shelf.reader().execute(_LEFT_LOGS, (before_ms,)).fetchall()
    for key, log_id in left:
        _remove_log(shelf, key, log_id)
    return len(left)


def _remove_log(shelf: Shelf, key: int, log_id: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # first: a tip without its log would look like a loss
        os.unlink(shelf.tip_path(log_id))
    _forget_said(shelf, key, lambda: False)
    last = shelf.writer.run(lambda connection: _number(connection, _LAST, key))
    for upto in range(BATCH_EVENTS, last + BATCH_EVENTS, BATCH_EVENTS):
        shelf.writer.run(
            lambda connection, upto=upto: _run(
                connection, "delete from events where log = ? and id <= ?", key, upto
            )
        )

    def forget(connection: Connection) -> None:
        _forget_derived(connection, key)
        _run(
            connection,
            "delete from tool_call_outcomes where call_id in (select call_id from tool_call_intents where log_id = ?)",
            log_id,
        )
        _run(connection, "delete from tool_call_intents where log_id = ?", log_id)
        _run(connection, "delete from turns where log = ?", key)
        _run(connection, "delete from logs where key = ?", key)

    shelf.writer.run(forget)


def _forget_said(shelf: Shelf, key: int, stopped: Callable[[], bool]) -> bool:
    """Deletes what can be searched of a log; False when it was stopped. To forget a word well takes its time."""
    while shelf.writer.run(lambda connection: _changed(connection, _SOME_SAID, key, BATCH_SAID)):
        if stopped():
            return False
    return True


def _forget_derived(connection: Connection, key: int) -> None:
    """What was made from the content of a log: all of it can be read, so all of it goes."""
    for statement in (
        "delete from folds where log = ?",
        "delete from undo_calls where log = ?",
        "delete from undo_actions where log = ?",
        "delete from undo_awaited where log = ?",
        "update logs set outputs_key = null where key = ?",
    ):
        connection.execute(statement, (key,))


def _emptied(connection: Connection, part: tuple[int, int, int, str]) -> None:
    connection.execute(_EMPTY_EVENTS, part)


def _delete_loose_blobs(connection: Connection) -> int:
    return _changed(connection, _LOOSE_BLOBS, BATCH_BLOBS)


def _run(connection: Connection, statement: str, *values: object) -> None:
    connection.execute(statement, values)


def _changed(connection: Connection, statement: str, *values: object) -> int:
    connection.execute(statement, values)
    return _number(connection, "select changes()")


def _number(connection: Connection, statement: str, *values: object) -> int:
    found = connection.execute(statement, values).fetchone()
    return 0 if found is None else int(found[0])
