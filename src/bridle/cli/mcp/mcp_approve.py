"""`bridle mcp approve`: review a server's program and tools, and pin them."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping

from bridle.app.features.server_trust import ServerPlace, ServerValues, pin_question, project_server_item
from bridle.app.user.settings import SessionOptions, session_settings
from bridle.base.clock import SystemClock
from bridle.base.process.escapees import recording_processes
from bridle.base.process.peer_process import comes_from_a_call
from bridle.base.text.terminal_text import visible
from bridle.cli.console import say, tell
from bridle.cli.mcp.mcp_servers import FolderServers, folder_servers
from bridle.cli.mcp.mcp_trial import EXIT_FAILED, stored_keys, try_server
from bridle.cli.policy.sandbox_context import SandboxContext
from bridle.cli.policy.trust import review, typed_line
from bridle.mcp.pin_gate import PinGate, PinReview
from bridle.mcp.server_definitions import ServerDefinition
from bridle.mcp.server_pins import PinStore
from bridle.mcp.value_references import BadReference, filled_launch
from bridle.protocol.errors import BridleError, CommandRefused, UsageError
from bridle.sandbox.plain_spawn import allowed_environment
from bridle.sandbox.session_border import records_of

EXIT_NOT_APPROVED = 3


def mcp_approve(parsed: argparse.Namespace, env: Mapping[str, str]) -> int:
    here = folder_servers(parsed, env)
    row = here.row(parsed.name, env)
    if comes_from_a_call(os.getpid(), recording_processes(records_of(here.where))):
        raise CommandRefused("NotAClient")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandRefused("MCPApprovalNeedsPerson", name=visible(row.name, newlines=False))
    if row.state != "used":
        raise UsageError(f'MCP server "{row.name}" is not used here: {row.why or row.state}')
    options = SessionOptions(config_file=parsed.config, profile=parsed.profile, sets=tuple(parsed.set))
    settings = session_settings(options, where=here.where, cwd=here.cwd, env=env)
    definition = next(one for one in settings.servers.definitions if one.name == row.name)
    context = SandboxContext(here.cwd, here.where, allowed_environment(env), settings)
    gate = PinGate(
        definition,
        cwd=here.cwd,
        env={**context.env, **context.policy.variables},
        store=PinStore(here.where.state, SystemClock()),
    )
    gate.launched = asyncio.run(_launched(definition, context, env))
    launch = gate.launch_shown()
    if launch is not None:
        if not _agrees(launch):
            return say("Not approved.\n") or EXIT_NOT_APPROVED
        _keep(gate, launch)
        if definition.of_project and definition.transport == "stdio":
            _trust(here, definition, settings.servers.tables[definition.name], env)
    return _approve_tools(definition, context, gate, env)


async def _launched(
    definition: ServerDefinition, context: SandboxContext, env: Mapping[str, str]
) -> ServerDefinition:
    """The server as a session would start it: what its values lead to is what is agreed to. Raises `UsageError`."""
    values = ServerValues(context.env, env, stored_keys(context, env))
    try:
        return (await filled_launch(definition, values)).definition
    except BadReference as missing:
        raise UsageError(f'MCP server "{visible(definition.name, newlines=False)}": {missing}') from None


def _approve_tools(
    definition: ServerDefinition, context: SandboxContext, gate: PinGate, env: Mapping[str, str]
) -> int:
    """What it says of its tools is known once it runs, which it may now."""
    name = visible(definition.name, newlines=False)
    run = try_server(definition, context, env)
    if isinstance(run, int):
        return run
    if not run.trial.ok:
        tell(
            f'MCP server "{name}" may be started, and cannot be used: {visible(run.trial.problem, newlines=False)}'
        )
        return EXIT_FAILED
    if run.tools_review is not None:
        if not _agrees(run.tools_review):
            which = visible(run.tools_review.data["problem"], newlines=False)
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


def _trust(
    here: FolderServers, definition: ServerDefinition, table: Mapping[str, object], env: Mapping[str, str]
) -> None:
    place = ServerPlace(cwd=here.cwd, env=env)
    project_server_item(definition.name, table, place).approve(here.approvals)
