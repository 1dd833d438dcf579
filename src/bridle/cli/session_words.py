"""Words for sessions on the command line: when, which, and what is special about one."""

from __future__ import annotations

import time

from bridle.base.text.terminal_text import visible
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
    return visible(row.title or ("(no title)" if row.turns else "(no words yet)"), newlines=False)


def short(session: str) -> str:
    """The beginning of an id, as people type it; two sessions of one moment have the same."""
    return session.removeprefix("sess_")[:10]


def minute(ts_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(ts_ms / 1000))


def day(ts_ms: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(ts_ms / 1000))
