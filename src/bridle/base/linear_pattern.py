"""Regular expressions of strangers, in time that grows with the text alone.

A pattern becomes a graph of states and all states it may be in are followed at once (Thompson 1968): there is nothing
to go back to, so no pattern takes exponential time. What needs going back, references and looking around, is refused.
The dialect is that of JSON Schema: ECMA-262 without flags.

BadPattern            the pattern cannot be read, or is too large
  UnsupportedPattern    it needs what is refused here
"""

from __future__ import annotations

import string
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple, TypeAlias

MOST_STATES: Final = 2_000
MOST_WORK: Final = 400_000
"""How many states a search may come to: some tenths of a second."""
_MOST_BUILDING: Final = 4 * MOST_STATES
"""How many parts of a pattern are built, also those that need no state: what is empty can be repeated without end."""
_MOST_DEPTH: Final = 50

CharacterTest: TypeAlias = Callable[[str], bool]
_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_DIGITS: Final = frozenset(string.digits)
_BLANKS: Final = frozenset(" \t\n\r\f\v\u00a0\ufeff\u2028\u2029")
_CLASSES: Final[dict[str, CharacterTest]] = {
    "d": _DIGITS.__contains__,
    "D": lambda char: char not in _DIGITS,
    "w": _WORD.__contains__,
    "W": lambda char: char not in _WORD,
    "s": lambda char: char in _BLANKS or char.isspace(),
    "S": lambda char: char not in _BLANKS and not char.isspace(),
}
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
_HEX: Final = {"x": 2, "u": 4}


class BadPattern(ValueError):
    """Its text reads as the end of a sentence."""


class UnsupportedPattern(BadPattern):
    """It may be right; nobody here can tell what matches it in time that is known before."""


class TooMuchWork(Exception):
    """The text is too long for this pattern."""


class Effort:
    """What searches that belong together may cost, all of them."""

    def __init__(self, left: int = MOST_WORK) -> None:
        self.left = left


class _State(NamedTuple):
    """`test` eats a character that it is true of; `at` holds at some places; neither: just go on."""

    test: CharacterTest | None
    at: Literal["", "^", "$", "b", "B"]
    out: list[int]


class _Repeat(NamedTuple):
    of: _Node
    least: int
    most: int | None


class _At(NamedTuple):
    place: Literal["^", "$", "b", "B"]


class _Choice(NamedTuple):
    of: list[_Node]


class _Sequence(NamedTuple):
    of: list[_Node]


_Node: TypeAlias = "CharacterTest | _Repeat | _At | _Choice | _Sequence"


class LinearPattern:
    """A compiled pattern. Raises `BadPattern`."""

    def __init__(self, pattern: str) -> None:
        self._states = [_State(None, "", [])]  # the first one is the end
        self._built = 0
        self._start = self._build(_Reader(pattern).read(), 0)

    def search(self, text: str, effort: Effort | None = None) -> bool:
        """Whether it matches anywhere. Raises `TooMuchWork`."""
        effort, current = effort or Effort(), [self._start]
        for index in range(len(text) + 1):
            reached = self._reached(current, text, index, effort)
            if 0 in reached:
                return True
            if effort.left < 0:
                raise TooMuchWork
            char = text[index : index + 1]
            current = [self._start]
            for number in reached:
                state = self._states[number]
                if char and state.test is not None and state.test(char):
                    current += state.out
        return False

    def _reached(self, numbers: list[int], text: str, index: int, effort: Effort) -> set[int]:
        """Every state that can be come to from these without a character."""
        reached: set[int] = set()
        while numbers:
            number = numbers.pop()
            effort.left -= 1
            if number in reached:
                continue
            reached.add(number)
            state = self._states[number]
            if state.test is None and (not state.at or _holds(state.at, text, index)):
                numbers += state.out
        return reached

    def _build(self, node: _Node, then: int) -> int:
        """The state where a node begins that goes on to `then`."""
        self._built += 1
        if self._built > _MOST_BUILDING:
            raise BadPattern("it is too large")
        match node:
            case _At(place):
                return self._add(_State(None, place, [then]))
            case _Sequence(nodes):
                for part in reversed(nodes):
                    then = self._build(part, then)
                return then
            case _Choice(nodes):
                return self._add(_State(None, "", [self._build(part, then) for part in nodes]))
            case _Repeat(part, least, most):
                if most is None:
                    out = [then]
                    then = self._add(_State(None, "", out))
                    out.append(self._build(part, then))
                else:
                    end = then
                    for _ in range(most - least):
                        then = self._add(_State(None, "", [end, self._build(part, then)]))
                for _ in range(least):
                    then = self._build(part, then)
                return then
            case _:
                return self._add(_State(node, "", [then]))

    def _add(self, state: _State) -> int:
        if len(self._states) >= MOST_STATES:
            raise BadPattern("it is too large")
        self._states.append(state)
        return len(self._states) - 1


def _holds(place: str, text: str, index: int) -> bool:
    if place == "^":
        return index == 0
    if place == "$":
        return index == len(text)
    before, after = text[index - 1 : index] if index else "", text[index : index + 1]
    return ((before in _WORD) != (after in _WORD)) == (place == "b")


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._index = 0
        self._depth = 0

    def read(self) -> _Node:
        node = self._choice()
        if self._index < len(self._text):
            raise BadPattern("a bracket is closed that was not opened")
        return node

    def _peek(self) -> str:
        return self._text[self._index : self._index + 1]

    def _next(self) -> str:
        if self._index >= len(self._text):
            raise BadPattern("it ends in the middle")
        self._index += 1
        return self._text[self._index - 1]

    def _took(self, words: str) -> bool:
        if self._text.startswith(words, self._index):
            self._index += len(words)
            return True
        return False

    def _choice(self) -> _Node:
        choices = [self._sequence()]
        while self._took("|"):
            choices.append(self._sequence())
        return choices[0] if len(choices) == 1 else _Choice(choices)

    def _sequence(self) -> _Node:
        nodes: list[_Node] = []
        while self._peek() not in ("", "|", ")"):
            nodes.append(self._repeated(self._one()))
        return _Sequence(nodes)

    def _one(self) -> _Node:
        match self._next():
            case "^":
                return _At("^")
            case "$":
                return _At("$")
            case ".":
                return lambda char: char not in "\n\r\u2028\u2029"
            case "[":
                return self._set()
            case "(":
                return self._group()
            case "\\":
                if self._peek() in ("b", "B"):
                    return _At("b" if self._next() == "b" else "B")
                return self._escape()
            case "*" | "+" | "?" as sign:
                raise BadPattern(f'there is nothing before "{sign}" to repeat')
            case char:
                return char.__eq__

    def _group(self) -> _Node:
        if self._took("?") and not self._took(":"):
            if not self._took("<") or self._peek() in ("=", "!"):
                raise UnsupportedPattern("looking around and flags are not supported")
            while self._next() != ">":
                pass
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise BadPattern("it is nested too deeply")
        node = self._choice()
        self._depth -= 1
        if not self._took(")"):
            raise BadPattern("a bracket is not closed")
        return node

    def _repeated(self, node: _Node) -> _Node:
        before = self._index
        if self._took("*"):
            least, most = 0, None
        elif self._took("+"):
            least, most = 1, None
        elif self._took("?"):
            least, most = 0, 1
        elif self._peek() == "{" and (found := self._counts()) is not None:
            least, most = found
        else:
            self._index = before
            return node
        self._took("?")  # which way a match is found does not matter here
        return _Repeat(node, least, most)

    def _counts(self) -> tuple[int, int | None] | None:
        """`{2}`, `{2,}` or `{2,5}`; anything else is a brace and what follows it."""
        end = self._text.find("}", self._index)
        words = self._text[self._index + 1 : end].split(",") if end > 0 else []
        if not 1 <= len(words) <= 2 or not words[0].isdecimal() or not (words[-1] or "0").isdecimal():
            return None
        if max(map(len, words)) > 4:
            raise BadPattern("it is too large")
        self._index = end + 1
        least = int(words[0])
        most = None if words[-1] == "" else int(words[-1])
        if most is not None and most < least:
            raise BadPattern("a count goes from more to less")
        return least, most

    def _escape(self) -> CharacterTest:
        char = self._next()
        if char in _CLASSES:
            return _CLASSES[char]
        return self._escaped(char).__eq__

    def _escaped(self, char: str) -> str:
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char in _HEX:
            digits = self._text[self._index : self._index + _HEX[char]]
            if len(digits) == _HEX[char] and all(digit in string.hexdigits for digit in digits):
                self._index += len(digits)
                return chr(int(digits, 16))
        if char.isalnum():
            raise UnsupportedPattern(f'"\\{char}" is not supported')
        return char

    def _set(self) -> CharacterTest:
        negated = self._took("^")
        tests: list[CharacterTest] = []
        ranges: list[tuple[str, str]] = []
        while not self._took("]"):
            low = self._member(tests)
            if (
                low is not None
                and self._peek() == "-"
                and self._text[self._index + 1 : self._index + 2] != "]"
            ):
                self._index += 1
                high = self._member(tests)
                if high is None or high < low:
                    raise BadPattern("a range goes from more to less")
                ranges.append((low, high))
            elif low is not None:
                ranges.append((low, low))
        return _any_of((*dict.fromkeys(tests), _within(ranges)), negated=negated)

    def _member(self, tests: list[CharacterTest]) -> str | None:
        """One character of a set; None for a class, which goes to `tests` itself."""
        char = self._next()
        if char != "\\":
            return char
        char = self._next()
        if char in _CLASSES:
            tests.append(_CLASSES[char])
            return None
        return "\b" if char == "b" else self._escaped(char)


def _within(ranges: Iterable[tuple[str, str]]) -> CharacterTest:
    """Whether a character is in one of the ranges, however many there are."""
    lows, highs = list[str](), list[str]()
    for low, high in sorted(ranges):
        if highs and low <= highs[-1]:
            highs[-1] = max(highs[-1], high)
        else:
            lows.append(low)
            highs.append(high)

    def test(char: str) -> bool:
        at = bisect_right(lows, char) - 1
        return at >= 0 and char <= highs[at]

    return test


def _any_of(tests: Iterable[CharacterTest], *, negated: bool) -> CharacterTest:
    found = tuple(tests)
    return lambda char: any(test(char) for test in found) != negated
