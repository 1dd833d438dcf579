"""Notices about sessions that another agent started."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bridle.base.text.terminal_text import visible
from bridle.control.code_surfaces import has_desktop, show_on_desktop
from bridle.control.live_sessions import LiveSessions
from bridle.engine.open_questions import Client
from bridle.protocol.errors import sentence
from bridle.protocol.events import Notice


def session_notice(session: str, client: Client) -> Notice:
    """Who began a session, for its log and for whoever is here."""
    data = {"name": visible(client.called, newlines=False), "session": session}
    return Notice(reason="OuterAgent", message=sentence("OuterAgent", data), data=data)


def tell_of_session(
    session: str, client: Client, live: LiveSessions, notice: Callable[[str], None], env: Mapping[str, str]
) -> None:
    """Tells everybody who follows another session here, whoever started the engine, and the desktop."""
    told = session_notice(session, client)
    live.tell_people(told)
    notice(told.message)
    if has_desktop(env):
        show_on_desktop(told.message, env)
