"""A filterable list to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.cells import fitting, width_of, wrapped
from bridle.clients.interaction.composer.keys import Key, Paste, Press, Text
from bridle.clients.interaction.composer.word_completion import common_beginning

SHOWN_MAX: Final = 12
_LEAST_ROWS: Final = 5
_NAME_COLUMNS: Final = 44

ListPurpose: TypeAlias = Literal["model", "grant", "profile"]


class ChoiceRow(msgspec.Struct, frozen=True):
    """One thing to choose: what stands for it, its name, and what there is to know of it."""

    id: str
    name: str
    about: str = ""


class ChoiceList(msgspec.Struct, frozen=True, kw_only=True):
    """The list and where a person is in it. `enter` says what Enter does, `below` what else there is to know."""

    purpose: ListPurpose
    title: str
    rows: tuple[ChoiceRow, ...]
    enter: str
    below: str = ""
    filter: str = ""
    at: int = 0

    @property
    def found(self) -> tuple[ChoiceRow, ...]:
        """Rows that have every typed word somewhere, in the order given."""
        wanted = self.filter.lower().split()
        return tuple(
            row for row in self.rows if all(word in f"{row.name} {row.about}".lower() for word in wanted)
        )


class Chosen(msgspec.Struct, frozen=True):
    """The row a person chose."""

    id: str


class NothingChosen(msgspec.Struct, frozen=True):
    """The person left the list."""


def press_in_list(choices: ChoiceList, key: Key) -> tuple[ChoiceList, Chosen | NothingChosen | None]:
    """What a key does to the list. A paste filters like typing and never chooses."""
    match key:
        case Press(name="enter"):
            found = choices.found
            return choices, Chosen(found[choices.at].id) if found else None
        case Press(name="esc") if choices.filter:
            return _filtered(choices, ""), None
        case Press(name="esc" | "ctrl-d"):
            return choices, NothingChosen()
        case Press(name="up"):
            return _moved(choices, choices.at - 1), None
        case Press(name="down"):
            return _moved(choices, choices.at + 1), None
        case Press(name="tab"):
            return _completed(choices), None
        case Press(name="backspace"):
            return _filtered(choices, choices.filter[:-1]), None
        case Press(name="ctrl-u"):
            return _filtered(choices, ""), None
        case Press():
            return choices, None
        case Text(text=text) | Paste(text=text):
            return _filtered(choices, choices.filter + " ".join(text.split("\n"))), None


def list_lines(choices: ChoiceList, *, columns: int, rows: int = 0) -> list[str]:
    """The list as text, also where nobody can choose. Columns and rows of zero mean endless ones."""
    found = choices.found
    shown = SHOWN_MAX if rows <= 0 else max(1, min(SHOWN_MAX, rows - _LEAST_ROWS))
    first = max(0, min(choices.at - shown + 1, len(found) - shown))
    lines = [choices.title, *([] if found else ["  Nothing fits."])]
    width = _name_columns(found, columns)
    for index, row in enumerate(found[first : first + shown], first):
        lines.append(_cut(f"{'>' if index == choices.at else ' '} {_row(row, width)}", columns))
    if (left := len(found) - first - shown) > 0:
        lines.append(f"  … {left} more")
    if found and columns > 0 and width_of(_row(found[choices.at], width)) + 2 > columns:
        whole = f"    {found[choices.at].name.strip()}   {found[choices.at].about}".rstrip()
        lines += wrapped(visible(whole, newlines=False), columns, indent="    ")
    keys = f"{choices.enter} · type to filter · Tab complete · Esc back" if found else "Esc back"
    for text in filter(None, (keys, choices.below)):
        lines += wrapped(f"  {text}", columns, indent="  ")
    return lines


def plain_rows(choices: ChoiceList, *, columns: int) -> list[str]:
    """Every row to read, none of them marked."""
    width = _name_columns(choices.rows, columns)
    return [choices.title, *(f"  {_row(row, width)}" for row in choices.rows)]


def _row(row: ChoiceRow, width: int) -> str:
    name, about = visible(row.name, newlines=False), visible(row.about, newlines=False)
    return f"{name}{' ' * (width - width_of(name))}   {about}".rstrip()


def _name_columns(rows: Sequence[ChoiceRow], columns: int) -> int:
    widest = max((width_of(visible(row.name, newlines=False)) for row in rows), default=0)
    return min(widest, _NAME_COLUMNS if columns <= 0 else min(_NAME_COLUMNS, columns - 2))


def _completed(choices: ChoiceList) -> ChoiceList:
    """What all names that begin like this share; where none does, the only one that fits."""
    typed = choices.filter
    names = [row.name for row in choices.found]
    beginning = [name for name in names if name.lower().startswith(typed.lower())]
    whole = common_beginning(beginning) if beginning else names[0] if len(names) == 1 else typed
    return _filtered(choices, whole) if len(whole) > len(typed) else choices


def _filtered(choices: ChoiceList, text: str) -> ChoiceList:
    return msgspec.structs.replace(choices, filter=text, at=0)


def _moved(choices: ChoiceList, at: int) -> ChoiceList:
    return msgspec.structs.replace(choices, at=max(0, min(at, len(choices.found) - 1)))


def _cut(text: str, columns: int) -> str:
    if columns <= 0 or width_of(text) <= columns:
        return text
    return text[: fitting(text, columns - 1)] + "…"
