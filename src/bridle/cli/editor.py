"""The person's own editor: which one it is, and letting it have the terminal."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping

from bridle.base.processes import CannotStart
from bridle.base.user_programs import run_in_foreground
from bridle.base.visible import visible
from bridle.protocol.errors import UsageError


def editor_of(env: Mapping[str, str]) -> list[str]:
    """The words that start the editor of VISUAL or EDITOR. Raises `UsageError` where none is set."""
    variable = next((name for name in ("VISUAL", "EDITOR") if env.get(name, "").strip()), None)
    if variable is None:
        raise UsageError("No editor is set. Name one, for instance: export EDITOR=nano")
    try:
        return shlex.split(env[variable])
    except ValueError as problem:
        said = visible(env[variable], newlines=False)
        raise UsageError(f"{variable} is not a command: {said} ({problem})") from None


def has_terminal() -> bool:
    """Whether somebody sits here who could use an editor."""
    streams = (sys.stdin, sys.stdout)
    return all(stream is not None and stream.isatty() for stream in streams)


async def open_editor(command: list[str], file: str, env: Mapping[str, str]) -> int:
    """Edits a file with `command`; returns the editor's exit code. Raises `UsageError` if it cannot be started."""
    try:
        return await run_in_foreground([*command, file], cwd=os.getcwd(), env=env)
    except CannotStart as failure:
        name = visible(failure.argv0, newlines=False)
        raise UsageError(f"The editor {name} could not be started ({failure.reason})") from None
