"""What the tests of the session store share: a store on a real folder, and envelopes to put into it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from bridle.base.clock import SystemClock
from bridle.base.ids import Ids
from bridle.protocol.codec import encode_payload, kind_of
from bridle.protocol.events import AnyEvent, Envelope, TextDelta
from bridle.sessions.log.session_log import StoredLog
from bridle.sessions.store import SessionStore

CLIENT = "cli_01JV0000000000000000000000"
START_MS = 1_700_000_000_000


def new_store(folder: Path, notices: list[str] | None = None) -> SessionStore:
    clock = SystemClock()
    ids = Ids(clock.now_ms, os.urandom)
    notice = (lambda text: None) if notices is None else notices.append
    return SessionStore(str(folder), ids=ids, clock=clock, notice=notice)


@contextmanager
def opened(folder: Path):
    with closing(new_store(folder)) as store:
        yield store


def envelope(log: StoredLog, event: AnyEvent, **fields) -> Envelope:
    number = log.last_id + 1
    values = {"id": number, "ts_ms": START_MS + number, "originator": CLIENT, **fields}
    return Envelope(kind=kind_of(event), session=log.session, event=event, **values)


def put(log: StoredLog, *events: AnyEvent, **fields) -> list[Envelope]:
    """Appends the events and returns their envelopes."""
    put_in: list[Envelope] = []
    for event in events:
        made = envelope(log, event, **fields)
        log.append(made, encode_payload(event))
        put_in.append(made)
    return put_in


def words(count: int) -> list[TextDelta]:
    return [TextDelta(text=f"word {number}") for number in range(count)]


def filled(folder: Path, events: Sequence[AnyEvent]) -> str:
    """A closed session with these events; returns its id."""
    with opened(folder) as store:
        log = store.create("/work", profile="default")
        put(log, *events)
        log.close()
        return log.session


def raw(folder: Path) -> apsw.Connection:
    """The database behind the store's back, for those who tamper and those who look."""
    connection = apsw.Connection(str(folder / "sessions.db"))
    connection.pragma("cipher", "aegis")
    connection.pragma("key", "raw:" + (folder / "sessions.key").read_text().strip())
    connection.set_busy_timeout(5000)
    return connection


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A real Python process that can import this module."""
    here = os.path.dirname(os.path.dirname(__file__))
    return subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {here!r})\n{code}", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
