"""A slash command the engine carries out itself. Named prompts are none: they become input like any other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from bridle.protocol.events import Compacted, ContextAdded, GitEnded, Notice, UndoApplied

SlashEvent: TypeAlias = ContextAdded | Compacted | UndoApplied | GitEnded | Notice
"""What a command comes to: something for the conversation, which people see too, or something for people only."""


class SlashCommand(msgspec.Struct, frozen=True, kw_only=True):
    """`run` gets what was written behind the name; `BridleError` says why not.

    It changes nothing but what a person told it to, and asks before it changes files.
    """

    name: str
    does: str
    run: Callable[[str], Awaitable[SlashEvent]]
