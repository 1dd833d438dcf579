"""The stored sessions as a list to pick from: titles, costs, who is at work, what expires, what was said last."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from bridle.app.keeping import branch_session, days_kept, delete_session, soon
from bridle.base.files import FileLock
from bridle.base.phrases import age, counted
from bridle.cli.session_changes import kept, one_line
from bridle.clients.line.picker import Deed, Listed
from bridle.config.folders import folders
from bridle.sessions.retention import DAY_MS
from bridle.sessions.searching import last_answers
from bridle.sessions.store import SessionRow, SessionStore, busy

LAST_CHARS = 200


def listed_sessions(
    store: SessionStore, env: Mapping[str, str], here: str, *, shown: Callable[[str], str]
) -> tuple[Listed, ...]:
    """Every session somebody has said something in, the one used last first. `shown` is how a folder is called."""
    rows = [row for row in store.list() if row.title or row.turns]
    if not rows:
        return ()
    here, now_ms = os.path.realpath(here), time.time_ns() // 1_000_000
    answers = last_answers(store.shelf)
    due = soon(store.shelf, days_kept(folders(env), env, here), now_ms=now_ms)
    left_days = {one.id: max(0, one.at_ms - now_ms) // DAY_MS for one in due}
    return tuple(
        Listed(
            id=row.id,
            title=row.title if row.renamed else "",
            words=row.title,
            when=age(now_ms - row.updated_ms),
            turns=row.turns,
            cost=f"${row.usd:.2f}" if row.usd >= 0.005 else "",
            mark=_mark(store, row, left_days.get(row.id)),
            pinned=row.pinned,
            here=row.cwd == here,
            folder=shown(row.cwd),
            last=" ".join(answers.get(row.id, "").split())[-LAST_CHARS:],
        )
        for row in rows
    )


def do_deed(store: SessionStore, env: Mapping[str, str], deed: Deed) -> None:
    """Does what a person wants done to a session of the list. Raises `BridleError` when it cannot be."""
    row, where = store.find(deed.id), folders(env)
    match deed.what:
        case "fork":
            branch_session(store, kept(row), where)
        case "pin":
            store.pin(row.id, pinned=not row.pinned)
        case "rename":
            store.rename(row.id, one_line(deed.title))
        case "delete":
            if not delete_session(store, row, where):
                raise busy(row.id, store.shelf.lock_of(row.log))


def _mark(store: SessionStore, row: SessionRow, left_days: int | None) -> str:
    marks = [
        _at_work(store, row),
        "(run)" if row.headless else "",
        "(imported)" if row.imported_ms is not None else "",
        "content expired" if row.expired_ms is not None else _expiry(left_days),
    ]
    return "  ".join(filter(None, marks))


def _at_work(store: SessionStore, row: SessionRow) -> str:
    """Whether somebody has it open, and whether it waits for an answer."""
    lock = store.shelf.lock_of(row.log)
    if not os.path.exists(lock.path) or _is_free(lock):
        return ""
    return (
        "● waiting for your answer"
        if store.last_kind(row) in ("PermissionRequested", "QuestionAsked")
        else "● open"
    )


def _is_free(lock: FileLock) -> bool:
    with lock:
        return lock.acquire()


def _expiry(left_days: int | None) -> str:
    if left_days is None:
        return ""
    if left_days < 1:
        return "content expires today"
    return f"content expires in {counted(left_days, 'day')}"
