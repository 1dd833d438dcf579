"""How many days sessions keep their content, as settings say."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from bridle.app.user.setting_sections import load
from bridle.config.folders import Folders
from bridle.engine.store_ports import DaysOf
from bridle.sessions.stored_session_settings import StoredSessionSettings

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
        days = tiers.section("sessions", StoredSessionSettings).retention_days
        return days if isinstance(days, int) else None

    return days_of
