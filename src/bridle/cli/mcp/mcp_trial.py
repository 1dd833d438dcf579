"""`bridle mcp test` and `approve`: start or reach one server, report what it offers, and pin it."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from bridle.app.features.mcp_feature import stored_tokens
from bridle.app.features.server_trust import ServerPlace, ServerValues, pin_question, project_server_item
from bridle.app.user.settings import session_settings
from bridle.app.user.stored_keys import StoredKeys
from bridle.base.clock import Clock, SystemClock
from bridle.base.net.http import HttpConnections
from bridle.base.process.processes import Processes
from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible_line
from bridle.cli.console import say, say_json, say_lines, tell
from bridle.cli.mcp.mcp_servers import FolderServers, ServerRow, folder_servers
from bridle.cli.policy.sandbox_actions import SandboxContext, until_stopped
from bridle.cli.policy.trust import review, typed_line
from bridle.cli.stdin import refuse_tool_calls
from bridle.cli.verbs.rows import Args, Env
from bridle.config.folders import home_of
from bridle.mcp.input_requests import NOBODY, default_reply
from bridle.mcp.pin_gate import PinGate, PinReview
from bridle.mcp.presented_tools import used_tools
from bridle.mcp.sampling_requests import SampleReply, SampleRequest
from bridle.mcp.server_definitions import BadReference, ServerDefinition, filled_launch
from bridle.mcp.server_pins import PinStore
from bridle.mcp.server_run import LaunchPlace
from bridle.mcp.shared_server import ServerPool, ServerUnavailable, ServerUser, SharedServer
from bridle.protocol.commands import SessionOptions
from bridle.protocol.errors import BridleError, CommandRefused, UsageError
from bridle.sandbox.plain_spawn import allowed_environment
from bridle.sandbox.session_border import claimed_spawn, machine_spawn, records_of

if TYPE_CHECKING:
    from bridle.mcp.input_requests import InputReply, InputRequest
    from bridle.mcp.server_connection import ServerConnection
    from bridle.protocol.events import Degraded, Notice

EXIT_FAILED = 1
EXIT_CREDENTIALS = 4
PREPARING_S = 60.0
"""What the sandbox and our own packages may take: that is not the time of the server, which has its own limit."""


class Trial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How it went. `problem` says why it cannot be used, as the end of a sentence; empty where it can.

    `protocol` is the revision it speaks, `calls_itself` its own name and version. `tools` have the names the model
    knows. `left_out` are tools that cannot be used, each with why; `held_back` those that wait for a person's word, and
    `unpinned` what of it can be other code the next time; `garbage` counts lines that were no message. `called` is the
    tool that was tried, `result` what it answered. `needs_sign_in`: only that is missing.
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
    held_back: tuple[str, ...] = ()
    unpinned: str = ""
    garbage: int = 0
    log: str = ""
    called: str = ""
    result: str = ""
    needs_sign_in: bool = False
    needs_approval: bool = False


class TrialCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that is tried. `takes_defaults`: forms are answered with what they say themselves; else nobody is there
    to answer."""

    tool: str
    arguments: dict[str, Any] = {}
    takes_defaults: bool = False


def mcp_test(parsed: Args, env: Env) -> int:
    here = folder_servers(parsed, env)
    row = here.row(parsed.name, env)
    if row.state != "used":
        return _report(Trial(name=row.name, ok=False, problem=_why_not(row)), as_json=parsed.json)
    found = tried_server(parsed, here, row, env, call=_wanted_call(parsed))
    return found if isinstance(found, int) else _report(found, as_json=parsed.json)


def tried_server(
    parsed: Args,
    here: FolderServers,
    row: ServerRow,
    env: Env,
    call: TrialCall | None = None,
) -> Trial | int:
    """How it went, or the exit code of a signal."""
    definition, context = _server_here(parsed, here, row, env)
    found = try_server(definition, context, env, call)
    return found if isinstance(found, int) else msgspec.structs.replace(found.trial, log=row.log)


def _server_here(
    parsed: Args, here: FolderServers, row: ServerRow, env: Env
) -> tuple[ServerDefinition, SandboxContext]:
    """A server that is used here, and what would confine it."""
    options = SessionOptions(config_file=parsed.config, sets=tuple(parsed.set))
    settings = session_settings(options, where=here.where, cwd=here.cwd, env=env, profile=parsed.profile)
    definition = next(one for one in settings.servers.definitions if one.name == row.name)
    return definition, SandboxContext(here.cwd, here.where, allowed_environment(env), settings)


class TrialRun(NamedTuple):
    """A trial, and what of the server's tools waits for a person."""

    trial: Trial
    tools_review: PinReview | None


def try_server(
    definition: ServerDefinition,
    context: SandboxContext,
    env: Env,
    call: TrialCall | None = None,
) -> TrialRun | int:
    """Starts or reaches a server as a session would; the exit code of a signal where one came."""
    return asyncio.run(until_stopped(_tried(definition, context, env, call)))


def _wanted_call(parsed: Args) -> TrialCall | None:
    if parsed.call is None:
        if parsed.arguments is not None or parsed.defaults:
            raise UsageError("--arguments and --defaults go with --call TOOL")
        return None
    try:
        arguments = msgspec.json.decode(parsed.arguments or "{}", type=dict[str, Any])
    except msgspec.DecodeError:
        raise UsageError('--arguments is not a JSON object, such as \'{"path": "."}\'') from None
    return TrialCall(tool=parsed.call, arguments=arguments, takes_defaults=parsed.defaults)


def _why_not(row: ServerRow) -> str:
    return "it is disabled" if row.state == "disabled" else row.why


async def _tried(
    definition: ServerDefinition, context: SandboxContext, env: Env, call: TrialCall | None
) -> TrialRun:
    where, policy = context.where, context.policy
    processes = Processes(adopts_orphans=True, records=records_of(where))
    machine = machine_spawn(processes, where=where, home=home_of(env), env=env)
    clock = SystemClock()
    pool = ServerPool(where.state, clock)
    stored = stored_keys(context, env)
    connections = functools.cache(lambda: _connections(env, clock))
    place = LaunchPlace(
        spawn=machine if policy.mode == "off" else claimed_spawn(machine, "", _warn),
        policy=policy,
        cwd=context.cwd,
        env=context.env,
        roots=(context.cwd,),
        tokens=stored_tokens(stored, connections),
        values=ServerValues(context.env, env, stored),
    )
    try:
        server = pool.server(definition, place)
        watcher = _FirstTrouble()
        pool.use((server,), watcher)
        trial = await _asked(server, watcher, call)
        return TrialRun(trial, server.pins.tools_review)
    finally:
        await pool.close()
        if connections.cache_info().currsize:
            await connections().close()
        await processes.close()
        machine.close()


def stored_keys(context: SandboxContext, env: Env) -> StoredKeys:
    """What people stored, for sign-ins at servers and for values of their references."""
    back_end = context.settings.credentials.store
    return StoredKeys(where=context.where, env=env, clock=SystemClock(), notice=tell, back_end=back_end)


def _connections(env: Env, clock: Clock) -> HttpConnections:
    return HttpConnections(env=env, clock=clock)


class _FirstTrouble:
    """Hears of the first time that the server is not there: a session would go on trying, a person waits here."""

    def __init__(self) -> None:
        self.problem: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def server_made(self, server: SharedServer, notice: Notice) -> None:
        """The call that is tried hears of it."""

    def server_changed(self, server: SharedServer) -> None:
        state = server.state()
        if state.phase in ("down", "given up", "changed", "needs sign-in") and not self.problem.done():
            self.problem.set_result(state.problem)


async def _asked(server: SharedServer, watcher: _FirstTrouble, call: TrialCall | None) -> Trial:
    definition = server.definition
    connecting = asyncio.ensure_future(_offer(server, watcher, call))
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


async def _offer(server: SharedServer, watcher: _FirstTrouble, call: TrialCall | None) -> Trial:
    """What it offers, and what the tool said that is tried. Raises `ServerUnavailable` and `TimeoutError`."""
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
    found = Trial(
        name=definition.name,
        ok=True,
        protocol=offer.protocol,
        calls_itself=calls_itself,
        tools=tuple(used_tools(definition, offer)),
        resources=tuple(one.uri for one in resources),
        prompts=tuple(one.name for one in offer.prompts),
        left_out=offer.left_out,
        held_back=server.state().held_back,
        unpinned=server.state().unpinned,
        garbage=server.state().garbage,
    )
    return found if call is None else await _called(server, connection, watcher, call, found)


async def _called(
    server: SharedServer, connection: ServerConnection, user: ServerUser, call: TrialCall, found: Trial
) -> Trial:
    from bridle.mcp.server_connection import ConnectionLost, ServerRefused

    assert server.offer is not None, "it is connected"
    known = used_tools(server.definition, server.offer)
    listed = known.get(call.tool) or next((one for one in known.values() if one.name == call.tool), None)
    if listed is None:
        raise ServerUnavailable(f"it has no tool {call.tool}; it has: {', '.join(found.tools) or 'none'}")
    active = _TriedCall(user, call)
    try:
        await server.started_call(active)
        async with asyncio.timeout(server.definition.call_s):
            result = await connection.call(listed.name, call.arguments, _unheard)
    except TimeoutError:
        raise ServerUnavailable(f"{listed.name} took longer than {server.definition.call_s:g} s") from None
    except (ConnectionLost, ServerRefused) as problem:
        raise ServerUnavailable(server.sign_in_problem or f"{listed.name} failed: {problem}") from None
    finally:
        await server.ended_call(active)
    return msgspec.structs.replace(
        found,
        ok=not result.failed,
        problem=f"{listed.name} failed: {result.text()}" if result.failed else "",
        called=listed.name,
        result="\n".join((result.text(), *active.said)),
    )


def _unheard(_done: float, _total: float | None, _words: str) -> None:
    """Nobody watches a trial."""


class _TriedCall:
    """A call that nobody watches."""

    def __init__(self, user: ServerUser, call: TrialCall) -> None:
        self.user = user
        self.said: list[str] = []
        self._takes_defaults = call.takes_defaults

    def hear_put_aside(self, notice: Notice) -> None:
        self.said.append(f"[sandbox: {notice.message}]")

    async def answer_input(self, request: InputRequest) -> InputReply:
        return default_reply(request) if self._takes_defaults else NOBODY

    async def answer_sample(self, request: SampleRequest) -> SampleReply:
        return SampleReply(refusal="a trial has no model")


def _failed(server: SharedServer, problem: str) -> Trial:
    return Trial(
        name=server.definition.name,
        ok=False,
        problem=problem,
        garbage=server.state().garbage,
        needs_sign_in=bool(server.sign_in_problem),
        needs_approval=server.state().phase == "changed",
    )


def _warn(degraded: Degraded) -> None:
    tell(visible_line(degraded.message))


def _report(trial: Trial, *, as_json: bool) -> int:
    if as_json:
        return say_json(trial) or _code(trial)
    if trial.ok:
        return say_lines(_lines(trial))
    if trial.needs_approval:
        log = f". Look at it and agree: bridle mcp approve {trial.name}"
    else:
        log = f". Its log: {trial.log}" if trial.log and not trial.needs_sign_in else ""
    how = "" if trial.needs_sign_in else " cannot be used:"
    tell(visible_line(f'MCP server "{trial.name}"{how} {trial.problem}{log}'))
    return _code(trial)


def _code(trial: Trial) -> int:
    return EXIT_CREDENTIALS if trial.needs_sign_in else 0 if trial.ok else EXIT_FAILED


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
        ("waits", trial.held_back),
    ):
        if names or label == "tools":
            yield f"  {label:<10}  {len(names)}{': ' if names else ''}{', '.join(names)}"
    if trial.unpinned:
        yield f"  pins        {trial.unpinned}"
    if trial.garbage:
        yield f"  garbage     {counted(trial.garbage, 'line')} that were no message"
    if trial.called:
        yield f"  called      {trial.called}: {trial.result}"
    yield f"  log         {trial.log}"


EXIT_NOT_APPROVED = 3


def mcp_approve(parsed: Args, env: Env) -> int:
    here = folder_servers(parsed, env)
    row = here.row(parsed.name, env)
    refuse_tool_calls(here.where)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandRefused("MCPApprovalNeedsPerson", name=visible_line(row.name))
    if row.state != "used":
        raise UsageError(f'MCP server "{row.name}" is not used here: {row.why or row.state}')
    definition, context = _server_here(parsed, here, row, env)
    gate = PinGate(
        definition,
        cwd=here.cwd,
        env={**context.env, **context.policy.variables},
        store=PinStore(here.where.state, SystemClock()),
    )
    gate.launched = asyncio.run(launched_server(definition, env, stored_keys(context, env)))
    launch = gate.launch_shown()
    if launch is not None:
        if not _agrees(launch):
            return say("Not approved.\n") or EXIT_NOT_APPROVED
        _keep(gate, launch)
        if definition.of_project and definition.transport == "stdio":
            _trust(here, definition, context.settings.servers.tables[definition.name], env)
    return _approve_tools(definition, context, gate, env)


async def launched_server(definition: ServerDefinition, env: Env, stored: StoredKeys) -> ServerDefinition:
    """The server as a session would start or reach it, with its values filled in. Raises `UsageError`."""
    try:
        values = ServerValues(allowed_environment(env), env, stored)
        return (await filled_launch(definition, values)).definition
    except BadReference as missing:
        raise UsageError(f'MCP server "{visible_line(definition.name)}": {missing}') from None


def _approve_tools(definition: ServerDefinition, context: SandboxContext, gate: PinGate, env: Env) -> int:
    """What it says of its tools is known once it runs, which it may now."""
    name = visible_line(definition.name)
    run = try_server(definition, context, env)
    if isinstance(run, int):
        return run
    if not run.trial.ok:
        tell(f'MCP server "{name}" may be started, and cannot be used: {visible_line(run.trial.problem)}')
        return EXIT_FAILED
    if run.tools_review is not None:
        if not _agrees(run.tools_review):
            which = visible_line(run.tools_review.data["problem"])
            return say(f"{name} may be started. Not approved: {which}\n") or EXIT_NOT_APPROVED
        gate.check_launch()  # the place of its pins is that of what it launches
        _keep(gate, run.tools_review)
    return say(f"{name} is pinned as it is now.\n")


def _agrees(shown: PinReview) -> bool:
    try:
        return review(pin_question(shown, SystemClock().now_ms()), typed_line)
    except EOFError:
        say("\n")
        return False


def _keep(gate: PinGate, shown: PinReview) -> None:
    try:
        if shown.launch is not None:
            gate.agree_launch(shown)
        else:
            gate.agree_tools(shown)
    except OSError as problem:
        path = problem.filename or "the pins"
        raise BridleError("TrustUnwritable", path=path, problem=problem.strerror or str(problem)) from None


def _trust(here: FolderServers, definition: ServerDefinition, table: Mapping[str, object], env: Env) -> None:
    place = ServerPlace(cwd=here.cwd, env=env)
    project_server_item(definition.name, table, place).approve(here.approvals)
