"""Read a settings file into values with line numbers. Never raises for the bytes of a file.

`config.toml` or `settings.json` in its place: one schema, two syntaxes. A file inside a workspace comes from somebody
else: it is read only if it is a small regular file at exactly this place; `workspace.py` decides what it may set.
The scanners for line numbers follow texts that were parsed before; where they do not understand one, lines are missing.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, cast

import msgspec

from bridle.base.fs.files import (
    FileContents,
    PathChanged,
    UntrustedFile,
    open_beneath,
    read_limited,
    read_trusted,
)
from bridle.config.problems import Problem, Severity, shown
from bridle.config.setting_table import LineNumbers, SettingPath, Table

# The texts were parsed before and are known to be valid; these scanners only follow along. On anything they
# do not understand they stop and return what they found: a missing line number is a smaller harm than a wrong
# one.


_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^\s,\]}#][^,\]}#\n]*")
_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
# No possessive groups: those of Python before 3.11.5 lose matches. One character a turn cannot backtrack badly either.
_BASIC = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL = re.compile(r"'[^'\n]*'")
_LONG_BASIC = re.compile(r'"""(?:[^"\\]|\\[\s\S]|"(?!""))*"{3,5}')
_LONG_LITERAL = re.compile(r"'''(?:[^']|'(?!''))*'{3,5}")
_JSON_BLANK = re.compile(r"[ \t\r\n]*")
_JSON_SCALAR = re.compile(r"[^\s,\]}]+")


class _Lost(Exception):
    """The text is not what the scanner expected."""


class _Text:
    """A text, a position in it, and the lines found so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: LineNumbers = {}
        self._line = 1
        self._counted = 0

    def line(self) -> int:
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    def looking_at(self, token: str) -> bool:
        return self.text.startswith(token, self.at)

    def take(self, token: str) -> bool:
        if self.looking_at(token):
            self.at += len(token)
            return True
        return False

    def need(self, token: str) -> None:
        if not self.take(token):
            raise _Lost

    def match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise _Lost
        self.at = found.end()
        return found[0]

    @property
    def ended(self) -> bool:
        return self.at >= len(self.text)


def toml_lines(text: str) -> LineNumbers:
    """The lines of a valid TOML text. A table's line is its first header, or the first key that makes it."""
    scan = _Text(text)
    _follow(scan, _toml)
    return scan.lines


def json_lines(text: str) -> LineNumbers:
    """The lines of a valid JSON text. Of a key that stands twice, the last counts, as in the values."""
    scan = _Text(text)
    _follow(scan, lambda scan: _json_value(scan, ()))
    return scan.lines


def _follow(scan: _Text, read: Callable[[_Text], None]) -> None:
    try:
        read(scan)
    except (_Lost, RecursionError):
        return


# TOML


def _toml(scan: _Text) -> None:
    counts: dict[SettingPath, int] = {}
    table: SettingPath = ()
    scan.match(_BLANK)
    while not scan.ended:
        if scan.looking_at("["):
            table = _header(scan, counts)
        else:
            _pair(scan, table)
        scan.match(_BLANK)


def _header(scan: _Text, counts: dict[SettingPath, int]) -> SettingPath:
    line = scan.line()
    listed = scan.take("[[")
    if not listed:
        scan.need("[")
    names = _dotted(scan)
    scan.need("]]" if listed else "]")
    path: SettingPath = ()
    for position, name in enumerate(names, 1):
        path = (*path, name)
        scan.lines.setdefault(path, line)
        if listed and position == len(names):
            counts[path] = counts.get(path, -1) + 1
        if path in counts:  # a header below a list of tables is about its last entry
            path = (*path, counts[path])
            scan.lines.setdefault(path, line)
    return path


def _pair(scan: _Text, table: SettingPath) -> None:
    line = scan.line()
    path = table
    for name in _dotted(scan):
        path = (*path, name)
        scan.lines.setdefault(path, line)
    scan.need("=")
    scan.match(_SPACE)
    _toml_value(scan, path)


def _dotted(scan: _Text) -> list[str]:
    names: list[str] = []
    while True:
        scan.match(_SPACE)
        names.append(_toml_name(scan))
        scan.match(_SPACE)
        if not scan.take("."):
            return names


def _toml_name(scan: _Text) -> str:
    if scan.looking_at('"'):
        return _unescaped(scan.match(_BASIC))
    if scan.looking_at("'"):
        return scan.match(_LITERAL)[1:-1]
    return scan.match(_BARE)


def _unescaped(quoted: str) -> str:
    if "\\" not in quoted:
        return quoted[1:-1]
    import tomllib

    return tomllib.loads(f"name = {quoted}")["name"]


def _toml_value(scan: _Text, path: SettingPath) -> None:
    if scan.looking_at('"""'):
        scan.match(_LONG_BASIC)
    elif scan.looking_at("'''"):
        scan.match(_LONG_LITERAL)
    elif scan.looking_at('"'):
        scan.match(_BASIC)
    elif scan.looking_at("'"):
        scan.match(_LITERAL)
    elif scan.take("["):
        _entries(scan, "]", _BLANK, lambda index: _entry(scan, (*path, index)))
    elif scan.take("{"):
        _entries(scan, "}", _BLANK, lambda _index: _pair(scan, path))
    else:
        scan.match(_SCALAR)


def _entry(scan: _Text, path: SettingPath) -> None:
    scan.lines[path] = scan.line()
    _toml_value(scan, path)


def _entries(scan: _Text, end: str, blank: re.Pattern[str], entry: Callable[[int], None]) -> None:
    """Entries with commas between them, up to and with `end`. The opening bracket is behind us."""
    index = 0
    scan.match(blank)
    while not scan.take(end):
        entry(index)
        index += 1
        scan.match(blank)
        if not scan.take(","):
            scan.need(end)
            return
        scan.match(blank)


# JSON


def _json_value(scan: _Text, path: SettingPath) -> None:
    scan.match(_JSON_BLANK)
    if scan.looking_at('"'):
        scan.match(_BASIC)
    elif scan.take("["):
        _entries(scan, "]", _JSON_BLANK, lambda index: _json_entry(scan, (*path, index)))
    elif scan.take("{"):
        _entries(scan, "}", _JSON_BLANK, lambda _index: _json_pair(scan, path))
    else:
        scan.match(_JSON_SCALAR)


def _json_entry(scan: _Text, path: SettingPath) -> None:
    scan.lines[path] = scan.line()
    _json_value(scan, path)


def _json_pair(scan: _Text, table: SettingPath) -> None:
    import msgspec

    line = scan.line()
    path = (*table, msgspec.json.decode(scan.match(_BASIC).encode(), type=str))
    scan.lines[path] = line
    scan.match(_JSON_BLANK)
    scan.need(":")
    _json_value(scan, path)


SettingsTier: TypeAlias = Literal[
    "defaults", "profile", "user", "project", "local", "config", "environment", "flags"
]
"""Low to high. `config` is the file of `--config`."""

OWN_NAMES = ("config.toml", "settings.json")
LOCAL_NAMES = ("config.local.toml", "settings.local.json")

OWN_LIMIT = 1 << 20
WORKSPACE_LIMIT = 1 << 16
DEPTH_LIMIT = 16
"""No setting stands deeper. What is nested more is an accident or an attack."""

# The standard TOML parser takes minutes for one key of some ten thousand parts, so no key gets that far.
_MOST_DOTS = 100
_LONG_KEY = (
    r"""(?<![A-Za-z0-9_-])(?:(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]++|\\.)*"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}"""
)


ProfileScope: TypeAlias = Literal["shipped", "own", "project", "path"]
"""Who wrote a profile: Bridle, the person, or whoever wrote the project; `path` is a file that the person named."""


class SettingsFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file and how people call it: `config.toml`, `.bridle/config.toml`.

    A foreign file stands in a workspace. One that is no settings file at all is then left out with a warning; in
    the person's own place it is an error. Mistakes in what could be read are errors in both: a rule that was
    meant to hold must not get lost in silence.
    """

    path: str
    source: str
    foreign: bool = False

    def report(
        self, severity: Severity, problem: str, line: int | None = None, key: str | None = None
    ) -> Problem:
        return Problem(
            severity=severity, source=self.source, path=self.path, problem=problem, line=line, key=key or None
        )

    def error(self, problem: str, line: int | None = None) -> Problem:
        return self.report("error", problem, line)

    def unusable(self, problem: str) -> Problem:
        if self.foreign:
            return self.report("warning", f"ignored, because it {problem}")
        return self.error(problem)


class ParsedFile(msgspec.Struct, frozen=True):
    """What a file says, as it is written there. With an error among the problems the values are empty.

    `data` are the very bytes it was read from: whoever agrees to a file agrees to them.
    """

    values: Table
    lines: LineNumbers
    problems: list[Problem]
    data: bytes = b""


def read(place: SettingsFile) -> ParsedFile:
    """What stands at a place where something stands. A foreign path is absolute and resolved up to its workspace.

    The person's own file may be a link, and nobody else may be able to write it. A foreign one must be a small regular
    file at exactly this place: nobody waits for it, nobody follows it.
    """
    limit = WORKSPACE_LIMIT if place.foreign else OWN_LIMIT
    try:
        contents = (
            _read_foreign(place.path, limit)
            if place.foreign
            else read_trusted(place.path, limit, strict=False)
        )
    except UntrustedFile as problem:
        return _refused(place.error(f"is not obeyed: {problem.strerror}"))
    except PathChanged:
        return _refused(place.unusable("is a symbolic link"))
    except OSError as problem:
        return _refused(place.unusable(f"cannot be read ({problem.strerror})"))
    if contents.truncated:
        return _refused(place.unusable(f"is larger than {limit >> 10} KiB"))
    return msgspec.structs.replace(parse(contents.data, place), data=contents.data)


def _read_foreign(path: str, limit: int) -> FileContents:
    fd = open_beneath(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        return read_limited(fd, limit)
    finally:
        os.close(fd)


def parse(data: bytes, place: SettingsFile) -> ParsedFile:
    """The values and lines of a text, TOML or JSON by the name of its file. A byte order mark is no content."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return _refused(place.unusable("is not text in UTF-8"))
    is_json = place.path.endswith(".json")
    values = _json_values(text, place) if is_json else _toml_values(text, place)
    if isinstance(values, Problem):
        return _refused(values)
    if _depth_exceeds(values, DEPTH_LIMIT):
        return _refused(place.unusable("is nested too deeply"))

    return ParsedFile(values, json_lines(text) if is_json else toml_lines(text), [])


class PresentNames(msgspec.Struct, frozen=True):
    """The name that counts, if any, and those beside it that do not."""

    name: str | None
    others: tuple[str, ...]


def present(folder: str, names: Sequence[str]) -> PresentNames:
    """Which of these names stand in a folder; the first counts."""
    there = tuple(name for name in names if os.path.lexists(os.path.join(folder, name)))
    return PresentNames(there[0] if there else None, there[1:])


def overlooked(place: SettingsFile, others: Sequence[str]) -> list[Problem]:
    """The warning about files that stand beside the one that counts."""
    return [place.report("warning", f"is used; {', '.join(others)} beside it is not")] if others else []


def _refused(problem: Problem) -> ParsedFile:
    return ParsedFile({}, {}, [problem])


def _toml_values(text: str, place: SettingsFile) -> Table | Problem:
    import tomllib

    if text.count(".") >= _MOST_DOTS and re.search(_LONG_KEY, text):
        return place.unusable("has a key of more than 100 parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        return place.unusable("is nested too deeply")
    except ValueError as problem:  # also numbers with more digits than Python converts
        return place.error(*_toml_problem(str(problem), text))


def _toml_problem(message: str, text: str) -> tuple[str, int | None]:
    """The parser's words without the position at their end, and the line of that position."""
    found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", message)
    line = None
    if found:
        line = int(found[1]) if found[1] else text.rstrip("\n").count("\n") + 1
        message = message[: found.start()]
    return _clause(message), line


def _json_values(text: str, place: SettingsFile) -> Table | Problem:
    try:
        values: object = msgspec.json.decode(text)
    except RecursionError:
        return place.unusable("is nested too deeply")
    except (msgspec.DecodeError, UnicodeError) as problem:
        return place.error(*_json_problem(text, str(problem)))
    if not isinstance(values, dict):
        return place.error("is not an object, with { first and } last", 1)
    return cast("dict[str, Any]", values)


def _json_problem(text: str, message: str) -> tuple[str, int | None]:
    """The standard library tells the line; it is asked only when there is something to tell."""
    import json

    try:
        json.loads(text)
    except json.JSONDecodeError as problem:
        return _clause(problem.msg), problem.lineno
    except (ValueError, RecursionError):
        pass
    return _clause(message), None


def _clause(message: str) -> str:
    message = shown(message).rstrip(". ")
    return f"{message[:1].lower()}{message[1:]}"


def _depth_exceeds(values: Table, limit: int) -> bool:
    level: list[object] = [values]
    for _ in range(limit):
        level = [child for value in level for child in _children(value)]
        if not level:
            return False
    return True


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(cast("Table", value).values())
    if isinstance(value, list):
        return cast("list[object]", value)
    return []
