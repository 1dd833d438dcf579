"""The person's own pager: which one it is, and letting it show a text."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping

from bridle.base.processes import CannotStart
from bridle.base.user_programs import run_in_foreground
from bridle.base.visible import visible
from bridle.cli.drafts import new_private_file
from bridle.protocol.errors import UsageError


async def open_pager(text: str, state_folder: str, env: Mapping[str, str]) -> None:
    """Shows a text until the person has read it. The file it is in does not stay. Raises `UsageError`."""
    command = _pager_of(env)
    try:
        path = new_private_file(text, state_folder)
        try:
            await run_in_foreground([*command, path], cwd=os.getcwd(), env={"LESS": "-R", **env})
        finally:
            os.unlink(path)
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
