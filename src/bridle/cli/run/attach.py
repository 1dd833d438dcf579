"""`bridle attach`: join a session of a running engine."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys

from bridle._version import __version__
from bridle.base.net.engine_place import EnginePlace
from bridle.cli.console import say_raw, tell, tolerate_characters
from bridle.cli.engine_attach import tell_link, terminal_look
from bridle.cli.run.talk import ATTACH
from bridle.cli.terminal_services import terminal_services
from bridle.cli.verbs.rows import Args, Env
from bridle.clients.engine_address import engine_address, unix_address
from bridle.clients.interaction.render.start_info import StartInfo
from bridle.clients.line.client import talk
from bridle.clients.line.terminal import Terminal
from bridle.clients.remote import Open, RemoteConnection, connect_remote, engine_opener, place_opener
from bridle.clients.replay import EventReplay
from bridle.config.folders import folders
from bridle.control.token_files import read_token_file
from bridle.protocol.commands import AttachSession, CreateSession
from bridle.protocol.errors import CommandRefused, UsageError
from bridle.protocol.queries import DescribeSession, ListSessions, SessionInfo
from bridle.protocol.tokens import Claims, claims_said, only_session
from bridle.sandbox.plain_spawn import allowed_environment


def attach(parsed: Args, env: Env) -> int:
    claims = _claims(_token_file(parsed, env))
    says = claims is None or claims.covers_command("SendInput")
    answers = claims is None or claims.covers_command("AnswerPermission")
    parsed.watch = parsed.watch or not (says or answers)
    if not parsed.watch and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("bridle attach is for a terminal. Only to look on: bridle attach --watch")
    tolerate_characters()
    if parsed.watch:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return asyncio.run(_attach(parsed, env))


async def _attach(parsed: Args, env: Env) -> int:
    opener, address = _way_there(parsed, env)
    connection = await connect_remote(opener, address=address, name="terminal", answers=not parsed.watch)
    try:
        session = await _session_meant(connection, parsed, env)
        if parsed.watch:
            connection.link.hear = tell_link(tell)
            claims = _claims(_token_file(parsed, env))
            return await _watch(connection, session.id, claims.name if claims else "")
        return await talk(
            connection,
            CreateSession(cwd=session.cwd, env=allowed_environment(env)),
            Terminal(look=terminal_look(parsed, env)),
            services=terminal_services(
                _folder_here(session.cwd),
                env,
                come_back=_come_back(parsed, env),
                link=connection.link,
                claims=_claims(_token_file(parsed, env)),
            ),
            start=StartInfo(version=__version__),
            opened=await connection.send(AttachSession(session=session.id)),
        )
    finally:
        await connection.close()


def _come_back(parsed: Args, env: Env) -> str:
    """The command that leads here again, but for the session."""
    if (url := _url(parsed, env)) is None:
        return ATTACH
    options = (("--token-file", _token_file(parsed, env)), ("--ca-file", parsed.ca_file))
    given = [word for name, value in options if value for word in (name, value)]
    return f"{ATTACH} {shlex.join([url, *given])} --session"


def _url(parsed: Args, env: Env) -> str | None:
    """The address that was given; None for the person's own engine."""
    return parsed.target if "://" in (parsed.target or "") else env.get("BRIDLE_URL") or None


def _way_there(parsed: Args, env: Env) -> tuple[Open, str]:
    """To the engine that an address names, or to the person's own."""
    token_file = _token_file(parsed, env)
    if url := _url(parsed, env):
        if token_file is None:
            raise UsageError(f"{url} wants a token: --token-file FILE, or BRIDLE_TOKEN_FILE")
        return engine_opener(
            engine_address(url, ca_file=parsed.ca_file), lambda: read_token_file(token_file)
        ), url
    place = EnginePlace(folders(env).runtime)
    if token_file is not None:
        return engine_opener(unix_address(place.socket), lambda: read_token_file(token_file)), place.socket
    return place_opener(place), place.socket


def _token_file(parsed: Args, env: Env) -> str | None:
    return parsed.token_file or env.get("BRIDLE_TOKEN_FILE")


def _claims(token_file: str | None) -> Claims | None:
    """What a token says of itself, where there is one."""
    return None if token_file is None else claims_said(read_token_file(token_file))


async def _session_meant(connection: RemoteConnection, parsed: Args, env: Env) -> SessionInfo:
    """The one that was named, or that the token is for; else the newest open one, of this folder if there is one."""
    named = parsed.session or (None if "://" in (parsed.target or "") else parsed.target)
    if named is None:
        named = only_session(_claims(_token_file(parsed, env))) or None
    if named is not None:
        return (await connection.ask(DescribeSession(session=named))).session
    listed = (await connection.ask(ListSessions())).sessions
    running = [one for one in listed if one.state != "stored"]
    here = _folder_here(".")
    found = next((one for one in running if one.cwd == here), running[0] if running else None)
    if found is None:
        raise CommandRefused("NoSessionHere", cwd="this engine")
    return found


def _folder_here(folder: str) -> str:
    """The folder on this machine; where it is none here, that of this process."""
    return os.path.realpath(folder if os.path.isdir(folder) else ".")


async def _watch(connection: RemoteConnection, session: str, reader: str) -> int:
    """What happens, as text that only grows, until the session ends or Ctrl-C."""
    await connection.send(AttachSession(session=session))
    tell(f"watching {session}; Ctrl-C leaves it as it is")
    replay = EventReplay(reader)
    async for envelope in connection.events(session):
        text, _ = replay.of(envelope)
        if text and (code := say_raw(text)):
            return code
    code = say_raw(replay.end())
    tell("the session has ended here")
    return code
