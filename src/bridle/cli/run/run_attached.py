"""`bridle run` through a listening engine, or with questions at a terminal."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from bridle.base.clock import SystemClock
from bridle.cli.console import safe, tell
from bridle.cli.engine_attach import connect_to_engine, tell_link, why_in_process, why_untold
from bridle.cli.terminal_look import terminal_look
from bridle.clients.line.run_terminal import RunTerminal
from bridle.clients.line.terminal import Terminal
from bridle.clients.print import RunInput
from bridle.clients.remote import RemoteConnection
from bridle.protocol.commands import Accepted, AnyCommand, CreateSession, EndSession
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError
from bridle.protocol.events import Envelope
from bridle.protocol.handshake import Handshake
from bridle.protocol.queries import DescribeSession

if TYPE_CHECKING:
    from bridle.protocol.queries import A, Query


class RunAtTerminal:
    """`page` is the terminal; `asks` whether they can be asked, `renders` whether they read the answer there."""

    def __init__(
        self, parsed: argparse.Namespace, env: Mapping[str, str], *, asks: bool, renders: bool
    ) -> None:
        stream = sys.stdout if renders else sys.stderr
        terminal = Terminal(
            input_fd=sys.stdin.fileno(),
            output_fd=stream.fileno(),
            look=terminal_look(parsed, env),
            put=stream.buffer.write,
        )
        self.asks = asks
        self.renders = renders
        self.page = RunTerminal(terminal, SystemClock(), asks=asks, home=env.get("HOME", ""))
        self._tells_on_page = sys.stderr.isatty()

    def tell(self, line: str) -> None:
        """One line of the story: on stderr, unless it would come in the middle of what is drawn on that terminal."""
        if self._tells_on_page and self.page.is_open:
            self.page.say(f"bridle: {safe(line)}")
        else:
            tell(line)


LEAVE_S = 3.0
"""So long a run takes leave of its engine: one that was ended meanwhile does not come back for that."""


async def connection_of_run(
    parsed: argparse.Namespace,
    create: CreateSession,
    content: RunInput,
    env: Mapping[str, str],
    at_terminal: RunAtTerminal | None,
) -> Connection | None:
    """The engine to run it in; None where it cannot, or nobody answers, and it has to run here."""
    say = tell if at_terminal is None else at_terminal.tell
    blocks = content if isinstance(content, tuple) else ()
    if (why := why_in_process(parsed, env, create) or why_untold(create, blocks)) is not None:
        if parsed.verbose:
            say(f"runs in this process: {why}")
        return None
    answers = at_terminal is not None and at_terminal.asks
    connection = await connect_to_engine(env, name="print", answers=answers)
    if connection is None:
        return None
    connection.link.hear = tell_link(say)
    return _RunConnection(connection)


class _RunConnection:
    """The connection of one run: its session ends with it, as it does in a process of its own, unless somebody else is
    in it."""

    def __init__(self, connection: RemoteConnection) -> None:
        self._connection = connection
        self._session: str | None = None

    @property
    def client(self) -> str:
        return self._connection.client

    @property
    def hello(self) -> Handshake:
        return self._connection.hello

    async def ask(self, query: Query[A]) -> A:
        return await self._connection.ask(query)

    def events(self, session: str, *, since: int = 0) -> AsyncIterator[Envelope]:
        return self._connection.events(session, since=since)

    async def send(self, command: AnyCommand) -> Accepted:
        accepted = await self._connection.send(command)
        if isinstance(command, CreateSession):
            self._session = accepted.session
        return accepted

    async def close(self) -> None:
        if self._session is not None and self._connection.is_up:
            leaving = asyncio.ensure_future(self._end(self._session))
            self._connection.link.at_break = leaving.cancel  # nobody comes back to take leave
            await asyncio.wait((leaving,), timeout=LEAVE_S)
            leaving.cancel()
        await self._connection.close()

    async def _end(self, session: str) -> None:
        with suppress(BridleError):
            if await self._is_alone(session):
                await self._connection.send(EndSession(session=session))

    async def _is_alone(self, session: str) -> bool:
        described = await self._connection.ask(DescribeSession(session=session))
        return all(one.id == self.client for one in described.clients)
