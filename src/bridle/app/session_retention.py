"""How long sessions are kept, wired: settings say how many days, and what lies beside the database goes with them."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping
from functools import cache

from bridle.base.ids import SESS, is_id
from bridle.config.folders import Folders
from bridle.config.tiers import load
from bridle.sessions.retention import DAY_MS, DaysOf, Due, Expired, delete, expire, expiring
from bridle.sessions.shelf import Shelf
from bridle.sessions.store import SessionRow, SessionStore

NOTICE_DAYS = 7
"""So long before content expires people are told."""


def days_kept(where: Folders, env: Mapping[str, str], cwd: str) -> DaysOf:
    """How many days each profile keeps its sessions. While settings cannot be read, nothing expires."""

    @cache
    def days_of(profile: str) -> int | None:
        named = None if profile == "default" else profile
        tiers = load(where=where, cwd=cwd, env=env, profile=named)
        if any(problem.severity == "error" for problem in tiers.problems):
            return None
        days = tiers.get("sessions.retention_days")
        return days if isinstance(days, int) else None

    return days_of


def sweep(
    shelf: Shelf, where: Folders, days_of: DaysOf, *, stopped: Callable[[], bool] = lambda: False
) -> Expired:
    """Lets the content of every session go that is due, in the database and beside it. Blocks."""
    return expire(shelf, days_of, beside=lambda session: _remove_outputs(where, session), stopped=stopped)


def soon(shelf: Shelf, days_of: DaysOf, *, now_ms: int) -> list[Due]:
    """The sessions whose content goes within the next days."""
    return expiring(shelf, days_of, until_ms=now_ms + NOTICE_DAYS * DAY_MS)


def delete_session(store: SessionStore, row: SessionRow, where: Folders) -> bool:
    """Deletes everything of a session; False when somebody is working with it."""
    return delete(
        store.shelf, row.id, row.log_key, row.log, beside=lambda session: _remove_outputs(where, session)
    )


def branch_session(store: SessionStore, row: SessionRow, where: Folders, *, turn: int | None = None) -> str:
    """A branch with the long outputs its conversation refers to. Returns its id."""
    from bridle.sessions.branch import branch

    made = branch(store.shelf, row, turn=turn)
    kept = outputs_of(where, row.id)
    if os.path.isdir(kept):
        with contextlib.suppress(
            OSError
        ):  # without them a long output cannot be read again, and that is said then
            shutil.copytree(kept, outputs_of(where, made), symlinks=True)
    return made


def outputs_of(where: Folders, session: str) -> str:
    """The folder of the long outputs of a session."""
    return os.path.join(where.state, "outputs", session)


def transcripts_of(where: Folders, session: str) -> str:
    """The folder of what was transcribed of a session."""
    return os.path.join(where.state, "transcripts", session)


def _remove_outputs(where: Folders, session: str) -> None:
    if is_id(session, SESS):
        for folder in (outputs_of(where, session), transcripts_of(where, session)):
            shutil.rmtree(folder, ignore_errors=True)
