"""Match paths against `.gitignore` patterns and globs.

BadPathPattern   the text is no pattern

`*` and `?` stay inside one name, `**` as a whole name stands for any folders, also none. Matching takes time in
proportion to pattern and path, whoever wrote the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

MAX_ALTERNATIVES = 100
MAX_NESTED = 10


class BadPathPattern(ValueError):
    """The message reads as the end of a sentence."""


Reached: TypeAlias = frozenset[tuple[int, int]]
"""How far the ways through a pattern have come inside a folder: (alternative, how many of its names are behind it)."""


class PathPattern:
    """A pattern that is ready to be compared with the names a path consists of, folder by folder.

    All ways through the pattern are followed at once, so that none is tried twice.
    """

    def __init__(self, pattern: str) -> None:
        """Raises `BadPathPattern`."""
        self._alternatives = [_names(alternative) for alternative in _alternatives(pattern)]
        self.top = frozenset(
            way for number in range(len(self._alternatives)) for way in self._ways(number, 0)
        )

    def inside(self, reached: Reached, name: str) -> Reached:
        """How far a folder inside leads. Nowhere (empty): nothing below it matches."""
        found: set[tuple[int, int]] = set()
        for number, at in reached:
            names = self._alternatives[number]
            if at == len(names):
                continue
            wanted = names[at]
            if wanted is None:
                found.update(self._ways(number, at))
            elif wanted.fullmatch(name):
                found.update(self._ways(number, at + 1))
        return frozenset(found)

    def _ways(self, number: int, at: int) -> tuple[tuple[int, int], ...]:
        """Where one stands who has come so far: any folders are also none."""
        names = self._alternatives[number]
        return ((number, at), (number, at + 1)) if at < len(names) and names[at] is None else ((number, at),)

    def fits(self, reached: Reached) -> Callable[[str], object]:
        """Says of the name of a file in this folder whether it matches."""
        last = [names[-1] for number, at in reached if at == len(names := self._alternatives[number]) - 1]
        wanted = [one.fullmatch for one in last if one is not None]
        return wanted[0] if len(wanted) == 1 else lambda name: any(one(name) for one in wanted)

    def matches(self, parts: Sequence[str]) -> bool:
        *folders, name = parts
        reached = self.top
        for folder in folders:
            reached = self.inside(reached, folder)
            if not reached:
                return False
        return bool(self.fits(reached)(name))


def anywhere(pattern: str) -> str:
    """A pattern without a slash is about names at any depth; one with a slash starts at the top."""
    return pattern.removeprefix("/") if "/" in pattern else f"**/{pattern}"


def _names(pattern: str) -> list[re.Pattern[str] | None]:
    """One matcher for each name; None stands for any folders."""
    parts = pattern.split("/")
    if parts[-1] == "**":  # everything inside, not the folder itself
        parts.append("*")
    once = (part for part, before in zip(parts, ["", *parts], strict=False) if not part == before == "**")
    return [None if part == "**" else _name(part) for part in once]


def _name(pattern: str) -> re.Pattern[str]:
    """A matcher for one name. Between two stars the first fit is kept, so nothing is tried over and over."""
    pieces = [""]
    for sign in _signs(pattern):
        if sign == "*":
            pieces.append("")
        elif sign == "?":
            pieces[-1] += "."
        elif sign.startswith("["):
            pieces[-1] += _class(sign)
        else:
            pieces[-1] += re.escape(sign[-1])
    first, *middle = pieces
    if not middle:
        return re.compile(first, re.DOTALL)
    *middle, last = middle
    kept = "".join(f"(?>.*?{piece})" for piece in middle if piece)
    return re.compile(f"{first}{kept}.*{last}", re.DOTALL)


def _class(sign: str) -> str:
    inside = sign[1:-1]
    negated = inside[:1] in {"!", "^"}
    inside = inside[1:] if negated else inside
    out: list[str] = []
    index = 0
    while index < len(inside):
        low = high = inside[index]
        if inside[index + 1 : index + 2] == "-" and index + 2 < len(inside):
            high = inside[index + 2]
            index += 2
        if low > high:
            raise BadPathPattern(f"{low}-{high} is no range")
        out.append(f"{re.escape(low)}-{re.escape(high)}")
        index += 1
    return f"[{'^' if negated else ''}{''.join(out)}]"


def _signs(pattern: str) -> Iterator[str]:
    """`*`, `?`, `[…]`, an escaped character with its backslash, or a plain character."""
    index = 0
    while index < len(pattern):
        character = pattern[index]
        end = index + 1
        if character == "\\":
            end = index + 2
            if end > len(pattern):
                raise BadPathPattern("it ends with a backslash")
        elif character == "[":
            end = _class_end(pattern, index)
        yield pattern[index:end]
        index = end


def _class_end(pattern: str, start: int) -> int:
    first = start + 1
    if pattern[first : first + 1] in {"!", "^"}:
        first += 1
    end = pattern.find("]", first + 1)  # a bracket in the first place stands for itself
    if end < 0:
        raise BadPathPattern("a [ is not closed")
    return end + 1


def _alternatives(pattern: str) -> list[str]:
    """The patterns without `{a,b}` that mean the same together."""
    signs = list(_signs(pattern))
    done, index = _sequence(signs, 0, depth=0)
    if index < len(signs):
        raise BadPathPattern("a } closes nothing")
    return done


def _sequence(signs: Sequence[str], index: int, *, depth: int) -> tuple[list[str], int]:
    if depth > MAX_NESTED:
        raise BadPathPattern("its alternatives are nested too deeply")
    texts = [""]
    while index < len(signs):
        sign = signs[index]
        if sign == "}" or (sign == "," and depth):
            return texts, index
        if sign == "{":
            choices: list[str] = []
            while signs[index] != "}":
                found, index = _sequence(signs, index + 1, depth=depth + 1)
                choices += found
                if index == len(signs):
                    raise BadPathPattern("a { is not closed")
            texts = [text + choice for text in texts for choice in choices]
        else:
            texts = [text + sign for text in texts]
        if len(texts) > MAX_ALTERNATIVES:
            raise BadPathPattern("it has too many alternatives")
        index += 1
    if depth:
        raise BadPathPattern("a { is not closed")
    return texts, index
