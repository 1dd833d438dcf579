"""How stored sessions are spoken of: how long ago, what is special about one, where it is."""

from __future__ import annotations

from bridle.base.text.phrases import counted
from bridle.protocol.queries import SessionInfo

_DAY_MS = 86_400_000


def marks(session: SessionInfo, now_ms: int) -> str:
    """Who is at work in it, where it comes from, and what expires; empty where there is nothing to say."""
    found = (
        {"stored": "", "open": "● open", "waiting": "● waiting for your answer"}[session.state],
        "(run)" if session.headless else "",
        "(imported)" if session.imported_ms is not None else "",
        "content expired" if session.expired_ms is not None else _expiry(session.expires_ms, now_ms),
    )
    return "  ".join(filter(None, found))


def _expiry(expires_ms: int | None, now_ms: int) -> str:
    if expires_ms is None:
        return ""
    left_days = max(0, expires_ms - now_ms) // _DAY_MS
    if left_days < 1:
        return "content expires today"
    return f"content expires in {counted(left_days, 'day')}"


def folder_words(folder: str, home: str) -> str:
    """A folder as people write it, `~/code/shop`."""
    home = home.rstrip("/")
    inside = bool(home) and (folder == home or folder.startswith(home + "/"))
    return f"~{folder.removeprefix(home)}" if inside else folder
