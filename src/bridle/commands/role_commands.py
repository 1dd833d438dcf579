"""`/plan`, `/solve`, `/code`, `/auto`: what people are told of the commands that have an agent work by itself."""

from __future__ import annotations

from bridle.engine.slash_command import DescribedSlash
from bridle.protocol.slash_arguments import SlashArgument

_WORDS = (SlashArgument(name="words", about="what it is to work on"),)
ROLE_COMMANDS: tuple[DescribedSlash, ...] = (
    DescribedSlash(
        name="plan",
        does="reading only from here on; with words, a plan for them by an agent without tools: /plan [words]",
        arguments=_WORDS,
    ),
    DescribedSlash(
        name="solve", does="an agent that only reads looks for the cause: /solve words", arguments=_WORDS
    ),
    DescribedSlash(name="code", does="an agent of its own does it: /code words", arguments=_WORDS),
    DescribedSlash(
        name="auto",
        does="planned, done and looked at by an agent each, one after the other: /auto words",
        arguments=_WORDS,
    ),
)
"""For the list of commands."""
