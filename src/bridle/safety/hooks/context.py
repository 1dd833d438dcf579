"""What a hook is told: one JSON object on stdin, and the heart of it again as variables. Pure.

Names on the wire are camelCase. The first eleven are always there; the others only at the moments they belong to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from bridle.safety.hooks.definitions import HookEvent

VARIABLE_BYTES = 100 * 1024
"""A longer variable would keep the program from starting (Linux takes 128 KB), so it is left out: stdin has it all."""


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf things happen: a session, and inside it perhaps a child."""

    session: str
    cwd: str
    root_session: str = ""
    agent: str = "main"
    agent_path: tuple[str, ...] = ()
    invocation: str | None = None


class HookContext(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One occasion. `tool_input` is exactly what would run; `tool_output` has its secrets taken out."""

    event: HookEvent
    root_session_id: str
    session_id: str
    turn_id: int | None
    invocation_id: str | None
    agent_path: tuple[str, ...]
    agent: str
    cwd: str
    call_id: str | None = None
    tool_name: str | None = None
    tool_input: dict[str, Any] | None = None
    tool_output: str | UnsetType = UNSET
    outcome: str | UnsetType = UNSET
    reason: str | UnsetType | None = UNSET
    decision: str | UnsetType = UNSET
    """What permission says so far: `ask` when a question is about to be put, `allow` when it has been settled."""
    why: str | UnsetType = UNSET
    prompt: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    calls: tuple[str, ...] | UnsetType = UNSET
    model: str | UnsetType = UNSET
    step: int | UnsetType = UNSET
    stop: str | UnsetType = UNSET
    resumed: bool | UnsetType = UNSET
    cause: str | UnsetType = UNSET


def context_of(event: HookEvent, actor: Actor, turn: int | None, **more: Any) -> HookContext:
    return HookContext(
        event=event,
        root_session_id=actor.root_session or actor.session,
        session_id=actor.session,
        turn_id=turn,
        invocation_id=actor.invocation,
        agent_path=actor.agent_path,
        agent=actor.agent,
        cwd=actor.cwd,
        **more,
    )


def as_stdin(context: HookContext) -> bytes:
    return msgspec.json.encode(context) + b"\n"


def as_variables(context: HookContext) -> dict[str, str]:
    """The variables beside stdin. One that no environment can hold is left out."""
    given: dict[str, str] = {"BRIDLE_HOOK_EVENT": context.event, "BRIDLE_SESSION_ID": context.session_id}
    if context.tool_name is not None:
        given["BRIDLE_TOOL_NAME"] = context.tool_name
    if context.tool_input is not None:
        given["BRIDLE_TOOL_INPUT"] = msgspec.json.encode(context.tool_input).decode()
    if isinstance(context.tool_output, str):
        given["BRIDLE_TOOL_OUTPUT"] = context.tool_output
    return _that_fit(given)


def _that_fit(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if _fits(value)}


def _fits(value: str) -> bool:
    try:
        return "\0" not in value and len(value.encode()) <= VARIABLE_BYTES
    except UnicodeEncodeError:
        return False
