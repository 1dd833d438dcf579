"""What variables hold while a script is read: only what is certain, and only for as long as it is.

The reader tells what happens in the order it happens; whatever could change a variable in a way that is not plain
makes all of them unknown from there on. A variable that is not here may hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from bridle.shell.shell_words import Value, Word, names

MAX_HELD = 64
MAX_TURNS = 8
"""How many values of a loop are followed one by one."""

_ORDINARY = re.compile(r"(?!.*_proxy$)(?!(?:npm|pip|cargo)_)[a-z_][a-z0-9_]*")
_ORDINARY_UPPER = names(
    "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z FILE FILES DIR DIRS FOLDER NAME NAMES COUNT TOTAL NUM OUT "
    "RESULT RESULTS BRANCH COMMIT SHA HASH TAG REV REF URL SRC DST DEST PATTERN ROOT REPO PKG PKGS PACKAGE PACKAGES "
    "MODULE MODULES START END MSG LINE LIST ITEM FIRST LAST CURRENT VERSION"
)
_SPECIAL = re.compile(
    r"_|(?:BASH|COMP|EPOCH|HIST|READLINE|MAIL|LC_)\w*|PS[0-4]|OPT(?:ARG|ERR|IND)|S?RANDOM|SECONDS|LINENO|E?UID|PPID|"
    r"GROUPS|DIRSTACK|FUNCNAME|PIPESTATUS|SHELLOPTS|IFS|PATH|HOME|PWD|OLDPWD|REPLY|LANG|CDPATH|COPROC|SHELL|SHLVL|"
    r"TMOUT|TIMEFORMAT|PROMPT_COMMAND|POSIXLY_CORRECT|GLOBIGNORE|EXECIGNORE|FIGNORE|ENV|COLUMNS|LINES|FCEDIT|"
    r"CHILD_MAX|IGNOREEOF|INPUTRC|HOSTNAME|HOSTTYPE|MACHTYPE|OSTYPE|MAPFILE|auto_resume|histchars",
    re.ASCII,
)
_CHANGES_EXPANSION = frozenset(
    {"IFS", "POSIXLY_CORRECT", "GLOBIGNORE", "SHELLOPTS", "BASHOPTS", "BASH_COMPAT"}
)
_BUILTINS = names(
    ". : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo "
    "enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd "
    "printf pushd pwd read readarray readonly return set shift shopt source suspend test times trap true type typeset "
    "ulimit umask unalias unset wait"
)
_KEEPING = names(
    ": bg break caller cd continue dirs disown echo exec exit false fg hash help history jobs kill logout popd pushd "
    "pwd return shift suspend times true type ulimit umask unalias"
)
"""Builtins that change no variable a script would use."""
_SAFE_SET = re.compile(r"[-+][eux]+|[-+][eux]*o|pipefail|errexit|nounset|xtrace|--")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBERS = names("-eq -ne -lt -le -gt -ge")
_GLOB = re.compile(r"[*?\[]")

HeldValues: TypeAlias = Mapping[str, Value] | None
"""What is held by which variable; None where nothing can be known any more."""


def is_ordinary(name: str) -> bool:
    """Whether setting this variable, without handing it on to programs, can mean nothing to the shell or to them."""
    return _ORDINARY.fullmatch(name) is not None or name in _ORDINARY_UPPER


def in_both(first: HeldValues, second: HeldValues) -> HeldValues:
    """What is certain when one of two things has happened."""
    if first is second or first is None or second is None:
        return None if first is None or second is None else first
    return {name: value for name, value in first.items() if second.get(name) == value}


class Values:
    """The variables at one point of a script. `touched` are the names that were assigned since somebody looked."""

    def __init__(self) -> None:
        self.held: HeldValues = {}
        self.touched: set[str] = set()

    def lose(self) -> None:
        self.held = None

    def forget(self, name: str) -> None:
        self.touched.add(name)
        if self.held is not None and name in self.held:
            self.held = {other: value for other, value in self.held.items() if other != name}

    def kept(self, start: HeldValues) -> HeldValues:
        """What of `start` was not touched since; the same where nothing was, None where all was lost."""
        if self.held is None or start is None:
            return None
        if self.touched.isdisjoint(start):
            return start
        return {name: value for name, value in start.items() if name not in self.touched}

    def assign(self, name: str, value: Value | None, *, more: bool = False) -> None:
        """`name=value`, or with `more` `name+=value`; None where the value is not known."""
        if name in _CHANGES_EXPANSION:
            self.lose()
        if self.held is None:
            return
        if more and value is not None:
            before = self.held.get(name)
            plain = before is not None and not before.glob and before.found is None
            value = Value(before.text + value.text) if plain and before is not None else None
        self.forget(name)
        if value is not None and len(self.held) < MAX_HELD and not _SPECIAL.fullmatch(name):
            self.held = {**self.held, name: value}

    def after(self, words: Sequence[Word], functions: set[str]) -> None:
        """What a simple command has done to the variables: a program of its own nothing, a builtin perhaps.

        What expanding its words has done is known before.
        """
        name = words[0].text
        if name is None or words[0].glob or name in functions:
            self.lose()
        elif name == "time":
            self._after_time(words[1:], functions)
        elif name in _BUILTINS and name not in _KEEPING:
            self._after_builtin(name, words[1:], functions)

    def _after_time(self, words: Sequence[Word], functions: set[str]) -> None:
        """A keyword: what follows it is a command, or an assignment, of this shell."""
        inner = list(words)
        while inner and inner[0].text in ("-p", "--"):
            inner.pop(0)
        if inner and (inner[0].text is None or "=" in inner[0].source):
            self.lose()
        elif inner:
            self.after(inner, functions)

    def _after_builtin(self, name: str, words: Sequence[Word], functions: set[str]) -> None:
        unknown = any(word.text is None or word.glob for word in words)
        match name:
            case "command" | "builtin" if words and words[0].text in ("-v", "-V"):
                pass
            case "command" | "builtin" if words and words[0].text not in functions:
                self.after(words, set()) if not words[0].known.startswith("-") else self.lose()
            case "read" | "unset" if not unknown:
                self._unset(words)
            case "export" if not unknown:
                self._export(words)
            case "set" if all(_SAFE_SET.fullmatch(word.known) for word in words[: _options_end(words)]):
                pass
            case "printf" if words and words[0].text is not None and words[0].text[:1] != "-":
                pass
            case "test" | "[" if not evaluates_operands(words, double=False):
                pass
            case "wait" if not any(word.known.startswith("-") or word.text is None for word in words):
                pass
            case _:
                self.lose()

    def _unset(self, words: Sequence[Word]) -> None:
        for word in words:
            if _NAME.fullmatch(word.known):
                self.forget(word.known)
            elif "[" in word.known:
                self.lose()
        self.forget("REPLY")

    def _export(self, words: Sequence[Word]) -> None:
        for word in words:
            assignment = _ASSIGNMENT.fullmatch(word.known)
            if assignment is not None and word.text is not None and word.text.isascii():
                self.assign(assignment[1], Value(assignment[2]))
            elif not _NAME.fullmatch(word.known):
                self.lose()


def _options_end(words: Sequence[Word]) -> int:
    return next((at + 1 for at, word in enumerate(words) if word.text == "--"), len(words))


def _is_expanded(word: Word) -> bool:
    """Whether it may become several words."""
    return word.split or (word.glob and word.bare)


def evaluates_operands(words: Sequence[Word], *, double: bool) -> bool:
    """Whether a test may compute with what it is given, and so assign or run something."""
    texts = [word.text for word in words]
    if "-v" in texts or "-R" in texts or (not double and any(map(_is_expanded, words))):
        return True
    if not double or not _NUMBERS.intersection(text for text in texts if text is not None):
        return False
    return any(
        texts[at] in _NUMBERS
        and any(not _INTEGER.fullmatch(word.known) for word in (*words[at - 1 : at], *words[at + 1 : at + 2]))
        for at in range(1, len(words))
    )


def turns(words: Sequence[Word], as_read: Sequence[str | None]) -> list[Value | None]:
    """What a loop's variable holds one after the other; one None where that is not known. `as_read` are their texts."""
    found: list[Value | None] = []
    for word, text in zip(words, as_read, strict=True):
        if text is None or (word.glob and not (word.bare or word.composed)) or word.split:
            return [None]
        found.append(Value(text, glob=word.glob))
    return found if 0 < len(found) <= MAX_TURNS else [None]


def fields(value: Value, source: str) -> list[Word] | None:
    """The words that an unquoted variable becomes; None where they are not known."""
    if value.glob or value.found is not None or "\\" in value.text:
        return None
    pieces = [piece for piece in re.split(r"[ \t\n]+", value.text) if piece]
    return [_field(piece, source) for piece in pieces]


def _field(piece: str, source: str) -> Word:
    wild = _GLOB.search(piece) is not None
    return Word(piece, source, starts=piece, glob=wild, split=wild, bare=False, composed=True)
