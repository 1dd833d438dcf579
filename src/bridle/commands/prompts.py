"""Slash commands that are a prompt with a name: what the person would have had to write."""

from __future__ import annotations

from bridle.engine.slash_command import DescribedSlash
from bridle.protocol.slash_arguments import SlashArgument

INIT = """\
Draft an AGENTS.md for this repository: what a newcomer who works here with an agent must know.
Look first: the README, the build files, the tests and how they are run, the folders, the style of the code.
Then write AGENTS.md in the root, at most 80 lines: a map of the folders, the commands that build, test and
check, the rules this code base really follows, with reasons. State only what you found. If there is an
AGENTS.md already, improve it and keep what is true."""

REVIEW = """\
Review the uncommitted changes of this repository as a careful colleague would: run git diff and git status,
read what the changes touch, and look for bugs, missing tests, unclear names and things done twice. Change
nothing. Answer with findings, the most serious first, each with file and line, what goes wrong and what you
would do."""


class NamedPrompt(DescribedSlash, frozen=True, kw_only=True):
    """A command that is words for the model. What is written behind its name follows them."""

    words: str


_MORE = SlashArgument(name="words", about="what else the model is to know or to look at")
PROMPTS: tuple[NamedPrompt, ...] = (
    NamedPrompt(
        name="init", does="have an AGENTS.md written for this repository", arguments=(_MORE,), words=INIT
    ),
    NamedPrompt(
        name="review",
        does="have the uncommitted changes reviewed; nothing is changed",
        arguments=(_MORE,),
        words=REVIEW,
    ),
)


def prompt_of(name: str, arguments: str) -> str | None:
    """The words behind `/name arguments`; None when there is no such command."""
    found = next((one for one in PROMPTS if one.name == name), None)
    if found is None:
        return None
    return f"{found.words}\n\n{arguments}" if arguments.strip() else found.words
