"""Words for sessions: titles, times and notes, and the daily notice of content that expires soon.

A user dismisses notices of some sessions: a file for each, so that two terminals never undo what the other noted. It
applies until that session is due no more: gone, pinned, or used again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress

from bridle.base.fs import files
from bridle.base.text.terminal_text import visible_line
from bridle.protocol.connection import Connection
from bridle.protocol.queries import ListSessions, SessionInfo
from bridle.sessions.store import SessionRow


def notes(row: SessionRow) -> list[str]:
    """What is special about a session, in a few words each."""
    return [
        *(["imported"] if row.imported_ms is not None else []),
        *([f"branch of {short(row.branch_of)}"] if row.branch_of is not None else []),
        *(["content expired"] if row.expired_ms is not None else []),
    ]


def title_words(row: SessionRow) -> str:
    """The title of a session, or that it has none."""
    return visible_line(row.title or ("(no title)" if row.turns else "(no words yet)"))


def short(session: str) -> str:
    """The beginning of an id, as people type it; two sessions of one moment have the same."""
    return session.removeprefix("sess_")[:10]


def minute(ts_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(ts_ms / 1000))


def day(ts_ms: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(ts_ms / 1000))


_DAY_MS = 24 * 3600 * 1000
NOTICE_DAYS = 7


async def expiry_notice(connection: Connection, state: str, *, now_ms: int) -> str | None:
    """The words, where something goes soon and nobody was told today."""
    marker = os.path.join(state, "expiry-told")
    last_ms = files.marked_ms(marker)
    if last_ms is not None and 0 <= now_ms - last_ms < _DAY_MS:
        return None
    sessions = (await connection.ask(ListSessions())).sessions
    due = {one.id: one for one in sessions if one.expires_ms is not None}
    dismissed = _dismissed(state, due)
    found = sorted(
        ((one.expires_ms, one) for one in due.values() if one.expires_ms and one.id not in dismissed),
        key=_when,
    )
    if not files.mark_ms(marker, now_ms) or not found:
        return None
    at_ms, first = found[0]
    name = f'"{first.title}"' if first.title else first.id
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    these = "1 session loses its" if len(found) == 1 else f"{len(found)} sessions lose their"
    when = time.strftime("%Y-%m-%d", time.localtime(at_ms / 1000))
    return (
        f"{these} content within {NOTICE_DAYS} days: {name} on {when}{more}. Keep one: bridle sessions pin ID. "
        "Hear no more of them: bridle sessions dismiss"
    )


def dismiss(state: str, sessions: Iterable[str]) -> None:
    """From now on nobody is told that these go soon. Raises `OSError`."""
    folder = files.private_folder(_folder(state))
    for session in sessions:
        files.write_atomic(os.path.join(folder, session), b"", durable=False)


def _dismissed(state: str, due: Iterable[str]) -> frozenset[str]:
    """Those of the `due` that were dismissed. What is noted of others is forgotten."""
    folder, kept = _folder(state), frozenset(due)
    try:
        noted = os.listdir(folder)
    except OSError:
        return frozenset()
    for session in noted:
        if session not in kept:
            with suppress(OSError):
                os.unlink(os.path.join(folder, session))
    return kept.intersection(noted)


def _folder(state: str) -> str:
    return os.path.join(state, "expiry-dismissed")


def _when(expiring: tuple[int, SessionInfo]) -> int:
    return expiring[0]
