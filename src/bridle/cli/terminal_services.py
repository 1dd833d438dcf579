"""The services of this machine for a client at its terminal: history, files, editor, pager, images."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from bridle.app.user.setting_sections import MultimodalSettings, load
from bridle.base.clock import SystemClock
from bridle.base.fs.files import private_folder, read_limited, write_atomic
from bridle.base.process.processes import CannotStart
from bridle.base.process.user_programs import read_output, run_in_foreground
from bridle.base.text.terminal_text import visible_line
from bridle.cli.verbs.rows import Env
from bridle.clients.engine_address import EngineLink
from bridle.clients.images import MAX_BYTES, image_of, read_image
from bridle.clients.interaction.composer.composer import Picture
from bridle.clients.interaction.effects import ClientServices
from bridle.clients.interaction.session.key_router import is_image_name
from bridle.config.folders import folders
from bridle.config.tiers import Tiers
from bridle.protocol.errors import UsageError
from bridle.protocol.tokens import Claims


def terminal_services(
    cwd: str,
    env: Env,
    *,
    come_back: str = "",
    link: EngineLink | None = None,
    claims: Claims | None = None,
) -> ClientServices:
    state = folders(env).state
    history = PromptHistory(state, cwd)

    async def run_verb(words: Sequence[str]) -> None:
        program = [sys.executable, "-I", "-m", "bridle", *words]  # nothing of the folder is looked at for it
        await run_in_foreground(program, cwd=cwd, env=env)

    def picture(path: str) -> Picture | None:
        tiers = load(where=folders(env), cwd=cwd, env=env).checked()
        return picture_at(os.path.join(cwd, os.path.expanduser(path)), tiers)

    return ClientServices(
        clock=SystemClock(),
        come_back=come_back,
        link=link,
        claims=claims,
        home=env.get("HOME", ""),
        history=history.prompts(),
        save_prompt=history.add,
        is_file=lambda path: os.path.isfile(os.path.join(cwd, path)),
        paths=lambda: paths_below(cwd),
        edit=lambda text: edited(text, state, env),
        page=lambda text: open_pager(text, env),
        save=lambda path, text: save_new(cwd, path, text),
        run_verb=run_verb,
        picture=picture,
        clipboard_picture=lambda: picture_on_clipboard(env),
    )


_KEPT_PROMPTS = 500
_HISTORY_BYTES = 4 * 1024 * 1024


class PromptHistory:
    """One private file per folder, one JSON text a line, oldest first. Losing it costs nothing but comfort."""

    def __init__(self, state_folder: str, cwd: str) -> None:
        name = hashlib.sha256(cwd.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        self._folder = os.path.join(state_folder, "history")
        self._path = os.path.join(self._folder, f"{name}.jsonl")

    def prompts(self) -> tuple[str, ...]:
        try:
            lines = read_limited(self._path, _HISTORY_BYTES).data.splitlines()
        except OSError:
            return ()
        found: list[str] = []
        for line in lines[-_KEPT_PROMPTS:]:
            try:
                found.append(msgspec.json.decode(line, type=str))
            except msgspec.MsgspecError:
                continue
        return tuple(found)

    def add(self, prompt: str) -> None:
        try:
            private_folder(self._folder)
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(fd, msgspec.json.encode(prompt) + b"\n")
            finally:
                os.close(fd)
        except (OSError, UnicodeEncodeError):
            return


_MEMORY_BYTES = 64 * 1024


class StartMemory:
    """One private file per folder. Losing it costs nothing but a few lines more at the next start."""

    def __init__(self, state_folder: str, cwd: str) -> None:
        name = hashlib.sha256(cwd.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        self._folder = os.path.join(state_folder, "starts")
        self._path = os.path.join(self._folder, f"{name}.json")

    def said(self) -> dict[str, str]:
        """What each line said, by its name; nothing where nobody started here yet."""
        try:
            return msgspec.json.decode(read_limited(self._path, _MEMORY_BYTES).data, type=dict[str, str])
        except (OSError, msgspec.MsgspecError):
            return {}

    def keep(self, said: Mapping[str, str]) -> None:
        if said == self.said():
            return
        with suppress(OSError):
            private_folder(self._folder)
            write_atomic(self._path, msgspec.json.encode(said), durable=False)


CLIPBOARD_S: Final = 5.0
_FAR_AWAY: Final = "bridle cannot read this clipboard; use @path"


def picture_at(path: str, tiers: Tiers) -> Picture | None:
    """The image in a file; None where there is none. Raises `UsageError` for one that cannot be sent."""
    if not is_image_name(path) or not os.path.isfile(path):
        return None
    limits = tiers.section("multimodal", MultimodalSettings)
    read = read_image(path, max_bytes=limits.max_image_bytes, detail=limits.detail)
    return Picture(read.label(visible_line(os.path.basename(path))), read.block)


async def picture_on_clipboard(env: Env) -> Picture:
    """The image on the person's clipboard. Raises `UsageError` where there is none or none can be read."""
    program = _clipboard_program(env)
    try:
        code, data = await read_output(program, env=env, timeout_s=CLIPBOARD_S, max_bytes=MAX_BYTES)
    except CannotStart:
        raise UsageError(f"{_FAR_AWAY} ({program[0]} could not be started)") from None
    if code or not data:
        raise UsageError("There is no image on the clipboard. A file: @path, or drop it here")
    if len(data) > MAX_BYTES:
        raise UsageError(f"The image on the clipboard is larger than {MAX_BYTES // (1024 * 1024)} MB")
    read = image_of(data, "What is on the clipboard")
    return Picture(read.label("clipboard"), read.block)


def _clipboard_program(env: Env) -> list[str]:
    """The program that gives an image. At the other end of a connection there is no clipboard of ours."""
    if env.get("SSH_CONNECTION") or env.get("SSH_TTY"):
        raise UsageError(_FAR_AWAY)
    if sys.platform == "darwin":
        wanted, package = ["pngpaste", "-"], "pngpaste"
    elif env.get("WAYLAND_DISPLAY"):
        wanted, package = ["wl-paste", "--no-newline", "--type", "image/png"], "wl-clipboard"
    elif env.get("DISPLAY"):
        wanted, package = ["xclip", "-selection", "clipboard", "-target", "image/png", "-out"], "xclip"
    else:
        raise UsageError(_FAR_AWAY)
    if shutil.which(wanted[0], path=env.get("PATH")) is None:
        raise UsageError(f"{_FAR_AWAY}, or install {package}")
    return wanted


_MOST_PATHS = 5_000
_SKIPPED = frozenset({"node_modules", "__pycache__"})


def paths_below(folder: str, most: int = _MOST_PATHS) -> list[str]:
    """Files and folders relative to `folder`, near ones first, folders with a slash at the end.

    Hidden ones and what package managers put there are left out, links to folders are not followed, and after `most`
    it is enough. What cannot be read is not there.
    """
    found: list[str] = []
    waiting = deque([""])
    while waiting and len(found) < most:
        below = waiting.popleft()
        for name, is_folder in _entries(os.path.join(folder, below)):
            found.append(below + name + ("/" if is_folder else ""))
            if is_folder:
                waiting.append(f"{below}{name}/")
    return found[:most]


def _entries(folder: str) -> list[tuple[str, bool]]:
    try:
        with os.scandir(folder) as entries:
            found = [
                (entry.name, entry.is_dir(follow_symlinks=False))
                for entry in entries
                if not entry.name.startswith(".") and entry.name not in _SKIPPED and _is_text(entry.name)
            ]
    except OSError:
        return []
    return sorted(found)


def _is_text(name: str) -> bool:
    """A name that is no UTF-8 cannot be written in a message."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


_LESS: Final = "-FRX"  # a text that fits is printed and stays; colours are colours


async def open_pager(text: str, env: Env) -> None:
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


def _pager_of(env: Env) -> list[str]:
    """The words that start the pager of PAGER, or one that every system has."""
    try:
        if words := shlex.split(env.get("PAGER", "")):
            return words
    except ValueError as problem:
        said = visible_line(env["PAGER"])
        raise UsageError(f"PAGER is not a command: {said} ({problem})") from None
    return ["less" if shutil.which("less", path=env.get("PATH")) else "more"]


def editor_of(env: Env) -> list[str]:
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


async def open_editor(command: list[str], file: str, env: Env) -> int:
    """Edits a file with `command`; returns the editor's exit code. Raises `UsageError` if it cannot be started."""
    try:
        return await run_in_foreground([*command, file], cwd=os.getcwd(), env=env)
    except CannotStart as failure:
        name = visible_line(failure.argv0)
        raise UsageError(f"The editor {name} could not be started ({failure.reason})") from None


_DRAFT_BYTES = 1 << 20


async def edited(text: str, state_folder: str, env: Env) -> str | None:
    """The text as the editor left it, None where that is too much. The file does not stay. Raises `UsageError`."""
    command = editor_of(env)
    try:
        path = _new_private_file(text, state_folder)
        try:
            code = await open_editor(command, path, env)
            if code:
                raise UsageError(f"The editor ended with code {code}. The draft is as it was")
            written = read_limited(path, _DRAFT_BYTES)
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
