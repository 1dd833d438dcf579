"""The commands about the repository that a session works in, for the list of commands."""

from __future__ import annotations

from bridle.engine.slash_command import DescribedSlash
from bridle.protocol.slash_arguments import SlashArgument

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
