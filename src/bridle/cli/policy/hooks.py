"""`bridle hooks`: list hooks and try them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from bridle.app.sources.hook_feature import written_hook
from bridle.base.clock import SystemClock
from bridle.base.fs.files import repository_root
from bridle.base.process.processes import Processes
from bridle.base.text.spelling import meant_words
from bridle.base.text.terminal_text import visible_line
from bridle.cli.console import aligned, say, say_json, say_lines, tell
from bridle.cli.option_values import has_any_content, settings_here
from bridle.cli.verbs.rows import Args, Env
from bridle.config.folders import folders, project_folder
from bridle.protocol.errors import UsageError
from bridle.safety.hooks.definitions import (
    ABOUT_TOOLS,
    EVENTS,
    GATING,
    Actor,
    Hook,
    HookContext,
    HookEvent,
    IsTrusted,
    context_of,
    event_named,
    unapproved,
)
from bridle.safety.hooks.hook_process import HookAnswer, HookRun, KeptOutput, run_command, started_by
from bridle.safety.hooks.hook_sources import FoundHooks, IgnoredHook, Project, find_hooks
from bridle.safety.safety_settings import HookDefaults
from bridle.safety.trust.approvals import Approvals, is_trusted_file
from bridle.sandbox.plain_spawn import EnvOnlySpawn

EXIT_BLOCKED = 3
HEAD_LINES = 5

SAMPLES: Mapping[str, dict[str, Any]] = {
    "bash": {"command": "echo hello"},
    "write_file": {"path": "example.txt", "content": "hello\n"},
    "edit_file": {"path": "example.txt", "old_string": "hello", "new_string": "good bye"},
    "read_file": {"path": "example.txt"},
    "web_fetch": {"url": "https://example.com/"},
}
"""Calls to try a hook with when none is given."""


class HookRow(msgspec.Struct, frozen=True, kw_only=True):
    """One hook as people look for it. `why_not` is empty for one that counts."""

    event: str
    tool: str
    command: str
    where: str
    scope: str
    timeout_ms: int | None
    on_error: str
    phase: str
    why_not: str


class FolderHooks(msgspec.Struct, frozen=True, kw_only=True):
    """The hooks of the folder a command was typed in, and what it takes to run them."""

    cwd: str
    root: str
    found: FoundHooks
    is_trusted: IsTrusted


def hooks(parsed: Args, env: Env) -> int:
    if parsed.action == "test":
        return _test(parsed, env)
    here = folder_hooks(parsed, env)
    rows = [*map(_row, here.found.hooks), *map(_ignored_row, here.found.ignored)]
    if parsed.json:
        return say_json(rows)
    if not rows:
        return say("No hooks. How to write one: bridle help hooks\n")
    return say_lines(_lines(rows))


def folder_hooks(parsed: Args, env: Env) -> FolderHooks:
    """The hooks that are written for this folder, with whether they count."""
    where, cwd = folders(env), os.path.realpath(os.getcwd())
    root = repository_root(cwd)
    is_trusted = is_trusted_file(Approvals(where.config), root)
    # Everything that is written, trusted or not: whether a hook counts is decided, and said, below.
    tiers = settings_here(parsed, env, is_acked=has_any_content, allow_project_hooks=True).checked()
    found = find_hooks(
        map(written_hook, tiers.written("hooks")),
        config_folder=where.config,
        project=Project(root=root, folder=project_folder(cwd)),
        cwd=cwd,
        is_trusted=is_trusted,
        allow_project_hooks=getattr(parsed, "allow_project_hooks", False)
        or tiers.section("hook_defaults", HookDefaults).allow_project,
    )
    return FolderHooks(cwd=cwd, root=root, found=found, is_trusted=is_trusted)


def _row(hook: Hook, why_not: str = "") -> HookRow:
    return HookRow(
        event=hook.event,
        tool=hook.tool,
        command=hook.shown,
        where=hook.where,
        scope=hook.scope,
        timeout_ms=hook.timeout_ms,
        on_error=hook.on_error,
        phase=hook.phase,
        why_not=why_not,
    )


def _ignored_row(ignored: IgnoredHook) -> HookRow:
    if ignored.hook is not None:
        return _row(ignored.hook, ignored.why)
    return HookRow(
        event="", tool="", command="", where=ignored.where, scope="", timeout_ms=None, on_error="", phase="",
        why_not=ignored.why,
    )  # fmt: skip


def _lines(rows: list[HookRow]) -> list[str]:
    heads = ("event", "tools", "command", "written in", "counts")
    cells = [
        (
            row.event or "-",
            (row.tool or "all") if row.event in ABOUT_TOOLS else "-",
            row.command or "-",
            row.where,
            f"no: {row.why_not}" if row.why_not else "yes" if row.scope == "user" else "yes, trusted",
        )
        for row in rows
    ]
    return aligned([heads, *cells])


def _test(parsed: Args, env: Env) -> int:
    event = event_named(parsed.event)
    if event is None:
        hint = meant_words(parsed.event, EVENTS)
        raise UsageError(f'There is no hook event "{parsed.event}".{hint} Events: {", ".join(EVENTS)}')
    given = _input_in(parsed.input)
    here = folder_hooks(parsed, env)
    about_tools = event in ABOUT_TOOLS
    chosen = [
        hook
        for hook in here.found.hooks
        if hook.event == event and (not about_tools or not parsed.tool or hook.concerns(parsed.tool))
    ]
    for ignored in here.found.ignored:
        if ignored.hook is None or ignored.hook.event == event:
            tell(visible_line(f"not run: {ignored.where} ({ignored.why})"))
    if not chosen:
        of_tool = f" of {visible_line(parsed.tool)}" if parsed.tool and about_tools else ""
        return say(f"No hook listens to {event}{of_tool}.\n")
    trials = [(hook, _sample(event, hook, here.cwd, parsed.tool, given)) for hook in chosen]
    return asyncio.run(_try_all(trials, here, env))


def _input_in(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        given: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise UsageError('--input takes a JSON object, like \'{"command": "ls"}\'')
    return cast("dict[str, Any]", given)


def _sample(
    event: HookEvent, hook: Hook, cwd: str, tool: str | None, given: dict[str, Any] | None
) -> HookContext:
    """An occasion like a real one. Without a tool of the caller's choice: one that the hook is about."""
    facts: dict[str, Any] = {}
    if event in ABOUT_TOOLS:
        name = tool or next((name for name in SAMPLES if hook.concerns(name)), "bash")
        facts = {"call_id": "call_test", "tool_name": name}
        facts["tool_input"] = given if given is not None else SAMPLES.get(name, {})
    match event:
        case "PostToolUse":
            facts |= {"tool_output": "hello\n", "outcome": "ok", "reason": None}
        case "ToolError":
            facts |= {"tool_output": "it failed\n", "outcome": "error", "reason": "ToolCrashed"}
        case "PermissionRequest":
            facts |= {"decision": "ask", "why": "to try the hook"}
        case "UserPromptSubmit":
            facts |= {"prompt": str((given or {}).get("prompt", "hello"))}
        case _:
            pass
    return context_of(event, Actor(session="sess_test", cwd=cwd), 1, **facts)


async def _try_all(trials: list[tuple[Hook, HookContext]], here: FolderHooks, env: Env) -> int:
    processes = Processes(adopts_orphans=True)
    blocked = False
    try:
        for hook, context in trials:
            path = unapproved(hook, cwd=here.cwd, workspaces=(here.root,), is_trusted=here.is_trusted)
            if path is not None:
                lines = [_head(hook), f"  not run   {path} is not trusted: bridle trust ack"]
                refused = hook.on_error == "block"
            else:
                ran = await run_command(
                    hook, context, start=started_by(EnvOnlySpawn(processes), env), clock=SystemClock()
                )
                lines, refused = _told(hook, context, ran)
            blocked = blocked or (refused and hook.event in GATING)
            if code := say_lines(lines):
                return code
    finally:
        await processes.close()
    return EXIT_BLOCKED if blocked else 0


def _head(hook: Hook) -> str:
    return f"{hook.event}  {hook.shown}" + (f"  ({hook.where})" if hook.where != hook.shown else "")


def _told(hook: Hook, context: HookContext, ran: HookRun) -> tuple[list[str], bool]:
    """What a person wants to know of a trial, and whether the hook says no."""
    answer = ran.answer
    if isinstance(answer, HookAnswer):
        decision, message = answer.decision or "pass", answer.message
        refused = decision == "block"
    else:
        refused = hook.on_error == "block" and hook.event in GATING
        decision, message = f"failed, which {'blocks' if refused else 'is only noted'}", answer.problem
    lines = [_head(hook)]
    if context.tool_name is not None:
        lines.append(f"  call      {context.tool_name} {msgspec.json.encode(context.tool_input).decode()}")
    lines.append(f"  decision  {decision}" + (f": {_first_line(message)}" if message else ""))
    if isinstance(answer, HookAnswer) and answer.patch is not None:
        lines.append(f"  patch     {msgspec.json.encode(answer.patch).decode()}")
    lines.append(f"  ended     exit {ran.exit_code}, {ran.took_ms} ms")
    return [*lines, *_beginning("stdout", ran.stdout), *_beginning("stderr", ran.stderr)], refused


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _beginning(name: str, kept: KeptOutput) -> list[str]:
    lines = kept.text.splitlines()
    shown = [
        f"  {name if index == 0 else '':<8}  {line[:200]}" for index, line in enumerate(lines[:HEAD_LINES])
    ]
    more = len(lines) - HEAD_LINES
    return [*shown, f"            … {more} more lines"] if more > 0 else shown
