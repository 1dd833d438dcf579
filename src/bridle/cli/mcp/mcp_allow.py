"""`bridle mcp parents`, `allow` and `forget`: programs that may use Bridle as a tool."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping

import msgspec

from bridle.app.user.parent_register import KnownParent, ParentRegister
from bridle.base.clock import SystemClock, iso_ms
from bridle.base.process.escapees import recording_processes
from bridle.base.process.peer_process import comes_from_a_call, descends_from
from bridle.base.text.terminal_text import visible
from bridle.cli.console import say, say_json
from bridle.cli.stdin import typed_line
from bridle.config.folders import folders
from bridle.protocol.errors import CommandRefused
from bridle.sandbox.session_border import records_of


def mcp_allow(parsed: argparse.Namespace, env: Mapping[str, str]) -> int:
    where = folders(env)
    register = ParentRegister(where.config, SystemClock())
    if parsed.action == "parents":
        return _list(register.parents(), as_json=parsed.json)
    if comes_from_a_call(os.getpid(), recording_processes(records_of(where))):
        raise CommandRefused("NotAClient")
    parent = register.find(parsed.id)
    if parsed.action == "forget":
        register.forget(parent)
        return say(f"Forgotten: {_shown(parent)} has to ask again.\n")
    return _allow(register, parent, auto_attach=parsed.auto_attach)


def _allow(register: ParentRegister, parent: KnownParent, *, auto_attach: bool) -> int:
    """Asks the person, who sees what it is about; the program itself is not asked."""
    if not sys.stdin.isatty():
        raise CommandRefused("NoConfirmation")
    if descends_from(os.getpid(), parent.program.pid):
        raise CommandRefused("OwnParent", program=_shown(parent))
    say(f"{_about(parent)}\nIt could run an agent with shell access here, within your own permissions.\n")
    if typed_line("Let it? y/N › ").strip().lower() not in ("y", "yes"):
        say("Not allowed.\n")
        return 3
    if not auto_attach:
        answer = typed_line("Always show you its sessions (mcp_server.attach_command)? y/N › ")
        auto_attach = answer.strip().lower() in ("y", "yes")
    register.allow(parent, auto_attach=auto_attach)
    return say(f"Allowed: {_shown(parent)}. Take it back: bridle mcp forget {parent.id}\n")


def _list(parents: tuple[KnownParent, ...], *, as_json: bool) -> int:
    if as_json:
        return say_json({"parents": [msgspec.to_builtins(one) for one in parents]})
    if not parents:
        return say("No program asked to use Bridle as a tool. How one does: bridle help mcp\n")
    return say("".join(f"{_about(one)}\n" for one in parents))


def _about(parent: KnownParent) -> str:
    program = parent.program
    lines = [
        f"{parent.id}  {parent.state} since {iso_ms(parent.since_ms)}  {_shown(parent)}",
        f"  called {visible(program.word, newlines=False)}  sha256 {program.sha256 or 'not known'}",
    ]
    if program.script:
        lines.append(f"  runs {visible(program.script, newlines=False)}  sha256 {program.script_sha256}")
    if parent.auto_attach:
        lines.append("  its sessions are shown to you at once")
    return "\n".join(lines)


def _shown(parent: KnownParent) -> str:
    return visible(parent.program.path or parent.program.name, newlines=False)
