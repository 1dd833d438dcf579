"""`bridle`: an interactive session at the terminal."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import msgspec

from bridle._version import __version__
from bridle.app.engine import Engine, running_engine
from bridle.app.service.serving import shared_engine
from bridle.app.user.stored_keys import session_store
from bridle.base.clock import SystemClock
from bridle.base.fs.files import private_folder, read_limited, real_folder, write_atomic
from bridle.base.process.user_programs import run_in_foreground
from bridle.base.text.terminal_text import visible
from bridle.cli.accounts.first_run import DEMO_MODEL, choose_model
from bridle.cli.console import say, tolerate_characters
from bridle.cli.editor import edited, open_pager, save_new
from bridle.cli.engine_attach import connect_to_engine, terminal_look, why_in_process, why_untold
from bridle.cli.option_values import with_env_file
from bridle.cli.policy.trust import review_named, review_settings
from bridle.cli.run.demo import run_demo
from bridle.cli.run.run import engine_may_answer, going_on, session_wanted, tell, with_log_options
from bridle.cli.sessions.session_words import expiry_notice
from bridle.cli.sessions.sessions import session_lines
from bridle.cli.stdin import typed_line
from bridle.cli.talk.pictures import picture_at, picture_on_clipboard
from bridle.cli.unlock import unlocked
from bridle.clients.engine_address import EngineLink
from bridle.clients.interaction.composer.composer import Picture
from bridle.clients.interaction.composer.picker import Deed, Listed, Picker, listed
from bridle.clients.interaction.render.start_info import StartInfo, folder_words, rules_line
from bridle.clients.interaction.session.client_services import ClientServices
from bridle.clients.line.client import talk
from bridle.clients.line.session_picker import pick
from bridle.clients.line.terminal import Terminal
from bridle.clients.remote import RemoteConnection
from bridle.config.folders import folders, home_of
from bridle.config.tiers import load
from bridle.protocol.commands import BranchSession, CreateSession, DeleteSession, PinSession, RenameSession
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError, CommandRefused, UsageError, sentence
from bridle.protocol.queries import (
    DescribeSession,
    ListProviders,
    ListSessions,
    PreviewSession,
    SessionPreview,
)
from bridle.protocol.tokens import Claims
from bridle.providers import DEMO
from bridle.safety.wide_folders import AcceptedFolders

KEPT_PROMPTS = 500
HISTORY_BYTES = 4 * 1024 * 1024


class PromptHistory:
    """One private file per folder, one JSON text a line, oldest first. Losing it costs nothing but comfort."""

    def __init__(self, state_folder: str, cwd: str) -> None:
        name = hashlib.sha256(cwd.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        self._folder = os.path.join(state_folder, "history")
        self._path = os.path.join(self._folder, f"{name}.jsonl")

    def prompts(self) -> tuple[str, ...]:
        try:
            lines = read_limited(self._path, HISTORY_BYTES).data.splitlines()
        except OSError:
            return ()
        found: list[str] = []
        for line in lines[-KEPT_PROMPTS:]:
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


LEAVE_S = 2.0
DEMO_STORY = f"{DEMO}:story"
ATTACH = "bridle attach"


def talk_verb(parsed: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Talks until the person leaves; returns the exit code."""
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        if parsed.resume == "":
            return _print_sessions(env)
        raise UsageError("bridle talks at a terminal. For scripts and pipes: bridle run PROMPT")
    tolerate_characters()
    env = with_env_file(env, parsed.env_file)
    review_settings(parsed, env)
    return asyncio.run(_talk(parsed, unlocked(with_log_options(env, parsed), model=parsed.model)))


async def _talk(parsed: argparse.Namespace, env: Mapping[str, str]) -> int:
    terminal = Terminal(look=terminal_look(parsed, env))
    if engine_may_answer(parsed, env):
        connection = await _engine_elsewhere(parsed, env)
        if connection is not None:
            return await _talk_and_close(connection, parsed, terminal, env, link=connection.link)
    shares = bool(load(where=folders(env), cwd=home_of(env), env=env).checked().get("engine.share"))
    async with (
        running_engine(env, notice=tell, waits_for_room=True, listening=shares) as engine,
        _shared(engine, env, shares=shares),
    ):
        return await _talk_and_close(engine.connect(name="terminal", answers=True), parsed, terminal, env)


async def _talk_and_close(
    connection: Connection,
    parsed: argparse.Namespace,
    terminal: Terminal,
    env: Mapping[str, str],
    *,
    link: EngineLink | None = None,
) -> int:
    try:
        return await talk_through(connection, parsed, terminal, env, link=link)
    finally:
        await connection.close()


@asynccontextmanager
async def _shared(engine: Engine, env: Mapping[str, str], *, shares: bool) -> AsyncGenerator[None]:
    """Others may attach meanwhile, where the person's settings say so."""
    if not shares:
        yield
        return
    async with shared_engine(engine, where=folders(env), clock=SystemClock(), notice=tell):
        yield


async def _engine_elsewhere(parsed: argparse.Namespace, env: Mapping[str, str]) -> RemoteConnection | None:
    """A client of the engine that listens; None where this has to run here."""
    create = session_wanted(parsed, env)
    if (why := why_in_process(parsed, env, create) or why_untold(create)) is not None:
        if parsed.verbose:
            tell(f"runs in this process: {why}")
        return None
    return await connect_to_engine(env, name="terminal", answers=True)


async def talk_through(
    connection: Connection,
    parsed: argparse.Namespace,
    terminal: Terminal,
    env: Mapping[str, str],
    *,
    link: EngineLink | None = None,
) -> int:
    """Talks with whatever is at the other end of a connection, with a `link` where that is no engine of ours; returns
    the exit code."""
    if parsed.resume == "":
        chosen = await _picked(connection, terminal, env)
        if chosen is None:
            return 0
        parsed.resume = chosen
    create = await going_on(session_wanted(parsed, env), parsed, connection)
    about = await _preview(connection, create, env)
    if parsed.cwd is None and about.wide:
        if not _accepts_wide(about.cwd, about.wide, env):
            return 0
        create = msgspec.structs.replace(create, config={**create.config, "wide_folder": about.cwd})
    if about.model == DEMO and create.resume is None:  # in a conversation it plays a small story
        create = msgspec.structs.replace(create, model=DEMO_STORY)
    model_from = _MODEL_FROM[about.model_from]
    if create.resume is None and about.model is None:
        model, model_from = await _first_model(connection, create, env)
        if model is None:
            return 0
        if model == DEMO:
            return await run_demo(env)
        create = msgspec.structs.replace(create, model=model)
    if not about.notify:
        terminal.look = msgspec.structs.replace(terminal.look, notify="off")
    await _tell_what_expires(connection, env)
    return await talk(
        connection,
        create,
        terminal,
        services=terminal_services(about.cwd, env, come_back="" if link is None else ATTACH, link=link),
        start=_start_info(about, model_from, env),
        first_prompt=" ".join(parsed.prompt) or None,
    )


async def _preview(connection: Connection, create: CreateSession, env: Mapping[str, str]) -> SessionPreview:
    """What the session would be. One that goes on may have a profile that nobody was asked about here yet."""
    try:
        return await connection.ask(PreviewSession(create=create))
    except BridleError as refused:
        asked = create.resume is None or create.profile is not None
        if asked or refused.reason != "SettingsNotAgreed" or not review_named(refused.data["path"], env):
            raise
        return await connection.ask(PreviewSession(create=create))


_MODEL_FROM: Mapping[str, str] = {
    "": "",
    "command": "--model",
    "environment": "BRIDLE_MODEL",
    "settings": "config",
}
"""What a person calls the places that a model comes from."""


def _start_info(about: SessionPreview, model_from: str, env: Mapping[str, str]) -> StartInfo:
    """What this start says before the person may write."""
    memory = StartMemory(folders(env).state, about.cwd)
    return StartInfo(
        version=__version__,
        branch=about.branch,
        model_from=model_from,
        lines=(rules_line(about.rules, about.waiting_rules),),
        said=memory.said(),
        keep=memory.keep,
    )


def _accepts_wide(folder: str, why: str, env: Mapping[str, str]) -> bool:
    """Whether the person means to work in a folder that holds more than a project; a yes is asked for once."""
    accepted = AcceptedFolders(folders(env).state)
    if accepted.hold(folder):
        return True
    if accepted.problem is not None:
        tell(sentence("TrustFileUnsafe", {"path": accepted.path, "problem": accepted.problem}))
    shown = visible(_folder(folder, env), newlines=False)
    say(f"{shown}: {why}. Commands could write all of it; a project's own folder is safer.\n")
    try:
        typed = _ask("Work in it all the same? y/n (Enter: no) › ").strip().lower()
    except (EOFError, KeyboardInterrupt):
        return False
    if typed not in ("y", "yes"):
        return False
    try:
        accepted.add(folder)
    except OSError as problem:
        tell(f"{accepted.path} cannot be written: {problem.strerror}. You will be asked again")
    return True


async def _first_model(
    connection: Connection, create: CreateSession, env: Mapping[str, str]
) -> tuple[str | None, str]:
    """The model of somebody who named none, and who chose it. A key that is there goes straight in."""
    found = await connection.ask(ListProviders(which="running", create=create))
    if found.default is not None and not any(one.running for one in found.providers):
        return found.default, ""  # with both there is something to choose
    say(f"Bridle {__version__} · {visible(_folder(create.cwd, env), newlines=False)}\n\n")
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
        model = await choose_model(connection, create, found, _ask, _say_line, columns=columns)
    except (EOFError, KeyboardInterrupt):
        print()
        return None, ""
    if model is None or model == DEMO_MODEL:
        return model and DEMO, ""
    local = "Cost: none, it is local." if model.local else "Change it with /model."
    say(f"Saved: {visible(model.model, newlines=False)}. {local}\n\n")
    return model.model, "chosen just now"


def _say_line(line: str) -> None:
    say(f"{line}\n")


def _ask(prompt: str) -> str:
    """A line from the person. One Ctrl-C never leaves, two within 2 s do."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        pressed_s = -LEAVE_S
        while True:
            try:
                return typed_line(prompt)
            except KeyboardInterrupt:
                if time.monotonic() - pressed_s < LEAVE_S:
                    raise
                pressed_s = time.monotonic()
                print("\nCtrl-C again to leave")
    finally:
        signal.signal(signal.SIGINT, before)


def terminal_services(
    cwd: str,
    env: Mapping[str, str],
    *,
    come_back: str = "",
    link: EngineLink | None = None,
    claims: Claims | None = None,
) -> ClientServices:
    """What this machine does for a client at its terminal."""
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


def _folder(cwd: str, env: Mapping[str, str]) -> str:
    return folder_words(os.path.abspath(cwd), env.get("HOME", ""))


async def _tell_what_expires(connection: Connection, env: Mapping[str, str]) -> None:
    """Once a day, before content goes."""
    told = await expiry_notice(connection, folders(env).state, now_ms=time.time_ns() // 1_000_000)
    if told is not None:
        tell(told)


async def _picked(connection: Connection, terminal: Terminal, env: Mapping[str, str]) -> str | None:
    async def listed() -> tuple[Listed, ...]:
        return await listed_sessions(connection, env, ".")

    async def done(deed: Deed) -> tuple[Listed, ...]:
        await do_deed(connection, deed)
        return await listed()

    sessions = await listed()
    if not sessions:
        raise CommandRefused("NoSessionHere", cwd=_folder(".", env))
    here = any(session.here for session in sessions)
    picker = Picker(sessions=sessions, folder=_folder(".", env), all_folders=not here, changes=True)
    return await pick(picker, terminal, do=done)


def _print_sessions(env: Mapping[str, str]) -> int:
    """Where nobody can choose: the list, of this folder or else of all, and exit code 2."""
    store = session_store(env)
    try:
        lines = session_lines(store, os.path.realpath(".")) or session_lines(store, None)
    finally:
        store.close()
    if not lines:
        raise CommandRefused("NoSessionHere", cwd=_folder(".", env))
    say("\n".join(lines) + "\n")
    raise UsageError("Which one? bridle -r ID")


async def listed_sessions(connection: Connection, env: Mapping[str, str], here: str) -> tuple[Listed, ...]:
    """Every session somebody has said something in, the one used last first, for somebody in the folder `here`."""
    here, now_ms, home = real_folder(here), time.time_ns() // 1_000_000, env.get("HOME", "")
    found = (await connection.ask(ListSessions())).sessions
    return tuple(listed(one, now_ms=now_ms, here=here, home=home) for one in found)


async def do_deed(connection: Connection, deed: Deed) -> None:
    """Does what a person wants done to a session of the list. Raises `BridleError` when it cannot be."""
    match deed.what:
        case "fork":
            await connection.send(BranchSession(session=deed.id))
        case "pin":
            pinned = (await connection.ask(DescribeSession(session=deed.id))).session.pinned
            await connection.send(PinSession(session=deed.id, pinned=not pinned))
        case "rename":
            await connection.send(RenameSession(session=deed.id, title=deed.title))
        case "delete":
            await connection.send(DeleteSession(session=deed.id))


MAX_BYTES = 64 * 1024


class StartMemory:
    """One private file per folder. Losing it costs nothing but a few lines more at the next start."""

    def __init__(self, state_folder: str, cwd: str) -> None:
        name = hashlib.sha256(cwd.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        self._folder = os.path.join(state_folder, "starts")
        self._path = os.path.join(self._folder, f"{name}.json")

    def said(self) -> dict[str, str]:
        """What each line said, by its name; nothing where nobody started here yet."""
        try:
            return msgspec.json.decode(read_limited(self._path, MAX_BYTES).data, type=dict[str, str])
        except (OSError, msgspec.MsgspecError):
            return {}

    def keep(self, said: Mapping[str, str]) -> None:
        if said == self.said():
            return
        with suppress(OSError):
            private_folder(self._folder)
            write_atomic(self._path, msgspec.json.encode(said), durable=False)


MOST = 5_000
SKIPPED = frozenset({"node_modules", "__pycache__"})


def paths_below(folder: str, most: int = MOST) -> list[str]:
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
                if not entry.name.startswith(".") and entry.name not in SKIPPED and _is_text(entry.name)
            ]
    except OSError:
        return []
    return sorted(found)


def _is_text(name: str) -> bool:
    """A name that is no UTF-8 cannot be written in a message."""
    return not any("\ud800" <= character <= "\udfff" for character in name)
