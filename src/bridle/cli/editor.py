"""The user's editor and pager: find them, and let them have the terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from typing import Final

from bridle.base.fs.files import private_folder, read_limited
from bridle.base.process.processes import CannotStart
from bridle.base.process.user_programs import run_in_foreground
from bridle.base.text.terminal_text import visible_line
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
        name = visible_line(failure.argv0)
        raise UsageError(f"The pager {name} could not be started ({failure.reason}). Set PAGER") from None
    except OSError as problem:
        raise UsageError(f"The text could not be kept for the pager ({problem.strerror})") from None


def _pager_of(env: Mapping[str, str]) -> list[str]:
    """The words that start the pager of PAGER, or one that every system has."""
    try:
        if words := shlex.split(env.get("PAGER", "")):
            return words
    except ValueError as problem:
        said = visible_line(env["PAGER"])
        raise UsageError(f"PAGER is not a command: {said} ({problem})") from None
    return ["less" if shutil.which("less", path=env.get("PATH")) else "more"]


def editor_of(env: Mapping[str, str]) -> list[str]:
    """The words that start the editor of VISUAL or EDITOR. Raises `UsageError` where none is set."""
    variable = next((name for name in ("VISUAL", "EDITOR") if env.get(name, "").strip()), None)
    if variable is None:
        raise UsageError("No editor is set. Name one, for instance: export EDITOR=nano")
    try:
        return shlex.split(env[variable])
    except ValueError as problem:
        said = visible_line(env[variable])
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
        name = visible_line(failure.argv0)
        raise UsageError(f"The editor {name} could not be started ({failure.reason})") from None


MAX_BYTES = 1 << 20


async def edited(text: str, state_folder: str, env: Mapping[str, str]) -> str | None:
    """The text as the editor left it, None where that is too much. The file does not stay. Raises `UsageError`."""
    command = editor_of(env)
    try:
        path = _new_private_file(text, state_folder)
        try:
            code = await open_editor(command, path, env)
            if code:
                raise UsageError(f"The editor ended with code {code}. The draft is as it was")
            written = read_limited(path, MAX_BYTES)
        finally:
            os.unlink(path)
    except OSError as problem:
        raise UsageError(f"The draft could not be written or read ({problem.strerror})") from None
    return None if written.truncated else written.data.decode("utf-8", "replace")


def _new_private_file(text: str, state_folder: str) -> str:
    """A file that only this person can read; whoever asked for it takes it away again. Raises OSError."""
    folder = private_folder(os.path.join(state_folder, "drafts"))
    fd, path = tempfile.mkstemp(prefix="draft-", suffix=".md", dir=folder)
    with open(fd, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return path


def save_new(folder: str, path: str, text: str) -> str:
    """Writes a file that is not there yet, relative to `folder`; returns where it is. Raises `UsageError`."""
    whole = os.path.join(folder, os.path.expanduser(path))
    try:
        fd = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise UsageError(f"{path} is there already. Name another one: /export path") from None
    except (OSError, ValueError) as problem:
        said = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise UsageError(f"{path} could not be written ({said})") from None
    with open(fd, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return whole
