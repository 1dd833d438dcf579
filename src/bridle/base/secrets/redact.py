"""Redact secrets in text, whole or streamed.

`secret_shapes` says what a secret looks like. Its rules make streaming exact: wherever a text is cut,
`StreamRedactor` gives what `redact` gives for the whole.

- A match begins with one of a few literal openings, so text without them is passed on at once.
- Whether a secret begins is decided within a bounded distance (`reach`); until then the text is held back.
- What follows is masked character by character, however long it is, without being kept.
- Text further right never undoes a match, and no shape matches « or »; so redacting twice changes nothing.
- Colours and other escape sequences of a terminal are set aside while the text is looked at and go back where they
  were, those inside a secret behind its mask.

Masking is by shape. It lowers the chance that a secret is stored; it does not find every secret.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable

import msgspec

from bridle.base.secrets.secret_openings import Openings, might_hold_secret
from bridle.base.secrets.secret_shapes import BEFORE, Form, SecretShape

Marker = Callable[[str], str]

HOLD_BACK_LIMIT = 800
"""`StreamRedactor` never holds back more characters than this."""
_SHORT = 10
"""What is kept of a match that is this short holds no secret itself."""
_ESCAPE = "\x1b"
_MAX_ESCAPES = 16
"""So many escape sequences may follow each other without any text between them; more are dropped."""
_PIECE = 8 * 1024
"""A long text is looked at as if it came in pieces of this size, so that other threads can run in between."""
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
    return StreamRedactor(marker).whole(text)


def lines_within_secrets(lines: Iterable[str]) -> frozenset[str]:
    """Those of the lines of a file that are in the middle of a secret: alone, none of them looks like one."""
    text = "\n".join(lines)
    if not might_hold_secret(text.encode(errors="replace")):
        return frozenset()
    harmless = set(redact(text).split("\n"))
    return frozenset(
        line for line in text.split("\n") if line and line not in harmless and redact(line) == line
    )


def redact_values(text: str, marker: Marker = stored_marker) -> str:
    """`redact` for what a person is asked to approve: masks only what is a plain value and can do nothing.

    A span with any other character could hold code that runs, so it stays readable, secret or not.
    """
    openings = Openings(text, "", final=True)
    done, position = list[str](), 0
    plain_from = plain_to = 0
    beyond = set[
        int
    ]()  # forms whose secrets go on behind the plain characters, from wherever among them they begin
    while found := openings.first_from(position):
        start, shape = found[0], _compiled(found[1])
        form, kept = _recognised(shape, text, start, text[max(start - BEFORE, 0) : start])
        value_at = start + len(kept)
        if form is not None and not plain_from <= value_at < plain_to:  # else they end where they did before
            plain = _plain_value().match(text, value_at)
            plain_from, plain_to = plain.span() if plain else (value_at, value_at)
            beyond.clear()
        # Whatever goes on behind the plain characters is not looked for: it may be long, and be looked for often.
        most = plain_to + _END_MARK
        if form is None or id(form) in beyond:
            end = start
        elif (end := _masked_to(form, text, value_at, final=True, most=most)[0]) > plain_to:
            beyond.add(id(form))
        if form is not None and value_at < end <= plain_to:
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


class StreamRedactor:
    """Redacts text that comes in pieces: all that `feed` and `flush` return, joined, is `redact` of the whole.

    Holds back at most `HOLD_BACK_LIMIT` characters, and only where a secret may just be beginning. Values that are
    `known` to be secret are masked whatever they look like, and held back while they may be coming.
    """

    def __init__(self, marker: Marker = stored_marker, *, known: Iterable[str] = ()) -> None:
        self._marker = marker
        self._known = _KnownValues(known, marker("key")) if known != () else _NONE_KNOWN
        self._held = ""
        self._before = ""  # what was passed on in front of the held text
        self._inside: _CompiledForm | None = None  # a secret that is still being masked
        self._escapes: list[tuple[int, str]] = []  # set aside, each with its place in the held text
        self._cut_escape = ""  # one whose end has not come
        self._in_a_row = 0

    def feed(self, text: str) -> str:
        """Whatever can be passed on by now."""
        return self._pass_on(self._known.feed(text), final=False)

    def flush(self) -> str:
        """The rest, at the end of the stream. Afterwards a new stream can begin."""
        return self._ended_with(self._known.flush())

    def whole(self, text: str) -> str:
        """What `feed` and `flush` give for a text that is not cut. Between streams only."""
        text = self._known.feed(text) + self._known.flush()
        if len(text) <= _PIECE:
            return self._ended_with(text)
        pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
        return "".join((*(self._pass_on(piece, final=False) for piece in pieces), self._ended_with("")))

    def _ended_with(self, text: str) -> str:
        rest = self._pass_on(text, final=True)
        self._held, self._before, self._inside, self._in_a_row = "", "", None, 0
        return rest

    def _pass_on(self, text: str, *, final: bool) -> str:
        if _ESCAPE in text or self._escapes or self._cut_escape:
            return self._coloured(text, final=final)
        if text:
            self._in_a_row = 0
        return "".join(self._advance(self._held + text, [], final=final))

    def _coloured(self, text: str, *, final: bool) -> str:
        """The same for text with escape sequences: the rest of it is looked at, and they go back to their places."""
        text, self._cut_escape = self._cut_escape + text, ""
        plain, end = [self._held], 0
        size = len(self._held)
        for found in _escape_sequences().finditer(text):
            if found[0].startswith(_ESCAPE) and found["cut"] is not None and not final:
                self._cut_escape = found[0]
                text = text[: found.start()]
                break
            if found["cut"] is not None:
                continue
            if found.start() > end:
                plain.append(text[end : found.start()])
                size += found.start() - end
                self._in_a_row = 0
            end = found.end()
            self._in_a_row += 1
            if self._in_a_row <= _MAX_ESCAPES:
                self._escapes.append((size, found[0]))
        if end < len(text):
            plain.append(text[end:])
            self._in_a_row = 0
        taken: list[int] = []
        done = self._advance("".join(plain), taken, final=final)
        return self._with_escapes(done, taken)

    def _with_escapes(self, done: list[str], taken: list[int]) -> str:
        """Puts escape sequences back into what is passed on; those of the held text stay."""
        put: list[str] = []
        position, at = 0, 0
        escapes = self._escapes
        for piece, size in zip(done, taken, strict=True):
            begin, end = position, position + abs(size)
            while at < len(escapes) and escapes[at][0] <= begin:
                put.append(escapes[at][1])
                at += 1
            if size >= 0:
                while at < len(escapes) and escapes[at][0] < end:
                    place = escapes[at][0]
                    put += (piece[position - begin : place - begin], escapes[at][1])
                    position = place
                    at += 1
                put.append(piece[position - begin :])
            else:
                put.append(piece)
            position = end
        while at < len(escapes) and escapes[at][0] <= position:
            put.append(escapes[at][1])
            at += 1
        self._escapes = [(place - position, escape) for place, escape in escapes[at:]]
        return "".join(put)

    def _advance(self, buffer: str, taken: list[int], *, final: bool) -> list[str]:
        """What is passed on, in pieces. `taken` gets how much of the buffer each stands for, below 0 where masked."""
        done: list[str] = []
        if not buffer:
            return done
        position, openings = 0, None
        while True:
            if self._inside is not None:
                begin = position
                position, ended = _masked_to(self._inside, buffer, position, final)
                done.append("")
                taken.append(begin - position)
                if not ended:
                    break
                self._inside = None
            openings = openings or Openings(buffer, self._before, final=final)
            found = openings.first_from(position)
            start = found[0] if found else openings.end_of_clean(position)
            if start > position:
                done.append(buffer[position:start])
                taken.append(start - position)
                self._passed(done[-1])
                position = start
            if found is None:
                break
            shape = _compiled(found[1])
            if not final and len(buffer) - start <= HOLD_BACK_LIMIT and _is_open(shape, buffer, start):
                break
            form, kept = _recognised(shape, buffer, start, self._before)
            if form is None:
                kept = buffer[start]
                done.append(kept)
                taken.append(1)
                self._passed(kept)
            else:
                # A name or address that is kept may itself hold a secret of another kind.
                inner = redact(kept[1:], self._marker) if len(kept) > _SHORT else kept[1:]
                rest = len(kept[1:])
                done += (kept[:1], inner, self._marker(form.kind))
                taken += (len(kept[:1]), rest if inner == kept[1:] else -rest, 0)
                self._inside = form
                self._passed("".join(done[-3:]))  # as somebody sees it who looks at what is passed on
            position += len(kept)
        self._held = buffer[position:]
        return done

    def _passed(self, text: str) -> None:
        self._before = text[-BEFORE:] if len(text) >= BEFORE else (self._before + text)[-BEFORE:]


@functools.cache
def _escape_sequences() -> re.Pattern[str]:
    """Colours, moves of the cursor and character sets. `cut`: one that the end of the text may have cut off."""
    return re.compile(
        r"\x1b(?:\[[0-?]{0,32}[ -/]{0,2}[@-~]|[()][0-9A-Za-z]|(?P<cut>(?:\[[0-?]{0,32}[ -/]{0,2}|[()])?\Z))"
    )


class _KnownValues:
    """Takes given values out of a stream."""

    def __init__(self, values: Iterable[str], mask: str) -> None:
        self._values = sorted(filter(None, values), key=len, reverse=True)
        self._mask = mask
        self._held = ""

    def feed(self, text: str) -> str:
        if not self._values:
            return text
        text = self._held + text
        for value in self._values:
            text = text.replace(value, self._mask)
        sure = min(self._beginning_of(value, text) for value in self._values)
        self._held = text[sure:]
        return text[:sure]

    def flush(self) -> str:
        rest, self._held = self._held, ""
        return rest

    @staticmethod
    def _beginning_of(value: str, text: str) -> int:
        """Where at the end of the text the value may be beginning."""
        at = text.find(value[0], max(len(text) - len(value) + 1, 0))
        while at >= 0 and not value.startswith(text[at:]):
            at = text.find(value[0], at + 1)
        return at if at >= 0 else len(text)


_NONE_KNOWN = _KnownValues((), "")  # has no values, so it keeps nothing


# Recognising a secret where an opening stands


class _CompiledForm(msgspec.Struct, frozen=True):
    kind: str
    head: re.Pattern[str]
    body: re.Pattern[str]
    until: re.Pattern[str] | None
    before: re.Pattern[str] | None
    unless: re.Pattern[str] | None


class _CompiledShape(msgspec.Struct, frozen=True):
    reach: re.Pattern[str]
    forms: tuple[_CompiledForm, ...]


@functools.cache
def _compiled(shape: SecretShape) -> _CompiledShape:
    """Compiled when its first opening is seen: most runs see none, and all of them together are slow to compile."""
    return _CompiledShape(
        re.compile(shape.reach, re.ASCII), tuple(_compiled_form(shape.kind, form) for form in shape.forms)
    )


def _compiled_form(kind: str, form: Form) -> _CompiledForm:
    return _CompiledForm(
        form.kind or kind,
        re.compile(form.head, re.ASCII),
        re.compile(form.body, re.ASCII),
        re.compile(form.until) if form.until else None,
        re.compile(form.before, re.ASCII) if form.before else None,
        _stand_in(form.unless) if form.unless else None,
    )


@functools.cache
def _stand_in(unless: str) -> re.Pattern[str]:
    """Compiled when something of its form is met: mostly that is a secret, or never."""
    return re.compile(unless, re.ASCII)


def _recognised(
    shape: _CompiledShape, buffer: str, start: int, before: str
) -> tuple[_CompiledForm | None, str]:
    """The form that a secret at `start` has, and what of it is kept; `before` is the text in front of it."""
    for form in shape.forms:
        head = form.head.match(buffer, start)
        if (
            head
            and (form.before is None or form.before.search(before))
            and (form.unless is None or not form.unless.match(buffer, head.end()))
        ):
            return form, head[0]
    return None, ""


def _is_open(shape: _CompiledShape, buffer: str, start: int) -> bool:
    """Whether more text could still change what stands at `start`."""
    reached = shape.reach.match(buffer, start)
    return reached is not None and reached.end() == len(buffer)


def _masked_to(
    form: _CompiledForm, buffer: str, position: int, final: bool, most: int | None = None
) -> tuple[int, bool]:
    """How far the secret is known to go, at most to `most`, and whether it surely ends there."""
    size = len(buffer) if most is None else min(most, len(buffer))
    if form.until is not None:
        if mark := form.until.search(buffer, position, size):
            return mark.end(), True
        return (size, True) if final else (max(position, size - _END_MARK), False)
    body = form.body.match(buffer, position, size)
    end = body.end() if body else position
    pair_cut_in_two = end == size - 1 and buffer[end] in "\\."
    return end, final or (end < size and not pair_cut_in_two)
