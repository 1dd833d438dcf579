"""Show a text in the user's pager."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from typing import Final

from bridle.base.process.processes import CannotStart
from bridle.base.process.user_programs import run_in_foreground
from bridle.base.text.terminal_text import visible
from bridle.protocol.errors import UsageError

_LESS: Final = "-FRX"  # a text that fits is printed and stays; colours are colours


async def open_pager(text: str, env: Mapping[str, str]) -> None:
    """Shows a text until the person has read it. Raises `UsageError`.

    The pager reads a file without a name: what a command printed stays nowhere, not even after a `kill -9`.
    """
    command = _pager_of(env)
    try:
        with tempfile.TemporaryFile() as file:
            file.write(text.encode("utf-8", "replace"))
            file.seek(0)
            await run_in_foreground(command, cwd=os.getcwd(), env={"LESS": _LESS, **env}, stdin=file.fileno())
    except CannotStart as failure:
        name = visible(failure.argv0, newlines=False)
        raise UsageError(f"The pager {name} could not be started ({failure.reason}). Set PAGER") from None
    except OSError as problem:
        raise UsageError(f"The text could not be kept for the pager ({problem.strerror})") from None


def _pager_of(env: Mapping[str, str]) -> list[str]:
    """The words that start the pager of PAGER, or one that every system has."""
    try:
        if words := shlex.split(env.get("PAGER", "")):
            return words
    except ValueError as problem:
        said = visible(env["PAGER"], newlines=False)
        raise UsageError(f"PAGER is not a command: {said} ({problem})") from None
    return ["less" if shutil.which("less", path=env.get("PATH")) else "more"]
