"""Secrets are taken out of text, whole or as it streams.

One table of patterns (`PATTERNS`) says what a secret looks like. Its rules make streaming exact: wherever a
text is cut, `StreamRedactor` gives what `redact` gives for the whole.

- A match begins with one of a few literal `openings`, so text without them can be passed on at once.
- Whether a secret begins is decided within a bounded distance (`reach`); until then the text is held back.
- What follows is masked character by character, however long it is, without being kept.
- Text further right never undoes a match, and no pattern matches « or »; so redacting twice changes nothing.

Masking is by shape. It lowers the chance that a secret is stored; it does not find every secret.
"""

import functools
import re
from collections.abc import Callable
from typing import NamedTuple

Marker = Callable[[str], str]

HOLD_BACK_LIMIT = 800
"""`StreamRedactor` never holds back more characters than this."""
_END_MARK = 80
"""No `until` matches more characters than this."""


def stored_marker(kind: str) -> str:
    """What stands in stored events in place of a secret."""
    return f"«redacted:{kind}»"


def error_marker(kind: str) -> str:
    """What stands in error messages in place of a secret, whatever its kind."""
    return "[redacted]"


class Form(NamedTuple):
    """One way a pattern is written: `head` matches what is kept and looks ahead at the secret, `body` is
    masked.

    With `until`, everything is masked up to and including the next match of it, or to the end of the text.
    """

    head: str
    body: str = ""
    until: str = ""


class Pattern(NamedTuple):
    """`openings`: what every match begins with, in any case. `reach`: all that a head may look at, as a
    regex.

    `apart`: counts only where no letter, digit or underscore stands before it.
    """

    kind: str
    openings: tuple[str, ...]
    reach: str
    forms: tuple[Form, ...]
    apart: bool = False


_BEARER = r"[A-Za-z0-9\-_.~+/=]"
_USER = r"""[^\s/:@"'<>(){},;«»]{0,256}"""
_BEFORE_HOST = r"""[^\s/"'<>«»]{1,512}"""  # up to the last @ before the host
_NAME = (
    r"(?:API[_-]?KEY|ACCESS[_-]?KEY|SECRET[_-]?KEY|PRIVATE[_-]?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE)"
)
_GIVES = r"""(?:\\?["'])?[ \t]{0,4}[:=][ \t]{0,4}"""
_UNMASKED = r"(?!«redacted:|\[redacted\])"
_BARE = r"""[^\s"'`,;&|<>(){}\[\]«»$\\]"""


def _assigned(quote: str, inside: str, body: str) -> tuple[Form, Form]:
    """A quoted value: any value under a NAME in capitals; under other names only one that has a digit."""
    plausible = rf"(?={inside}{{6}})(?=(?:(?![0-9]){inside}){{0,64}}[0-9])"
    return (
        Form(rf"{_NAME}{_GIVES}{quote}{_UNMASKED}(?={inside}|\\[^\r\n«»])", body),
        Form(rf"(?i:{_NAME}){_GIVES}{quote}{_UNMASKED}{plausible}", body),
    )


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "private-key",
        ("-----BEGIN",),
        r"-----BEGIN[A-Z0-9 ]{0,64}-{0,5}",
        (
            Form(
                r"(?=-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)",
                until=r"-----END [A-Z0-9 ]{1,60}-----",
            ),
        ),
    ),
    Pattern(
        "aws-access-key",
        ("AKIA", "ASIA"),
        r"[A-Z0-9]{0,20}",
        (Form(r"(?=(?:AKIA|ASIA)[A-Z0-9]{16})", r"[A-Z0-9]*"),),
    ),
    Pattern(
        "github-token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"[A-Za-z0-9_]{0,71}",
        (
            Form(r"(?=gh[pousr]_[A-Za-z0-9]{30})", r"[A-Za-z0-9_]*"),
            Form(r"(?=github_pat_[A-Za-z0-9_]{60})", r"[A-Za-z0-9_]*"),
        ),
    ),
    Pattern(
        "bearer",
        ("bearer",),
        rf"(?i:bearer)[ \t]{{0,4}}{_BEARER}{{0,20}}",
        (Form(rf"(?i:bearer)[ \t]{{1,4}}(?={_BEARER}{{20}})", rf"{_BEARER}*"),),
    ),
    Pattern(
        "jwt",
        ("eyJ",),
        r"[A-Za-z0-9_\-]{0,515}\.?[A-Za-z0-9_\-]{0,8}",
        (Form(r"(?=eyJ[A-Za-z0-9_\-]{5,512}\.[A-Za-z0-9_\-]{8})", r"[A-Za-z0-9_.\-]*"),),
    ),
    Pattern(
        "api-key",
        ("sk-",),
        r"[A-Za-z0-9_\-]{0,24}",
        (Form(r"(?=sk-(?:or-|ant-|proj-)?[A-Za-z0-9_\-]{16})", r"[A-Za-z0-9_\-]*"),),
        apart=True,
    ),
    Pattern(
        "slack-token",
        ("xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"),
        r"[A-Za-z0-9\-]{0,15}",
        (Form(r"(?=(?:xox[abeoprs]|xapp)-[A-Za-z0-9\-]{10})", r"[A-Za-z0-9\-]*"),),
    ),
    Pattern(
        "google-key",
        ("AIza",),
        r"[A-Za-z0-9_\-]{0,34}",
        (Form(r"(?=AIza[A-Za-z0-9_\-]{30})", r"[A-Za-z0-9_\-]*"),),
    ),
    Pattern(
        "password",
        ("://",),
        r"://[^\s/]{0,780}",
        (Form(rf"://{_USER}:{_UNMASKED}(?={_BEFORE_HOST}@)", rf"{_BEFORE_HOST}(?=@)"),),
    ),
    Pattern(
        "secret",
        (
            *("api_key", "api-key", "apikey", "access_key", "access-key", "accesskey"),
            *("private_key", "private-key", "privatekey"),
            *("token", "secret", "password", "passwd", "passphrase"),
        ),
        r"""[A-Za-z_\-]{0,24}(?:\\?["'])?[ \t]{0,4}(?:[:=][^\r\n]{0,100})?""",
        (
            # NAME=value, but not NAME=$OTHER, which is no secret.
            Form(rf"""{_NAME}={_UNMASKED}(?!\$[A-Z_{{(])(?=[^\s"'«»\\])""", r"""[^\s"'«»]*"""),
            *_assigned('"', r'[^"\\\r\n«»]', r'(?:[^"\\\r\n«»]|\\[^\r\n«»])*'),
            *_assigned("'", r"[^'\\\r\n«»]", r"(?:[^'\\\r\n«»]|\\[^\r\n«»])*"),
            *_assigned(r"\\[\"']", r"""[^"'\\\r\n«»]""", r"""[^"'\\\r\n«»]*"""),
            Form(
                rf"(?i:{_NAME}){_GIVES}{_UNMASKED}(?={_BARE}{{6}})(?=(?:(?![0-9]){_BARE}){{0,64}}[0-9])",
                rf"{_BARE}*",
            ),
        ),
    ),
)

# Each alternative starts at the rarest letter of its opening and looks back from there: four times faster
# than starting at the first letter, because almost every position is dismissed by one table lookup. JSON
# escapes none of these characters but the slash.
_FRAGMENTS = rb"""
    I(?<=A[KS]I)A | _(?<=gh[pousr]_) | _(?<=github_pat_) | B(?<=-----B)EGIN | J(?<=eyJ) | z(?<=AIz)a
  | -(?<=sk-) | -(?<=xox[abeoprs]-) | -(?<=xapp-) | :// | :\\/\\/
  | b[eE][aA][rR][eE][rR] | B[eE][aA][rR][eE][rR]
  | (?: k[eE][yY] | K[eE][yY] | k(?<=[tT][oO]k)[eE][nN] | K(?<=[tT][oO]K)[eE][nN]
      | c(?<=[sS][eE]c)[rR][eE][tT] | C(?<=[sS][eE]C)[rR][eE][tT]
      | p[aA][sS][sS](?:[wW](?:[oO][rR])?[dD]|[pP][hH][rR][aA][sS][eE])
      | P[aA][sS][sS](?:[wW](?:[oO][rR])?[dD]|[pP][hH][rR][aA][sS][eE])
    ) [\\"'\x20\tt]{0,14} [:=]
"""


class _CompiledForm(NamedTuple):
    kind: str
    head: re.Pattern[str]
    body: re.Pattern[str]
    until: re.Pattern[str] | None


class _CompiledPattern(NamedTuple):
    reach: re.Pattern[str]
    apart: bool
    forms: tuple[_CompiledForm, ...]


class _Table(NamedTuple):
    opening: re.Pattern[str]
    patterns: tuple[_CompiledPattern, ...]
    beginnings: frozenset[str]  # of openings, in lower case
    longest_beginning: int


@functools.cache
def _table() -> _Table:
    openings = [[opening.lower() for opening in pattern.openings] for pattern in PATTERNS]
    beginnings = {one[:size] for some in openings for one in some for size in range(1, len(one))}
    return _Table(
        # Group number n + 1 belongs to pattern n. ASCII: otherwise k would also match the Kelvin sign.
        re.compile(
            "|".join(f"({'|'.join(map(re.escape, some))})" for some in openings), re.IGNORECASE | re.ASCII
        ),
        tuple(_compiled(pattern) for pattern in PATTERNS),
        frozenset(beginnings),
        max(map(len, beginnings)),
    )


def _compiled(pattern: Pattern) -> _CompiledPattern:
    forms = tuple(
        _CompiledForm(
            pattern.kind,
            re.compile(form.head, re.ASCII),
            re.compile(form.body, re.ASCII),
            re.compile(form.until) if form.until else None,
        )
        for form in pattern.forms
    )
    return _CompiledPattern(re.compile(pattern.reach, re.ASCII), pattern.apart, forms)


@functools.cache
def _fragments() -> re.Pattern[bytes]:
    return re.compile(_FRAGMENTS, re.VERBOSE)


def might_hold_secret(data: bytes) -> bool:
    """False only if `redact` would leave the text alone: the text in UTF-8, or that text inside JSON."""
    return _fragments().search(data) is not None


def redact(text: str, marker: Marker = stored_marker) -> str:
    """`text` with every secret replaced by `marker(kind)`; names and surroundings stay."""
    if _table().opening.search(text) is None:
        return text
    stream = StreamRedactor(marker)
    return stream.feed(text) + stream.flush()


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
    """Redacts text that comes in pieces: all that `feed` and `flush` return, joined, is `redact` of the
    whole.

    Holds back at most `HOLD_BACK_LIMIT` characters, and only where a secret may just be beginning.
    """

    def __init__(self, marker: Marker = stored_marker) -> None:
        self._marker = marker
        self._table = _table()
        self._held = ""
        self._before = ""  # the character before the held ones; empty where a secret may stand `apart`
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
        done: list[str] = []
        position = 0
        while True:
            if self._inside is not None:
                position, ended = _masked_to(self._inside, buffer, position, final)
                if not ended:
                    break
                self._inside = None
            opening = self._table.opening.search(buffer, position)
            start = opening.start() if opening else self._end_of_clean(buffer, position, final)
            if start > position:
                done.append(buffer[position:start])
                self._before = buffer[start - 1]
                position = start
            if opening is None:
                break
            assert opening.lastindex is not None
            pattern = self._table.patterns[opening.lastindex - 1]
            if not final and _is_open(pattern, buffer, start):
                break
            form, kept = self._recognised(pattern, buffer, start)
            if form is None:
                kept = buffer[start]
                self._before = kept
                done.append(kept)
            else:
                # A name or address that is kept may itself hold a secret of another kind.
                done += (kept[:1], redact(kept[1:], self._marker), self._marker(form.kind))
                self._inside, self._before = form, ""
            position += len(kept)
        self._held = buffer[position:]
        return "".join(done)

    def _recognised(
        self, pattern: _CompiledPattern, buffer: str, start: int
    ) -> tuple[_CompiledForm | None, str]:
        if pattern.apart and (self._before == "_" or (self._before.isascii() and self._before.isalnum())):
            return None, ""
        for form in pattern.forms:
            if head := form.head.match(buffer, start):
                return form, head[0]
        return None, ""

    def _end_of_clean(self, buffer: str, position: int, final: bool) -> int:
        """Everything up to here is clean; from here on an opening may be beginning."""
        size = len(buffer)
        if final:
            return size
        tail = buffer[max(position, size - self._table.longest_beginning) :].lower()
        for first in range(len(tail)):
            if tail[first:] in self._table.beginnings:
                return size - (len(tail) - first)
        return size


def _is_open(pattern: _CompiledPattern, buffer: str, start: int) -> bool:
    """Whether more text could still change what stands at `start`."""
    reached = pattern.reach.match(buffer, start)
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
    escape_cut_in_two = end == size - 1 and buffer[end] == "\\"
    return end, final or (end < size and not escape_cut_in_two)
