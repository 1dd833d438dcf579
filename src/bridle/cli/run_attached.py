"""`bridle run` as a client of an engine that runs already."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from bridle.cli.console import tell
from bridle.cli.engine_attach import connect_to_engine, local_providers, why_in_process
from bridle.cli.run import run_on
from bridle.clients.print import Printer, RunInput
from bridle.clients.remote import RemoteConnection
from bridle.protocol.commands import Accepted, AnyCommand, CreateSession, EndSession
from bridle.protocol.errors import BridleError
from bridle.protocol.queries import DescribeSession

if TYPE_CHECKING:
    from bridle.cli.run_at_terminal import RunAtTerminal


async def run_attached(
    parsed: argparse.Namespace,
    printer: Printer,
    create: CreateSession,
    content: RunInput,
    env: Mapping[str, str],
    at_terminal: RunAtTerminal | None,
) -> bool:
    """Runs it there; False where it cannot, or nobody answers, and it has to run here."""
    say = tell if at_terminal is None else at_terminal.tell
    if (
        why := why_in_process(parsed, env, create, content if isinstance(content, tuple) else ())
    ) is not None:
        if parsed.verbose:
            say(f"runs in this process: {why}")
        return False
    answers = at_terminal is not None and at_terminal.asks
    connection = await connect_to_engine(env, name="print", answers=answers)
    if connection is None:
        return False
    local = await local_providers(connection, create)
    printer.is_local = local.__contains__
    run = _RunConnection(connection)
    await run_on(run, printer, create, content, timeout_s=parsed.timeout, at_terminal=at_terminal)
    return True


class _RunConnection:
    """The connection of one run: its session ends with it, as it does in a process of its own, unless somebody else is
    in it."""

    def __init__(self, connection: RemoteConnection) -> None:
        self._connection = connection
        self._session: str | None = None
        self.client = connection.client
        self.hello = connection.hello
        self.ask = connection.ask
        self.events = connection.events

    async def send(self, command: AnyCommand) -> Accepted:
        accepted = await self._connection.send(command)
        if isinstance(command, CreateSession):
            self._session = accepted.session
        return accepted

    async def close(self) -> None:
        with suppress(BridleError):
            if self._session is not None and await self._is_alone(self._session):
                await self._connection.send(EndSession(session=self._session))
        await self._connection.close()

    async def _is_alone(self, session: str) -> bool:
        described = await self._connection.ask(DescribeSession(session=session))
        return all(one.id == self.client for one in described.clients)
