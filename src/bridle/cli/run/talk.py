"""`bridle`: an interactive session at the terminal."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import AsyncExitStack, closing

import msgspec

from bridle._version import __version__
from bridle.app.engine import running_engine
from bridle.app.service.serving import shared_engine
from bridle.app.user.stored_keys import session_store
from bridle.base.clock import SystemClock
from bridle.base.fs.files import real_folder
from bridle.base.text.terminal_text import visible_line
from bridle.cli.accounts.first_run import DEMO_MODEL, choose_model
from bridle.cli.console import say, say_line, say_lines, tolerate_characters
from bridle.cli.engine_attach import connect_to_engine, terminal_look, why_in_process, why_untold
from bridle.cli.option_values import user_settings, with_env_file
from bridle.cli.policy.trust import review_named, review_settings
from bridle.cli.run.demo import run_demo
from bridle.cli.run.run import engine_may_answer, going_on, session_wanted, tell, with_log_options
from bridle.cli.sessions.session_changes import expiry_notice
from bridle.cli.sessions.sessions import session_lines
from bridle.cli.stdin import typed_line, unlocked
from bridle.cli.terminal_services import StartMemory, terminal_services
from bridle.cli.verbs.rows import Args, Env
from bridle.clients.interaction.composer.picker import Picker
from bridle.clients.interaction.render.start_info import StartInfo, folder_words, rules_line
from bridle.clients.interaction.session.opening import ChangeSession, pick_stored_session, prepare_session
from bridle.clients.line.client import talk
from bridle.clients.line.live_terminal import pick
from bridle.clients.line.terminal import Terminal
from bridle.clients.remote import RemoteConnection
from bridle.config.folders import folders
from bridle.control.engine_settings import EngineSettings
from bridle.protocol.commands import CreateSession
from bridle.protocol.connection import Connection
from bridle.protocol.errors import CommandRefused, UsageError, sentence
from bridle.protocol.queries import ListProviders, SessionPreview
from bridle.providers import DEMO
from bridle.safety.wide_folders import AcceptedFolders

LEAVE_S = 2.0
DEMO_STORY = f"{DEMO}:story"
ATTACH = "bridle attach"


def talk_verb(parsed: Args, env: Env) -> int:
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        if parsed.resume == "":
            return _print_sessions(env)
        raise UsageError("bridle talks at a terminal. For scripts and pipes: bridle run PROMPT")
    tolerate_characters()
    env = with_env_file(env, parsed.env_file)
    review_settings(parsed, env)
    return asyncio.run(_talk(parsed, unlocked(with_log_options(env, parsed), model=parsed.model)))


async def _talk(parsed: Args, env: Env) -> int:
    async with AsyncExitStack() as stack:
        connection: Connection | None = None
        if engine_may_answer(parsed, env):
            connection = await _engine_elsewhere(parsed, env)
        if connection is None:
            shares = user_settings(env).section("engine", EngineSettings).share
            own = running_engine(env, notice=tell, waits_for_room=True, listening=shares)
            engine = await stack.enter_async_context(own)
            if shares:
                others = shared_engine(engine, where=folders(env), clock=SystemClock(), notice=tell)
                await stack.enter_async_context(others)
            connection = engine.connect(name="terminal", answers=True)
        stack.push_async_callback(connection.close)
        return await _talk_through(connection, parsed, env)


async def _engine_elsewhere(parsed: Args, env: Env) -> RemoteConnection | None:
    """A client of the engine that listens; None where this has to run here."""
    create = session_wanted(parsed, env)
    if (why := why_in_process(parsed, env, create) or why_untold(create)) is not None:
        if parsed.verbose:
            tell(f"runs in this process: {why}")
        return None
    return await connect_to_engine(env, name="terminal", answers=True)


async def _talk_through(connection: Connection, parsed: Args, env: Env) -> int:
    terminal = Terminal(look=terminal_look(parsed, env))
    link = connection.link if isinstance(connection, RemoteConnection) else None
    host = TerminalStart(connection, parsed, terminal, env)
    resume = None
    if parsed.resume == "":
        here, home = real_folder("."), env.get("HOME", "")
        resume = await pick_stored_session(
            connection, host, here=here, home=home, now_ms=SystemClock().now_ms
        )
        if resume is None:
            return 0
    opening = await prepare_session(connection, host, resume=resume, folder_named=parsed.cwd is not None)
    if opening is None:
        return 0
    create, about = opening.create, opening.about
    if about.model is None and create.model == DEMO:
        return await run_demo(env)
    if about.model == DEMO and create.resume is None:  # in a conversation it plays a small story
        create = msgspec.structs.replace(create, model=DEMO_STORY)
    if not about.notify:
        terminal.look = msgspec.structs.replace(terminal.look, notify="off")
    await _tell_what_expires(connection, env)
    return await talk(
        connection,
        create,
        terminal,
        services=terminal_services(about.cwd, env, come_back="" if link is None else ATTACH, link=link),
        start=_start_info(about, opening.model_from, env),
        first_prompt=" ".join(parsed.prompt) or None,
    )


class TerminalStart:
    """An `OpeningHost` that asks at this terminal, line by line."""

    def __init__(
        self,
        connection: Connection,
        parsed: Args,
        terminal: Terminal,
        env: Env,
    ) -> None:
        self._connection = connection
        self._parsed = parsed
        self._terminal = terminal
        self._env = env

    async def pick_session(self, picker: Picker, change: ChangeSession) -> str | None:
        return await pick(picker, self._terminal, do=change)

    async def request_session(self, resume: str | None) -> CreateSession:
        if resume is not None:
            self._parsed.resume = resume
        return await going_on(session_wanted(self._parsed, self._env), self._parsed, self._connection)

    def review_settings(self, path: str) -> bool:
        return review_named(path, self._env)

    def accept_folder(self, folder: str, why: str) -> bool:
        """Ask once for each folder."""
        accepted = AcceptedFolders(folders(self._env).state)
        if accepted.hold(folder):
            return True
        if accepted.problem is not None:
            tell(sentence("TrustFileUnsafe", {"path": accepted.path, "problem": accepted.problem}))
        shown = visible_line(_folder(folder, self._env))
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

    async def choose_model(self, create: CreateSession) -> tuple[str, str] | None:
        """Use a key that is there, or ask where there is something to choose."""
        found = await self._connection.ask(ListProviders(which="running", create=create))
        if found.default is not None and not any(one.running for one in found.providers):
            return found.default, ""
        say(f"Bridle {__version__} · {visible_line(_folder(create.cwd, self._env))}\n\n")
        try:
            columns = os.get_terminal_size(sys.stdout.fileno()).columns
            model = await choose_model(self._connection, create, found, _ask, say_line, columns=columns)
        except (EOFError, KeyboardInterrupt):
            print()
            return None
        if model is None:
            return None
        if model == DEMO_MODEL:
            return DEMO, ""
        local = "Cost: none, it is local." if model.local else "Change it with /model."
        say(f"Saved: {visible_line(model.model)}. {local}\n\n")
        return model.model, "chosen just now"


def _start_info(about: SessionPreview, model_from: str, env: Env) -> StartInfo:
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


def _folder(cwd: str, env: Env) -> str:
    return folder_words(os.path.abspath(cwd), env.get("HOME", ""))


async def _tell_what_expires(connection: Connection, env: Env) -> None:
    """Once a day, before content goes."""
    told = await expiry_notice(connection, folders(env).state, now_ms=time.time_ns() // 1_000_000)
    if told is not None:
        tell(told)


def _print_sessions(env: Env) -> int:
    """Where nobody can choose: the list, of this folder or else of all, and exit code 2."""
    with closing(session_store(env)) as store:
        lines = session_lines(store, os.path.realpath(".")) or session_lines(store, None)
    if not lines:
        raise CommandRefused("NoSessionHere", cwd=_folder(".", env))
    say_lines(lines)
    raise UsageError("Which one? bridle -r ID")
