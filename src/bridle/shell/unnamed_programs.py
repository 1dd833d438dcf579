"""When a program that a script runs cannot be named from its text: what a rule about programs cannot see.

A program that starts others is not among it: what those are stands nowhere, and no reading of the text will tell.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bridle.shell.classification import Classification
from bridle.shell.command_facts import SimpleCommand
from bridle.shell.shell_words import Word, names

UNNAMED = "the name of a program in it is not known before it runs"
UNKNOWN_TEXT = "it runs a text that is not known before"
READS = "it runs what it reads"
EVALUATES = "it evaluates an expression, which may run something"
RENAMES = "it gives programs other names"
MOVES = "it changes where programs are looked for, and writes files"

_RENAMING = frozenset({"alias", "enable", "bind", "fc"})
_RUNNING = frozenset({"trap", "compgen", "complete", "let", "coproc"})
_NAMING = names("declare typeset local readonly export unset read getopts wait mapfile readarray")
_STARTING = names(
    "flock strace ltrace script chroot unshare su ssh systemd-run nsenter setpriv runuser firejail"
)
MAY_HIDE = _RENAMING | _RUNNING | _NAMING | _STARTING | {"hash", "printf", "test", "[", "[["}
"""Programs for which `hides_by_builtin` has something to say."""
_OBEYED = ("BASH_ENV", "ENV", "PS4", "PROMPT_COMMAND", "BASH_ALIASES", "BASH_CMDS")
"""Variables the shell itself runs, or finds programs by."""
_EVALUATING = re.compile(r"-[A-Za-z]*[iC].*|.*[\[].*", re.DOTALL)


def hides_by_variable(command: SimpleCommand) -> str:
    """Whether what is set in front of a command, or by it, decides what the shell runs."""
    assigned = [assignment.name.partition("[")[0] for assignment in command.assignments]
    handed = [
        word.starts.partition("=")[0].partition("[")[0] for word in command.words[1:] if "=" in word.starts
    ]
    return RENAMES if any(name in _OBEYED for name in (*assigned, *handed)) else ""


def sets_search_path(command: SimpleCommand) -> bool:
    return any(assignment.name == "PATH" for assignment in command.assignments) or any(
        word.starts.startswith("PATH=") for word in command.words[1:]
    )


def hides_by_builtin(judgement: Classification) -> str:
    """Whether a builtin gives a program another name, or takes its words for something to evaluate."""
    name, words = judgement.name, judgement.words[1:]
    if name in _RENAMING and words:
        return RENAMES
    if name == "hash" and any(word.text is None or word.text.startswith("-p") for word in words):
        return RENAMES
    if name in _RUNNING and words:
        return EVALUATES
    if name in _NAMING and any(map(_may_be_evaluated, words)):
        return EVALUATES
    if name == "printf" and words and (words[0].known.startswith("-v") or words[0].split):
        return EVALUATES
    if name in ("test", "[", "[[") and judgement.command_class != "read_only":
        return EVALUATES
    if name in _STARTING and any(word.text is None or word.glob for word in words):
        return UNNAMED
    return ""


def _may_be_evaluated(word: Word) -> bool:
    """An element of an array has an index, and an index is computed; so is what an integer variable is given."""
    name, equals, _ = word.starts.partition("=")
    return _EVALUATING.fullmatch(name) is not None or (word.text is None and not equals)


def hides_by_shell(words: Sequence[Word]) -> str:
    """Whether a shell is given code in a way that is not read here: options that take a value, and then `-c`."""
    texts = [word.known for word in words[1:]]
    later = any(text.startswith("-") and not text.startswith("--") and "c" in text for text in texts[1:])
    return UNKNOWN_TEXT if later and texts[:1] != [""] and texts[0].startswith(("-", "+")) else ""
