"""The values of a definition as somebody wrote them, text or typed, read one by one; what is wrong is noted. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar, cast

import msgspec

from bridle.base.text.spelling import folded_name, nearest
from bridle.base.text.terminal_text import visible

T = TypeVar("T")

MAX_TEXT: Final = 2_000
MAX_LIST: Final = 200
_SHOWN: Final = 60
_OTHER_NAMES: Final[Mapping[str, str]] = {"decision": "verdict", "invocation_decision": "invocation"}


class FieldProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong in a field of a definition, as a clause that says what to do. `field` is as somebody spelled it."""

    field: str
    clause: str


class FieldReader:
    """Reads the values of one definition and notes everything that is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[FieldProblem] = []
        self.warnings: list[FieldProblem] = []
        self.written: dict[str, str] = {}

    def wrong(self, field: str, clause: str) -> None:
        self.problems.append(FieldProblem(field=self._as_written(field), clause=clause))

    def unused(self, field: str, clause: str) -> None:
        self.warnings.append(FieldProblem(field=self._as_written(field), clause=clause))

    def _as_written(self, field: str) -> str:
        """The field of the definition that a place in it is in, as somebody spelled it."""
        first = re.split(r"[.\[]", field, maxsplit=1)[0]
        return self.written.get(first, first)

    def unknown(self, written: str, field: str, known: Iterable[str]) -> None:
        near = nearest(field, known)
        if near is None:
            self.unused(written, f'there is no field "{shown_name(written)}"')
        else:  # somebody meant something, perhaps a limit
            self.wrong(written, f'there is no field "{shown_name(written)}": {near} was probably meant')

    def table(self, value: Any, field: str, known: tuple[str, ...]) -> dict[str, Any]:
        """A table under our names, without what is none of them."""
        if value is None or value == "":
            return {}
        if not isinstance(value, Mapping):
            self.wrong(field, f"{field} is a table ({', '.join(known)})")
            return {}
        kept: dict[str, Any] = {}
        for written, item in cast("Mapping[str, Any]", value).items():
            plain = folded_name(str(written).replace("-", "_"))
            name = _OTHER_NAMES.get(plain, plain)
            if name in known:
                kept[name] = item
            else:
                self.unknown(f"{field}.{written}", name, known)
        return kept

    def text(self, values: Mapping[str, Any], field: str, most: int = MAX_TEXT, place: str = "") -> str:
        value = values.get(field, "")
        where = f"{place}{field}"
        if not isinstance(value, str):
            self.wrong(where, f"{where} is text")
            return ""
        if len(value) > most:
            self.wrong(where, f"{where} has more than {most:,} characters: shorten it")
        if "\0" in value:
            self.wrong(where, f"{where} has NUL characters in it: take them out")
        return value.strip()

    def flag(self, values: Mapping[str, Any], field: str, place: str = "") -> bool | None:
        match values.get(field, ""):
            case bool(value):
                return value
            case "true" | "True":
                return True
            case "false" | "False":
                return False
            case "":
                return None
            case _:
                self.wrong(f"{place}{field}", f"{place}{field} is true or false")
                return None

    def whole(
        self, values: Mapping[str, Any], field: str, least: int, most: int, place: str = ""
    ) -> int | None:
        value = values.get(field, "")
        if value == "":
            return None
        number = int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value) else value
        if type(number) is not int or not least <= number <= most:
            self.wrong(f"{place}{field}", f"{place}{field} is a whole number from {least} to {most:,}")
            return None
        return number

    def choice(
        self, values: Mapping[str, Any], field: str, choices: tuple[T, ...], place: str = ""
    ) -> T | None:
        value = values.get(field, "")
        if value == "":
            return None
        found = next((one for one in choices if one == value), None)
        if found is None:
            said = f'"{shown_name(value)}" is none of' if isinstance(value, str) else "it is one of"
            self.wrong(f"{place}{field}", f"{place}{field}: {said} {', '.join(map(str, choices))}")
        return found

    def texts(self, value: Any, field: str) -> tuple[str, ...]:
        """A list of texts; a text with commas is one too."""
        if isinstance(value, str):
            return tuple(filter(None, (one.strip() for one in value.split(","))))
        items = cast("list[Any]", value) if isinstance(value, list | tuple) else None
        if items is None or not all(isinstance(one, str) for one in items):
            self.wrong(field, f"{field} is a list of texts")
            return ()
        if len(items) > MAX_LIST:
            self.wrong(field, f"{field} has more than {MAX_LIST} entries: shorten it")
        return tuple(one.strip() for one in items[:MAX_LIST])


def shown_name(text: object) -> str:
    return visible(str(text), newlines=False)[:_SHOWN]
