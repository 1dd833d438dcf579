"""Clients of a running engine at a terminal: find it, decide whether a run can use it, and connect.

Loaded where a socket was found or a terminal is used.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress

import msgspec

from bridle._version import __version__
from bridle.app.user.setting_sections import load
from bridle.base.clock import SystemClock
from bridle.base.net.engine_place import EnginePlace
from bridle.cli.console import safe, tell
from bridle.cli.verbs.rows import Args, Env
from bridle.clients.engine_address import LOST
from bridle.clients.line.run_terminal import RunTerminal
from bridle.clients.line.terminal import Look, Terminal, look_of
from bridle.clients.print import RunInput
from bridle.clients.remote import MOST_BYTES, RemoteConnection, connect_remote, place_opener
from bridle.config.folders import folders
from bridle.protocol.commands import Accepted, AnyCommand, CreateSession, EndSession
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError
from bridle.protocol.events import Envelope
from bridle.protocol.handshake import Handshake
from bridle.protocol.messages import InputBlock
from bridle.protocol.queries import A, DescribeSession, Query
from bridle.providers import DEMO
from bridle.providers.presets import with_keys


def terminal_look(parsed: Args, env: Env) -> Look:
    """`--plain` and `--no-color` go before the environment."""
    env = {**env, "NO_COLOR": "1"} if parsed.no_color else env
    return look_of(_as_given(env), terminal=True, plain=parsed.plain)


def _as_given(env: Env) -> Mapping[str, str]:
    """The environment without the LC_CTYPE that Python sets for itself where the locale is C (PEP 538)."""
    if sys.flags.utf8_mode and env.get("LC_CTYPE") in ("C.UTF-8", "C.utf8", "UTF-8"):
        return {name: value for name, value in env.items() if name != "LC_CTYPE"}
    return env


ROOM_BESIDE = 4096
"""What a frame needs beside the input it carries."""
_SAID_ELSEWHERE = frozenset(
    {
        "BRIDLE_HOME",
        "BRIDLE_NO_ATTACH",
        "BRIDLE_URL",
        "BRIDLE_TOKEN_FILE",
        "BRIDLE_PLAIN",
        "BRIDLE_HUB_TASK",
        "BRIDLE_HUB_RUN",
        "BRIDLE_HUB_AGENT",
    }
)
"""Variables of ours that change nothing about a session."""


def why_in_process(parsed: Args, env: Env, create: CreateSession) -> str | None:
    """Why this has to run here although an engine listens; None where it can travel, as far as its input does."""
    note = EnginePlace(folders(env).runtime).found()
    if note is None:
        return "no engine left a note beside its socket"
    if note.version != __version__:
        return f"the engine is Bridle {note.version}"
    if note.data != folders(env).data:
        return "the engine has another home"
    if not note.stays:
        return "the engine ends with the program that started it"
    elsewhere = _SAID_ELSEWHERE | ({"BRIDLE_LOG"} if parsed.verbose else set[str]())
    own = sorted(name for name in env if name.startswith("BRIDLE_") and env[name] and name not in elsewhere)
    if own:
        return f"{own[0]} is set here and not in the engine"
    if parsed.env_file or parsed.log_level or parsed.log_to_stderr:
        return "its environment and its log are of this process"
    provider = (create.model or "").partition(":")[0]
    if provider != DEMO and _keys_here(env, create.cwd, provider):
        return "a key is in this environment"
    return None


def why_untold(create: CreateSession, content: tuple[InputBlock, ...] = ()) -> str | None:
    """Why an engine elsewhere cannot be told of this; None where it can."""
    try:
        length = len(msgspec.json.encode((create, content)))
    except UnicodeEncodeError:
        return "the name of a folder or a file is no text"
    return "the input is too long for a frame" if length > MOST_BYTES - ROOM_BESIDE else None


def _keys_here(env: Env, cwd: str, provider: str) -> bool:
    """Whether the environment has the key of this provider, or of any where nobody says which it will be."""
    tiers = load(where=folders(env), cwd=cwd, env=env).checked()
    configured: Mapping[str, Mapping[str, str]] = tiers.get("providers") or {}
    names = {known.name for known in with_keys(env)}
    names.update(name for name, one in configured.items() if env.get(one.get("key_env", "")))
    return provider in names if provider else bool(names)


async def connect_to_engine(env: Env, *, name: str, answers: bool) -> RemoteConnection | None:
    """A client of the engine of this person; None where none answers after all."""
    place = EnginePlace(folders(env).runtime)
    try:
        return await connect_remote(place_opener(place), address=place.socket, name=name, answers=answers)
    except BridleError:
        return None


def tell_link(say: Callable[[str], None]) -> Callable[[float | None], None]:
    """What hears of an engine that is lost, or found again, where lines are said one after the other."""

    def hear(gives_up_s: float | None) -> None:
        say("engine found again" if gives_up_s is None else f"{LOST}, gives up in {gives_up_s:.0f} s")

    return hear


class RunAtTerminal:
    """`page` is the terminal; `asks` whether they can be asked, `renders` whether they read the answer there."""

    def __init__(self, parsed: Args, env: Env, *, asks: bool, renders: bool) -> None:
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
    parsed: Args,
    create: CreateSession,
    content: RunInput,
    env: Env,
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
