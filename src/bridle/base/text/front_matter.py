"""Read and write the YAML front matter of a Markdown file, within limits.

Every value is text, a list or a table; numbers and dates stay as they are written. Anchors, aliases, tags and second
documents are refused, and so is what is too long or too deep, so no file can make reading it expensive. The parser is
loaded with the first file that has front matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias, cast

import msgspec

MAX_CHARACTERS: Final = 16 * 1024
MAX_DEPTH: Final = 6
MAX_VALUES: Final = 1_000
MAX_LINES: Final = 1_000
MAX_MENDED: Final = 50
"""So many lines are looked at for quotation marks that are missing."""

Value: TypeAlias = "str | list[Value] | dict[str, Value]"

_FENCE: Final = "---"
_PLAIN_TEXT: Final = r"[^\W\d_][\w ./()+-]*(?<! )"
_NO_TEXTS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
"""What others that read YAML take for something else."""
_NAMED_TEXT: Final = r"([A-Za-z][\w-]*): +((?![\"'\[{|>&*!%@`#])\S.*|\[[^\[\]]*\] *[^ #].*)"
"""A name and what is meant as a text: it begins like one, or with brackets that something follows."""


_QUOTED: Final = r"(['\"])[^'\"\s]{4,}\1"
"""What the parser quotes of a file, but for single signs."""


class BadFrontMatter(ValueError):
    """Says as a clause what is wrong, and in which line of the file, from 1; nothing of what the file says.

    It is told of files that nobody has agreed to.
    """

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


class FrontMatter(msgspec.Struct, frozen=True, kw_only=True):
    """`values` by key, `lines` where each key stands, `body` what follows, and `body_line` where that begins.

    `mended` are the lines that are no YAML as they stand, because a text with a colon needs quotation marks.
    """

    values: dict[str, Value]
    lines: dict[str, int]
    body: str
    body_line: int
    mended: tuple[int, ...] = ()


def has_front_matter(text: str) -> bool:
    return text.removeprefix("\ufeff").split("\n", 1)[0].rstrip() == _FENCE


def read_front_matter(text: str) -> FrontMatter:
    """The front matter and the body. Raises `BadFrontMatter`. Pure."""
    text = text.removeprefix("\ufeff")
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        raise BadFrontMatter(1, f"the file must begin with a line {_FENCE}")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise BadFrontMatter(1, f"no second line {_FENCE} ends the front matter")
    written = [line.rstrip() for line in lines[1:end]]
    if sum(map(len, written)) > MAX_CHARACTERS:
        raise BadFrontMatter(1, f"the front matter has more than {MAX_CHARACTERS:,} characters")
    if len(written) > MAX_LINES:
        raise BadFrontMatter(1, f"the front matter has more than {MAX_LINES:,} lines")
    if (
        sum(line.count("[") + line.count("{") for line in written) > MAX_VALUES
    ):  # each is looked at again and again
        raise BadFrontMatter(1, "it is nested too deep or has too many values")
    try:
        values, places = _table(written)
        mended: tuple[int, ...] = ()
    except BadFrontMatter as problem:
        repaired, mended = _quoted(written)
        if not mended:
            raise
        try:
            values, places = _table(repaired)
        except BadFrontMatter:
            raise problem from None
    return FrontMatter(
        values=values, lines=places, body="\n".join(lines[end + 1 :]), body_line=end + 2, mended=mended
    )


def _quoted(lines: list[str]) -> tuple[list[str], tuple[int, ...]]:
    """The lines with quotation marks around texts that are no YAML, for a colon or brackets in them: many write them
    so, and mean one text."""
    mended: list[int] = []
    repaired: list[str] = []
    tried = 0
    for number, line in enumerate(lines, 2):
        found = re.fullmatch(_NAMED_TEXT, line) if tried < MAX_MENDED else None
        tried += found is not None
        if found is not None and not _is_table(line):
            mended.append(number)
            repaired.append(f"{found[1]}: {msgspec.json.encode(found[2]).decode()}")
        else:
            repaired.append(line)
    return repaired, tuple(mended)


def _is_table(line: str) -> bool:
    try:
        _table([line])
    except BadFrontMatter:
        return False
    return True


def _table(lines: list[str]) -> tuple[dict[str, Value], dict[str, int]]:
    import yaml  # few files have front matter

    places: dict[str, int] = {}
    try:
        parse: Callable[..., Iterator[Any]] = getattr(yaml, "parse")  # noqa: B009  it has no types
        value = _Builder(parse("\n".join(lines) + "\n", Loader=yaml.BaseLoader), places).document()
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        clause = re.sub(_QUOTED, "…", str(problem.problem or "no YAML"))
        raise BadFrontMatter(2 + (mark.line if mark else 0), clause) from None
    except yaml.YAMLError as problem:  # characters that are none
        raise BadFrontMatter(2, str(problem).splitlines()[0]) from None
    if not isinstance(value, dict):
        raise BadFrontMatter(2, "the front matter is no table of `name: value` lines")
    return value, places


class _Builder:
    """Makes values of the parser's events. It never follows an alias, and counts what it makes."""

    def __init__(self, events: Iterator[Any], places: dict[str, int]) -> None:
        self._events = events
        self._places = places
        self._left = MAX_VALUES

    def document(self) -> Value:
        import yaml

        value: Value = {}
        seen = False
        for event in self._events:
            if isinstance(event, (yaml.StreamStartEvent, yaml.StreamEndEvent, yaml.DocumentEndEvent)):
                continue
            if isinstance(event, yaml.DocumentStartEvent):
                if seen:
                    raise BadFrontMatter(_line(event), "a second document begins here")
                seen = True
                value = self._value(next(self._events), 0)
        return value

    def _value(self, event: Any, depth: int) -> Value:
        import yaml

        self._left -= 1
        if depth > MAX_DEPTH or self._left < 0:
            raise BadFrontMatter(_line(event), "it is nested too deep or has too many values")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise BadFrontMatter(_line(event), "anchors and aliases (& and *) are not read; quote the text")
        if getattr(event, "tag", None) is not None:
            raise BadFrontMatter(_line(event), "tags (!) are not read; quote the text")
        if isinstance(event, yaml.ScalarEvent):
            return str(event.value)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(depth)
        return self._mapping(depth)

    def _list(self, depth: int) -> Value:
        import yaml

        found: list[Value] = []
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            found.append(self._value(event, depth + 1))
        return found

    def _mapping(self, depth: int) -> Value:
        import yaml

        found: dict[str, Value] = {}
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key = self._value(event, depth + 1)
            if not isinstance(key, str):
                raise BadFrontMatter(_line(event), "a name must be a plain word")
            if key in found:
                raise BadFrontMatter(_line(event), "this name stands there twice")
            if depth == 0:
                self._places[key] = _line(event)
            found[key] = self._value(next(self._events), depth + 1)
        return found


def _line(event: Any) -> int:
    return event.start_mark.line + 2


def text_of(values: Mapping[str, object], name: str) -> str:
    """A value as one text; a list is joined with commas, and what is not there is empty."""
    value = values.get(name, "")
    if isinstance(value, list):
        return ", ".join(str(one) for one in cast("list[object]", value))
    return value if isinstance(value, str) else ""


def texts_of(values: Mapping[str, object], name: str) -> tuple[str, ...]:
    """A value as a list; a text with commas is one too."""
    value = values.get(name, ())
    if isinstance(value, str):
        return tuple(filter(None, (one.strip() for one in value.split(","))))
    return tuple(str(one) for one in cast("list[object]", value)) if isinstance(value, list) else ()


def with_front_matter(values: Mapping[str, object], body: str) -> str:
    """The text of a file that has these values and this body; what is empty is left out. Values are written as JSON
    where they do not read as themselves, which YAML reads."""
    lines = [_FENCE]
    for name, value in values.items():
        if isinstance(value, Mapping):
            below = {key: one for key, one in cast("Mapping[str, object]", value).items() if one}
            if below:
                lines += [f"{name}:", *(f"  {key}: {_written(one)}" for key, one in below.items())]
        elif value:
            lines.append(f"{name}: {_written(value)}")
    return "\n".join((*lines, _FENCE, "", body))


def _written(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_written, cast('list[object]', value)))}]"
    is_plain = isinstance(value, str) and re.fullmatch(_PLAIN_TEXT, value) and value.lower() not in _NO_TEXTS
    if is_plain:
        return str(value)
    signs = msgspec.json.encode(value).decode()
    return (
        signs
        if signs.isprintable()
        else "".join(sign if sign.isprintable() else _escaped(sign) for sign in signs)
    )


def _escaped(sign: str) -> str:
    """YAML takes some signs that cannot be seen for ends of lines, and others for none at all."""
    return f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}"
