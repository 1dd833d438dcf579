"""The stored sessions as a list to pick from, and what is done to one of them: through a connection alone."""

from __future__ import annotations

import time
from collections.abc import Mapping

from bridle.base.files import real_folder
from bridle.clients.interaction.picker import Deed, Listed, listed
from bridle.protocol.commands import BranchSession, DeleteSession, PinSession, RenameSession
from bridle.protocol.connection import Connection
from bridle.protocol.queries import DescribeSession, ListSessions


async def listed_sessions(connection: Connection, env: Mapping[str, str], here: str) -> tuple[Listed, ...]:
    """Every session somebody has said something in, the one used last first, for somebody in the folder `here`."""
    here, now_ms, home = real_folder(here), time.time_ns() // 1_000_000, env.get("HOME", "")
    found = (await connection.ask(ListSessions())).sessions
    return tuple(listed(one, now_ms=now_ms, here=here, home=home) for one in found)


async def do_deed(connection: Connection, deed: Deed) -> None:
    """Does what a person wants done to a session of the list. Raises `BridleError` when it cannot be."""
    match deed.what:
        case "fork":
            await connection.send(BranchSession(session=deed.id))
        case "pin":
            pinned = (await connection.ask(DescribeSession(session=deed.id))).session.pinned
            await connection.send(PinSession(session=deed.id, pinned=not pinned))
        case "rename":
            await connection.send(RenameSession(session=deed.id, title=deed.title))
        case "delete":
            await connection.send(DeleteSession(session=deed.id))
