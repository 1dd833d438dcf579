"""What a grant for "this program with harmless arguments inside this folder" is called, and what it may cover.

A key is computed for each command anew, and a grant covers the commands that have the same one. So a command with
anything in it that is not known to be harmless has none: it neither makes such a grant nor passes with one. Whether a
word leads out of the workspace is for `queries` to say.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import msgspec

from bridle.shell.classification import Classification
from bridle.shell.command_facts import SimpleCommand
from bridle.shell.options import split_words
from bridle.shell.programs import KEYED_BY_SUBCOMMAND, NO_KEY, Program, grant_table, programs, wrappers
from bridle.shell.refusals import is_code_runner
from bridle.shell.shell_words import Word, names

_KEPT = re.compile(r"[A-Za-z][A-Za-z0-9:._-]*")
_NO_SUBCOMMAND_KEY = frozenset(
    {"run", "exec", "x", "dlx", "config", "alias", "api", "extension", "push", "clean", "reset", "publish"}
)


def key_of(command: SimpleCommand, judgement: Classification, program: Program) -> str | None:
    """`npm test`, `git status`, `ls`; None where the rest of the words decides what really happens."""
    name = judgement.name
    if (
        judgement.command_class in ("destructive", "unparseable")
        or command.assignments
        or not name
        or judgement.keyless
    ):
        return None
    if any(word.text is None for word in command.words) or any(r.target for r in command.redirections):
        return None
    if name in wrappers() or is_code_runner(name) or "/" in command.words[0].known:
        return None
    kept = _entry(command.words) if judgement.command_class != "read_only" else None
    if kept is not None:
        length, entry = kept
        key = " ".join(word.known for word in command.words[:length])
        return key if _is_harmless(name, command.words[length:], entry) else None
    if name in NO_KEY or program.lenient or judgement.command_class not in ("read_only", "writes"):
        return None  # not every option of it is known
    if name in KEYED_BY_SUBCOMMAND:
        second = command.words[1].known if len(command.words) > 1 else ""
        known = second == judgement.subcommand and second not in _NO_SUBCOMMAND_KEY
        return f"{name} {second}" if second and known else None
    return name if name in programs() else None


class _Names(msgspec.Struct):
    """The names of one program in the table, the longest first: those that are written out, and those with a `*`."""

    plain: dict[tuple[str, ...], Program] = {}
    wild: list[tuple[tuple[str, ...], Program]] = []
    longest: int = 0


def _entry(words: Sequence[Word]) -> tuple[int, Program] | None:
    """The entry of the table for a command, and how many of its words are the name."""
    names = _names().get(words[0].known)
    if names is None:
        return None
    texts = [word.known for word in words[1 : names.longest + 1]]
    for patterns, entry in names.wild:
        if len(patterns) <= len(texts) and all(map(_is_kept, texts, patterns)):
            return len(patterns) + 1, entry
    for length in range(len(texts), -1, -1):
        if entry := names.plain.get(tuple(texts[:length])):
            return length + 1, entry
    return None


def _is_kept(text: str, pattern: str) -> bool:
    return fnmatchcase(text, pattern) and _KEPT.fullmatch(text) is not None


@functools.cache
def _names() -> Mapping[str, _Names]:
    found: dict[str, _Names] = {}
    for name, entry in grant_table().items():
        program, *rest = name.split()
        names = found.setdefault(program, _Names())
        names.longest = max(names.longest, len(rest))
        if "*" in name:
            names.wild.append((tuple(rest), entry))
        else:
            names.plain[tuple(rest)] = entry
    for names in found.values():
        names.wild.sort(key=lambda one: -len(one[0]))
    return found


def _is_harmless(name: str, words: Sequence[Word], entry: Program) -> bool:
    split = split_words(entry, [word for word in words if word.text != "--"], single_dash=entry.single_dash)
    if split.problem or (entry.arguments == "none" and split.arguments):
        return False
    texts = [word.known for word in split.arguments]
    if any(text.startswith(("@", "+")) for text in texts):  # options from a file, a toolchain
        return False
    return name != "git" or not any(":" in text for text in texts)  # another remote than those it knows


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
