"""What one word of a script will be when the shell has read it: quotes, escapes, `~`, `$HOME`.

Words are read here from the text itself, character by character, not from a parse tree: two readings that disagree
are a hole, so the tree only says where substitutions begin and end. What is not plainly known stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec


class UnreadableScript(Exception):
    """The text is not understood. The message is the end of a sentence for people."""


class FoundFiles(msgspec.Struct, frozen=True):
    """Files that a search hands on: below `folders`, called like one of `names`, or anything where there are none.

    `bare`: they are written without a folder in front, so that one may begin with a dash. `parted_by_nul`: a name stays
    one word whatever is in it. `tracked`: git knows them. `hidden`: those whose name begins with a dot are among them.
    `expanded`: the shell takes a wildcard in a name for one.
    """

    folders: tuple[str, ...]
    names: tuple[str, ...] = ()
    bare: bool = False
    parted_by_nul: bool = False
    tracked: bool = False
    hidden: bool = True
    expanded: bool = False


class Word(msgspec.Struct, frozen=True):
    """One word. `text` is None where it is not known before the script runs; `starts` is then its known beginning.

    `glob`: it holds wildcards the shell will expand. `split`: it may turn into several words, or into none.
    `assigns`: expanding it may change a variable or run something. `bare`: written without any quoting. `composed`:
    some of its text is what a variable holds. With a text that is a wildcard's, `split` says that the names it fits are
    taken apart again at blanks. `found`: it is files that a search hands on, any number of them.
    """

    text: str | None
    source: str
    starts: str = ""
    glob: bool = False
    split: bool = False
    assigns: bool = False
    bare: bool = True
    composed: bool = False
    found: FoundFiles | None = None

    @property
    def known(self) -> str:
        """The text, or nothing where it is not known; for comparing only."""
        return self.text if self.text is not None else ""


OPEN_DESCRIPTOR = "/dev/fd/"
"""What the name of a process substitution begins with."""

UNKNOWN = Word(None, "", split=True)
"""Any number of words nobody knows."""


class Value(msgspec.Struct, frozen=True):
    """What a variable is sure to hold: this text, with `glob` the name of a file that fits it, or a file found."""

    text: str
    glob: bool = False
    found: FoundFiles | None = None


class KnownVariables(msgspec.Struct, frozen=True):
    """Variables whose values are known: None where one is not. Everything here is one character per byte."""

    home: str | None
    pwd: str | None
    values: Mapping[str, Value] = {}


class ExpansionSpan(msgspec.Struct, frozen=True):
    """Where an expansion that only a parser can delimit ends, and what it is."""

    end: int
    kind: str


def names(text: str) -> frozenset[str]:
    """The words of a text as a set: how tables of names are written here."""
    return frozenset(text.split())


MAX_BRACE_WORDS = 100_000
"""The shell makes all words of `{1..9}` before it runs anything: with more than this that alone is a flood."""
_EASY = re.compile(r"[A-Za-z0-9_./+=:@%,^-]+")
_JOINED = re.compile(r"[$`{~<>]")  # the shell joins lines before it looks: `$` + `(x)` is `$(x)`
_RUN = re.compile(r"[^\\'\"$`<>|&;() \t\n*?\[{}~#]+")
_QUOTED_RUN = re.compile(r"[^\\\"$`]+")
_PLACE = re.compile(r"\$(?:(HOME|PWD)(?![A-Za-z0-9_])|\{(HOME|PWD)(?:%/|:?[?-][^}$`\\\"']*)?\})")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(:?-[^}{$`\\\"'\[\]]*)?\})")
_HARMLESS = re.compile(  # only looks a value up: nothing is assigned, nothing evaluated
    r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]|\{#?[A-Za-z_][A-Za-z0-9_]*\}|\{[0-9@*#?]+\}"
    r"|\{[A-Za-z_][A-Za-z0-9_]*(?::?[-+?]|%%?|##?)[^}{$`\\\"'\[\]]*\})"
)
_ARITHMETIC = re.compile(r"\$\(\([0-9 \t\n+*/%<>=!&|^~?:()-]*\)\)")
_BRACES = re.compile(r"\{.*(?:,|\.\.).*\}", re.DOTALL)
_BRACE_GROUP = re.compile(r"\{(?:(-?[0-9]{1,40})\.\.(-?[0-9]{1,40})(?:\.\.-?([0-9]{1,40}))?|([^{}]*))\}")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_ANSI = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})"
    r"|([0-7]{1,3})|(.))",
    re.DOTALL,
)
_ANSI_NAMES = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_SPLITS = re.compile(r"[ \t\n*?\[]")
_BLANKS = re.compile(r"[ \t\n\\]")
_WILD = re.compile(r"[*?\[\\]")


def read_word(
    source: str, start: int, end: int, spans: Mapping[int, ExpansionSpan], known: KnownVariables
) -> Word:
    """The word that fills `source[start:end]` exactly, or `UnreadableScript`."""
    slice_ = source[start:end]
    if _EASY.fullmatch(slice_):
        return Word(slice_, slice_, starts=slice_)
    if "\\\n" in slice_ and _JOINED.search(slice_):
        raise UnreadableScript("a line is continued in the middle of something that has a meaning")
    return _Reading(source, start, end, spans, known).word()


def _brace_words(shape: str) -> int:
    """How many words braces stand for, or more."""
    count = 1
    for first, last, step, listed in _BRACE_GROUP.findall(shape):
        count *= abs(int(last) - int(first)) // (int(step or 1) or 1) + 1 if first else listed.count(",") + 1
        if count > MAX_BRACE_WORDS:
            break
    return count


class _Reading:
    """One word on its way. `parts` is its text so far, `shape` the same with everything quoted blotted out.

    `starts` is fixed by the first thing that is not known.
    """

    def __init__(
        self, source: str, start: int, end: int, spans: Mapping[int, ExpansionSpan], known: KnownVariables
    ) -> None:
        self.source, self.start, self.end, self.spans, self.known = source, start, end, spans, known
        self.at = start
        self.parts: list[str] = []
        self.shape: list[str] = []
        self.starts: str | None = None
        self.glob = self.split = self.assigns = self.composed = False
        self.found: FoundFiles | None = None
        self.unknowns = 0
        self.patterns: list[int] = []  # which parts are wildcards out of a variable
        self.bare = True

    def word(self) -> Word:
        while self.at < self.end:
            self._unquoted()
        shape = "".join(self.shape)
        if _BRACES.search(shape):
            if _brace_words(shape) > MAX_BRACE_WORDS:
                raise UnreadableScript("its braces stand for more words than there is room for")
            self.starts = "".join(self.parts).partition("{")[0] if self.starts is None else self.starts
            self.split = True
        if self.patterns and any(
            _WILD.search(part) for at, part in enumerate(self.parts) if at not in self.patterns
        ):  # what is a wildcard here and what is only a letter cannot be told apart any more
            self.starts, self.split = "", True
        text = "".join(self.parts)
        return Word(
            text if self.starts is None else None,
            self.source[self.start : self.end],
            starts=text if self.starts is None else self.starts,
            glob=self.glob,
            split=self.split,
            assigns=self.assigns,
            bare=self.bare,
            composed=self.composed,
            found=self.found if self.unknowns == 1 and not text else None,
        )

    def _add(self, text: str, at: int, *, shape: str = "q") -> None:
        self.parts.append(text)
        self.shape.append(shape)
        self.at = at

    def _unquoted(self) -> None:
        source, at = self.source, self.at
        run = _RUN.match(source, at, self.end)
        if run is not None:
            self._add(run[0], run.end(), shape=run[0])
            return
        match source[at]:
            case "'":
                self._single()
            case '"':
                self._double()
            case "\\":
                self._escape()
            case "$":
                self._dollar(quoted=False)
            case "`":
                self._substitution(quoted=False)
            case "<" | ">" if source.startswith("(", at + 1):
                self._substitution(quoted=False)
            case "~":
                self._tilde()
            case "#" if at == self.start:
                raise UnreadableScript("a comment stands where a word is expected")
            case "*" | "?" | "[" | "{" | "}" | "#" as character:
                self.glob = self.glob or (
                    character in "*?[" and (character != "[" or "]" in source[at : self.end])
                )
                self._add(character, at + 1, shape=character)
            case _:
                raise UnreadableScript("a word does not end where it seems to")

    def _single(self) -> None:
        close = self.source.find("'", self.at + 1, self.end)
        if close < 0:
            raise UnreadableScript("a quote is not closed")
        self._take(self.source[self.at + 1 : close], close + 1)

    def _take(self, text: str, at: int) -> None:
        self._add(text, at)
        self.bare = False

    def _escape(self) -> None:
        if self.at + 1 >= self.end:
            raise UnreadableScript("the text ends in a backslash")
        character = self.source[self.at + 1]
        self._take("" if character == "\n" else character, self.at + 2)

    def _double(self) -> None:
        self.at += 1
        self.bare = False
        while self.at < self.end:
            source, at = self.source, self.at
            run = _QUOTED_RUN.match(source, at, self.end)
            if run is not None:
                self._take(run[0], run.end())
                continue
            match source[at]:
                case '"':
                    self.at += 1
                    return
                case "\\":
                    following = source[at + 1 : at + 2]
                    if following == "\n":
                        self.at += 2
                    elif following in ("$", "`", '"', "\\"):
                        self._take(following, at + 2)
                    else:
                        self._take("\\", at + 1)
                case "$":
                    self._dollar(quoted=True)
                case _:
                    self._substitution(quoted=True)
        raise UnreadableScript("a quote is not closed")

    def _dollar(self, *, quoted: bool) -> None:
        source, at = self.source, self.at
        if not quoted and source.startswith("$'", at):
            self._ansi()
            return
        if source.startswith("$((", at) or source.startswith("$[", at):
            self._arithmetic(quoted=quoted)
            return
        if source.startswith("$(", at):
            self._substitution(quoted=quoted)
            return
        if self.known.values and self._variable(quoted=quoted):
            return
        place = _PLACE.match(source, at, self.end)
        value = None if place is None else self._value(place[1] or place[2])
        if place is not None and value is not None and (quoted or not _SPLITS.search(value)):
            self._add(value, place.end())
            return
        harmless = _HARMLESS.match(source, at, self.end)
        if harmless is not None:
            self._unknown(harmless.end(), quoted=quoted and harmless[0] not in ("$@", "${@}"))
        elif source.startswith("${", at):
            self.assigns = True
            self._unknown(self._span_end("expansion"), quoted=False)
        elif not quoted and source.startswith('$"', at):
            raise UnreadableScript("it holds a translated string")
        else:
            self._add("$", at + 1)

    def _variable(self, *, quoted: bool) -> bool:
        """Takes what a variable is known to hold, where that is one word; False leaves it unknown."""
        match = _VARIABLE.match(self.source, self.at, self.end)
        value = None if match is None else self.known.values.get(match[1] or match[2])
        if match is None or value is None:
            return False
        if value.found is not None:
            self.found = value.found
            self._unknown(match.end(), quoted=True)
            self.starts = "" if value.found.bare or self.parts else value.found.folders[0]
            return True
        if not value.text and (not quoted or (match[3] or "").startswith(":")):
            return False
        if not quoted and not value.glob and _BLANKS.search(value.text):
            return False
        if value.glob or (not quoted and _WILD.search(value.text)):
            self.glob = True
            self.patterns.append(len(self.parts))
            self.split = self.split or not quoted
        self.bare, self.composed = False, True
        self._add(value.text, match.end())
        return True

    def _value(self, name: str) -> str | None:
        return self.known.home if name == "HOME" else self.known.pwd

    def _arithmetic(self, *, quoted: bool) -> None:
        plain = _ARITHMETIC.match(self.source, self.at, self.end)
        end = self._span_end("arithmetic_expansion")
        if plain is None or plain.end() != end:
            self.assigns = True
        self._unknown(end, quoted=quoted)

    def _substitution(self, *, quoted: bool) -> None:
        if self.source[self.at] in "<>":
            begins = self.at == self.start
            end = self._span_end("process_substitution")
            self._unknown(end, quoted=True)
            self.starts = OPEN_DESCRIPTOR if begins else self.starts
            return
        self._unknown(self._span_end("command_substitution"), quoted=quoted)

    def _span_end(self, kind: str) -> int:
        span = self.spans.get(self.at)
        if span is None or span.kind != kind or span.end > self.end:
            raise UnreadableScript("an expansion does not end where it seems to")
        return span.end

    def _unknown(self, at: int, *, quoted: bool) -> None:
        if self.starts is None:
            self.starts = "".join(self.parts)
        self.split = self.split or not quoted
        self.unknowns += 1
        self.shape.append("q")
        self.at = at

    def _tilde(self) -> None:
        before = self.source[self.start : self.at]
        after = self.source[self.at + 1 : self.end]
        begins = not before or _ASSIGNMENT.fullmatch(before) is not None
        if begins and (not after or after[0] == "/" or (before and after[0] == ":")):
            if self.known.home is None:
                self._unknown(self.at + 1, quoted=True)
            else:
                self._add(self.known.home, self.at + 1)
        elif begins or (before.endswith(":") and _ASSIGNMENT.match(before)):
            self._unknown(self.at + 1, quoted=True)
        else:
            self._add("~", self.at + 1)

    def _ansi(self) -> None:
        at = self.at + 2
        while at < self.end and self.source[at] != "'":
            at += 2 if self.source[at] == "\\" else 1
        if at >= self.end:
            raise UnreadableScript("a quote is not closed")
        self._take(_ANSI.sub(_ansi_character, self.source[self.at + 2 : at]), at + 1)


def _ansi_character(match: re.Match[str]) -> str:
    name, byte, short, long, octal, other = match.groups()
    if name is not None:
        return _ANSI_NAMES.get(name, name)
    digits, base = (octal, 8) if octal is not None else (byte or short or long, 16)
    if digits is None:
        raise UnreadableScript(f"it holds an escape nobody should need (\\{other})")
    number = int(digits, base)
    if not 0 < number < 0x80:
        raise UnreadableScript("it spells a character by its number")
    return chr(number)
