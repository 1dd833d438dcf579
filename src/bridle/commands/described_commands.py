"""Slash commands as the list of commands shows them: named prompts, agents by role, and git."""

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


_NAME = SlashArgument(name="NAME", about="the name of the new branch", required=True)
_MESSAGE = SlashArgument(name="MESSAGE", about="the message; without one it is drafted")
GIT_COMMANDS: tuple[DescribedSlash, ...] = (
    DescribedSlash(
        name="diff",
        does="what changed since the last commit, for you and the model: /diff git [path]",
        arguments=(SlashArgument(name="path", about="only what changed at or below it"),),
    ),
    DescribedSlash(name="branch", does="make a branch and go to it: /branch NAME", arguments=(_NAME,)),
    DescribedSlash(
        name="commit",
        does="commit what changed; the message is drafted, or yours: /commit [MESSAGE]",
        arguments=(_MESSAGE,),
    ),
    DescribedSlash(
        name="commit-push-pr",
        does="the same, then push and open a pull request with gh",
        arguments=(_MESSAGE,),
    ),
    DescribedSlash(
        name="worktree",
        does="a second working folder, with a branch of its own: /worktree NAME",
        arguments=(_NAME,),
    ),
    DescribedSlash(
        name="worktrees",
        does="what agents left in worktrees of their own: /worktrees [show|merge|drop|undo|redo NAME]",
        arguments=(
            SlashArgument(
                name="what",
                about="show, merge, drop, undo or redo; else all are listed",
                examples=("show", "merge", "drop", "undo", "redo"),
            ),
            SlashArgument(name="NAME", about="the worktree, as the list names it"),
        ),
    ),
    DescribedSlash(name="stash", does="put what changed aside; !git stash pop brings it back", arguments=()),
)
WRITES: tuple[str, ...] = tuple(one.name for one in GIT_COMMANDS if one.name != "diff")
"""Those that change it, and run as the person."""
