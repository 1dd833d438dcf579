"""What a wrapper wraps: the command it will run, as far as that is known."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridle.safety.shell.checks import Inner, is_harmless_variable
from bridle.safety.shell.judgement import Judgement, shown_name
from bridle.safety.shell.options import Split
from bridle.safety.shell.programs import Program
from bridle.safety.shell.words import UNKNOWN, Word


def wrapped(judgement: Judgement, wrapper: Program, split: Split) -> Inner | None:
    """The command inside, or None where there is none. Notes what the wrapper itself changes."""
    return _WRAPPED.get(wrapper.check, _plain)(judgement, split, split.rest[wrapper.before :])


def _plain(judgement: Judgement, split: Split, rest: Sequence[Word]) -> Inner | None:
    return Inner(tuple(rest))


def _env(judgement: Judgement, split: Split, rest: Sequence[Word]) -> Inner | None:
    for used in split.used:
        if used.name in ("-S", "--split-string"):
            return Inner((*used.values, *rest), script=True)
        if used.name in ("-C", "--chdir"):
            judgement.folders = frozenset({None})
    words = list(rest)
    while words and "=" in words[0].starts:
        name, _, value = words[0].starts.partition("=")
        if not is_harmless_variable(name, value if words[0].text is not None else None):
            judgement.at_least("executes", f"sets {shown_name(name)}")
        words.pop(0)
    return Inner(tuple(words))


def _command_builtin(judgement: Judgement, split: Split, rest: Sequence[Word]) -> Inner | None:
    if split.has("-v", "-V"):
        judgement.does = "finds a program"
        return None
    return Inner(tuple(rest))


def _xargs(judgement: Judgement, split: Split, rest: Sequence[Word]) -> Inner | None:
    """Words nobody knows are added, or put where the placeholder stands."""
    marks = [
        used.values[0].known for used in split.used if used.name in ("-I", "--replace", "-i") and used.values
    ]
    if split.has("-i", "--replace") and not marks:
        marks = ["{}"]
    words = tuple(rest) or (Word("echo", "echo", starts="echo"),)
    if marks:
        return Inner(
            tuple(
                msgspec.structs.replace(w, text=None, starts="", split=False) if marks[0] in w.known else w
                for w in words
            )
        )
    return Inner((*words, UNKNOWN))


def _script_words(judgement: Judgement, split: Split, rest: Sequence[Word]) -> Inner | None:
    return Inner(tuple(rest), script=True)


_WRAPPED = {
    "env": _env,
    "command": _command_builtin,
    "xargs": _xargs,
    "script_words": _script_words,
}
