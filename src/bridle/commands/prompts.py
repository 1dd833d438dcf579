"""Slash commands that are a prompt with a name: what the person would have had to write."""

from __future__ import annotations

from collections.abc import Mapping

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

PROMPTS: Mapping[str, str] = {"init": INIT, "review": REVIEW}
DOES: Mapping[str, str] = {
    "init": "have an AGENTS.md written for this repository",
    "review": "have the uncommitted changes reviewed; nothing is changed",
}
"""What each of them does, for the list of commands."""


def prompt_of(name: str, arguments: str) -> str | None:
    """The words behind `/name arguments`; None when there is no such command."""
    text = PROMPTS.get(name)
    if text is None:
        return None
    return f"{text}\n\n{arguments}" if arguments.strip() else text
