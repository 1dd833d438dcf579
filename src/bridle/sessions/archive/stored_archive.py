"""Operations on stored sessions: branch, import, search, retention, backup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from bridle.engine.ports import StoredSession
from bridle.engine.store_ports import (
    CLOSING,
    OPENING,
    Backup,
    DaysOf,
    Due,
    Expired,
    ForgetBeside,
    Found,
    Restored,
)
from bridle.protocol.errors import BridleError, UsageError
from bridle.protocol.events import (
    Branched,
    Envelope,
    InputAccepted,
    StepEnded,
    StepFailed,
    StepStarted,
    TextDelta,
    TurnEnded,
    text_of,
)
from bridle.sessions.archive.backup import back_up, restore
from bridle.sessions.archive.event_copy import Origin, new_session
from bridle.sessions.archive.import_session import import_lines
from bridle.sessions.archive.retention import delete, expire, expiring
from bridle.sessions.log import log_reader
from bridle.sessions.log.database import Connection
from bridle.sessions.log.log_reader import LogName
from bridle.sessions.repair import repair
from bridle.sessions.repair.rekey import rekey
from bridle.sessions.repair.repair import Report
from bridle.sessions.shelf import Shelf
from bridle.sessions.store import SessionRow, SessionStore, busy, refuse_rest

# What was said is taken from the events when somebody searches, from where the last search stopped: appending
# costs nothing. It rests in the encrypted database, and expires with the events.


PAGE_EVENTS = 2_000

_BEHIND = """select l.key, l.id, l.session, l.searched_to from logs l join sessions s on s.log = l.key
  where s.expired_ms is null and l.searched_to < (select max(id) from events where log = l.key)"""
_ADD = "insert into said(log, event, turn, ts_ms, who, text) values(?, ?, ?, ?, ?, ?)"
_REACHED = "update logs set searched_to = ? where key = ? and searched_to = ?"
_FIND = """select d.key, l.session, d.event, d.turn, d.ts_ms, d.who, snippet(said_words, 0, ?, ?, '…', 16)
  from said_words w join said d on d.key = w.rowid join logs l on l.key = d.log
  where said_words match ? order by w.rowid desc limit ?"""
_LAST_ANSWERS = """select session, text from (select s.id as session, (select d.text from said d
  where d.log = s.log and d.who = 'model' order by d.key desc limit 1) as text
  from json_each(?) wanted join sessions s on s.id = wanted.value) where text is not null"""


class Said(msgspec.Struct, frozen=True):
    """Something somebody said, complete."""

    envelope: Envelope
    who: str
    text: str


def search(shelf: Shelf, words: str, *, limit: int) -> list[Found]:
    """Find the words, as `Archive.search` says. Hits are not ranked: that would count every occurrence of each word."""
    queries = dict.fromkeys((match_of(words, whole=True), match_of(words)))
    if not all(queries) or not shelf.database.exists():
        return []
    bring_up_to_date(shelf)
    found: dict[int, Found] = {}
    for query in queries:
        with shelf.database.errors():
            rows = shelf.reader().execute(_FIND, (OPENING, CLOSING, query, limit)).fetchall()
        for key, session, event, turn, ts_ms, who, excerpt in rows:
            hit = Found(session=session, event=event, turn=turn, ts_ms=ts_ms, who=who, excerpt=excerpt)
            found.setdefault(key, hit)
        if len(found) >= limit:
            break
    return list(found.values())[:limit]


def last_answers(shelf: Shelf, sessions: Sequence[str]) -> dict[str, str]:
    """The end of each of these sessions as far as searches have seen it: what its model said last."""
    wanted = msgspec.json.encode(sessions).decode()
    with shelf.database.errors():
        return dict(shelf.reader().execute(_LAST_ANSWERS, (wanted,)).fetchall())


def bring_up_to_date(shelf: Shelf) -> None:
    """Takes in what was said since the last time. Safe when several processes do it at once."""
    with shelf.database.errors():
        behind = shelf.reader().execute(_BEHIND).fetchall()
    for key, log_id, session, searched_to in behind:
        reached, before = searched_to, -1
        while reached > before:
            before, reached = reached, _take_in(shelf, LogName(session, log_id, key), reached)


def match_of(words: str, *, whole: bool = False) -> str:
    """Return a query for these words: every term is quoted, longer ones match beginnings unless `whole`."""
    terms: list[str] = []
    for index, part in enumerate(words.split('"')):
        if index % 2 and part.strip():
            terms.append(f'"{part}"')
        elif not index % 2:
            terms += [f'"{word}"*' if len(word) > 2 and not whole else f'"{word}"' for word in part.split()]
    return " ".join(term for term in terms if any(character.isalnum() for character in term)).replace(
        "\x00", ""
    )


def said_in(envelopes: Iterable[Envelope]) -> Iterator[Said]:
    """Yield what people and models said, in order. Unfinished steps are left for the next time; tasks of subagents
    are left out."""
    running: dict[str | None, list[str]] = {}
    for envelope in envelopes:
        parts = running.setdefault(envelope.invocation, [])
        match envelope.event:
            case InputAccepted(content=content, goal=None, child="") if envelope.invocation is None:
                if text := text_of(content).strip():
                    yield Said(envelope, "you", text)
            case StepStarted() | StepFailed():
                parts.clear()
            case TextDelta(text=text):
                parts.append(text)
            case StepEnded() | TurnEnded():
                if text := "".join(parts).strip():
                    yield Said(envelope, "model", text)
                parts.clear()
            case _:
                pass


def _take_in(shelf: Shelf, name: LogName, after: int) -> int:
    """One page of a log. Returns how far it got: never into a step that has not ended."""
    with shelf.database.errors():
        page = [record.envelope for record in log_reader.records(shelf.reader(), name, after, PAGE_EVENTS)]
    whole = complete(page)
    if len(page) == PAGE_EVENTS and not whole:  # a very long answer: read on until it ends
        with shelf.database.errors():
            page = [record.envelope for record in log_reader.all_records(shelf.reader(), name, after)]
        whole = complete(page)
    if not whole:
        return after
    reached = whole[-1].id or after
    rows = [
        (name.key, said.envelope.id, said.envelope.turn, said.envelope.ts_ms, said.who, said.text)
        for said in said_in(whole)
    ]

    def insert(connection: Connection) -> None:
        if _moved(connection, name.key, after, reached):
            connection.executemany(_ADD, rows)

    shelf.writer.run(insert)
    return reached


def complete(page: list[Envelope]) -> list[Envelope]:
    """The page up to where the first of its open steps begins."""
    open_at: dict[str | None, int] = {}
    for index, envelope in enumerate(page):
        match envelope.event:
            case StepStarted():
                open_at[envelope.invocation] = index
            case StepEnded() | TurnEnded():  # after a failure the step goes on with another attempt
                open_at.pop(envelope.invocation, None)
            case _:
                pass
    return page[: min(open_at.values(), default=len(page))]


def _moved(connection: Connection, key: int, before: int, reached: int) -> bool:
    """Whether we are the one who takes this page in."""
    connection.execute(_REACHED, (reached, key, before))
    found = connection.execute("select changes()").fetchone()
    return found is not None and found[0] == 1


_ENDS = """select e.turn, e.id, e.chain from events e
  where e.log = ? and e.kind = 'TurnEnded' and e.agent_path is null order by e.id"""


_SHARE_OUTPUTS_KEY = """update logs set outputs_key = (select outputs_key from logs where key = ?)
  where session = ?"""


def branch(shelf: Shelf, parent: SessionRow, *, turn: int | None = None) -> str:
    """Copy the session up to the end of `turn`, as `Archive.branch` says, and share the key of its long outputs."""
    refuse_rest(parent)
    name = parent.name
    with shelf.database.errors():
        ends = shelf.reader().execute(_ENDS, (name.key,)).fetchall()
    at = end_of_turn([(number, event) for number, event, _ in ends], turn)
    (link,) = (link for _, event, link in ends if event == at)
    origin = msgspec.structs.replace(branch_origin(parent, at), chain=link)
    with shelf.database.errors():
        made = new_session(shelf, origin, log_reader.up_to(shelf.reader(), name, at))

    def share(connection: Connection) -> None:
        connection.execute(_SHARE_OUTPUTS_KEY, (name.key, made))

    shelf.writer.run(share)
    return made


def end_of_turn(ends: Sequence[tuple[int, int]], turn: int | None) -> int:
    """The event that ended a turn, or the last one that did; `ends` are turns and events. Raises `UsageError`."""
    wanted = [event for number, event in ends if turn in (None, number)]
    if not wanted:
        raise UsageError(_no_such_end(turn, [number for number, _ in ends]))
    return wanted[-1]


def branch_origin(parent: StoredSession, at: int) -> Origin:
    """What a branch of this session begins with that goes up to event `at`."""
    return Origin(
        cwd=parent.cwd,
        root=parent.root,
        profile=parent.profile,
        title=f"{parent.title} (branch)" if parent.title else "",
        renamed=parent.renamed,
        branch_of=parent.id,
        branched=Branched(parent_log=parent.log, at=at),
    )


def _no_such_end(turn: int | None, ended: list[int]) -> str:
    if not ended:
        return "No turn of this session has ended yet, and a branch begins where one ended"
    most = f"it has turns 1 to {ended[-1]}" if len(ended) > 1 else "it has 1 turn"
    return f"Turn {turn} of this session has not ended or does not exist: {most}"


class StoredArchive:
    """`engine.store_ports.Archive` without async, and operations on the database file."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._shelf = store.shelf

    def branch(self, session_id: str, *, turn: int | None = None) -> str:
        self._shelf.writer.settle()  # the turn that just ended is one to branch from
        return branch(self._shelf, self._store.row(session_id), turn=turn)

    def import_lines(self, lines: Iterable[bytes], *, cwd: str, profile: str, missing: str = "") -> str:
        return import_lines(self._shelf, lines, cwd=cwd, profile=profile, missing=missing)

    def search(self, words: str, *, limit: int) -> Sequence[Found]:
        return search(self._shelf, words, limit=limit)

    def last_answers(self, sessions: Sequence[str]) -> Mapping[str, str]:
        return last_answers(self._shelf, sessions)

    def expiring(self, days_of: DaysOf, *, until_ms: int) -> Sequence[Due]:
        return expiring(self._shelf, days_of, until_ms=until_ms)

    def expire(
        self,
        days_of: DaysOf,
        *,
        beside: ForgetBeside = lambda _session: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Expired:
        with self._shelf.elsewhere() as shelf:
            return expire(shelf, days_of, beside=beside, stopped=stopped)

    def delete(self, session_id: str, *, beside: ForgetBeside = lambda _session: None) -> None:
        row = self._store.row(session_id)
        if not delete(self._shelf, row.id, row.log_key, row.log, beside=beside):
            raise busy(row.id, self._shelf.lock_of(row.log))

    def back_up(self, path: str) -> Backup:
        self._refuse_nothing()
        self._shelf.writer.settle()
        return back_up(self._shelf.database, path)

    def restore(self, path: str, *, cwd: str, notice: Callable[[str], None]) -> Restored:
        with self._shelf.elsewhere() as shelf:
            return restore(shelf, path, cwd=cwd, notice=notice)

    # The file

    def repair(self, *, only_look: bool = False) -> Report:
        return (repair.examine if only_look else repair.repair)(self._shelf.database)

    def rekey(self) -> str:
        """Encrypts everything with a new key; returns where that is. Raises `NothingStored`."""
        self._refuse_nothing()
        rekey(self._shelf.database)
        return self._shelf.database.key_path

    def _refuse_nothing(self) -> None:
        if not self._shelf.database.exists():
            raise BridleError("NothingStored")
