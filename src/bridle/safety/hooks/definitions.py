"""What a hook is: the moment, the tools, the program, how long it may take and what its failure means. Pure.

A command given as a list is started as it stands. A command given as text is split into words; only text that needs a
shell (pipes, variables, wildcards …) goes through one. A script is a Python function of the person's own, and a program
like any other: the interpreter that calls it (see `calling`), so its deadline and its end hold.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast, get_args

import msgspec
from msgspec import UNSET, UnsetType

from bridle.base.fs.files import read_limited
from bridle.base.fs.paths import is_beneath_any
from bridle.safety.patterns import tool_matches
from bridle.safety.safety_settings import HookDefaults

HookEvent: TypeAlias = Literal[
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "BeforeModelRequest",
    "AfterModelResponse",
    "PreToolUse",
    "PostToolUse",
    "ToolError",
    "PermissionRequest",
    "Stop",
    "TurnFailed",
    "Compact",
]
OnError: TypeAlias = Literal["block", "warn"]
Phase: TypeAlias = Literal["before_permission", "after_permission"]
Scope: TypeAlias = Literal["user", "project"]

EVENTS: tuple[HookEvent, ...] = get_args(HookEvent)
OTHER_NAMES: Mapping[str, HookEvent] = {"TurnCompleted": "Stop"}
GATING: frozenset[HookEvent] = frozenset({"PreToolUse", "UserPromptSubmit", "PermissionRequest"})
"""Where a hook can say no. At every other moment it watches."""
ABOUT_TOOLS: frozenset[HookEvent] = frozenset({"PreToolUse", "PostToolUse", "ToolError", "PermissionRequest"})
"""Where a hook's tool pattern counts."""

DEFAULT_TIMEOUT_MS = 5_000
TIMEOUTS_MS: Mapping[HookEvent, int] = {"PreToolUse": 30_000, "PostToolUse": 30_000, "Compact": 60_000}
"""How long a hook may take where nobody says so; 5 s at the moments that are not named."""

_NEEDS_SHELL = re.compile(r"[|&;<>()$`*?\[\]{}#~!\n\r]|^\s*\w+=")
_SCRIPT = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_CALLING = os.path.join(os.path.dirname(__file__), "calling.py")
_SHOWN_CHARACTERS = 120


class BadHook(Exception):
    """A hook as written means nothing. `problem` reads as a sentence without its end."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """One program at one moment.

    `shown` is the command as people wrote it and `where` the place they wrote it at. It runs in `folder`, or in the
    session's where that is empty. `approved` names the files whose content had to be approved for it to count.
    `confined`: it has no more rights than the commands of the session; others have the person's.
    """

    event: HookEvent
    argv: tuple[str, ...]
    shown: str
    timeout_ms: int
    on_error: OnError
    tool: str = ""
    phase: Phase = "before_permission"
    scope: Scope = "user"
    where: str = ""
    folder: str = ""
    approved: tuple[str, ...] = ()
    confined: bool = False

    def concerns(self, tool: str) -> bool:
        """Whether the hook is about calls of this tool; one without a pattern is about all of them."""
        return concerns(self.tool, tool)


def event_named(text: str) -> HookEvent | None:
    """The event people mean: by its name, its other name, or in snake_case."""
    name = "".join(part[:1].upper() + part[1:] for part in text.split("_")) if text.islower() else text
    if name in EVENTS:
        return name
    return OTHER_NAMES.get(name)


def concerns(pattern: str, tool: str) -> bool:
    """`write_file|edit_file`, `mcp_*`, `Edit`: any of the alternatives matches; no pattern matches everything."""
    return not pattern or any(tool_matches(part.strip(), tool) for part in pattern.split("|"))


def argv_of(command: str | Sequence[str]) -> tuple[str, ...]:
    """The words to start. Raises `BadHook` for a command that has none."""
    if not isinstance(command, str):
        words = tuple(command)
    elif _NEEDS_SHELL.search(command):
        words = ("/bin/sh", "-c", command)
    else:
        try:
            words = tuple(shlex.split(command))
        except ValueError as problem:
            raise BadHook(f"its command cannot be read ({str(problem).lower()})") from None
    if not words or not words[0].strip():
        raise BadHook("its command is empty")
    return words


def shown_command(command: str | Sequence[str]) -> str:
    text = command if isinstance(command, str) else shlex.join(command)
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def script_argv(script: str, modules: str) -> tuple[str, ...]:
    """The words that call a function written as `module:function`, looked for in the folder `modules` first.

    Isolated: neither the folder a session works in nor a variable adds to what can be imported. Raises `BadHook`.
    """
    if not _SCRIPT.fullmatch(script):
        raise BadHook(f'script = "{script}" is not a function; write module:function')
    return (sys.executable, "-I", "-B", _CALLING, modules, script)


def default_on_error(event: HookEvent, scope: Scope, defaults: HookDefaults) -> OnError:
    """Closed at the gates; open where a hook only watches, and where the person chose so for their own hooks."""
    if event not in GATING or (scope == "user" and defaults.failure_policy == "open"):
        return "warn"
    return "block"


def hook_from(
    value: Mapping[str, Any],
    *,
    scope: Scope = "user",
    where: str = "",
    folder: str = "",
    modules: str = "",
    approved: tuple[str, ...] = (),
    defaults: HookDefaults | None = None,
) -> Hook:
    """One entry of `[[hooks]]`, whose values have the types of the table of settings. Raises `BadHook`.

    `modules` is the folder of the person's own Python modules.
    """
    defaults = defaults or HookDefaults()
    event = event_named(value["event"])
    if event is None:
        raise BadHook(f'event = "{value["event"]}" is not a hook event ({", ".join(EVENTS)})')
    phase = cast("Phase", value.get("phase", "before_permission"))
    if phase == "after_permission" and event != "PreToolUse":
        raise BadHook('phase = "after_permission" is for PreToolUse only')
    argv = _argv(value.get("command"), value.get("script"), scope, modules)
    return Hook(
        event=event,
        argv=argv,
        shown=shown_command(value.get("command") or value["script"]),
        tool=value.get("tool", ""),
        timeout_ms=value.get("timeout_ms")
        or defaults.timeout_ms
        or TIMEOUTS_MS.get(event, DEFAULT_TIMEOUT_MS),
        on_error=value.get("on_error") or default_on_error(event, scope, defaults),
        phase=phase,
        scope=scope,
        where=where,
        folder=folder,
        approved=approved,
    )


def _argv(
    command: str | Sequence[str] | None, script: str | None, scope: Scope, modules: str
) -> tuple[str, ...]:
    if (command is None) == (script is None):
        raise BadHook("a hook has either a command or a script")
    if script is None:
        return argv_of(command or "")
    if scope != "user":
        raise BadHook("script is for your own hooks only")
    return script_argv(script, modules)


# Names on the wire are camelCase. The first eleven are always there; the others only at the moments they
# belong to.


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


IsTrusted: TypeAlias = Callable[[str, str], bool]
"""Whether the content with this SHA-256 may be used from this path."""

MAX_BYTES = 16 << 20
_WORD = re.compile(r"""[^\s"'`|&;<>()$={}]+""")


def unapproved(hook: Hook, *, cwd: str, workspaces: Iterable[str], is_trusted: IsTrusted) -> str | None:
    """The first file that has to be approved and is not, as it stands now; None if the hook may run."""
    for path in _distinct((*hook.approved, *_workspace_files(hook, cwd, tuple(workspaces)))):
        digest = content_digest(path)
        if digest is None or not is_trusted(path, digest):
            return path
    return None


def content_digest(path: str) -> str | None:
    """The digest of a file; None if it cannot be read or is no plain file of sensible size."""
    try:
        contents = read_limited(path, MAX_BYTES)
    except OSError:
        return None
    return None if contents.truncated else hashlib.sha256(contents.data).hexdigest()


def _workspace_files(hook: Hook, cwd: str, workspaces: tuple[str, ...]) -> Iterator[str]:
    folder = hook.folder or cwd
    for word in _words(hook.argv):
        try:
            path = os.path.realpath(os.path.join(folder, word))
            if is_beneath_any(path, workspaces) and stat.S_ISREG(os.stat(path).st_mode):
                yield path
        except (OSError, ValueError):  # no file, or no name a file can have
            continue


def _words(argv: tuple[str, ...]) -> Iterator[str]:
    """Every word that may name a file: whole, and the pieces a shell or an option would make of it."""
    for word in argv:
        yield word
        if found := _WORD.findall(word):
            yield from (piece for piece in found if piece != word)


def _distinct(paths: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(paths)
