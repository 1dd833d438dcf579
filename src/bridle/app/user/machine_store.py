"""Open the stored sessions of this machine without an engine."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager

from bridle.app.user.stored_keys import StoredKeys
from bridle.base.clock import SystemClock
from bridle.base.ids import Ids
from bridle.config.folders import folders
from bridle.sessions.repair.readable_copy import copied_where_unwritable
from bridle.sessions.store import SessionStore


def session_store(env: Mapping[str, str], *, folder: str | None = None) -> SessionStore:
    """The stored sessions, to look at; with `folder`, those in a copy. Nothing is created by looking."""
    clock, where = SystemClock(), folders(env)
    stored = StoredKeys(where=where, env=env, clock=clock)
    ids = Ids(clock.now_ms, os.urandom)
    return SessionStore(folder or where.data, ids=ids, clock=clock, key_wrap=stored.log_key)


@contextmanager
def store_to_look(env: Mapping[str, str]) -> Generator[SessionStore]:
    """The stored sessions, for what notes something while it looks.

    Where their disk cannot be written, a copy that nobody else sees and that goes afterwards.
    """
    with (
        copied_where_unwritable(folders(env).data) as folder,
        closing(session_store(env, folder=folder)) as store,
    ):
        yield store
