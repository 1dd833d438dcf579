"""The commands this client carries out itself. Every other `/name` goes to the engine, which knows its own. Pure."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

import msgspec

from bridle.clients.line.tally import Tally
from bridle.clients.line.view import SessionView
from bridle.protocol.commands import AnyCommand, CancelTurn, RunSlash, SetMode, SetModel
from bridle.protocol.events import Mode

Local: TypeAlias = Literal[
    "help", "quit", "stop", "clear", "model", "mode", "plan", "queue", "cost", "status"
]

MODES: Final[tuple[Mode, ...]] = get_args(Mode)

_COMMANDS: Final[tuple[tuple[Local, tuple[str, ...], str], ...]] = (
    ("help", ("help",), "this list"),
    ("stop", ("stop", "cancel"), "stop the running turn"),
    ("clear", ("clear", "new"), "a new session; this one stays listed"),
    ("model", ("model",), "show the model, or change it: /model provider:model"),
    ("mode", ("mode",), f"show the mode, or change it: {' '.join(MODES)}"),
    ("plan", ("plan",), "reading only, until another mode is chosen"),
    ("queue", ("queue",), "what waits for the running turn"),
    ("cost", ("cost",), "what this session has used"),
    ("status", ("status",), "model, mode, what runs, what it cost"),
    ("quit", ("quit", "exit"), "leave"),
)
_BUSY: Final = "A turn is running. /stop ends it, then /clear begins a new session."
_KEYS: Final = (
    "Enter      send; during a turn it waits until the turn ends",
    "Ctrl-S     say it now, during a turn",
    "Ctrl-J     new line, also Alt-Enter",
    "Up, Down   earlier prompts",
    "Ctrl-C     stop the turn; twice within 2 s leaves",
    "Ctrl-D     leave",
    "@path      show the model a file",
    "!command   run a command yourself; !!command also shows it to the model",
    "As text    begin with a blank, or with //",
)


class Lines(msgspec.Struct, frozen=True):
    """Something to read; nothing is sent."""

    lines: tuple[str, ...]
    indent: str = "  "


Outcome: TypeAlias = Lines | AnyCommand | Literal["quit", "clear"]


def carry_out(name: str, arguments: str, view: SessionView, *, used: Tally, session: str) -> Outcome:
    """What `/name arguments` comes to in a session that stands like this and has used so much."""
    match _command(name):
        case "help":
            return Lines(_help(), " " * 11)
        case "quit":
            return "quit"
        case "stop":
            return CancelTurn(session=session) if view.running else Lines(("No turn is running.",))
        case "clear":
            return Lines((_BUSY,)) if view.running else "clear"
        case "model" if arguments:
            return SetModel(session=session, model=arguments)
        case "model":
            return Lines((f"model    {view.model}    Change it: /model provider:model",))
        case "mode":
            return _mode(arguments, view, session)
        case "plan":
            return SetMode(session=session, mode="plan")
        case "queue":
            return Lines(tuple(view.queued) or ("Nothing is queued.",))
        case "cost" | "status":
            return Lines(tuple(view.status_lines(used)))
        case None:
            return RunSlash(session=session, name=name, arguments=arguments)


def _command(name: str) -> Local | None:
    return next((command for command, names, _ in _COMMANDS if name in names), None)


def _mode(name: str, view: SessionView, session: str) -> Outcome:
    for mode in MODES:
        if name == mode:
            return SetMode(session=session, mode=mode)
    return Lines((f"mode     {view.mode}    Change it: /mode NAME ({' '.join(MODES)})",))


def _help() -> tuple[str, ...]:
    commands = [f"{'/' + names[0]:<10} {does}{_also(names[1:])}" for _, names, does in _COMMANDS]
    return (*commands, "", *_KEYS)


def _also(names: tuple[str, ...]) -> str:
    return f"  (also {', '.join('/' + name for name in names)})" if names else ""
