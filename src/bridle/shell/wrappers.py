"""What a wrapper wraps: the command it will run, as far as that is known."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridle.shell.checks import InnerCommand, is_harmless_variable
from bridle.shell.classification import Classification, shown_name
from bridle.shell.options import SplitWords
from bridle.shell.programs import Program
from bridle.shell.shell_words import UNKNOWN, FoundFiles, Word


def wrapped(
    judgement: Classification, wrapper: Program, split: SplitWords, fed: FoundFiles | None = None
) -> InnerCommand | None:
    """The command inside, or None where there is none. Notes what the wrapper itself changes.

    `fed` are files whose names come in through a pipe, if that is all that does.
    """
    if wrapper.check == "xargs":
        return _xargs(judgement, split, split.rest[wrapper.before :], fed)
    return _WRAPPED.get(wrapper.check, _plain)(judgement, split, split.rest[wrapper.before :])


def _plain(judgement: Classification, split: SplitWords, rest: Sequence[Word]) -> InnerCommand | None:
    return InnerCommand(tuple(rest))


def _env(judgement: Classification, split: SplitWords, rest: Sequence[Word]) -> InnerCommand | None:
    for used in split.used:
        if used.name in ("-S", "--split-string"):
            return InnerCommand((*used.values, *rest), script=True)
        if used.name in ("-C", "--chdir"):
            judgement.folders = frozenset({None})
    words = list(rest)
    while words and "=" in words[0].starts:
        name, _, value = words[0].starts.partition("=")
        if not is_harmless_variable(name, value if words[0].text is not None else None):
            judgement.at_least("executes", f"sets {shown_name(name)}")
        words.pop(0)
    return InnerCommand(tuple(words))


def _command_builtin(
    judgement: Classification, split: SplitWords, rest: Sequence[Word]
) -> InnerCommand | None:
    if split.has("-v", "-V"):
        judgement.does = "finds a program"
        return None
    return InnerCommand(tuple(rest))


def _xargs(
    judgement: Classification, split: SplitWords, rest: Sequence[Word], fed: FoundFiles | None
) -> InnerCommand | None:
    """Words nobody knows are added, or put where the placeholder stands; or files that are known to be found."""
    added = UNKNOWN
    nul = split.has("-0", "--null")
    other_input = split.has("-a", "--arg-file", "-d", "--delimiter", "-J", "-R")
    if fed is not None and fed.parted_by_nul == nul and not other_input:
        added = Word(None, "", starts="" if fed.bare else fed.folders[0], split=not nul, found=fed)
    marks = [
        used.values[0].known for used in split.used if used.name in ("-I", "--replace", "-i") and used.values
    ]
    if split.has("-i", "--replace") and not marks:
        marks = ["{}"]
    words = tuple(rest) or (Word("echo", "echo", starts="echo"),)
    if marks:
        return InnerCommand(tuple(_placed(w, added, marks[0]) for w in words))
    return InnerCommand((*words, added))


def _placed(word: Word, added: Word, mark: str) -> Word:
    if mark not in word.known:
        return word
    if word.text == mark and added.found is not None:
        return added
    return msgspec.structs.replace(word, text=None, starts="", split=False)


def _script_words(judgement: Classification, split: SplitWords, rest: Sequence[Word]) -> InnerCommand | None:
    return InnerCommand(tuple(rest), script=True)


_WRAPPED = {"env": _env, "command": _command_builtin, "script_words": _script_words}
