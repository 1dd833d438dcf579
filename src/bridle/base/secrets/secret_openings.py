"""Find where secrets may begin in a text, in linear time.

A regex costs 5 ns a character however simple it is, unless it begins with a literal character: then 0.4. So a long text
is folded (small letters, rare letters to one, `_` to `-`, `=` to `:`), and each of a handful of scans looks for one
sign in it, then at what stands around it. Folding keeps every character in its place. What is noticed is looked at
again, exactly; what is not noticed is no secret.
"""

import functools
import re
from collections.abc import Iterator

import msgspec

from bridle.base.secrets.secret_shapes import SHAPES, SecretShape

_LOOKAHEAD = 40
"""What follows an opening is worth a look or not within this many characters from its beginning."""
_FEW = 160
"""In fewer characters every opening is looked for; in more, only what is noticed."""
_LONGEST_BEGINNING = 24
"""No opening has more characters."""
_BEFORE_DOT = 28
"""A shape `by_dot` has at most so many characters before its first dot."""
_PIECE = 8 * 1024
"""So much is looked at in one go: nothing else in the process runs meanwhile, whatever thread this is done in."""
_SCANNED = 256
"""A scan knows within this many characters from where it matches that it does."""


class Openings:
    """Where openings stand in a text that follows on `before`. `final`: nothing follows the text."""

    def __init__(self, text: str, before: str, *, final: bool) -> None:
        self._text = text
        self._final = final
        self._sure = 0  # before it, no opening goes unnoticed that matters
        self._region: tuple[int, int] | None = None
        if len(text) >= _FEW:
            self._sure = len(text) if final else len(text) - _LOOKAHEAD
            shift = len(before)
            self._noticed = ((begin - shift, end - shift) for begin, end in _noticed(before + text))
            self._region = next(self._noticed, None)

    def first_from(self, position: int) -> tuple[int, SecretShape] | None:
        """The first opening that may matter at `position` or behind it."""
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


def might_hold_secret(data: bytes) -> bool:
    """Return False if a text in UTF-8, plain or inside JSON, holds no secret."""
    # `find`, not `in`: for bytes in bytes Python first tries to read them as a number, and fails with a sentence
    if data.find(b"\x1b") >= 0 or (data.find(rb"\u001") >= 0 and _has_spelled_escape(data)):
        return True  # an escape sequence may stand anywhere in a secret
    folded = data.translate(_FOLD)
    if len(folded) > _PIECE:
        return next(_regions(folded), None) is not None
    for scan in _scans():  # noqa: SIM110  a plain loop: this is done for every event
        if folded.find(scan.sign) >= 0 and scan.regex.search(folded):
            return True
    return False


def _has_spelled_escape(data: bytes) -> bool:
    return data.find(rb"\u001b") >= 0 or data.find(rb"\u001B") >= 0


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
