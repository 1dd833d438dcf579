"""`bridle`: talk with a session at the terminal, new, continued or picked from a list."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from bridle._version import __version__
from bridle.app.engine import Engine, running_engine, session_store
from bridle.app.project_trust import agreed_and_waiting
from bridle.app.query_answers import is_local
from bridle.app.session_features import instruction_files
from bridle.app.settings import SessionSettings, session_options, session_settings
from bridle.base.clock import SystemClock
from bridle.base.visible import visible
from bridle.cli.console import say, tolerate_characters
from bridle.cli.first_run import DEMO, choose_model
from bridle.cli.history import PromptHistory
from bridle.cli.path_options import with_env_file
from bridle.cli.run import session_wanted, tell, with_log_options
from bridle.cli.sessions import session_lines
from bridle.cli.start_memory import StartMemory
from bridle.cli.stdin import typed_line
from bridle.cli.terminal_look import terminal_look
from bridle.cli.trust import review_settings
from bridle.cli.unlock import unlocked
from bridle.clients.interaction.client_services import ClientServices
from bridle.clients.interaction.picker import Deed, Listed, Picker
from bridle.clients.interaction.start_info import StartInfo, StartLine, rules_line
from bridle.clients.line.client import talk
from bridle.clients.line.terminal import Terminal
from bridle.clients.stored_sessions import folder_words
from bridle.config.folders import folders, home_of
from bridle.config.settings_writer import set_value
from bridle.protocol.commands import CreateSession
from bridle.protocol.connection import Connection
from bridle.protocol.errors import CommandRefused, UsageError, sentence
from bridle.protocol.events import GrantAdded
from bridle.protocol.queries import DescribeSession
from bridle.safety.trust.approvals import Approvals, session_approvals
from bridle.safety.wide_folders import AcceptedFolders, why_wide
from bridle.sessions.store import SessionStore

if TYPE_CHECKING:
    from bridle.engine.store_ports import Archive

MAX_SHOWN_BYTES = 1 << 20
LEAVE_S = 2.0
DEMO_STORY = f"{DEMO}:story"


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
    if parsed.resume == "":
        chosen = await _picked(terminal, env)
        if chosen is None:
            return 0
        parsed.resume = chosen
    create = session_wanted(parsed, env)
    async with running_engine(env, notice=tell, waits_for_room=True) as engine:
        connection = engine.connect(name="terminal", answers=True)
        folder = await _folder_of(create, connection)
        if not parsed.folder_named and (why := why_wide(folder, home_of(env))) is not None:
            if not _accepts_wide(folder, why, env):
                return 0
            create = msgspec.structs.replace(create, config={**create.config, "wide_folder": folder})
        model_from = _model_from(parsed, env)
        create = _with_story(create, parsed, env)
        if create.resume is None and create.model is None and not model_from:
            model, chosen_by = await _first_model(engine, create, env)
            if model is None:
                return 0
            if model == DEMO:
                return await _demo(env)
            create = _with_model(create, model)
            model_from = chosen_by
        await _tell_what_expires(engine.sessions, env)
        try:
            return await talk(
                connection,
                create,
                terminal,
                services=_services(folder, env),
                start=_start_info(create, folder, model_from, env),
                first_prompt=" ".join(parsed.prompt) or None,
            )
        finally:
            await connection.close()


def _start_info(create: CreateSession, folder: str, model_from: str, env: Mapping[str, str]) -> StartInfo:
    """What this start says before the person may write."""
    memory = StartMemory(folders(env).state, folder)
    return StartInfo(
        version=__version__,
        branch=_branch(folder),
        model_from=model_from,
        lines=(_rules_line(create, folder, env),),
        said=memory.said(),
        keep=memory.keep,
    )


def _rules_line(create: CreateSession, folder: str, env: Mapping[str, str]) -> StartLine:
    where = folders(env)
    options = session_options(create)
    settings = session_settings(options, where=where, cwd=folder, env=env)
    approvals = session_approvals(Approvals(where.config), lockfile=options.lockfile, env=env, cwd=folder)
    used, waiting = agreed_and_waiting(approvals, instruction_files(where, folder, settings))
    return rules_line([file.shown for file in used], [file.shown for file in waiting])


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


def _model_from(parsed: argparse.Namespace, env: Mapping[str, str]) -> str:
    """Where the choice of model comes from; empty when nobody made one."""
    if parsed.model:
        return "--model"
    config = {"config_file": parsed.config, "sets": parsed.set}
    options = session_options(CreateSession(cwd=".", profile=parsed.profile, config=config))
    settings = session_settings(options, where=folders(env), cwd=os.path.realpath(parsed.cwd), env=env)
    if settings.model is None:
        return ""
    return "BRIDLE_MODEL" if env.get("BRIDLE_MODEL") == settings.model else "config"


def _settings(create: CreateSession, env: Mapping[str, str]) -> SessionSettings:
    return session_settings(session_options(create), where=folders(env), cwd=create.cwd, env=env)


async def _first_model(
    engine: Engine, create: CreateSession, env: Mapping[str, str]
) -> tuple[str | None, str]:
    """The model of somebody who named none, and who chose it. A key that is there goes straight in."""
    models = engine.known_for(_settings(create, env)).models
    await models.look_for_stored()
    keyed = models.default_of_keys()
    if keyed is not None and not await models.local_servers():  # with both there is something to choose
        return keyed, ""
    say(f"Bridle {__version__} · {visible(_folder(create.cwd, env), newlines=False)}\n\n")
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
        model = await choose_model(models, _ask, _say_line, columns=columns)
    except (EOFError, KeyboardInterrupt):
        print()
        return None, ""
    if model is not None and model != DEMO:
        models.choose(model)
        set_value(folders(env), "model", model)
        of = model.partition(":")[0]
        local = "Cost: none, it is local." if is_local(models, of) else "Change it with /model."
        say(f"Saved: {visible(model, newlines=False)}. {local}\n\n")
    return model, "chosen just now"


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


async def _demo(env: Mapping[str, str]) -> int:
    from bridle.cli.demo import run_demo

    return await run_demo(env)


def _with_story(create: CreateSession, parsed: argparse.Namespace, env: Mapping[str, str]) -> CreateSession:
    """The demo model of a conversation plays a small story; that of a run says one thing."""
    named = parsed.model or (_settings(create, env).model if create.resume is None else None)
    return _with_model(create, DEMO_STORY) if named == DEMO else create


def _with_model(create: CreateSession, model: str) -> CreateSession:
    return msgspec.structs.replace(create, model=model)


async def _folder_of(create: CreateSession, connection: Connection) -> str:
    """Where the session works: a resumed one stays in its own folder."""
    if create.resume is None:
        return _real(create.cwd)
    return (await connection.ask(DescribeSession(session=create.resume))).session.cwd


def _real(folder: str) -> str:
    return os.path.realpath(folder)


def _services(cwd: str, env: Mapping[str, str]) -> ClientServices:
    state = folders(env).state
    history = PromptHistory(state, cwd)

    async def edit(text: str) -> str | None:
        from bridle.cli.drafts import edited

        return await edited(text, state, env)

    async def page(text: str) -> None:
        from bridle.cli.pager import open_pager

        await open_pager(text, env)

    def save(path: str, text: str) -> str:
        from bridle.cli.drafts import save_new

        return save_new(cwd, path, text)

    def promote(grant: GrantAdded) -> str:
        from bridle.cli.permissions import made_rule
        from bridle.config.tiers import load
        from bridle.safety.grants import Grant

        where = folders(env)
        subject = grant.pattern or None
        kept = Grant(grant_id=grant.grant_id, tool=grant.tool, subject=subject, match=grant.match)
        return made_rule(kept, where, load(where=where, cwd=cwd, env=env).checked())

    def paths() -> Sequence[str]:
        from bridle.cli.mentions import paths_below

        return paths_below(cwd)

    return ClientServices(
        clock=SystemClock(),
        home=env.get("HOME", ""),
        history=history.prompts(),
        save_prompt=history.add,
        is_file=lambda path: os.path.isfile(os.path.join(cwd, path)),
        paths=paths,
        edit=edit,
        page=page,
        save=save,
        promote=promote,
    )


def _folder(cwd: str, env: Mapping[str, str]) -> str:
    return folder_words(os.path.abspath(cwd), env.get("HOME", ""))


def _branch(cwd: str) -> str:
    """The git branch, read from the repository's own note; no git command is run for it."""
    folder = cwd
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return ""
        folder = parent
    head = _text(os.path.join(folder, ".git", "HEAD")) or ""
    return head.strip().removeprefix("ref: refs/heads/") if head.startswith("ref: ") else ""


def _text(path: str) -> str | None:
    from bridle.base.files import read_limited

    try:
        contents = read_limited(path, MAX_SHOWN_BYTES)
    except (OSError, ValueError):
        return None
    return None if contents.truncated else contents.data.decode("utf-8", "replace")


def _listed(store: SessionStore, env: Mapping[str, str]) -> tuple[Listed, ...]:
    from bridle.cli.session_list import listed_sessions

    return listed_sessions(store, env, ".")


async def _tell_what_expires(archive: Archive, env: Mapping[str, str]) -> None:
    """Once a day, before content goes."""
    from bridle.app.housekeeping import expiry_notice

    now_ms = time.time_ns() // 1_000_000
    told = await expiry_notice(archive, folders(env), env, now_ms=now_ms, cwd=os.getcwd())
    if told is not None:
        tell(told)


async def _picked(terminal: Terminal, env: Mapping[str, str]) -> str | None:
    from bridle.clients.line.session_picker import pick

    store = session_store(env)
    try:
        sessions = _listed(store, env)
        if not sessions:
            raise CommandRefused("NoSessionHere", cwd=_folder(".", env))
        here = any(session.here for session in sessions)
        picker = Picker(sessions=sessions, folder=_folder(".", env), all_folders=not here, changes=True)
        return await pick(picker, terminal, do=lambda deed: _done(store, env, deed))
    finally:
        store.close()


def _done(store: SessionStore, env: Mapping[str, str], deed: Deed) -> tuple[Listed, ...]:
    from bridle.cli.session_list import do_deed

    do_deed(store, env, deed)
    return _listed(store, env)


def _print_sessions(env: Mapping[str, str]) -> int:
    """Where nobody can choose: the list, of this folder or else of all, and exit code 2."""
    store = session_store(env)
    try:
        lines = session_lines(store, everywhere=False) or session_lines(store, everywhere=True)
    finally:
        store.close()
    if not lines:
        raise CommandRefused("NoSessionHere", cwd=_folder(".", env))
    say("\n".join(lines) + "\n")
    raise UsageError("Which one? bridle -r ID")
