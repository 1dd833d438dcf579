"""How the patterns of rules match: tool names, commands, paths. Pure text, case-sensitive.

Tool and command patterns are shell globs whose `*` crosses everything. In path patterns `*` and `?` stay
inside one name and `**` crosses folders.

Every kind of pattern has two readings. The exact one serves allow rules: it must not match more than the
person meant. The generous one serves deny and ask rules: it should not be talked around. Neither understands
the shell; a text that is not surely harmless is not matched by an allow pattern, and that is all that can be
promised of text. Where a command was parsed, its parts come in beside the text: an allow pattern may then speak
about one plain part of a script, a deny pattern about any part however it is wrapped.
"""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from bridle.base.text.tool_names import TOOL_ALIASES as ALIASES
from bridle.shell.command_facts import Part

_COMPOUND = re.compile(r"[;&|`$<>()\n\r\0]")
_PART_BREAK = re.compile(r"[;&|`<>(){}\n\r]+|\$\(")
_QUOTING = re.compile(r"[\"'\\]")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=\S*\s+")
_WORD = re.compile(r"\S+")
_BEFORE_WILDCARD = re.compile(r"[^*?\[]*")
_WILDCARD = re.compile(r"[*?\[]")
_BRACKETED = re.compile(r"\[([*?\[])\]")
_MAX_TRIES = 50
_TO_NOWHERE = r"(?:\d?>&\d|[\d&]?>>?[ \t]*/dev/null|\d?<[ \t]*/dev/null)(?![^\s;|&<>])"
_ENDING = re.compile(rf"(?:\s*{_TO_NOWHERE})+\s*\Z")
_GLUE = re.compile(rf"(?:\s|;|&&|\|\||\|&?|{_TO_NOWHERE})*")
# fmt: off
_CARRIERS = frozenset({  # words behind which another command follows, somewhere
    "sudo", "doas", "su", "env", "command", "exec", "builtin", "eval", "nohup", "time", "timeout", "nice",
    "ionice", "setsid", "stdbuf", "chroot", "unshare", "xargs", "parallel", "find", "watch", "strace",
    "script", "ssh", "sh", "bash", "dash", "zsh", "ksh", "busybox", "if", "then", "else", "elif", "while",
    "until", "do", "!", "trap",
})
# fmt: on


def tool_matches(pattern: str, tool: str) -> bool:
    names = ALIASES.get(pattern)
    return tool in names if names is not None else fnmatch.fnmatchcase(tool, pattern)


def command_matches_exactly(pattern: str, command: str) -> bool:
    """For allow rules. A command equal to the pattern matches; otherwise it must be a single, simple one.

    Anything that could start a second command, substitute or redirect keeps a wildcard from matching:
    `npm test*` must not allow `npm test; rm -rf ~`.
    """
    if command in (pattern, _meant_literally(pattern)):
        return True
    return not _COMPOUND.search(command) and fnmatch.fnmatchcase(command, pattern)


def command_matches_generously(pattern: str, command: str, parts: Iterable[Part] = ()) -> bool:
    """For deny and ask rules. The whole text, any command that seems to be inside it, any part that really is."""
    if fnmatch.fnmatchcase(command, pattern):
        return True
    pieces, together = _pieces(command, tuple(text for part in parts for text in _readings(part)))
    if _literal_beginning(pattern) not in together:  # most rules are about something else
        return False
    return any(_part_matches(pattern, piece) for piece in pieces)


def part_matches_exactly(pattern: str, part: Part) -> bool:
    """For allow rules. One plain command of a script; see `is_plain` for what else must hold."""
    return fnmatch.fnmatchcase(_bare(part.text), pattern)


def is_plain(part: Part) -> bool:
    """Whether the part is a program with arguments that are all known, written out, and nothing else.

    No substitution, no assignment in front, no redirection to a file: what an allow pattern reads is all that happens.
    """
    return None not in part.words and tuple(_words(_bare(part.text)) or ()) == part.words


def consists_of(command: str, texts: Sequence[str]) -> bool:
    """Whether a script is these texts in this order, with only separators between them.

    Redirections that lead nowhere (`2>&1`, `>/dev/null`) count as separators. Subshells, substitutions, wrappers, other
    redirections, `&` and comments do not: then the script is more than its parts.
    """
    at = 0
    for text in texts:
        start = command.find(text, at)
        if not text or start < 0 or not _GLUE.fullmatch(command, at, start):
            return False
        at = start + len(text)
    return _GLUE.fullmatch(command, at) is not None


def literal_pattern(text: str) -> str:
    """A pattern that means exactly this text: what would be a wildcard stands in brackets."""
    return _WILDCARD.sub(r"[\g<0>]", text)


def path_matches_exactly(pattern: str, names: Iterable[str]) -> bool:
    """For allow rules: one of the names of the file matches as a whole."""
    matches = _compiled_path(pattern)
    return any(matches.fullmatch(name) for name in names)


def path_matches_generously(pattern: str, names: Iterable[str]) -> bool:
    """For deny and ask rules: a folder above the file may match too, and a bare name matches at any depth."""
    matches = _compiled_path(pattern)
    anywhere = "/" not in pattern.rstrip("/")
    for name in names:
        parts = name.split("/")
        above = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
        if any(matches.fullmatch(candidate) for candidate in above):
            return True
        if anywhere and any(matches.fullmatch(part) for part in parts):
            return True
    return False


def _meant_literally(pattern: str) -> str | None:
    """The one text that `literal_pattern` made this pattern from; None where it has a wildcard."""
    bare = _BRACKETED.sub("", pattern)
    return _BRACKETED.sub(r"\g<1>", pattern) if not _WILDCARD.search(bare) else None


def _bare(text: str) -> str:
    """A command without the redirections at its end that lead nowhere."""
    return _ENDING.sub("", text)


def _words(text: str) -> list[str] | None:
    if not _QUOTING.search(text):
        return text.split()
    try:
        return shlex.split(text)
    except ValueError:
        return None


def _readings(part: Part) -> tuple[str, ...]:
    """A part as it is written and as the shell reads it; a word that is not known is left out."""
    return part.text, " ".join(word for word in part.words if word is not None)


def _parts(command: str) -> Iterator[str]:
    """The pieces between separators, as written and with quotes, backslashes and doubled spaces taken out."""
    joined = command.replace("\\\n", "")
    for source in (joined, _QUOTING.sub("", joined)):
        for piece in _PART_BREAK.split(source):
            if part := " ".join(piece.split()):
                yield part


@lru_cache(maxsize=32)
def _pieces(command: str, readings: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Everything in a command a pattern is tried on, and all of it in one text. Every rule asks for the same."""
    pieces = tuple(dict.fromkeys((*_parts(command), *readings)))
    return pieces, "\n".join(pieces)


def _literal_beginning(pattern: str) -> str:
    literal = _BEFORE_WILDCARD.match(pattern)
    return literal.group() if literal else ""


def _part_matches(pattern: str, part: str) -> bool:
    """Whether a command that may begin inside the part matches; a part that wears us out counts as one."""
    matches = _compiled(pattern)
    prefix = _literal_beginning(pattern)
    tried = 0
    for start in _starts(part):
        if not part.startswith(prefix, start):
            continue
        if matches.match(part, start):
            return True
        if pattern.startswith("*", len(prefix)):  # what `*` cannot find here, it cannot find further right
            return False
        tried += 1
        if tried > _MAX_TRIES:
            return True
    return False


def _starts(part: str) -> Iterator[int]:
    """Where in the part a command may begin.

    At its start, behind assignments, at the program's bare name; at every word when the first one carries
    another command.
    """
    yield 0
    begin = 0
    while assignment := _ASSIGNMENT.match(part, begin):
        begin = assignment.end()
    yield begin
    first = _WORD.match(part, begin)
    if first is None:
        return
    yield begin + first.group().rfind("/") + 1
    if first.group().rsplit("/", 1)[-1] in _CARRIERS:
        for word in _WORD.finditer(part, first.end()):
            yield word.start()
            yield word.start() + word.group().rfind("/") + 1


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))


@lru_cache(maxsize=512)
def _compiled_path(pattern: str) -> re.Pattern[str]:
    pattern = pattern.removeprefix("./")
    if pattern.endswith("/"):
        pattern += "**"
    return re.compile("".join(_path_expressions(pattern)), re.DOTALL)


def _path_expressions(pattern: str) -> Iterator[str]:
    position = 0
    while position < len(pattern):
        if pattern.startswith("**/", position):
            yield "(?:[^/]+/)*"
            position += 3
        elif pattern.startswith("**", position):
            yield ".*"
            position += 2
        elif pattern[position] == "*":
            yield "[^/]*"
            position += 1
        elif pattern[position] == "?":
            yield "[^/]"
            position += 1
        elif pattern[position] == "[" and (close := pattern.find("]", position + 2)) > 0:
            yield _character_class(pattern[position + 1 : close])
            position = close + 1
        else:
            yield re.escape(pattern[position])
            position += 1


def _character_class(inside: str) -> str:
    negated = inside.startswith("!")
    body = "".join("-" if character == "-" else re.escape(character) for character in inside[negated:])
    try:
        re.compile(f"[{body}]")
    except re.error:  # a reversed range names no character
        return "(?!)" if not negated else "[^/]"
    return f"(?!/)[{'^' if negated else ''}{body}]"
