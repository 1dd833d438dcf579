"""What a person is told about content that goes soon, looked for once a day."""

from __future__ import annotations

import os
import time

from bridle.base import files
from bridle.protocol.connection import Connection
from bridle.protocol.queries import ListSessions, SessionInfo

_DAY_MS = 24 * 3600 * 1000
NOTICE_DAYS = 7


async def expiry_notice(connection: Connection, state: str, *, now_ms: int) -> str | None:
    """The words, where something goes soon and nobody was told today."""
    marker = os.path.join(state, "expiry-told")
    last_ms = files.marked_ms(marker)
    if last_ms is not None and 0 <= now_ms - last_ms < _DAY_MS:
        return None
    sessions = (await connection.ask(ListSessions())).sessions
    found = sorted(((one.expires_ms, one) for one in sessions if one.expires_ms is not None), key=_when)
    if not files.mark_ms(marker, now_ms) or not found:
        return None
    at_ms, first = found[0]
    name = f'"{first.title}"' if first.title else first.id
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    these = "1 session loses its" if len(found) == 1 else f"{len(found)} sessions lose their"
    when = time.strftime("%Y-%m-%d", time.localtime(at_ms / 1000))
    return (
        f"{these} content within {NOTICE_DAYS} days: {name} on {when}{more}. Keep one: bridle sessions pin ID"
    )


def _when(expiring: tuple[int, SessionInfo]) -> int:
    return expiring[0]
