"""One settings file, from its bytes to values with line numbers. Whatever the bytes are, this returns.

`config.toml` or `settings.json` in its place: one schema, two syntaxes. A file inside a workspace was written by
somebody else: it is read only if it is a small regular file at exactly this place, and what it says is taken up by
`workspace.py`.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Sequence
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
from bridle.config.setting_table import LineNumbers, Table

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
    from bridle.config.lines import (  # a session without settings files needs no line numbers
        json_lines,
        toml_lines,
    )

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
