"""A slash command as a value, and the table that finds, completes, explains and runs commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

import msgspec

from bridle.base.text.terminal_text import visible_line
from bridle.clients.interaction.composer.word_completion import closest
from bridle.clients.interaction.effects import Do, Effect, SayWords, SessionHost
from bridle.clients.interaction.engine_info import EngineInfo
from bridle.clients.interaction.view import SessionView
from bridle.protocol.commands import RunSlash
from bridle.protocol.errors import sentence
from bridle.protocol.slash_arguments import (
    LONG_NAMES,
    SlashArgument,
    bare_name,
    in_full,
    schema_arguments,
    usage_words,
)

NAME_COLUMNS: Final = 14


class SlashContext(msgspec.Struct, frozen=True, kw_only=True):
    """The state that a command may need: the session, what the engine said, and the commands there are."""

    session: str
    view: SessionView
    info: EngineInfo
    table: SlashTable
    is_file: Callable[[str], bool]


Handler: TypeAlias = Callable[[SlashContext, str], Sequence[Effect]]
"""Carries out a command with the text behind its name."""


class SlashCommand(msgspec.Struct, frozen=True):
    """A command that a client carries out itself.

    One `with_verbs` is also written `/name:verb`. One that `takes_any` ignores text behind it; without arguments others
    refuse it. `after_sending` waits until all that was sent before has arrived.
    """

    name: str
    help: str
    run: Handler
    arguments: tuple[SlashArgument, ...] = ()
    aliases: tuple[str, ...] = ()
    with_verbs: bool = False
    takes_any: bool = False
    after_sending: bool = False


class SlashTable(msgspec.Struct, frozen=True):
    """The commands of a client, in the order of `/help`. A name that none has is the engine's."""

    commands: tuple[SlashCommand, ...]

    def find(self, name: str) -> SlashCommand | None:
        return next((one for one in self.commands if name == one.name or name in one.aliases), None)

    def run(self, name: str, arguments: str, now: SlashContext) -> Sequence[Effect]:
        """Carry out `/name arguments`, or have the engine do it."""
        name, arguments = self._spell(*self._expand_alias(name, arguments, now.info))
        command = self.find(name)
        if command is None:
            return (RunSlash(session=now.session, name=name, arguments=arguments),)
        if arguments.strip() and not command.arguments and not command.takes_any:
            return say(sentence("NoWords", {"name": name, "hint": ""}))
        return command.run(now, arguments)

    def own_names(self) -> tuple[str, ...]:
        """Return the names of the client's own commands."""
        return tuple(name for one in self.commands for name in (one.name, *one.aliases))

    def names(self, info: EngineInfo) -> tuple[str, ...]:
        profiles = (f"profiles:{name}" for name in info.profiles)
        return tuple(dict.fromkeys((*self.own_names(), *profiles, *(one.name for one in info.prompts))))

    def completed_names(self, info: EngineInfo) -> tuple[str, ...]:
        """Return the names that Tab knows: every one, and the long form of some."""
        long = (f"{namespace}:{name}" for namespace, listed in LONG_NAMES.items() for name in listed)
        return (*self.names(info), *long)

    def arguments_of(self, name: str, info: EngineInfo) -> tuple[SlashArgument, ...]:
        """Return the arguments of a command; none where they are unknown."""
        name, verb = self._spell(name, "")
        command = self.find(name)
        if command is not None:
            return command.arguments[1 if verb else 0 :]
        found = next((one for one in info.prompts if one.name == name), None)
        return () if found is None else schema_arguments(found.args_schema)

    def choices_for(self, name: str, at: int, info: EngineInfo) -> tuple[str, ...]:
        """Return the words that may stand in a place behind a name; empty where it could be anything."""
        command = self.find(name)
        if command is not None and command.name == "help":
            return self.names(info) if at == 0 else ()
        arguments = self.arguments_of(name, info)
        return (*arguments[at].choices, *arguments[at].examples) if at < len(arguments) else ()

    def nearest_words(self, name: str, info: EngineInfo) -> str:
        """Return a hint at the name that was likely meant; empty where none is near."""
        near = closest(name, self.names(info))
        return f" Close: /{near}" if near else ""

    def help_lines(self, info: EngineInfo) -> tuple[str, ...]:
        own = (_entry(one.name, f"{one.help}{_also(one.aliases)}") for one in self.commands)
        prompts = (_entry(one.name, one.description) for one in info.prompts if self.find(one.name) is None)
        return (*own, *prompts)

    def help_of(self, name: str, info: EngineInfo) -> tuple[str, ...]:
        """Return how one command is written, what it does, and what each argument is."""
        name = name.strip().removeprefix("/")
        command = self.find(self._spell(name, "")[0])
        prompt = next((one for one in info.prompts if one.name == name), None)
        if command is None and prompt is None:
            shown = visible_line(name)
            return (f"There is no command /{shown}.{self.nearest_words(name, info)} /help lists them.",)
        does = command.help if command is not None else prompt.description if prompt is not None else ""
        arguments = self.arguments_of(name, info)
        return (
            visible_line(usage_words(name, arguments)),
            f"  {visible_line(does)}",
            *(f"  {visible_line(line)}" for line in map(_argument_words, arguments) if line),
        )

    def _expand_alias(self, name: str, arguments: str, info: EngineInfo) -> tuple[str, str]:
        lines = {one.name: one.stands_for for one in info.prompts if one.stands_for}
        return (name, arguments) if self.find(name) is not None else in_full(name, arguments, lines)

    def _spell(self, name: str, arguments: str) -> tuple[str, str]:
        """Read `/permissions:revoke 2` as `/permissions revoke 2`, and `/run:stop` as `/stop`; not `/git:…`."""
        if not name.startswith("git:"):
            name = bare_name(name)
        lead, colon, verb = name.partition(":")
        command = self.find(lead)
        spaced = colon and command is not None and command.with_verbs
        return (lead, f"{verb} {arguments}".strip()) if spaced else (name, arguments)


def say(*lines: str, indent: str = "  ") -> tuple[SayWords, ...]:
    return tuple(SayWords(line, indent) for line in lines)


def do(work: Callable[[SessionHost, str], Awaitable[None]]) -> Handler:
    """Return the handler of a command that is nothing but this work."""
    return lambda _now, arguments: (Do(work, arguments),)


def busy_words(what: str, view: SessionView) -> str:
    """Return the answer to a request that has to wait for the running turn or command."""
    return f"A {'turn' if view.in_turn else 'command'} is running. /stop ends it, then {what} goes on."


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _argument_words(argument: SlashArgument) -> str:
    known = " ".join((*argument.choices, *argument.examples))
    told = ": ".join(filter(None, (argument.about, known)))
    return f"{argument.name:<{NAME_COLUMNS - 3}} {told}" if told else ""


def _entry(name: str, does: str) -> str:
    return f"{'/' + name:<{NAME_COLUMNS - 1}} {does}"


def _also(aliases: tuple[str, ...]) -> str:
    return f"  (also {', '.join('/' + name for name in aliases)})" if aliases else ""
