"""How long sessions are kept, wired: settings say how many days, and what lies beside the database goes with them."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from functools import cache

from bridle.base.ids import SESS, is_id
from bridle.config.folders import Folders
from bridle.config.tiers import load
from bridle.engine.store_ports import DaysOf, ForgetBeside

NOTICE_DAYS = 7
"""So long before content expires people are told."""
NOTICE_MS = NOTICE_DAYS * 24 * 3600 * 1000


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


def copy_outputs(where: Folders, session: str, made: str) -> None:
    """Gives a branch the long outputs its conversation refers to."""
    kept = outputs_of(where, session)
    if os.path.isdir(kept):
        with contextlib.suppress(
            OSError
        ):  # without them a long output cannot be read again, and that is said then
            shutil.copytree(kept, outputs_of(where, made), symlinks=True)


def outputs_of(where: Folders, session: str) -> str:
    """The folder of the long outputs of a session."""
    return os.path.join(where.state, "outputs", session)


def transcripts_of(where: Folders, session: str) -> str:
    """The folder of what was transcribed of a session."""
    return os.path.join(where.state, "transcripts", session)


def dumps_of(where: Folders, session: str) -> tuple[str, str]:
    """The files of what a session sent to providers and got from them, the older one first."""
    folder = os.path.join(where.state, "debug")
    return os.path.join(folder, f"{session}.1.jsonl"), os.path.join(folder, f"{session}.jsonl")


def forget_beside(where: Folders) -> ForgetBeside:
    """Removes what lies beside the store of a session: its long outputs, its transcripts and its dumps."""

    def forget(session: str) -> None:
        if is_id(session, SESS):
            for folder in (outputs_of(where, session), transcripts_of(where, session)):
                shutil.rmtree(folder, ignore_errors=True)
            for dump in dumps_of(where, session):
                with contextlib.suppress(OSError):
                    os.unlink(dump)

    return forget
