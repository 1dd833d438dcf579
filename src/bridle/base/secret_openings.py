"""Where in a text the openings of secrets stand: found quickly over most of it, with care where it may go on.

A regex costs 5 ns a character however simple it is, unless it begins with a literal character: then 0.4. So a long text
is folded (small letters, rare letters to one, `_` to `-`, `=` to `:`), and each of a handful of scans looks for one
sign in it, then at what stands around it. Folding keeps every character in its place. What is noticed is looked at
again, exactly; what is not noticed is no secret.
"""

import functools
import re
from collections.abc import Iterator

import msgspec

from bridle.base.secret_shapes import SHAPES, Shape

_LOOKAHEAD = 40
"""What follows an opening is worth a look or not within this many characters from its beginning."""
_FEW = 160
"""In fewer characters every opening is looked for; in more, only what is noticed."""
_BEGINS_WITHIN = 30
_ENDS_WITHIN = 24
"""An opening begins so many characters before the place where it is noticed, and ends so many behind it, at most."""
_LONGEST_BEGINNING = 24
"""No opening has more characters."""


class Openings:
    """Where openings stand in a text that follows on `before`. `final`: nothing follows the text."""

    def __init__(self, text: str, before: str, *, final: bool) -> None:
        self._text = text
        self._final = final
        self._sure = 0  # before it, no opening goes unnoticed that matters
        self._noticed: Iterator[int] = iter(())
        if len(text) >= _FEW:
            self._sure = len(text) if final else len(text) - _LOOKAHEAD
            self._noticed = (place - len(before) for place in _noticed(before + text))
        self._place = next(self._noticed, None)

    def first_from(self, position: int) -> tuple[int, Shape] | None:
        """The first opening that may matter at `position` or behind it."""
        table = _table()
        while self._place is not None:
            begin, end = max(self._place - _BEGINS_WITHIN, position), self._place + _ENDS_WITHIN
            if begin < end and (found := table.opening.search(self._text, begin, end)):
                return found.start(), table.shape_of(found[0])
            self._place = next(self._noticed, None)
        if found := table.opening.search(self._text, max(position, self._sure)):
            return found.start(), table.shape_of(found[0])
        return None

    def end_of_clean(self, position: int) -> int:
        """Everything from `position` up to here holds no opening; from here on one may be beginning."""
        size = len(self._text)
        if self._final or position == size:
            return size
        tail = self._text[max(position, size - _LONGEST_BEGINNING) :]
        for length, beginnings in _table().beginnings.get(tail[-1], {}).items():
            if tail[-length:] in beginnings or tail[-length:].lower() in beginnings:
                return size - length
        return size


class _Table(msgspec.Struct, frozen=True):
    opening: re.Pattern[str]
    shapes: dict[str, Shape]  # by opening
    beginnings: dict[str, dict[int, set[str]]]
    """Of openings: by their last letter and their length, the longest first."""

    def shape_of(self, opening: str) -> Shape:
        return self.shapes.get(opening) or self.shapes[opening.lower()]


@functools.cache
def _table() -> _Table:
    shapes: dict[str, Shape] = {}
    by_first: dict[str, list[str]] = {}  # alternatives are tried one by one: the fewer at once, the better
    for shape in SHAPES:
        shapes |= dict.fromkeys(shape.openings, shape)
        for opening in shape.openings:
            rest = "".join(map(_any_case if shape.any_case else re.escape, opening[1:]))
            for first in {opening[0], opening[0].upper() if shape.any_case else opening[0]}:
                by_first.setdefault(first, []).append(rest)
    search = "|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in by_first.items())
    beginnings: dict[str, dict[int, set[str]]] = {}
    for size in range(_LONGEST_BEGINNING, 0, -1):
        for opening, shape in shapes.items():
            if size < len(opening):
                last = opening[size - 1]
                for letter in {last, last.upper()} if shape.any_case else {last}:
                    beginnings.setdefault(letter, {}).setdefault(size, set()).add(opening[:size])
    return _Table(re.compile(search), shapes, beginnings)


def _any_case(letter: str) -> str:
    return f"[{letter.lower()}{letter.upper()}]" if letter.isalpha() else re.escape(letter)


_FOLD = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZjkz_=", b"axcdefghixxlmnopqrstuvwxyxxxx-:")
_SIGNS = "x-.:"
"""What a scan looks for. Openings are noticed by the first of these they have, nearest to their end."""
_BEHIND_A_SEPARATOR = r"[a-z0-9\-]{10}"
_BEHIND_A_LETTER = r"[a-z0-9\-+/%:.]{10}"
"""What stands at least behind openings that end with a sign."""


def might_hold_secret(data: bytes) -> bool:
    """False only if there is no secret in the text: the text in UTF-8, or that text inside JSON."""
    folded = data.translate(_FOLD)
    return any(scan.search(folded) for scan in _scans())


def _folded(text: str) -> bytes:
    return text.encode("latin-1", "replace").translate(_FOLD)


def _noticed(text: str) -> list[int]:
    folded, places = _folded(text), list[int]()
    for scan in _scans():
        if first := scan.search(folded):
            places += (match.start() for match in scan.finditer(folded, first.start()))
    return sorted(places)


@functools.cache
def _scans() -> tuple[re.Pattern[bytes], ...]:
    """One scan for each sign, and one for each opening without any."""
    behind: dict[str, list[str]] = {sign: [] for sign in _SIGNS}  # regexes for the place behind a sign
    last: dict[str, set[str]] = {}  # what stands before a sign that ends an opening
    alone: set[str] = set()
    for shape in SHAPES:
        if shape.by_dot:
            behind["."].append(r"[a-z0-9\-]{6}\.(?<=[a-z0-9\-]{22}\.[a-z0-9\-]{6}\.)")
            continue
        for opening in shape.openings:
            folded = opening.encode().translate(_FOLD).decode()
            gives = _given_to(folded) if shape.named else ""
            sign = next((sign for sign in _SIGNS if sign in folded.removesuffix(":")), "")
            before, _, after = folded.rpartition(sign) if sign else ("", "", folded)
            if sign and not after:
                last.setdefault(sign, set()).add(before[-4:])
                continue
            after, slash, rest = re.escape(after).partition("/")
            end = f"{slash}{rest}".replace("/", r"[/\\]{1,2}") + gives
            if folded.endswith("-") and not shape.named:
                end += (
                    r"(?=[a-z0-9\-+/%:.\\]{10})"  # `ask_user` is no key; inside JSON a slash has a backslash
                )
            if not sign:
                alone.add(after + end)
            elif before:
                behind[sign].append(f"{after}(?<={re.escape(before[-4:] + sign)}{after}){end}")
            else:
                behind[sign].append(after + end)
    for sign, befores in last.items():
        near = _BEHIND_A_LETTER if sign == "x" else _BEHIND_A_SEPARATOR
        behind[sign].append(near + _ending(befores, re.escape(sign) + near))
    return tuple(re.compile(scan.encode()) for scan in (*map(_scan, behind.items()), *alone))


def _given_to(name: str) -> str:
    """A regex for the place behind a name that is given a value: `:`, `=`, or a space when it is an option.

    The text may stand inside JSON: quotes come with backslashes.
    """
    return rf"""(?:(?=[a-z]{{0,3}}["'\\ ]{{0,20}}:)|(?<=-{name})(?=[a-z]{{0,3}}["'\\,]{{0,10}} ))"""


def _ending(befores: set[str], end: str) -> str:
    """A regex for the place behind one of `befores` and `end`, those of one size together."""
    sizes = {*map(len, befores)}
    same = ("|".join(re.escape(before) for before in befores if len(before) == size) for size in sizes)
    return f"(?:{'|'.join(f'(?<=(?:{each}){end})' for each in same)})"


def _scan(sign_and_behind: tuple[str, list[str]]) -> str:
    """A regex that looks at the character behind a sign first, and at anything else only where that is right."""
    sign, behind = sign_and_behind
    by_first: dict[str, list[str]] = {}
    for regex in behind:
        first = re.match(r"\\.|\[[^]]*\]\{[0-9,]+\}|\[[^]]*\]|.", regex)
        assert first is not None
        by_first.setdefault(first[0], []).append(regex[first.end() :])
    alternatives = (f"{first}(?:{'|'.join(rest)})" for first, rest in by_first.items())
    return f"{re.escape(sign)}(?:{'|'.join(alternatives)})"
