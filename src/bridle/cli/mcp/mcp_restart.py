"""`bridle mcp restart`: restart a server in the sessions of the listening engine."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from typing import Any

from bridle.base.net.engine_place import EnginePlace
from bridle.base.text.terminal_text import visible
from bridle.cli.console import say, tell
from bridle.clients.remote import RemoteConnection, connect_remote, place_opener
from bridle.config.folders import folders
from bridle.protocol.commands import AttachSession, RunSlash
from bridle.protocol.errors import BridleError
from bridle.protocol.events import Notice
from bridle.protocol.queries import CustomQuery, ListSessions

EXIT_FAILED = 1
ANSWER_S = 120.0
"""So long is waited for one: the server ends, and has its own time to be ready."""
_ANSWERS = frozenset({"MCPServers", "MCPServerUnavailable", "MCPNoServer"})


def mcp_restart(parsed: argparse.Namespace, env: Mapping[str, str]) -> int:
    place = EnginePlace(folders(env).runtime)
    if place.found() is None:
        tell(
            "No engine listens here, so there is nothing to start anew: other sessions start their servers themselves. "
            f"In one of them: /mcp:restart {parsed.name}"
        )
        return EXIT_FAILED
    return asyncio.run(_restart(place, parsed.name))


async def _restart(place: EnginePlace, name: str) -> int:
    connection = await connect_remote(
        place_opener(place), address=place.socket, name="mcp restart", answers=False
    )
    try:
        using = await _sessions_using(connection, name)
        if not using:
            tell(f'No session of the engine uses an MCP server "{visible(name, newlines=False)}".')
            return EXIT_FAILED
        answers = [await _restarted(connection, session, since, name) for session, since in using]
    finally:
        await connection.close()
    for answer in answers:
        say(visible(answer.message) + "\n")
    return 0 if all(answer.reason == "MCPServers" for answer in answers) else EXIT_FAILED


async def _sessions_using(connection: RemoteConnection, name: str) -> list[tuple[str, int]]:
    """One session for each process of this server, and its last event: sessions of one folder mostly share it."""
    using: dict[str, tuple[str, int]] = {}
    for session in (await connection.ask(ListSessions())).sessions:
        if session.state == "stored":
            continue
        attached = await connection.send(AttachSession(session=session.id))
        try:
            query = CustomQuery(session=session.id, namespace="mcp", verb="servers")
            answer = await connection.ask(query)
        except BridleError:  # it has no servers
            continue
        servers: list[dict[str, Any]] = answer.payload.get("servers", [])
        for server in servers:
            if server["name"] == name:
                using.setdefault(server["process"], (session.id, attached.event or 0))
    return list(using.values())


async def _restarted(connection: RemoteConnection, session: str, since: int, name: str) -> Notice:
    await connection.send(RunSlash(session=session, name="mcp:restart", arguments=name))
    try:
        async with asyncio.timeout(ANSWER_S):
            async for envelope in connection.events(session, since=since):
                if isinstance(envelope.event, Notice) and envelope.event.reason in _ANSWERS:
                    return envelope.event
    except TimeoutError:
        pass
    return Notice(reason="MCPServerUnavailable", message=f"{session} has not said how it went.")
