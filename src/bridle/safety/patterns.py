"""How the patterns of rules match: tool names, commands, paths. Pure text, case-sensitive.

Tool and command patterns are shell globs whose `*` crosses everything. In path patterns `*` and `?` stay
inside one name and `**` crosses folders.

Every kind of pattern has two readings. The exact one serves allow rules: it must not match more than the
person meant. The generous one serves deny and ask rules: it should not be talked around. Neither understands
the shell; a text that is not surely harmless is not matched by an allow pattern, and that is all that can be
promised of text.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

ALIASES: dict[str, tuple[str, ...]] = {
    "edit": ("write_file", "edit_file", "apply_patch"),
    "Edit": ("write_file", "edit_file", "apply_patch"),
    "Read": ("read_file",),
    "Write": ("write_file",),
    "Bash": ("bash",),
    "Grep": ("grep",),
    "Glob": ("glob",),
    "Ls": ("ls",),
    "LS": ("ls",),
    "WebFetch": ("web_fetch",),
}

_COMPOUND = re.compile(r"[;&|`$<>()\n\r\0]")
_PART_BREAK = re.compile(r"[;&|`<>(){}\n\r]+|\$\(")
_QUOTING = re.compile(r"[\"'\\]")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=\S*\s+")
_WORD = re.compile(r"\S+")
_BEFORE_WILDCARD = re.compile(r"[^*?\[]*")
_MAX_TRIES = 50
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
    if command == pattern:
        return True
    return not _COMPOUND.search(command) and fnmatch.fnmatchcase(command, pattern)


def command_matches_generously(pattern: str, command: str) -> bool:
    """For deny and ask rules. The whole text, or any command that seems to be inside it."""
    if fnmatch.fnmatchcase(command, pattern):
        return True
    return any(_part_matches(pattern, part) for part in _parts(command))


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


def _parts(command: str) -> Iterator[str]:
    """The pieces between separators, as written and with quotes, backslashes and doubled spaces taken out."""
    joined = command.replace("\\\n", "")
    for source in (joined, _QUOTING.sub("", joined)):
        for piece in _PART_BREAK.split(source):
            if part := " ".join(piece.split()):
                yield part


def _part_matches(pattern: str, part: str) -> bool:
    """Whether a command that may begin inside the part matches; a part that wears us out counts as one."""
    matches = _compiled(pattern)
    literal = _BEFORE_WILDCARD.match(pattern)
    prefix = literal.group() if literal else ""
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
