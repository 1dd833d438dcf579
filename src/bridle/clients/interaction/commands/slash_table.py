"""The slash commands of a client. A new one is a value in one of the groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bridle.clients.interaction.commands.command_table import (
    NAME_COLUMNS,
    SlashCommand,
    SlashContext,
    SlashTable,
    say,
)
from bridle.clients.interaction.commands.conversation_commands import SESSION_COMMANDS
from bridle.clients.interaction.commands.setting_commands import SETTING_COMMANDS
from bridle.clients.interaction.commands.work_commands import WORK_COMMANDS
from bridle.clients.interaction.composer.keys import KEYS
from bridle.clients.interaction.effects import Effect
from bridle.protocol.commands import CancelTurn
from bridle.protocol.slash_arguments import SlashArgument, bare_name


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
