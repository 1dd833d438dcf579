"""A slash command the engine carries out itself. Named prompts are none: they become input like any other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec

from bridle.protocol.events import Compacted, ContextAdded, GitEnded, InputAccepted, Notice, UndoApplied

SlashEvent: TypeAlias = ContextAdded | Compacted | UndoApplied | GitEnded | InputAccepted | Notice
"""What a command comes to: something for the conversation, which people see too, words that are to be answered, or
something for people only."""


class SlashCommand(msgspec.Struct, frozen=True, kw_only=True):
    """`run` gets what was written behind the name; `BridleError` says why not.

    It changes nothing but what a person told it to, and asks before it changes files. With `others` every name that
    begins with its own and a colon is its too: `/name:other words` is `/name other words`. They are what it can tell of
    them now, each with what it does.
    """

    name: str
    does: str
    run: Callable[[str], Awaitable[SlashEvent]]
    others: Callable[[], Mapping[str, str]] | None = None

    def called(self, name: str) -> str | None:
        """What stands before the arguments where it is called by this name; None where that is not its own."""
        if name == self.name:
            return ""
        mine = self.others is not None and name.startswith(f"{self.name}:")
        return name[len(self.name) + 1 :] if mine else None
