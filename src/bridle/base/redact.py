"""Secrets are taken out of text, whole or as it streams.

`bridle.base.secret_shapes` says what a secret looks like. Its rules make streaming exact: wherever a text is cut,
`StreamRedactor` gives what `redact` gives for the whole.

- A match begins with one of a few literal openings, so text without them is passed on at once.
- Whether a secret begins is decided within a bounded distance (`reach`); until then the text is held back.
- What follows is masked character by character, however long it is, without being kept.
- Text further right never undoes a match, and no shape matches « or »; so redacting twice changes nothing.

Masking is by shape. It lowers the chance that a secret is stored; it does not find every secret.
"""

import functools
import re
import string
from collections.abc import Callable

import msgspec

from bridle.base.secret_shapes import BEFORE, SHAPES, Form, Shape

Marker = Callable[[str], str]

HOLD_BACK_LIMIT = 800
"""`StreamRedactor` never holds back more characters than this."""
_SHORT = 10
"""What is kept of a match that is this short holds no secret itself."""
_END_MARK = 80
"""No `until` matches more characters than this."""


def stored_marker(kind: str) -> str:
    """What stands in stored events in place of a secret."""
    return f"«redacted:{kind}»"


def error_marker(kind: str) -> str:
    """What stands in error messages in place of a secret, whatever its kind."""
    return "[redacted]"


def redact(text: str, marker: Marker = stored_marker) -> str:
    """`text` with every secret replaced by `marker(kind)`; names and surroundings stay."""
    if not _worth_a_look(_folded(text)):
        return text
    stream = StreamRedactor(marker)
    return stream.feed(text) + stream.flush()


def redact_values(text: str, marker: Marker = stored_marker) -> str:
    """`redact` for what a person is asked to approve: masks only what is a plain value and can do nothing.

    A span with any other character could hold code that runs, so it stays readable, secret or not.
    """
    places = _Places(text, "", final=True)
    done, position = list[str](), 0
    while found := places.next_opening(position):
        start, shape = found
        form, kept = _recognised(shape, text, start, text[max(start - BEFORE, 0) : start])
        value_at = start + len(kept)
        end = _masked_to(form, text, value_at, final=True)[0] if form is not None else start
        if form is not None and is_plain_value(text[value_at:end]):
            done += (text[position:value_at], marker(form.kind))
            position = end
        else:
            done.append(text[position : start + 1])
            position = start + 1
    return "".join((*done, text[position:]))


def is_plain_value(text: str) -> bool:
    """Whether a shell would take the text as it stands, whatever surrounds it."""
    return _plain_value().fullmatch(text) is not None


@functools.cache
def _plain_value() -> re.Pattern[str]:
    return re.compile(r"[A-Za-z0-9_./+=:-]+")


def redact_error(text: str) -> str:
    """For messages of providers, where losing a harmless word costs nothing: also long tokens and token=…"""
    return _error_patterns().sub(r"\1[redacted]", redact(text, error_marker))


@functools.cache
def _error_patterns() -> re.Pattern[str]:
    return re.compile(
        r"(\btoken=)(?!\[redacted\])[^\s&\"']+|\b(?:sk|td)-[A-Za-z0-9_\-]+|[A-Za-z0-9]{32,}",
        re.IGNORECASE | re.ASCII,
    )


def might_hold_secret(data: bytes) -> bool:
    """False only if `redact` would leave the text alone: the text in UTF-8, or that text inside JSON."""
    return _worth_a_look(data.translate(_FOLD))


class StreamRedactor:
    """Redacts text that comes in pieces: all that `feed` and `flush` return, joined, is `redact` of the whole.

    Holds back at most `HOLD_BACK_LIMIT` characters, and only where a secret may just be beginning.
    """

    def __init__(self, marker: Marker = stored_marker) -> None:
        self._marker = marker
        self._held = ""
        self._before = ""  # what stands in front of the held text, back to the last secret
        self._inside: _CompiledForm | None = None  # a secret that is still being masked

    def feed(self, text: str) -> str:
        """Whatever can be passed on by now."""
        return self._advance(self._held + text, final=False)

    def flush(self) -> str:
        """The rest, at the end of the stream. Afterwards a new stream can begin."""
        rest = self._advance(self._held, final=True)
        self._held, self._before, self._inside = "", "", None
        return rest

    def _advance(self, buffer: str, *, final: bool) -> str:
        position, done, places = 0, list[str](), None
        while True:
            if self._inside is not None:
                position, ended = _masked_to(self._inside, buffer, position, final)
                if not ended:
                    break
                self._inside = None
            places = places or _Places(buffer, self._before, final=final)
            found = places.next_opening(position)
            start = found[0] if found else places.end_of_clean(position)
            if start > position:
                done.append(buffer[position:start])
                self._passed(done[-1])
                position = start
            if found is None:
                break
            shape = found[1]
            if not final and _is_open(shape, buffer, start):
                break
            form, kept = _recognised(shape, buffer, start, self._before)
            if form is None:
                kept = buffer[start]
                done.append(kept)
                self._passed(kept)
            else:
                # A name or address that is kept may itself hold a secret of another kind.
                inner = redact(kept[1:], self._marker) if len(kept) > _SHORT else kept[1:]
                done += (kept[:1], inner, self._marker(form.kind))
                self._inside, self._before = form, ""
            position += len(kept)
        self._held = buffer[position:]
        return "".join(done)

    def _passed(self, text: str) -> None:
        self._before = text[-BEFORE:] if len(text) >= BEFORE else (self._before + text)[-BEFORE:]


# Recognising a secret where an opening stands


class _CompiledForm(msgspec.Struct, frozen=True):
    kind: str
    head: re.Pattern[str]
    body: re.Pattern[str]
    until: re.Pattern[str] | None
    before: re.Pattern[str] | None


class _CompiledShape(msgspec.Struct, frozen=True):
    reach: re.Pattern[str]
    forms: tuple[_CompiledForm, ...]


@functools.cache
def _compiled(shape: Shape) -> _CompiledShape:
    """Compiled when its first opening is seen: most runs see none, and all of them together are slow to compile."""
    return _CompiledShape(
        re.compile(shape.reach, re.ASCII), tuple(_compiled_form(shape.kind, form) for form in shape.forms)
    )


def _compiled_form(kind: str, form: Form) -> _CompiledForm:
    return _CompiledForm(
        kind,
        re.compile(form.head, re.ASCII),
        re.compile(form.body, re.ASCII),
        re.compile(form.until) if form.until else None,
        re.compile(form.before, re.ASCII) if form.before else None,
    )


def _recognised(
    shape: _CompiledShape, buffer: str, start: int, before: str
) -> tuple[_CompiledForm | None, str]:
    """The form that a secret at `start` has, and what of it is kept; `before` is the text in front of it."""
    for form in shape.forms:
        head = form.head.match(buffer, start)
        if head and (form.before is None or form.before.search(before)):
            return form, head[0]
    return None, ""


def _is_open(shape: _CompiledShape, buffer: str, start: int) -> bool:
    """Whether more text could still change what stands at `start`."""
    reached = shape.reach.match(buffer, start)
    return reached is not None and reached.end() == len(buffer)


def _masked_to(form: _CompiledForm, buffer: str, position: int, final: bool) -> tuple[int, bool]:
    """How far the secret is known to go, and whether it surely ends there."""
    size = len(buffer)
    if form.until is not None:
        if mark := form.until.search(buffer, position):
            return mark.end(), True
        return (size, True) if final else (max(position, size - _END_MARK), False)
    body = form.body.match(buffer, position)
    end = body.end() if body else position
    pair_cut_in_two = end == size - 1 and buffer[end] in "\\."
    return end, final or (end < size and not pair_cut_in_two)


# Finding openings: quickly over most of a text, with care where it may go on


_LOOKAHEAD = 40
"""What follows an opening is worth a look or not within this many characters from its beginning."""
_BEGINS_WITHIN = 30
_ENDS_WITHIN = 24
"""An opening begins so many characters before the place where it is noticed, and ends so many behind it, at most."""


_LONGEST_BEGINNING = 24
"""No opening has more characters."""


class _Places:
    """Where openings stand in a text that follows on `before`. `final`: nothing follows the text."""

    def __init__(self, text: str, before: str, *, final: bool) -> None:
        self._text = text
        self._final = final
        self._sure = len(text) if final else max(len(text) - _LOOKAHEAD, 0)  # so far nothing goes unnoticed
        self._noticed = (place - len(before) for place in _noticed(before + text))
        self._next = next(self._noticed, None)

    def next_opening(self, position: int) -> tuple[int, _CompiledShape] | None:
        """The first opening that may matter at `position` or behind it."""
        table = _table()
        while self._next is not None:
            begin, end = max(self._next - _BEGINS_WITHIN, position), self._next + _ENDS_WITHIN
            if begin < end and (found := table.opening.search(self._text, begin, end)):
                return found.start(), _compiled(table.shape_of(found[0]))
            self._next = next(self._noticed, None)
        if not self._final and (found := table.opening.search(self._text, max(position, self._sure))):
            return found.start(), _compiled(table.shape_of(found[0]))
        return None

    def end_of_clean(self, position: int) -> int:
        """Everything from `position` up to here holds no opening; from here on one may be beginning."""
        size = len(self._text)
        if self._final or position == size:
            return size
        beginnings = _table().beginnings
        tail = self._text[max(position, size - _LONGEST_BEGINNING) :].lower()
        for length in beginnings.get(tail[-1], ()):
            if tail[-length:] in beginnings[tail[-1]][length]:
                return size - length
        return size


class _Table(msgspec.Struct, frozen=True):
    opening: re.Pattern[str]
    shapes: dict[str, Shape]  # by opening
    beginnings: dict[str, dict[int, set[str]]]
    """Of openings, in small letters: by their last letter and their length, the longest first."""

    def shape_of(self, opening: str) -> Shape:
        return self.shapes.get(opening) or self.shapes[opening.lower()]


@functools.cache
def _table() -> _Table:
    shapes: dict[str, Shape] = {}
    by_first: dict[str, list[str]] = {}  # the engine tries alternatives one by one: the fewer at once, the better
    for shape in SHAPES:
        shapes |= dict.fromkeys(shape.openings, shape)
        for opening in shape.openings:
            rest = "".join(map(_any_case if shape.any_case else re.escape, opening[1:]))
            for first in {opening[0], opening[0].upper() if shape.any_case else opening[0]}:
                by_first.setdefault(first, []).append(rest)
    search = "|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in by_first.items())
    beginnings: dict[str, dict[int, set[str]]] = {}
    for size in range(_LONGEST_BEGINNING, 0, -1):
        for opening in shapes:
            if size < len(opening):
                beginning = opening[:size].lower()
                beginnings.setdefault(beginning[-1], {}).setdefault(size, set()).add(beginning)
    return _Table(re.compile(search), shapes, beginnings)


def _any_case(letter: str) -> str:
    return f"[{letter.lower()}{letter.upper()}]" if letter.isalpha() else re.escape(letter)


# Noticing them. A regex costs 5 ns a character however simple it is, unless it begins with a literal one: then 0.4. So
# text is folded to small letters, rare letters to one, and each of a handful of scans looks for one sign, then at what
# stands around it. Folding keeps every character in its place.

_FOLD = bytes.maketrans(string.ascii_uppercase.encode() + b"jkz_=", b"axcdefghixxlmnopqrstuvwxyxxxx-:")
_SIGNS = "x-.:"
"""What a scan looks for. Openings are noticed by the first of these they have, nearest to their end."""
_NEAR = 10
"""So many characters behind an opening are of the set `Shape.near`."""
_OF_ANY_TOKEN = r"[a-z0-9\-+/%:.]"
def _folded(text: str) -> bytes:
    return text.encode("latin-1", "replace").translate(_FOLD)


def _worth_a_look(folded: bytes) -> bool:
    return any(scan.search(folded) for scan in _scans())


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
    last: dict[tuple[str, str], set[str]] = {}  # what stands before a sign that ends an opening
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
                near = f"{_OF_ANY_TOKEN if sign == 'x' else shape.near}{{{_NEAR}}}"
                last.setdefault((sign, near), set()).add(before[-4:])
                continue
            after, slash, rest = re.escape(after).partition("/")
            end = f"{slash}{rest}".replace("/", r"[/\\]{1,2}") + gives
            if not sign:
                alone.add(after + end)
            elif before:
                behind[sign].append(f"{after}(?<={re.escape(before[-4:] + sign)}{after}){end}")
            else:
                behind[sign].append(after + end)
    for (sign, near), befores in last.items():
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
