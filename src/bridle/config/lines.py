"""The line each setting stands on: TOML and JSON texts read for the places of their keys.

The texts were parsed before and are known to be valid; these scanners only follow along. On anything they do not
understand they stop and return what they found: a missing line number is a smaller harm than a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from bridle.config.setting_table import LineNumbers, SettingPath

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
