r"""Translate regular expressions of models for ripgrep.

BadSearchPattern   the pattern cannot be used; the message says why

Characters, `.`, classes, groups, `|`, `* + ? {n,m}`, their lazy forms, `^ $ \b`, and `\d \w \s` for ASCII. A brace that
counts nothing stands for itself, so `fn main() {` can be searched for. `$` also stands before a carriage return.
Look-around, back references and patterns over several lines are refused. The dialects that models write differ in
many small ways; nothing is passed through unread.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

MAX_CHARACTERS = 1000
MAX_REPEATS = 1000
MAX_NESTED = 50

_CLASSES = {
    "d": ((0x30, 0x39),),
    "w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    "s": ((0x09, 0x0D), (0x20, 0x20)),
}
_CONTROLS = {"t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_REPEAT = re.compile(r"[*+?]|\{(\d*)(,?)(\d*)\}")
_HEX = re.compile(r"x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,6})\}")
_SPECIAL = frozenset("\\.+*?()|[]{}^$#&-~")
_LAST_CHARACTER = 0x10FFFF

Range = tuple[int, int]


class BadSearchPattern(ValueError):
    """The message reads as the end of a sentence."""


class SearchPattern(NamedTuple):
    """A pattern as ripgrep is told it."""

    text: str
    ignore_case: bool


def search_pattern(pattern: str, *, ignore_case: bool = False) -> SearchPattern:
    """Raises `BadSearchPattern` and nothing else."""
    if len(pattern) > MAX_CHARACTERS:
        raise BadSearchPattern(f"it has more than {MAX_CHARACTERS} characters")
    if pattern.startswith("(?i)"):
        ignore_case, pattern = True, pattern[4:]
    reading = _Reading(pattern)
    reading.read()
    return SearchPattern("".join(reading.written), ignore_case)


class _Reading:
    """Reads a pattern from left to right and writes what ripgrep understands."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0
        self._can_repeat = False
        self.written: list[str] = []

    def read(self) -> None:
        while self._at < len(self._pattern):
            character = self._pattern[self._at]
            repeat = _REPEAT.match(self._pattern, self._at)
            if repeat and (repeat[0] in "*+?" or repeat[1] or (repeat[2] and repeat[3])):
                self._repeat(repeat)
                continue
            self._at += 1
            self._one(character)
        if self._depth:
            raise BadSearchPattern("a ( is not closed")

    def _one(self, character: str) -> None:
        match character:
            case "(":
                self._open_group()
            case ")":
                if not self._depth:
                    raise BadSearchPattern(r"a ) closes nothing; write \) for the character")
                self._depth -= 1
                self._write(")")
            case "|":
                self._write("|", can_repeat=False)
            case "^":
                self._write("^", can_repeat=False)
            case "$":
                self._write(r"(?:\r?$)", can_repeat=False)
            case ".":
                self._write(".")
            case "[":
                self._class()
            case "\\":
                self._escape()
            case _:
                self._literal(character)

    def _write(self, text: str, *, can_repeat: bool = True) -> None:
        self.written.append(text)
        self._can_repeat = can_repeat

    def _literal(self, character: str) -> None:
        if character in "\n\0":
            raise BadSearchPattern("a pattern stays on one line")
        if 0xD800 <= ord(character) <= 0xDFFF:
            raise BadSearchPattern("it has characters no file can have")
        self._write(f"\\{character}" if character in _SPECIAL else character)

    def _open_group(self) -> None:
        rest = self._pattern[self._at :]
        if rest.startswith("?"):
            named = re.match(r"\?(?::|P?<\w+>)", rest)
            if named is None:
                raise BadSearchPattern(
                    f"groups like ({rest[:3]}…) are not supported; (?i) may stand in front"
                )
            self._at += named.end()
        self._depth += 1
        if self._depth > MAX_NESTED:
            raise BadSearchPattern("its groups are nested too deeply")
        self._write("(?:", can_repeat=False)

    def _repeat(self, found: re.Match[str]) -> None:
        if not self._can_repeat:
            raise BadSearchPattern(
                rf"{found[0]} has nothing to repeat; write \{found[0][0]} for the character"
            )
        text = found[0]
        if text.startswith("{"):
            low, high = int(found[1] or 0), int(found[3]) if found[3] else None
            if max(low, high or 0) > MAX_REPEATS or (high is not None and high < low):
                raise BadSearchPattern(f"{text} is no count; at most {MAX_REPEATS}")
            text = f"{{{low}{found[2]}{found[3]}}}"
        self._at = found.end()
        if self._pattern[self._at : self._at + 1] == "?":
            text += "?"
            self._at += 1
        self._write(text, can_repeat=False)

    def _escape(self) -> None:
        sign = self._pattern[self._at : self._at + 1]
        if sign == "b":
            self._at += 1
            self._write(r"(?-u:\b)", can_repeat=False)
            return
        ranges = self._escaped()
        if isinstance(ranges, str):
            self._literal(ranges)
        else:
            self._write_class(ranges, negated=False)

    def _escaped(self) -> str | tuple[Range, ...]:
        """What a backslash makes of what follows it: a character, or a class of them."""
        if found := _HEX.match(self._pattern, self._at):
            self._at = found.end()
            number = int(next(filter(None, found.groups())), 16)
            if number > _LAST_CHARACTER:
                raise BadSearchPattern(f"\\{found[0]} is no character")
            return chr(number)
        sign = self._pattern[self._at : self._at + 1]
        self._at += 1
        if not sign:
            raise BadSearchPattern("it ends with a backslash")
        if sign.lower() in _CLASSES:
            ranges = _CLASSES[sign.lower()]
            return ranges if sign.islower() else _others(ranges)
        if sign in _CONTROLS:
            return _CONTROLS[sign]
        if sign == "n":
            raise BadSearchPattern("a pattern stays on one line")
        if sign in "<>":
            raise BadSearchPattern(rf"\{sign} is not supported; write \b for the edge of a word")
        if sign.isdigit():
            raise BadSearchPattern(f"back references like \\{sign} are not supported")
        if sign.isalpha():
            raise BadSearchPattern(f"\\{sign} is not supported")
        return sign

    def _class(self) -> None:
        negated = self._pattern.startswith("^", self._at)
        self._at += negated
        ranges: list[Range] = []
        first = self._at
        while not self._pattern.startswith("]", self._at) or self._at == first:
            low = self._member()
            if isinstance(low, str) and self._begins_range():
                self._at += 1
                high = self._member()
                if not isinstance(high, str) or high < low:
                    raise BadSearchPattern("a class has a range that runs backwards")
                ranges.append((ord(low), ord(high)))
            elif isinstance(low, str):
                ranges.append((ord(low), ord(low)))
            else:
                ranges += low
        self._at += 1
        self._write_class(tuple(ranges), negated=negated)

    def _begins_range(self) -> bool:
        rest = self._pattern[self._at : self._at + 2]
        return len(rest) == 2 and rest[0] == "-" and rest[1] != "]"

    def _member(self) -> str | tuple[Range, ...]:
        character = self._pattern[self._at : self._at + 1]
        if not character:
            raise BadSearchPattern(r"a [ is not closed; write \[ for the character")
        if re.match(r"\[[:.=]\w+[:.=]\]", self._pattern[self._at :]):
            raise BadSearchPattern(r"classes like [:alpha:] are not supported; write a-z, \d, \w or \s")
        self._at += 1
        if character == "\\":
            if self._pattern.startswith("b", self._at):
                raise BadSearchPattern(r"\b is not supported in a class")
            return self._escaped()
        if character in "\n\0" or 0xD800 <= ord(character) <= 0xDFFF:
            raise BadSearchPattern("a pattern stays on one line")
        return character

    def _write_class(self, ranges: tuple[Range, ...], *, negated: bool) -> None:
        sign = "^" if negated else ""
        inside = "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in ranges)
        self._write(f"[{sign}{inside}]")


def _others(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    """All characters but these."""
    edges = [(-1, -1), *ranges, (_LAST_CHARACTER + 1, _LAST_CHARACTER + 1)]
    return tuple((low[1] + 1, high[0] - 1) for low, high in pairwise(edges))
