"""The stored sessions as a list to pick from: titles, costs, who is at work, what expires, what was said last."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from bridle.app.query_answers import session_infos
from bridle.app.session_retention import branch_session, delete_session
from bridle.cli.session_changes import kept
from bridle.clients.interaction.picker import Deed, Listed, listed
from bridle.config.folders import folders
from bridle.sessions.store import SessionStore, busy


def listed_sessions(store: SessionStore, env: Mapping[str, str], here: str) -> tuple[Listed, ...]:
    """Every session somebody has said something in, the one used last first, for somebody in the folder `here`."""
    here, now_ms = os.path.realpath(here), time.time_ns() // 1_000_000
    rows = [row for row in store.list() if row.title or row.turns]
    found = session_infos(store, rows, where=folders(env), env=env, now_ms=now_ms, here=here)
    home = env.get("HOME", "")
    return tuple(listed(one, now_ms=now_ms, here=here, home=home) for one in found)


def do_deed(store: SessionStore, env: Mapping[str, str], deed: Deed) -> None:
    """Does what a person wants done to a session of the list. Raises `BridleError` when it cannot be."""
    row, where = store.find(deed.id), folders(env)
    match deed.what:
        case "fork":
            branch_session(store, kept(row), where)
        case "pin":
            store.pin(row.id, pinned=not row.pinned)
        case "rename":
            store.rename(row.id, deed.title)
        case "delete":
            if not delete_session(store, row, where):
                raise busy(row.id, store.shelf.lock_of(row.log))
