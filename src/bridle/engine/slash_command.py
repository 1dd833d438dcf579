"""A slash command: what people are told of it, and one the engine carries out itself.

Named prompts have the first only: they become input like any other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import msgspec

from bridle.protocol.events import (
    Compacted,
    ContextAdded,
    GitEnded,
    GoalEnded,
    InputAccepted,
    Notice,
    SkillRegistryChanged,
    UndoApplied,
)
from bridle.protocol.slash_arguments import ANY_WORDS, SlashArgument

SlashEvent: TypeAlias = (
    ContextAdded
    | Compacted
    | UndoApplied
    | GitEnded
    | GoalEnded
    | InputAccepted
    | SkillRegistryChanged
    | Notice
)
"""What a command comes to: something for the conversation, which people see too, words that are to be answered, or
something for people only."""


class DescribedSlash(msgspec.Struct, frozen=True, kw_only=True):
    """A slash command as lists, help and completion show it. `stands_for` is the line behind an alias."""

    name: str
    does: str
    arguments: tuple[SlashArgument, ...] = (ANY_WORDS,)
    stands_for: str = ""


class SlashCommand(DescribedSlash, frozen=True, kw_only=True):
    """`run` gets what was written behind the name; `BridleError` says why not.

    It changes nothing but what a person told it to, and asks before it changes files. Words that its `arguments` do
    not take never reach it, but where it `checks_words` itself because it ends in a way of its own. With `others` every
    name that begins with its own and a colon is its too: `/name:other words` is `/name other words`. They are what it
    can tell of them now, by their whole names. `at_once` carries out what needs no waiting, also while a turn runs;
    None for words that wait their turn.
    """

    run: Callable[[str], Awaitable[SlashEvent]]
    at_once: Callable[[str], SlashEvent | None] | None = None
    others: Callable[[], Sequence[DescribedSlash]] | None = None
    checks_words: bool = False

    @classmethod
    def of(
        cls,
        told: DescribedSlash,
        run: Callable[[str], Awaitable[SlashEvent]],
        *,
        checks_words: bool = False,
        at_once: Callable[[str], SlashEvent | None] | None = None,
    ) -> SlashCommand:
        """The command that is told of like this."""
        return cls(
            name=told.name,
            does=told.does,
            arguments=told.arguments,
            run=run,
            checks_words=checks_words,
            at_once=at_once,
        )

    def called(self, name: str) -> str | None:
        """What stands before the arguments where it is called by this name; None where that is not its own."""
        if name == self.name:
            return ""
        mine = self.others is not None and name.startswith(f"{self.name}:")
        return name[len(self.name) + 1 :] if mine else None


class SaidPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A named prompt as input, with the events that join the conversation first. `agree` asks a person before it is
    said, and raises `BridleError` for a no."""

    text: str
    context: ContextAdded | None = None
    agree: Callable[[], Awaitable[None]] | None = None


class SessionPrompts(msgspec.Struct, frozen=True, kw_only=True):
    """`names` are those there are now, by their whole names. `say` gives what a name with its arguments comes to, or
    None where that is not its own; `BridleError` says why not. `of_people` is the namespace of those that only a person
    says; empty where agents may too."""

    names: Callable[[], Sequence[DescribedSlash]]
    say: Callable[[str, str], SaidPrompt | None]
    of_people: str = ""
