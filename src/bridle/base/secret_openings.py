"""Openings of secrets in a text: found quickly over most of it, with care where it may go on.

A regex costs 5 ns a character however simple it is, unless it begins with a literal character: then 0.4. So a long text
is folded (small letters, rare letters to one, `_` to `-`, `=` to `:`), and each of a handful of scans looks for one
sign in it, then at what stands around it. Folding keeps every character in its place. What is noticed is looked at
again, exactly; what is not noticed is no secret.

Scans take milliseconds to compile, as long as a short run takes to do everything else. So the first texts of a process
are looked through for one literal after another, and as long as none is there, nothing is compiled.
"""

import functools
import re
from collections.abc import Iterable, Iterator
from typing import AnyStr, Generic

import msgspec

from bridle.base.secret_shapes import SHAPES, SecretShape

_LOOKAHEAD = 40
"""What follows an opening is worth a look or not within this many characters from its beginning."""
_FEW = 160
"""In fewer characters every opening is looked for; in more, only what is noticed."""
_LONGEST_BEGINNING = 24
"""No opening has more characters."""
_BEFORE_DOT = 28
_BETWEEN_DOTS = 6
_DOTS_WITHIN = 40
"""A shape `by_dot` has so many characters between its dots, the second at most so far from its beginning."""
_FIRST_SIZE = 32 * 1024
_LEAST_SIZE = 200
"""What is looked through before anything is compiled that takes long: about the events of 25 steps. A session that had
so many goes on, and looking so costs more. However short it is, a text counts as so long."""


_PIECE = 8 * 1024
"""So much is looked at in one go: nothing else in the process runs meanwhile, whatever thread this is done in."""
_SCANNED = 256
"""A scan knows within this many characters from where it matches that it does."""


class FirstTexts:
    """The first texts of a process: as many as have so many characters together."""

    def __init__(self, size: int = _FIRST_SIZE) -> None:
        self._left = size

    def has(self, text: str | bytes) -> bool:
        """Whether a text is one of them. Each is asked about once."""
        self._left -= max(len(text), _LEAST_SIZE)
        return self._left >= 0


FIRST = FirstTexts()


class Openings:
    """Where openings stand in a text that follows on `before`. `final`: nothing follows the text."""

    def __init__(self, text: str, before: str, *, final: bool, first: FirstTexts = FIRST) -> None:
        self._text = text
        self._final = final
        self._sure = 0  # before it, no opening goes unnoticed that matters
        self._region: tuple[int, int] | None = None
        self._has_none = first.has(text) and not _has_opening(text)
        if len(text) >= _FEW and not self._has_none:
            self._sure = len(text) if final else len(text) - _LOOKAHEAD
            shift = len(before)
            self._noticed = ((begin - shift, end - shift) for begin, end in _noticed(before + text))
            self._region = next(self._noticed, None)

    def first_from(self, position: int) -> tuple[int, SecretShape] | None:
        """The first opening that may matter at `position` or behind it."""
        if self._has_none:
            return None
        table = _table()
        while self._region is not None:
            begin, end = max(self._region[0], position, 0), self._region[1]
            if begin < end and (found := table.opening.search(self._text, begin, end)):
                return found.start(), table.shape_of(found[0])
            self._region = next(self._noticed, None)
        if found := table.opening.search(self._text, max(position, self._sure)):
            return found.start(), table.shape_of(found[0])
        return None

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
    shapes: dict[str, SecretShape] = {}
    by_first: dict[str, list[str]] = {}  # alternatives are tried one by one: the fewer at once, the better
    for shape in SHAPES:
        shapes |= dict.fromkeys(shape.openings, shape)
        for opening in shape.openings:
            rest = "".join(map(_any_case if shape.any_case else re.escape, opening[1:]))
            for first in {opening[0], opening[0].upper() if shape.any_case else opening[0]}:
                by_first.setdefault(first, []).append(rest)
    search = "|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in by_first.items())
    return _Table(re.compile(search), shapes)


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


def _any_case(letter: str) -> str:
    return f"[{letter.lower()}{letter.upper()}]" if letter.isalpha() else re.escape(letter)


_FOLD = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZjkz_=~", b"axcdefghixxlmnopqrstuvwxyxxxx-:.")
_SIGNS = "x-.a:"
"""What a scan looks for. Openings are noticed by the first of these they have, nearest to their end; an a, the first.
"""
_LOOKED_FOR = {":": (":/", ":\\")}
"""Where more is known of what stands behind a sign, that is looked for in its place: JSON is full of colons."""
_BEHIND_A_SEPARATOR = r"[a-z0-9\-.+/\\]{10}"
_BEHIND_A_LETTER = r"[a-z0-9\-+/%:.]{10}"
"""What stands at least behind openings that end with a sign."""
_BEHIND_IN_JSON = r"(?=[a-z0-9\-+/%:.\\]{10})"
"""The same for all of them: `ask_user` is no key; inside JSON a slash has a backslash."""
_HEXADECIMAL = "(?=[0-9a-f]{10})"
"""Where only such digits may follow: `SK` alone stands in one of thirty of our own ids."""
_FOLLOWED = "x-."
"""Openings that end so have that behind them."""


class Prefilter:
    """Says of a text in UTF-8, or of that text inside JSON, whether it might hold a secret. False: there is none."""

    def __init__(self, first: FirstTexts) -> None:
        self._first: FirstTexts | None = first

    def __call__(self, data: bytes) -> bool:
        # `find`, not `in`: for bytes in bytes Python first tries to read them as a number, and fails with a sentence
        if data.find(b"\x1b") >= 0 or (data.find(rb"\u001") >= 0 and _has_spelled_escape(data)):
            return True  # an escape sequence may stand anywhere in a secret
        folded = data.translate(_FOLD)
        if self._first is not None:
            if self._first.has(folded):
                return any(
                    folded.find(literal) >= 0 and _close_look(literal).search(folded)
                    for literal in _literals()[0].possibly_in(folded)
                )
            self._first = None  # there are none after the first that is not
        if len(folded) > _PIECE:
            return next(_regions(folded), None) is not None
        for scan in _scans():  # noqa: SIM110  a plain loop: this is done for every event
            if folded.find(scan.sign) >= 0 and scan.regex.search(folded):
                return True
        return False


def _has_spelled_escape(data: bytes) -> bool:
    return data.find(rb"\u001b") >= 0 or data.find(rb"\u001B") >= 0


might_hold_secret = Prefilter(FirstTexts())


def _folded(text: str) -> bytes:
    return text.encode("latin-1", "replace").translate(_FOLD)


def _noticed(text: str) -> Iterator[tuple[int, int]]:
    """The parts of a text in which an opening may matter, in order. A long one goes on in the next, which overlaps."""
    regions = _regions(_folded(text))
    begin, end = next(regions, (0, 0))
    for next_begin, next_end in regions:
        if next_begin > end:
            yield begin, end
            begin, end = next_begin, next_end
            continue
        begin, end = min(begin, next_begin), max(end, next_end)
        if end - begin > _PIECE:
            yield begin, end
            begin = end - _LONGEST_BEGINNING
    if end:
        yield begin, end


def _regions(folded: bytes) -> Iterator[tuple[int, int]]:
    """Where scans match, with what stands around it: piece by piece of the text, in each in order."""
    scans = [scan for scan in _scans() if folded.find(scan.sign) >= 0]
    reached = [0] * len(scans)
    for piece in range(0, len(folded), _PIECE):
        end, found = piece + _PIECE, list[tuple[int, int]]()
        for at, scan in enumerate(scans):
            for match in scan.regex.finditer(folded, reached[at], end + _SCANNED):
                if match.start() >= end:
                    break
                found.append((match.start() - scan.before, match.start() + scan.behind))
                reached[at] = match.end()
            reached[at] = max(reached[at], end)
        found.sort()
        yield from found


def _has_opening(text: str) -> bool:
    """Whether any opening stands in the text that may matter."""
    exact, any_case, by_dot = _openings()
    # mapped, not looped over: this is done for every text of a short run
    if any(map(text.__contains__, exact.possibly_in(text))) or any(map(text.lower().__contains__, any_case)):
        return True
    has_dots = any(len(between) == _BETWEEN_DOTS for between in text.split(".")[1:-1])
    dotted = text if has_dots else text[-_DOTS_WITHIN:]
    return any(map(dotted.__contains__, by_dot))


@functools.cache
def _openings() -> tuple["_Literals[str]", list[str], list[str]]:
    """All of them: those that stand as they are, those in any case, and those of shapes `by_dot`."""
    exact, any_case, by_dot = list[str](), list[str](), list[str]()
    for shape in SHAPES:
        (by_dot if shape.by_dot else any_case if shape.any_case else exact).extend(shape.openings)
    return _Literals(exact, ("_", "-", ".", ":", "/")), any_case, by_dot


class _Literals(Generic[AnyStr]):
    """Many literals. Most have a sign in them, so that one look at what stands before each sign rules them out."""

    def __init__(self, literals: Iterable[AnyStr], signs: tuple[AnyStr, ...]) -> None:
        self._by_sign: dict[AnyStr, dict[AnyStr, list[AnyStr]]] = {sign: {} for sign in signs}
        self._others: list[AnyStr] = []
        for literal in literals:
            for sign in signs:
                at = literal.find(sign)
                if at >= 2:
                    self._by_sign[sign].setdefault(literal[at - 2 : at], []).append(literal)
                    break
            else:
                self._others.append(literal)

    def possibly_in(self, text: AnyStr) -> list[AnyStr]:
        """All that are in the text, and some that are not."""
        found = self._others.copy()
        for sign, by_end in self._by_sign.items():
            if text.find(sign) >= 0:
                for end in by_end.keys() & {piece[-2:] for piece in text.split(sign)}:
                    found += by_end[end]
        return found


@functools.cache
def _literals() -> tuple[_Literals[bytes], dict[bytes, tuple[SecretShape, str]]]:
    """For every opening a literal that a folded text has which has it, and whose it is: its shape, and all of it."""
    found: dict[bytes, tuple[SecretShape, str]] = {}
    for shape in SHAPES:
        if shape.by_dot:
            found[b"."] = (shape, "")
            continue
        for folded in _noticed_by(shape):
            longest = max(folded.split("/"), key=len)
            for there in _LOOKED_FOR.get(longest, (longest,)):
                found[there.encode()] = (shape, folded)
    return _Literals(found, (b"-", b".", b":", b"x")), found


@functools.cache
def _close_look(literal: bytes) -> re.Pattern[bytes]:
    """A regex to look closer with at a folded text that has this literal. Most runs meet few of them."""
    shape, folded = _literals()[1][literal]
    if shape.by_dot:
        return re.compile(rb"\.[a-z0-9\-]{6}\.")
    regex = re.escape(folded).replace("/", r"[/\\]{1,2}")
    if shape.named:
        regex += _given_to(folded)
    elif folded[-1] in _FOLLOWED:
        regex += _HEXADECIMAL if shape.hexadecimal else _BEHIND_IN_JSON
    return re.compile(regex.encode())


class _Scan(msgspec.Struct, frozen=True):
    """Where a `regex` matches, an opening begins at most so many characters `before`, and ends so many `behind`.

    Without its `sign` it matches nowhere.
    """

    sign: bytes
    regex: re.Pattern[bytes]
    before: int
    behind: int


@functools.cache
def _scans() -> tuple[_Scan, ...]:
    """One scan for each sign, and one for each opening without any."""
    behind: dict[str, list[str]] = {sign: [] for sign in _SIGNS}  # regexes for the place behind a sign
    around: dict[str, tuple[int, int]] = dict.fromkeys(_SIGNS, (0, 1))
    last: dict[str, set[str]] = {}  # what stands before a sign that ends an opening
    alone: list[_Scan] = []
    for shape in SHAPES:
        if shape.by_dot:
            # looks ahead: what stands between the dots may be the opening of another
            behind["."].append(r"[a-z0-9\-](?=[a-z0-9\-]{5}\.(?<=[a-z0-9\-]{22}\.[a-z0-9\-]{6}\.))")
            around["."] = (max(around["."][0], _BEFORE_DOT), around["."][1])
            continue
        for folded in _noticed_by(shape):
            gives = _given_to(folded) if shape.named else ""
            sign = next((sign for sign in _SIGNS if sign in folded.removesuffix(":")), "")
            before, after = _parted(folded, sign)
            if sign:
                most = around[sign]
                around[sign] = (max(most[0], len(before)), max(most[1], 1 + len(after)))
            if sign and not after:
                if shape.hexadecimal:
                    behind[sign].append(f"{_HEXADECIMAL}(?<={re.escape(before[-4:] + sign)})")
                else:
                    last.setdefault(sign, set()).add(before[-4:])
                continue
            after, slash, rest = re.escape(after).partition("/")
            end = f"{slash}{rest}".replace("/", r"[/\\]{1,2}") + gives
            if folded.endswith("-") and not shape.named:
                end += _BEHIND_IN_JSON
            if not sign:
                literal = folded.partition("/")[0].encode()
                alone.append(_Scan(literal, re.compile((after + end).encode()), 0, len(folded)))
            elif before:
                behind[sign].append(f"{after}(?<={re.escape(before[-4:] + sign)}{after}){end}")
            else:
                behind[sign].append(after + end)
    for sign, befores in last.items():
        near = _BEHIND_A_LETTER if sign == "x" else _BEHIND_A_SEPARATOR
        behind[sign].append(f"(?={near}){_ending(befores, re.escape(sign))}")
    assert all(regex.startswith(r"[/\\]") for regex in behind[":"]), "a colon alone is not looked for"
    signed = (
        _Scan(there.encode(), re.compile(_scan(one).encode()), *around[one[0]])
        for one in behind.items()
        for there in _LOOKED_FOR.get(one[0], one[:1])
    )
    return (*signed, *alone)


def _noticed_by(shape: SecretShape) -> list[str]:
    """What a folded text has where one of the openings stands."""
    return [text.encode().translate(_FOLD).decode() for text in shape.noticed_by or shape.openings]


def _parted(folded: str, sign: str) -> tuple[str, str]:
    """What stands before and behind the sign by which an opening is noticed."""
    if not sign:
        return "", folded
    before, _, after = folded.partition(sign) if sign == "a" else folded.rpartition(sign)
    return before, after


def _given_to(name: str) -> str:
    """A regex for the place behind a name that is given a value: `:`, `=`, or a space: options, and .netrc.

    The text may stand inside JSON: quotes come with backslashes. Names may go on, as `password` does; `tokens` are
    counted, and every answer that we keep says how many.
    """
    goes_on = "" if name == "toxen" else "[a-z]{0,3}"
    in_netrc = "|(?=ord )" if name == "passw" else ""
    return rf"""(?:(?={goes_on}["'\\ ]{{0,20}}:)|(?<=-{name})(?={goes_on}["'\\,]{{0,10}} ){in_netrc})"""


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
        first = re.match(r"\(\?=[^)]*\)|\\.|\[[^]]*\]\{[0-9,]+\}|\[[^]]*\]|.", regex)
        assert first is not None
        by_first.setdefault(first[0], []).append(regex[first.end() :])
    alternatives = (f"{first}(?:{'|'.join(rest)})" for first, rest in by_first.items())
    return f"{re.escape(sign)}(?:{'|'.join(alternatives)})"
