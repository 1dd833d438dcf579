"""Sessions that are kept in memory and nowhere else: for tests, and for embedders that keep nothing.

What ends with its process needs no file, no key and no chain. Everything else is what the store on the disk does, and
`conformance.store_checks` holds both to it.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from bridle.base.clock import Clock, SystemClock, iso_ms
from bridle.base.ids import LOG, RUN, SESS, Ids, short_ids
from bridle.base.redact import redact
from bridle.engine.ports import Lease, Record, StoredSession
from bridle.engine.store_ports import (
    CLOSING,
    OPENING,
    Backup,
    DaysOf,
    Description,
    Due,
    Expired,
    ForgetBeside,
    Found,
    Restored,
)
from bridle.protocol.codec import EXPIRED, decode_payload
from bridle.protocol.errors import BridleError, CommandRefused, StoreError
from bridle.protocol.events import CostIncremented, Envelope, TurnEnded
from bridle.sessions.branch import branch_origin, end_of_turn
from bridle.sessions.event_copy import Origin, branched_event, copies
from bridle.sessions.import_session import harmless_records
from bridle.sessions.memory_backup import read_backup, write_backup
from bridle.sessions.memory_log import MemoryLog
from bridle.sessions.memory_session import Memory, MemorySession
from bridle.sessions.memory_undo import sweep_contents
from bridle.sessions.retention import DAY_MS, KEPT_KINDS
from bridle.sessions.store import meant_by, one_line, refuse_rest, the_one
from bridle.sessions.text_search import Said, complete, said_in

if TYPE_CHECKING:
    from bridle.engine.undo_records import CallRow

EXCERPT_WORDS = 16


class MemoryStore:
    """Implements `engine.store_ports.Store`.

    A lease lasts until it is given back; with `lease_ms` also no longer than that after the last append. `beside` gives
    another store on the same sessions, as another process would have one.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        ids: Ids | None = None,
        lease_ms: int | None = None,
        memory: Memory | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._ids = ids or Ids(self._clock.now_ms, os.urandom)
        self._lease_ms = lease_ms
        self._memory = memory if memory is not None else Memory()

    def beside(self) -> MemoryStore:
        return type(self)(clock=self._clock, ids=self._ids, lease_ms=self._lease_ms, memory=self._memory)

    # The sessions

    async def create(
        self,
        cwd: str,
        *,
        profile: str,
        aliases: Sequence[str] = (),
        root: str | None = None,
        headless: bool = False,
    ) -> MemoryLog:
        kept = self._made(Origin(cwd=cwd, root=root or cwd, profile=profile), headless=headless)
        self._memory.aliases.update(dict.fromkeys(aliases, kept.row.id))
        return self._opened(kept, self._ids.new(RUN))

    async def open(self, session_id: str, *, accept_loss: bool = False) -> MemoryLog:
        kept = self._of(session_id)
        refuse_rest(kept.row)
        run = self._ids.new(RUN)
        if (lease := self._held_by(kept)) is not None:
            raise _busy(kept, lease, run)
        return self._opened(kept, run)

    async def find(self, text: str, *, cwd: str | None = None, exact: bool = False) -> StoredSession:
        sessions = self._memory.sessions
        if (found := sessions.get(text) or sessions.get(self._memory.aliases.get(text, ""))) is not None:
            return found.row
        return the_one([] if exact else meant_by(text, await self.list(), cwd), text)

    async def newest(self, cwd: str) -> StoredSession:
        rows = [row for row in await self.list(cwd=cwd) if row.rest_of is None]
        used = (row for row in rows if self._memory.sessions[row.id].is_used)
        if (row := next(used, next(iter(rows), None))) is not None:
            return row
        raise CommandRefused("NoSessionHere", cwd=cwd)

    async def list(
        self, *, cwd: str | None = None, after: tuple[int, str] | None = None, limit: int | None = None
    ) -> Sequence[StoredSession]:
        rows = [kept.row for kept in self._memory.sessions.values() if cwd in (None, kept.row.cwd)]
        rows.sort(key=lambda row: row.place, reverse=True)
        return [row for row in rows if after is None or row.place < after][:limit]

    async def short_ids(self, sessions: Sequence[str]) -> Mapping[str, str]:
        short = short_ids(self._memory.sessions)
        return {one: short[one] for one in sessions}

    async def describe(self, session_id: str) -> Description:
        kept = self._of(session_id)
        last_kind = kept.records[-1].envelope.kind if kept.records else None
        return Description(
            session=kept.row, lease=self._held_by(kept), last_id=len(kept.records), last_kind=last_kind
        )

    async def events(self, session_id: str, *, after: int = 0) -> AsyncIterator[Envelope]:
        for record in self._of(session_id).records[after:]:
            yield record.envelope

    async def costs(self, session_id: str, *, since_ms: int = 0) -> Sequence[Envelope]:
        envelopes = (record.envelope for record in self._of(session_id).records)
        return [one for one in envelopes if isinstance(one.event, CostIncremented) and one.ts_ms >= since_ms]

    async def fold(self, session_id: str) -> bytes | None:
        fold = self._of(session_id).fold
        return None if fold is None else fold[1]

    async def verify(self, session_id: str, *, last: int | None = None) -> None:
        for number, record in enumerate(self._of(session_id).records, 1):
            if record.envelope.id != number:
                raise StoreError("LogDamaged", session=session_id, event=number, problem="it is missing")

    async def digest(self, session_id: str) -> str:
        chain = b""
        for record in self._of(session_id).records:
            chain = sha256(chain + record.payload).digest()
        return chain.hex()

    async def calls(self, session_id: str) -> Sequence[CallRow]:
        return list(self._of(session_id).calls)

    async def rename(self, session_id: str, title: str) -> None:
        title = one_line(title)
        self._change(session_id, title=title, renamed=bool(title))

    async def pin(self, session_id: str, *, pinned: bool) -> None:
        self._change(session_id, pinned=pinned)

    async def aclose(self) -> None:
        """Nothing waits to be written."""

    # All of them

    async def branch(self, session_id: str, *, turn: int | None = None) -> str:
        parent = self._of(session_id)
        refuse_rest(parent.row)
        ends = [
            (envelope.turn or 0, envelope.id or 0)
            for envelope in (record.envelope for record in parent.records)
            if isinstance(envelope.event, TurnEnded) and not envelope.agent_path
        ]
        at = end_of_turn(ends, turn)
        made = self._made(branch_origin(parent.row, at), parent.records[:at])
        made.outputs_key = parent.outputs_key
        return made.row.id

    async def import_lines(self, lines: Iterable[bytes], *, cwd: str, profile: str, missing: str = "") -> str:
        records = harmless_records(lines, cwd, missing)
        made = self._made(Origin(cwd=cwd, root=cwd, profile=profile, imported=True), records)
        if (before := records[0].envelope.session) not in self._memory.sessions:
            self._memory.aliases.setdefault(before, made.row.id)
        return made.row.id

    async def search(self, words: str, *, limit: int) -> Sequence[Found]:
        said = [
            (kept.row.id, one)
            for kept in self._memory.sessions.values()
            if kept.row.expired_ms is None
            for one in _said(kept)
        ]
        said.sort(key=lambda pair: pair[1].envelope.ts_ms, reverse=True)
        terms = _terms(words)
        found: dict[tuple[str, int | None], Found] = {}
        for whole in (True, False):
            for session, one in said if terms else ():
                if (excerpt := _excerpt(one.text, terms, whole=whole)) is not None:
                    hit = Found(
                        session=session,
                        event=one.envelope.id or 0,
                        turn=one.envelope.turn,
                        ts_ms=one.envelope.ts_ms,
                        who=one.who,
                        excerpt=excerpt,
                    )
                    found.setdefault((session, one.envelope.id), hit)
        return list(found.values())[:limit]

    async def last_answers(self, sessions: Sequence[str]) -> Mapping[str, str]:
        answers = {
            session: [one.text for one in _said(kept) if one.who == "model"]
            for session, kept in self._memory.sessions.items()
            if session in sessions
        }
        return {session: texts[-1] for session, texts in answers.items() if texts}

    async def expiring(self, days_of: DaysOf, *, until_ms: int) -> Sequence[Due]:
        return [
            Due(id=kept.row.id, title=kept.row.title, at_ms=at_ms)
            for at_ms, kept in self._candidates(days_of)
            if at_ms <= until_ms
        ]

    async def expire(
        self,
        days_of: DaysOf,
        *,
        beside: ForgetBeside = lambda _session: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Expired:
        gone: list[str] = []
        busy: list[str] = []
        now_ms = self._clock.now_ms()
        for at_ms, kept in self._candidates(days_of):
            if stopped():
                break
            if at_ms > now_ms:
                continue
            if self._held_by(kept) is not None:
                busy.append(kept.row.id)
                continue
            beside(kept.row.id)
            with self._memory.lock:
                _empty(kept, now_ms)
                sweep_contents(self._memory, now_ms)
            gone.append(kept.row.id)
        return Expired(sessions=tuple(gone), busy=tuple(busy))

    async def delete(self, session_id: str, *, beside: ForgetBeside = lambda _session: None) -> None:
        kept = self._of(session_id)
        if (lease := self._held_by(kept)) is not None:
            raise _busy(kept, lease, "")
        beside(session_id)
        with self._memory.lock:
            del self._memory.sessions[session_id]
            named = self._memory.aliases.items()
            self._memory.aliases = {name: one for name, one in named if one != session_id}
            sweep_contents(self._memory, self._clock.now_ms())

    async def back_up(self, path: str) -> Backup:
        if not self._memory.sessions:
            raise BridleError("NothingStored")
        return write_backup(self._memory.sessions.values(), path)

    async def restore(
        self, path: str, *, cwd: str, notice: Callable[[str], None] = lambda _text: None
    ) -> Restored:
        made: list[str] = []
        found = list(read_backup(path))
        for row, lines in found:
            is_here = row.id in self._memory.sessions or row.id in self._memory.aliases
            if is_here or row.expired_ms is not None:
                continue
            session = await self.import_lines(lines, cwd=cwd, profile="default")
            title = one_line(redact(row.title))
            self._change(session, title=title, renamed=row.renamed, pinned=row.pinned)
            made.append(session)
        return Restored(sessions=tuple(made), left_out=len(found) - len(made))

    # The disk: there is none

    def enough(self) -> bool:
        return True

    def stuck(self) -> bool:
        return False

    def _of(self, session_id: str) -> MemorySession:
        if (kept := self._memory.sessions.get(session_id)) is None:
            raise CommandRefused("UnknownSession", session=session_id)
        return kept

    def _change(self, session_id: str, **fields: object) -> None:
        kept = self._of(session_id)
        kept.row = msgspec.structs.replace(kept.row, **fields)

    def _held_by(self, kept: MemorySession) -> Lease | None:
        """The lease of a log, unless it is up."""
        lease = kept.lease
        if lease is None or lease.expires_ms is None or lease.expires_ms > self._clock.now_ms():
            return lease
        return None

    def _opened(self, kept: MemorySession, run: str) -> MemoryLog:
        return MemoryLog(self._memory, kept, run=run, clock=self._clock, lease_ms=self._lease_ms)

    def _made(
        self, origin: Origin, records: Iterable[Record] = (), *, headless: bool = False
    ) -> MemorySession:
        """A session of these events, which appears when the last one is there."""
        session, log_id, now_ms = self._ids.new(SESS), self._ids.new(LOG), self._clock.now_ms()
        row = StoredSession(
            id=session,
            log=log_id,
            cwd=origin.cwd,
            root=origin.root,
            profile=origin.profile,
            title=origin.title,
            labels=(),
            pinned=False,
            created_ms=now_ms,
            updated_ms=now_ms,
            model=None,
            turns=0,
            stop=None,
            renamed=origin.renamed,
            usd=0.0,
            branch_of=origin.branch_of,
            imported_ms=now_ms if origin.imported else None,
            expired_ms=None,
            headless=headless,
        )
        kept = MemorySession(row=row)
        for envelope, payload in copies(session, log_id, records):
            kept.take_in(Record(envelope, payload))
        if origin.branched is not None:
            said = branched_event(session, len(kept.records) + 1, origin.branched, now_ms)
            kept.take_in(Record(*said))
        self._memory.sessions[session] = kept
        return kept

    def _candidates(self, days_of: DaysOf) -> list[tuple[int, MemorySession]]:
        """The sessions whose content will expire, and when; the first first."""
        found: list[tuple[int, MemorySession]] = []
        for kept in self._memory.sessions.values():
            days = days_of(kept.row.profile)
            if days is not None and not kept.row.pinned and kept.row.expired_ms is None:
                found.append((kept.row.updated_ms + days * DAY_MS, kept))
        return sorted(found, key=lambda pair: pair[0])


def _busy(kept: MemorySession, lease: Lease, run: str) -> CommandRefused:
    return CommandRefused(
        "SessionBusy",
        session=kept.row.id,
        pid=os.getpid(),
        started=iso_ms(kept.row.updated_ms),
        where="",
        run=run,
        other_run=lease.holder,
    )


def _empty(kept: MemorySession, now_ms: int) -> None:
    """Lets the content go: what was said and done, and what was made from it."""
    kept.row = msgspec.structs.replace(kept.row, expired_ms=now_ms)
    kept.fold, kept.outputs_key, kept.calls, kept.actions = None, None, [], []
    kept.records = [
        record if record.envelope.kind in KEPT_KINDS else _expired(record) for record in kept.records
    ]


def _expired(record: Record) -> Record:
    event = decode_payload(record.envelope.kind, EXPIRED)
    return Record(msgspec.structs.replace(record.envelope, event=event), EXPIRED)


# Words


def _said(kept: MemorySession) -> Iterator[Said]:
    return said_in(complete([record.envelope for record in kept.records]))


class _Word(msgspec.Struct, frozen=True):
    """A word as it is compared, and where it stands."""

    text: str
    start: int
    end: int


def _words(text: str) -> list[_Word]:
    """The words of a text: letters and digits, without case and accents."""
    return [_Word(_plain(one[0]), *one.span()) for one in re.finditer(r"[^\W_]+", text)]


def _plain(word: str) -> str:
    bare = unicodedata.normalize("NFKD", word)
    return "".join(letter for letter in bare if not unicodedata.combining(letter)).casefold()


class _Term(msgspec.Struct, frozen=True):
    """Words that stand together; with `begins` the last may be the beginning of one."""

    words: tuple[str, ...]
    begins: bool


def _terms(words: str) -> list[_Term]:
    terms: list[_Term] = []
    for index, part in enumerate(words.split('"')):
        if index % 2:
            terms.append(_Term(tuple(word.text for word in _words(part)), begins=False))
        else:
            terms += [
                _Term(tuple(one.text for one in _words(word)), begins=len(word) > 2) for word in part.split()
            ]
    return [term for term in terms if term.words]


def _excerpt(text: str, terms: Sequence[_Term], *, whole: bool) -> str | None:
    """The text around what was found, which is marked; None where one of the terms is not in it."""
    words = _words(text)
    found = [_place(words, term, whole=whole) for term in terms]
    places = [place for place in found if place is not None]
    if len(places) < len(found):
        return None
    marked = {at for place in places for at in place}
    first = max(0, min(marked) - 2)
    shown = words[first : first + EXCERPT_WORDS]
    parts = ["…" if first else ""]
    for at, word in enumerate(shown, first):
        gap_from = shown[at - first - 1].end if at > first else (word.start if first else 0)
        own = text[word.start : word.end]
        parts += [text[gap_from : word.start], f"{OPENING}{own}{CLOSING}" if at in marked else own]
    is_end = first + EXCERPT_WORDS >= len(words)
    return "".join([*parts, text[shown[-1].end :] if is_end else "…"])


def _place(words: Sequence[_Word], term: _Term, *, whole: bool) -> range | None:
    size = len(term.words)
    for at in range(len(words) - size + 1):
        here = [word.text for word in words[at : at + size]]
        same_before = here[:-1] == list(term.words[:-1])
        last, wanted = here[-1], term.words[-1]
        if same_before and (last == wanted or (term.begins and not whole and last.startswith(wanted))):
            return range(at, at + size)
    return None
