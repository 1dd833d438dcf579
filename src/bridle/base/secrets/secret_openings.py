"""Find where secrets may begin in a text."""

import functools
import re
from collections.abc import Callable

import msgspec

from bridle.base.secrets.secret_shapes import SHAPES, SecretShape

_LONGEST_BEGINNING = 24
"""No opening has more characters."""
_PIECE = 8 * 1024
"""So much is looked at in one go: nothing else in the process runs meanwhile, whatever thread this is done in."""
_LONGEST_IN_JSON = 4 * _LONGEST_BEGINNING
"""An opening in JSON, which itself may be text in JSON, with a backslash before some of its characters."""


class Openings:
    """The openings in a text. `final`: nothing follows the text."""

    def __init__(self, text: str, *, final: bool) -> None:
        self._text = text
        self._final = final

    def first_from(self, position: int) -> tuple[int, SecretShape] | None:
        """The first opening at `position` or behind it."""
        table = _table()
        found = table.opening.search(self._text, position)
        return None if found is None else (found.start(), table.shape_of(found[0]))

    def end_of_clean(self, position: int) -> int:
        """Everything from `position` up to here holds no opening; from here on one may be beginning."""
        size = len(self._text)
        if self._final or position == size:
            return size
        tail = self._text[max(position, size - _LONGEST_BEGINNING) :]
        for length, beginnings in _beginnings(tail[-1]).items():
            if tail[-length:] in beginnings or tail[-length:].lower() in beginnings:
                return size - length
        return size


class _Table(msgspec.Struct, frozen=True):
    opening: re.Pattern[str]
    shapes: dict[str, SecretShape]  # by opening

    def shape_of(self, opening: str) -> SecretShape:
        return self.shapes.get(opening) or self.shapes[opening.lower()]


@functools.cache
def _table() -> _Table:
    shapes = {opening: shape for shape in SHAPES for opening in shape.openings}
    return _Table(
        re.compile(_regex_of_openings(lambda shape, opening: _written(opening, shape, re.escape))), shapes
    )


@functools.cache
def _openings_in_json() -> re.Pattern[bytes]:
    """The openings with what stands behind each at least, so that few texts without a secret match."""
    regex = _regex_of_openings(lambda shape, opening: _written(opening, shape, _in_json) + shape.behind)
    return re.compile(regex.encode())


def _regex_of_openings(rest_of: Callable[[SecretShape, str], str]) -> str:
    """A regex for all openings. `rest_of` gives the one for all of an opening but its first character."""
    by_first: dict[str, list[str]] = {}  # alternatives are tried one by one: the fewer at once, the better
    for shape in SHAPES:
        for opening in shape.openings:
            for first in {opening[0], opening[0].upper() if shape.any_case else opening[0]}:
                by_first.setdefault(first, []).append(rest_of(shape, opening[1:]))
    return "|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in by_first.items())


def _written(text: str, shape: SecretShape, plain: Callable[[str], str]) -> str:
    return "".join(
        f"[{one.lower()}{one.upper()}]" if shape.any_case and one.isalpha() else plain(one) for one in text
    )


def _in_json(character: str) -> str:
    """In JSON, backslashes stand before quotes and may stand before slashes."""
    if character == "\\":
        return ""
    return rf"\\*{character}" if character in '"/' else re.escape(character)


@functools.lru_cache(maxsize=256)
def _beginnings(last: str) -> dict[int, set[str]]:
    """What openings begin with, up to such a letter: by length, the longest first."""
    found: dict[int, set[str]] = {}
    for shape in SHAPES:
        letter = last.lower() if shape.any_case else last
        for opening in shape.openings:
            at = opening.find(letter, 0, -1)
            while at >= 0:
                found.setdefault(at + 1, set()).add(opening[: at + 1])
                at = opening.find(letter, at + 1, -1)
    return dict(sorted(found.items(), reverse=True))


def might_hold_secret(data: bytes) -> bool:
    """Return False if a text in UTF-8, plain or inside JSON, holds no secret."""
    if b"\x1b" in data or rb"\u001b" in data or rb"\u001B" in data:
        return True  # an escape sequence may stand anywhere in a secret
    search = _openings_in_json().search
    return any(search(data, at, at + _PIECE + _LONGEST_IN_JSON) for at in range(0, len(data), _PIECE))
