"""`bridle mcp test`: one MCP server started or reached as a session would, and what it offers or what went wrong."""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from bridle.app.settings import SessionOptions, session_settings
from bridle.base.clock import SystemClock
from bridle.base.phrases import counted
from bridle.base.processes import Processes
from bridle.base.visible import visible
from bridle.cli.console import say, say_json, tell
from bridle.cli.mcp_servers import ServerRow, folder_servers
from bridle.cli.sandbox_context import SandboxContext
from bridle.config.folders import home_of
from bridle.mcp.presented_tools import used_tools
from bridle.mcp.server_definitions import ServerDefinition
from bridle.mcp.shared_server import LaunchPlace, ServerPool, ServerUnavailable, SharedServer
from bridle.sandbox.plain_spawn import allowed_environment
from bridle.sandbox.session_border import claimed_spawn, machine_spawn, records_of

if TYPE_CHECKING:
    from bridle.protocol.events import Degraded

EXIT_FAILED = 1
PREPARING_S = 60.0
"""What the sandbox and our own packages may take: that is not the time of the server, which has its own limit."""
_STOPPING = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


class Trial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How it went. `problem` says why it cannot be used, as the end of a sentence; empty where it can.

    `protocol` is the revision it speaks, `calls_itself` its own name and version. `tools` have the names the model
    knows. `left_out` are tools that cannot be used, each with why; `garbage` counts lines that were no message.
    """

    name: str
    ok: bool
    problem: str = ""
    protocol: str = ""
    calls_itself: str = ""
    tools: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    garbage: int = 0
    log: str = ""


def mcp_test(parsed: argparse.Namespace, env: Mapping[str, str]) -> int:
    here = folder_servers(parsed, env)
    row = here.row(parsed.name, env)
    if row.state != "used":
        return _report(Trial(name=row.name, ok=False, problem=_why_not(row)), as_json=parsed.json)
    options = SessionOptions(config_file=parsed.config, profile=parsed.profile, sets=tuple(parsed.set))
    settings = session_settings(options, where=here.where, cwd=here.cwd, env=env)
    definition = next(one for one in settings.servers.definitions if one.name == row.name)
    context = SandboxContext(here.cwd, here.where, allowed_environment(env), settings)
    found = asyncio.run(_unless_stopped(definition, context, env))
    if isinstance(found, int):
        return found
    return _report(msgspec.structs.replace(found, log=row.log), as_json=parsed.json)


def _why_not(row: ServerRow) -> str:
    return "it is disabled" if row.state == "disabled" else row.why


async def _unless_stopped(
    definition: ServerDefinition, context: SandboxContext, env: Mapping[str, str]
) -> Trial | int:
    """How it went, or the exit code of a signal. Either way nothing is left running."""
    loop, codes = asyncio.get_running_loop(), list[int]()
    trying = asyncio.ensure_future(_tried(definition, context, env))

    def interrupt(code: int) -> None:
        codes.append(code)
        trying.cancel()

    for number, code in _STOPPING.items():
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, interrupt, code)
    try:
        return await trying
    except asyncio.CancelledError:
        if not codes:
            raise
        return codes[0]


async def _tried(definition: ServerDefinition, context: SandboxContext, env: Mapping[str, str]) -> Trial:
    where, policy = context.where, context.policy
    processes = Processes(adopts_orphans=True, records=records_of(where))
    machine = machine_spawn(processes, where=where, home=home_of(env), env=env)
    pool = ServerPool(where.state, SystemClock())
    place = LaunchPlace(
        spawn=machine if policy.mode == "off" else claimed_spawn(machine, "", _warn),
        policy=policy,
        cwd=context.cwd,
        env=context.env,
        roots=(context.cwd,),
    )
    try:
        server = pool.server(definition, place)
        watcher = _FirstTrouble()
        pool.use((server,), watcher)
        return await _asked(server, watcher)
    finally:
        await pool.close()
        await processes.close()
        machine.close()


class _FirstTrouble:
    """Hears of the first time that the server is not there: a session would go on trying, a person waits here."""

    def __init__(self) -> None:
        self.problem: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def server_changed(self, server: SharedServer) -> None:
        state = server.state()
        if state.phase in ("down", "given up") and not self.problem.done():
            self.problem.set_result(state.problem)


async def _asked(server: SharedServer, watcher: _FirstTrouble) -> Trial:
    definition = server.definition
    connecting = asyncio.ensure_future(_offer(server))
    try:
        await asyncio.wait((connecting, watcher.problem), return_when=asyncio.FIRST_COMPLETED)
        if watcher.problem.done():
            return _failed(server, watcher.problem.result())
        return connecting.result()
    except TimeoutError:
        return _failed(server, f"what it has to read was not listed within {definition.call_s:g} s")
    except ServerUnavailable as problem:
        return _failed(server, str(problem))
    finally:
        connecting.cancel()
        await asyncio.gather(connecting, return_exceptions=True)


async def _offer(server: SharedServer) -> Trial:
    """What it offers. Raises `ServerUnavailable` and `TimeoutError`."""
    definition = server.definition
    connection = await server.connected(definition.connect_s + PREPARING_S)
    from bridle.mcp.server_connection import ConnectionLost, ServerRefused

    offer, calls_itself = server.offer, connection.calls_itself
    assert offer is not None, "it is connected"
    try:
        async with asyncio.timeout(definition.call_s):
            resources = await connection.resources() if offer.resources else ()
    except (ConnectionLost, ServerRefused) as problem:
        raise ServerUnavailable(f"what it has to read could not be listed: {problem}") from None
    return Trial(
        name=definition.name,
        ok=True,
        protocol=offer.protocol,
        calls_itself=calls_itself,
        tools=tuple(used_tools(definition, offer)),
        resources=tuple(one.uri for one in resources),
        prompts=tuple(one.name for one in offer.prompts),
        left_out=offer.left_out,
        garbage=server.state().garbage,
    )


def _failed(server: SharedServer, problem: str) -> Trial:
    return Trial(name=server.definition.name, ok=False, problem=problem, garbage=server.state().garbage)


def _warn(degraded: Degraded) -> None:
    tell(visible(degraded.message, newlines=False))


def _report(trial: Trial, *, as_json: bool) -> int:
    if as_json:
        return say_json(trial) or (0 if trial.ok else EXIT_FAILED)
    if trial.ok:
        return say("\n".join(visible(line, newlines=False) for line in _lines(trial)) + "\n")
    log = f". Its log: {trial.log}" if trial.log else ""
    tell(visible(f'MCP server "{trial.name}" cannot be used: {trial.problem}{log}', newlines=False))
    return EXIT_FAILED


def _lines(trial: Trial) -> Iterator[str]:
    yield f"{trial.name} can be used"
    yield f"  speaks      {trial.protocol}"
    if trial.calls_itself:
        yield f"  says it is  {trial.calls_itself}"
    for label, names in (
        ("tools", trial.tools),
        ("resources", trial.resources),
        ("prompts", trial.prompts),
        ("left out", trial.left_out),
    ):
        if names or label == "tools":
            yield f"  {label:<10}  {len(names)}{': ' if names else ''}{', '.join(names)}"
    if trial.garbage:
        yield f"  garbage     {counted(trial.garbage, 'line')} that were no message"
    yield f"  log         {trial.log}"
