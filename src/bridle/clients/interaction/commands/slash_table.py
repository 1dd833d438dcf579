"""The slash commands for sessions, and the table of all commands of a client. A new one is a value in a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from bridle.base.text.terminal_text import visible_line
from bridle.clients.interaction.commands.command_table import (
    NAME_COLUMNS,
    SlashCommand,
    SlashContext,
    SlashTable,
    busy_words,
    is_number,
    say,
)
from bridle.clients.interaction.commands.setting_commands import SETTING_COMMANDS
from bridle.clients.interaction.commands.work_commands import WORK_COMMANDS
from bridle.clients.interaction.composer.keys import KEYS
from bridle.clients.interaction.composer.picker import Listed, listed
from bridle.clients.interaction.effects import (
    Do,
    Effect,
    Fetch,
    LendTerminal,
    PickSession,
    SayWords,
    SessionHost,
    ShowSessions,
)
from bridle.clients.interaction.engine_info import short_id
from bridle.protocol.commands import BranchSession, CancelTurn, PinSession, RenameSession
from bridle.protocol.queries import DescribeSession, ListSessions
from bridle.protocol.slash_arguments import SlashArgument, bare_name


async def list_sessions(host: SessionHost) -> tuple[Listed, ...]:
    """Return every session as it is listed in this folder. This one is marked, once something was said in it."""
    now_ms, home = host.services.clock.now_ms(), host.services.home
    here = (await host.connection.ask(DescribeSession(session=host.session))).session.cwd
    found = (await host.connection.ask(ListSessions())).sessions
    rows = (
        listed(one, now_ms=now_ms, here=here, home=home)
        for one in found
        if one.id != host.session or one.title or one.turns
    )
    return tuple(
        msgspec.structs.replace(one, mark="this one") if one.id == host.session else one for one in rows
    )


async def other_folder_words(host: SessionHost, session: str) -> str:
    """Return how to reach a session of another folder; empty for any other."""
    wanted = session.removeprefix("sess_")
    for one in await list_sessions(host):
        if not one.here and one.id.removeprefix("sess_").startswith(wanted):
            folder = visible_line(one.folder)
            return f"That session belongs to {folder}. In a shell: bridle -C {folder} -r {session}"
    return ""


def _clear(now: SlashContext, _arguments: str) -> Sequence[Effect]:
    return say(busy_words("/clear", now.view)) if now.view.running else (Do(start_new),)


async def start_new(host: SessionHost, _arguments: str) -> None:
    await host.start_session()


def _resume(now: SlashContext, session: str) -> Sequence[Effect]:
    if now.view.running:
        return say(busy_words("/resume", now.view))
    if session:
        return (Do(resume, session),)
    return (Fetch(_fetch_others, PickSession(), PickSession(())),)


async def resume(host: SessionHost, session: str) -> None:
    await host.resume_session(session)


async def _fetch_others(host: SessionHost) -> PickSession:
    """Fetch the sessions to go to from here. Those of other folders need a client in that folder."""
    others = tuple(one for one in await list_sessions(host) if one.here and one.id != host.session)
    if not others:
        host.perform(SayWords("There is no other session in this folder."))
    return PickSession(others)


def _sessions(now: SlashContext, arguments: str) -> Sequence[Effect]:
    verb, _, rest = arguments.partition(" ")
    match verb, rest.strip():
        case (("" | "list"), ""):
            return (Do(show_sessions),)
        case (("resume" | "export"), words):
            return now.table.run(verb, words, now)
        case "pin", "" | "off" as words:
            return (Do(pin, words),)
        case "dismiss", words:
            return (LendTerminal(("sessions", "dismiss", *((words,) if words else ()))),)
        case "branch", words if not words or is_number(words):
            return (Do(branch, words),)
        case "branch", _:
            return say("After which turn? /sessions branch NUMBER")
        case _:
            return say(
                "What about them? /sessions list, resume ID, pin [off], branch [TURN], dismiss, export [path]"
            )


async def show_sessions(host: SessionHost, _arguments: str) -> None:
    sessions = await list_sessions(host)
    if not sessions:
        host.perform(SayWords("There are no sessions to list."))
        return
    here = tuple(session for session in sessions if session.here)
    host.perform(ShowSessions(here or sessions))
    host.perform(SayWords("Go to one: /resume"))


async def pin(host: SessionHost, arguments: str) -> None:
    """Keep the content of this session until it is unpinned."""
    pinned = arguments != "off"
    await host.connection.send(PinSession(session=host.session, pinned=pinned))
    kept = "★ This session is kept until you unpin it: /sessions pin off"
    expires = "This session is not pinned any more; its content expires like that of others."
    host.perform(SayWords(kept if pinned else expires))


async def branch(host: SessionHost, turn: str) -> None:
    """Make a new session that begins like this one. The user stays in this one."""
    command = BranchSession(session=host.session, turn=int(turn) if turn else None)
    made = await short_id(host.connection, (await host.connection.send(command)).session)
    after = f"turn {turn}" if turn else "its last turn"
    words = f"Branched: {made} begins as this session was after {after}. Go to it: /resume {made}"
    host.perform(SayWords(words))


def _rename(_now: SlashContext, title: str) -> Sequence[Effect]:
    return (Do(rename, title),) if title else say("Which title? /rename words")


async def rename(host: SessionHost, title: str) -> None:
    await host.connection.send(RenameSession(session=host.session, title=title))
    host.view.title = visible_line(title)
    host.perform(SayWords(f'This session is now called "{host.view.title}".'))


SESSION_COMMANDS: Final = (
    SlashCommand("clear", "a new session; this one stays listed", _clear, aliases=("new",)),
    SlashCommand(
        "resume",
        "another session, picked from the list or by its id",
        _resume,
        (SlashArgument(name="ID", about="the session, or the beginning of its id"),),
    ),
    SlashCommand(
        "sessions",
        "the sessions of this folder; this one: /sessions pin [off], branch [TURN]",
        _sessions,
        (
            SlashArgument(name="verb", choices=("list", "resume", "pin", "branch", "dismiss", "export")),
            SlashArgument(name="more", about="an id, off, a turn's number or a path"),
        ),
        with_verbs=True,
    ),
    SlashCommand(
        "rename",
        "give this session a title: /rename words",
        _rename,
        (SlashArgument(name="words", about="the title", required=True),),
    ),
)


def _help(now: SlashContext, name: str) -> Sequence[Effect]:
    lines = now.table.help_of(bare_name(name), now.info) if name else now.table.help_lines(now.info)
    return say(*lines, indent=" " * NAME_COLUMNS)


def _keys(_now: SlashContext, _arguments: str) -> Sequence[Effect]:
    return say(*KEYS, indent=" " * 11)


def _stop(now: SlashContext, _arguments: str) -> Sequence[Effect]:
    return (CancelTurn(session=now.session),) if now.view.running else say("No turn is running.")


SLASH: Final = SlashTable(
    (
        SlashCommand(
            "help",
            "this list, or one command: /help NAME",
            _help,
            (SlashArgument(name="NAME", about="one command, with what it takes"),),
        ),
        SlashCommand("keys", "what the keys do", _keys),
        SlashCommand("stop", "stop the running turn", _stop, aliases=("cancel",), takes_any=True),
        *SESSION_COMMANDS,
        *SETTING_COMMANDS,
        *WORK_COMMANDS,
    )
)


def own_names() -> tuple[str, ...]:
    """Return the names of the commands that a client carries out itself."""
    return SLASH.own_names()
