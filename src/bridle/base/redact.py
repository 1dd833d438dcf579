"""Secrets are taken out of text, whole or as it streams.

One table of patterns (`PATTERNS`) says what a secret looks like. Its rules make streaming exact: wherever a
text is cut, `StreamRedactor` gives what `redact` gives for the whole.

- A match begins with one of a few literal `openings`, so text without them is passed on at once.
- Whether a secret begins is decided within a bounded distance (`reach`); until then the text is held back.
- What follows is masked character by character, however long it is, without being kept.
- Text further right never undoes a match, and no pattern matches « or »; so redacting twice changes nothing.

Masking is by shape. It lowers the chance that a secret is stored; it does not find every secret.
"""

import functools
import re
from collections.abc import Callable

import msgspec

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


class Form(msgspec.Struct, frozen=True):
    """One way a pattern is written: `head` matches what is kept and looks ahead at the secret, `body` is
    masked.

    With `until`, everything is masked up to and including the next match of it, or to the end of the text.
    """

    head: str
    body: str = ""
    until: str = ""


class Pattern(msgspec.Struct, frozen=True):
    """`openings`: what every match begins with, in any case. `reach`: all that a head may look at, as a
    regex.

    `apart`: counts only where no letter, digit or underscore stands before it.
    """

    kind: str
    openings: tuple[str, ...]
    reach: str
    forms: tuple[Form, ...]
    apart: bool = False
    any_case: bool = False


_BEARER = r"[A-Za-z0-9\-_.~+/=]"
_USER = r"""[^\s/:@"'<>(){},;«»]{0,256}"""
_BEFORE_HOST = r"""[^\s/"'<>«»]{1,512}"""  # up to the last @ before the host
_NAME = r"(?:API[_-]?KEY|ACCESS[_-]?KEY|SECRET[_-]?KEY|PRIVATE[_-]?KEY|TOKEN|SECRET|PASSWORD)"
_GIVES = r"""(?:\\?["'])?[ ]{0,4}[:=][ ]{0,4}"""
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
        ("bearer", "Bearer"),
        rf"[Bb]earer[ \t]{{0,4}}{_BEARER}{{0,20}}",
        (Form(rf"[Bb]earer[ \t]{{1,4}}(?={_BEARER}{{20}})", rf"{_BEARER}*"),),
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
        ("xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-"),
        r"[A-Za-z0-9\-]{0,15}",
        (Form(r"(?=xox[abeoprs]-[A-Za-z0-9\-]{10})", r"[A-Za-z0-9\-]*"),),
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
            *("token", "secret", "password"),
        ),
        r"""[A-Za-z_\-]{0,24}\\?["']?[ ]{0,4}(?:[:=][^\r\n]{0,100})?""",
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
        any_case=True,
    ),
)

# The prefilter for large pieces. Dropping all characters but a few leaves a third of the text, and whatever
# holds an opening then holds one of these. That is worth the trouble: a regex costs 5 ns a character
# however simple it is, each of these 0.2. Spaces, quotes and backslashes are dropped too, so text inside
# JSON looks the same.
_SIEVE_KEEPS = b"AIJ_-=:/cghkstwxyzCKSTWY"
_SIEVE_FOLD = bytes.maketrans(b":CKSTWY", b"=ckstwy")
_SIEVE_DROPS = bytes(set(range(256)) - set(_SIEVE_KEEPS))
_SIEVE = (
    *(b"AkIA", b"AsIA", b"AIz", b"yJ", b"sk-", b"xx", b"gh_", b"ghs_", b"gth_t_", b"-----I", b"=//"),
    *(b"ky=", b"tk=", b"sct=", b"ssw="),  # key= token= secret= password=
)
_SIEVE_FROM = 1024

# The prefilter for small pieces, and for what the sieve let through. Every alternative starts at the rarest
# letter of an opening and looks back from there, because the engine dismisses all other letters by one
# table lookup.
_FRAGMENTS = rb"""
    I(?<=A[KS]I)A | z(?<=AIz)a | J(?<=eyJ) | -(?<=sk-) | -(?<=xox[abeoprs]-) | _(?<=gh[pousr]_)
  | _(?<=github_pat_) | B(?<=-----B)EGIN | :// | :\\/\\/
  | k[eE][yY]GIVES | k(?<=[tT][oO]k)[eE][nN]GIVES
  | K[eE][yY]GIVES | K(?<=[tT][oO]K)[eE][nN]GIVES
  | c(?<=[sS][eE]c)[rR][eE][tT]GIVES | w(?<=[aA][sS][sS]w)[oO][rR][dD]GIVES
  | C(?<=[sS][eE]C)[rR][eE][tT]GIVES | W(?<=[aA][sS][sS]W)[oO][rR][dD]GIVES
""".replace(b"GIVES", rb"""[\\"'\x20]{0,12}[:=]""")


def might_hold_secret(data: bytes) -> bool:
    """False only if `redact` would leave the text alone: the text in UTF-8, or that text inside JSON.

    JSON escapes none of the characters this looks at but the slash.
    """
    if b"earer" in data:
        return True
    if len(data) >= _SIEVE_FROM:
        thin = data.translate(_SIEVE_FOLD, _SIEVE_DROPS)
        if not any(fragment in thin for fragment in _SIEVE):
            return False
    return _fragments().search(data) is not None


@functools.cache
def _fragments() -> re.Pattern[bytes]:
    return re.compile(_FRAGMENTS, re.VERBOSE)


def _any_case(word: str) -> str:
    """A regex that begins with a literal: then the engine dismisses most positions by one table lookup."""
    rest = "".join(
        f"[{letter.lower()}{letter.upper()}]" if letter.isalpha() else letter for letter in word[1:]
    )
    return f"{word[0].lower()}{rest}|{word[0].upper()}{rest}"


class _CompiledForm(msgspec.Struct, frozen=True):
    kind: str
    head: re.Pattern[str]
    body: re.Pattern[str]
    until: re.Pattern[str] | None


class _CompiledPattern(msgspec.Struct, frozen=True):
    reach: re.Pattern[str]
    apart: bool
    forms: tuple[_CompiledForm, ...]


class _Table(msgspec.Struct, frozen=True):
    opening: re.Pattern[str]
    patterns: dict[str, Pattern]  # by opening, in small letters
    beginnings: frozenset[str]  # of openings, in small letters
    longest_beginning: int


@functools.cache
def _table() -> _Table:
    search: list[str] = []
    patterns: dict[str, Pattern] = {}
    for pattern in PATTERNS:
        search += map(_any_case if pattern.any_case else re.escape, pattern.openings)
        patterns |= dict.fromkeys(map(str.lower, pattern.openings), pattern)
    beginnings = frozenset(opening[:size] for opening in patterns for size in range(1, len(opening)))
    return _Table(re.compile("|".join(search)), patterns, beginnings, max(map(len, beginnings)))


@functools.cache
def _compiled(pattern: Pattern) -> _CompiledPattern:
    """Compiled when its first opening is seen: most runs see none, and all of them together are slow to compile."""
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


def redact(text: str, marker: Marker = stored_marker) -> str:
    """`text` with every secret replaced by `marker(kind)`; names and surroundings stay."""
    if not might_hold_secret(text.encode("utf-8", "surrogatepass")):
        return text
    stream = StreamRedactor(marker)
    return stream.feed(text) + stream.flush()


def redact_values(text: str, marker: Marker = stored_marker) -> str:
    """`redact` for what a person is asked to approve: masks only what is a plain value and can do nothing.

    A span with any other character could hold code that runs, so it stays readable, secret or not.
    """
    if not might_hold_secret(text.encode("utf-8", "surrogatepass")):
        return text
    table, done, position = _table(), list[str](), 0
    while opening := table.opening.search(text, position):
        start = opening.start()
        pattern = _compiled(table.patterns[opening[0].lower()])
        form, kept = _recognised(pattern, text, start, text[start - 1 : start])
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
        position = 0 if self._inside is not None else self._skip_clean(buffer)
        done = [buffer[:position]]
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
            pattern = _compiled(self._table.patterns[opening[0].lower()])
            if not final and _is_open(pattern, buffer, start):
                break
            form, kept = _recognised(pattern, buffer, start, self._before)
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

    def _skip_clean(self, buffer: str) -> int:
        """The fast way over a large clean piece. An opening in it that led to nothing within 64 more is
        none."""
        end = len(buffer) - 64
        if end < 192 or might_hold_secret(buffer.encode("utf-8", "surrogatepass")):
            return 0
        self._before = buffer[end - 1]
        return end

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


def _recognised(
    pattern: _CompiledPattern, buffer: str, start: int, before: str
) -> tuple[_CompiledForm | None, str]:
    """The form that a secret at `start` has, and what of it is kept; `before` is the character in front of it."""
    if pattern.apart and (before == "_" or (before.isascii() and before.isalnum())):
        return None, ""
    for form in pattern.forms:
        if head := form.head.match(buffer, start):
            return form, head[0]
    return None, ""


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
