"""`bridle mcp serve`: Bridle as an MCP server over stdin and stdout, and the programs that may use it.

The token comes from the environment and from nowhere else. A program that was not allowed yet may list what there is;
its first call waits for the user, in a terminal of their own (`parents`, `allow` and `forget`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from bridle._version import __version__
from bridle.app.engine import running_engine
from bridle.app.service.serving import shared_engine
from bridle.app.user.parent_register import KnownParent, ParentRegister
from bridle.app.user.setting_sections import McpServerSettings
from bridle.base.clock import SystemClock, iso_ms
from bridle.base.net.engine_place import EnginePlace
from bridle.base.process.installation import install_command
from bridle.base.process.peer_process import ParentProgram, descends_from, parent_program
from bridle.base.process.processes import CannotStart
from bridle.base.process.user_programs import start_detached
from bridle.base.text.terminal_text import visible_line
from bridle.cli.console import say, say_json, tell
from bridle.cli.option_values import user_settings
from bridle.cli.stdin import is_agreed, refuse_tool_calls, unlocked
from bridle.cli.verbs.rows import Args, Env
from bridle.clients.engine_address import unix_address
from bridle.clients.mcp_server.agent_door import AgentDoor, Tell
from bridle.clients.remote import connect_remote, engine_opener
from bridle.config.folders import Folders, folders
from bridle.control.code_surfaces import has_desktop, show_on_desktop, show_on_terminal
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError, CommandRefused, UsageError
from bridle.protocol.tokens import claims_said, for_agent, only_session

if TYPE_CHECKING:
    from bridle.clients.mcp_server.sdk_server import OuterAgent


def mcp_allow(parsed: Args, env: Env) -> int:
    where = folders(env)
    register = ParentRegister(where.config, SystemClock())
    if parsed.action == "parents":
        return _list(register.parents(), as_json=parsed.json)
    refuse_tool_calls(where)
    parent = register.find(parsed.id)
    if parsed.action == "forget":
        register.forget(parent)
        return say(f"Forgotten: {_shown_parent(parent)} has to ask again.\n")
    return _allow(register, parent, auto_attach=parsed.auto_attach)


def _allow(register: ParentRegister, parent: KnownParent, *, auto_attach: bool) -> int:
    """Asks the person, who sees what it is about; the program itself is not asked."""
    if not sys.stdin.isatty():
        raise CommandRefused("NoConfirmation")
    if descends_from(os.getpid(), parent.program.pid):
        raise CommandRefused("OwnParent", program=_shown_parent(parent))
    say(f"{_about(parent)}\nIt could run an agent with shell access here, within your own permissions.\n")
    if not is_agreed("Let it? y/N › "):
        say("Not allowed.\n")
        return 3
    if not auto_attach:
        auto_attach = is_agreed("Always show you its sessions (mcp_server.attach_command)? y/N › ")
    register.allow(parent, auto_attach=auto_attach)
    return say(f"Allowed: {_shown_parent(parent)}. Take it back: bridle mcp forget {parent.id}\n")


def _list(parents: tuple[KnownParent, ...], *, as_json: bool) -> int:
    if as_json:
        return say_json({"parents": [msgspec.to_builtins(one) for one in parents]})
    if not parents:
        return say("No program asked to use Bridle as a tool. How one does: bridle help mcp\n")
    return say("".join(f"{_about(one)}\n" for one in parents))


def _about(parent: KnownParent) -> str:
    program = parent.program
    lines = [
        f"{parent.id}  {parent.state} since {iso_ms(parent.since_ms)}  {_shown_parent(parent)}",
        f"  called {visible_line(program.word)}  sha256 {program.sha256 or 'not known'}",
    ]
    if program.script:
        lines.append(f"  runs {visible_line(program.script)}  sha256 {program.script_sha256}")
    if parent.auto_attach:
        lines.append("  its sessions are shown to you at once")
    return "\n".join(lines)


def _shown_parent(parent: KnownParent) -> str:
    return visible_line(parent.program.path or parent.program.name)


TOKEN_VARIABLE = "BRIDLE_TOKEN"  # noqa: S105  its name
WAIT_S = 300.0
"""So long a call waits for a person to let its program in; the next one waits again."""
LOOK_AGAIN_S = 0.5
LIFE_S = 400 * 24 * 3600


def mcp_serve(parsed: Args, env: Env) -> int:
    if sys.stdin.isatty():
        raise UsageError(
            "bridle mcp serve talks with a program, not with you. How to give it to one: bridle help mcp"
        )
    where = folders(env)
    refuse_tool_calls(where)
    token = env.get(TOKEN_VARIABLE, "")
    os.environ.pop(TOKEN_VARIABLE, None)  # nothing that is started from here inherits it
    rest = {name: value for name, value in env.items() if name != TOKEN_VARIABLE}
    return asyncio.run(_serve(_Door(parsed.cwd, token, rest, where), rest))


async def _serve(door: _Door, env: Env) -> int:
    try:
        from bridle.clients.mcp_server.sdk_server import first_answer, mcp_server
        from bridle.clients.mcp_server.stdio_streams import stdio_streams
    except ImportError:
        raise CommandRefused("ExtraMissing", what="Serving MCP", install=install_command("mcp")) from None
    tiers = user_settings(env)
    names = tiers.section("mcp_server", McpServerSettings).tool_names
    server = mcp_server(door.opened, if_open=door.if_open, names=names, hear_fault=door.hear_fault)
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    async with stdio_streams() as (read_stream, write_stream):
        serving = asyncio.ensure_future(server.run(read_stream, write_stream, first_answer(server)))
        stopped = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (serving, stopped):
                task.cancel()
            await asyncio.gather(serving, stopped, return_exceptions=True)
            await door.close()
    return 0


class _Door:
    """The door of the program that started us: made with its first call, once a person has let it in."""

    def __init__(self, folder: str, token: str, env: Env, where: Folders) -> None:
        self._folder = os.path.abspath(folder)
        self._token = token
        self._env = env
        self._where = where
        self._clock = SystemClock()
        self._opening = asyncio.Lock()
        self._made: AgentDoor | None = None
        self._over = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._note_fault: Callable[[BridleError], None] = lambda _fault: None

    def hear_fault(self, fault: BridleError) -> None:
        """A part of the engine in this process broke; one elsewhere writes its own log."""
        self._note_fault(fault)

    async def opened(self, agent: OuterAgent, tell_agent: Tell) -> AgentDoor:
        async with self._opening:
            if self._made is None:
                program = await asyncio.to_thread(parent_program)
                parent = await self._let_in(program, tell_agent)
                made: asyncio.Future[AgentDoor] = asyncio.get_running_loop().create_future()
                self._keeping = asyncio.ensure_future(self._keep(agent.name or program.name, parent, made))
                self._made = await made
            return self._made

    async def if_open(self, agent: OuterAgent) -> AgentDoor | None:
        """The same for one who only lists what there is: None while nobody has let this program in."""
        if self._made is not None:
            return self._made
        program = await asyncio.to_thread(parent_program)
        if ParentRegister(self._where.config, self._clock).ask(program).state != "allowed":
            return None
        return await self.opened(agent, lambda _line: None)

    async def close(self) -> None:
        self._over.set()
        if self._keeping is not None:
            await asyncio.gather(self._keeping, return_exceptions=True)

    async def _keep(self, name: str, parent: KnownParent, made: asyncio.Future[AgentDoor]) -> None:
        """Holds the connection from when it is made until the end: what is opened here is closed here."""
        try:
            async with AsyncExitStack() as stack:
                connection, bound, self._note_fault = await stack.enter_async_context(
                    _connection(name, self._token, self._env, self._where)
                )
                made.set_result(
                    AgentDoor(connection, folder=self._folder, bound=bound, hear=self._hearer(parent))
                )
                await self._over.wait()
        except Exception as problem:
            if made.done():
                raise
            made.set_exception(problem)

    # Who started us

    async def _let_in(self, program: ParentProgram, tell_agent: Tell) -> KnownParent:
        """Returns when a person has let this program in. Raises `ParentNotAllowed` where nobody does."""
        register = ParentRegister(self._where.config, self._clock)
        parent = register.ask(program)
        if parent.state == "allowed":
            return parent
        self._ask_person(parent)
        words = f"waits for a person: bridle mcp allow {parent.id}"
        tell_agent(words)
        tell(words)
        until = self._clock.monotonic() + WAIT_S
        while self._clock.monotonic() < until:
            await self._clock.sleep(LOOK_AGAIN_S)
            known = next((one for one in register.parents() if one.id == parent.id), None)
            if known is not None and known.state == "allowed":
                return known
        raise CommandRefused("ParentNotAllowed", program=_shown(program), id=parent.id)

    def _ask_person(self, parent: KnownParent) -> None:
        """Tells whoever is at this machine: on the terminal this was started from, and as a notice of the desktop."""
        text = (
            f"{_shown(parent.program)} wants to use Bridle as a tool: an agent with shell access. "
            f"If you want that, in another terminal: bridle mcp allow {parent.id}"
        )
        show_on_terminal(f"bridle: {text}")
        if has_desktop(self._env):
            show_on_desktop(text, self._env)

    def _hearer(self, parent: KnownParent) -> Callable[[str], None]:
        """Hears of each session that is begun: a person who always wants to see them is brought there."""

        def hear(session: str) -> None:
            if parent.auto_attach:
                open_for_person(session, self._env, self._where)

        return hear


def _shown(program: ParentProgram) -> str:
    return visible_line(program.path or program.name)[:200]


def open_for_person(session: str, env: Env, where: Folders) -> None:
    """Starts what the person's own settings say shows a session, such as a window of their terminal."""
    tiers = user_settings(env)
    words = tiers.section("mcp_server", McpServerSettings).attach_command
    if words:
        try:
            start_detached([word.replace("{session}", session) for word in words], env=env)
        except CannotStart as problem:
            tell(f"{words[0]} could not be started: {problem}")


@asynccontextmanager
async def _connection(
    name: str, token: str, env: Env, where: Folders
) -> AsyncGenerator[tuple[Connection, str, Callable[[BridleError], None]]]:
    """A client of the engine that goes on running, or else of one in this process, to which people can attach; the one
    session it is bound to, if its token names one; and what writes faults of an engine in this process to its log."""
    place = EnginePlace(where.runtime)
    note = place.found()
    if note is not None and note.stays and note.version == __version__ and note.data == where.data:
        opener = engine_opener(unix_address(place.socket), (lambda: token) if token else place.token)
        connection = await connect_remote(
            opener, address=place.socket, name=name, answers=False, as_agent=True
        )
        try:
            yield connection, only_session(claims_said(token)), lambda _fault: None
        finally:
            await connection.close()
        return
    async with (
        running_engine(unlocked(env, model=None), notice=tell, waits_for_room=True, listening=True) as engine,
        shared_engine(engine, where=where, clock=SystemClock(), notice=tell, stays=False),
    ):
        claims = for_agent(
            engine.access.tokens.start_with(token)
            if token
            else engine.access.tokens.new_claims(
                life_s=LIFE_S, identity_class="agent", sessions=(), opens=True
            )
        )
        connection = engine.connect(name=claims.name or name, claims=claims, answers=False)
        try:
            yield connection, only_session(claims), engine.access.note_fault
        finally:
            await connection.close()
