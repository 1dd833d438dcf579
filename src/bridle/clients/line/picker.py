"""Choosing a session to resume from a list: filtered by typing, picked with Enter. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from bridle.base.visible import visible
from bridle.clients.line.cells import fitting, width_of
from bridle.clients.line.keys import Key, Paste, Press, Text

_TITLE_COLUMNS: Final = 34
_LEAST_TITLE_COLUMNS: Final = 12
_HELP: Final = "type to filter · Tab all folders"
SHOWN_MAX: Final = 12


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A session as the list shows it. `title` is a person's, else `words` are the first they typed.

    `cost` and `mark` are words, empty where there is nothing to say; `here` says that it belongs to this folder.
    """

    id: str
    title: str = ""
    words: str = ""
    when: str
    turns: int
    cost: str = ""
    mark: str = ""
    pinned: bool = False
    here: bool = True
    last: str = ""

    @property
    def name(self) -> str:
        return self.title or f'"{self.words}"'


class Picker(msgspec.Struct, frozen=True, kw_only=True):
    sessions: tuple[Listed, ...]
    folder: str
    filter: str = ""
    at: int = 0
    all_folders: bool = False

    @property
    def found(self) -> tuple[Listed, ...]:
        """Sessions that have every typed word somewhere, in the order given."""
        wanted = self.filter.lower().split()
        return tuple(
            session
            for session in self.sessions
            if (self.all_folders or session.here) and _has(session, wanted)
        )


class Picked(msgspec.Struct, frozen=True):
    id: str


class Gone(msgspec.Struct, frozen=True):
    """The person left without choosing."""


Choice: TypeAlias = Picked | Gone | None


def press(picker: Picker, key: Key) -> tuple[Picker, Choice]:
    """What a key does to the list. A paste filters like typing and never picks."""
    match key:
        case Press(name="enter"):
            found = picker.found
            return picker, Picked(found[picker.at].id) if found else None
        case Press(name="esc" | "ctrl-c" | "ctrl-d"):
            return picker, Gone()
        case Press(name="up"):
            return _moved(picker, picker.at - 1), None
        case Press(name="down"):
            return _moved(picker, picker.at + 1), None
        case Press(name="tab"):
            return _changed(picker, all_folders=not picker.all_folders, at=0), None
        case Press(name="backspace"):
            return _changed(picker, filter=picker.filter[:-1], at=0), None
        case Press(name="ctrl-u"):
            return _changed(picker, filter="", at=0), None
        case Press():
            return picker, None
        case Text(text=text) | Paste(text=text):
            return _changed(picker, filter=picker.filter + " ".join(text.split("\n")), at=0), None


def picker_lines(picker: Picker, *, columns: int) -> list[str]:
    """The list as text: also what is printed where nobody can choose. Columns of zero mean endless ones."""
    where = "all folders" if picker.all_folders else picker.folder
    lines = [_spread(f"Sessions in {where}", _HELP, columns)]
    found = picker.found
    if not found:
        return [*lines, "  Nothing fits."]
    first = max(0, min(picker.at - SHOWN_MAX + 1, len(found) - SHOWN_MAX))
    for index, session in enumerate(found[first : first + SHOWN_MAX], first):
        mark = ">" if index == picker.at else " "
        lines.append(_cut(f"{mark} {_row(index + 1, session, columns)}", columns))
    if (left := len(found) - first - SHOWN_MAX) > 0:
        lines.append(f"  … {left} more")
    if last := found[picker.at].last:
        lines.append(_cut(f'     last: "{visible(last, newlines=False)}"', columns))
    return lines


def _row(number: int, session: Listed, columns: int) -> str:
    room = _TITLE_COLUMNS if columns <= 0 or columns >= 80 else max(_LEAST_TITLE_COLUMNS, columns - 32)
    name = _padded(visible(session.name, newlines=False), room)
    turns = f"{session.turns} turn" + ("" if session.turns == 1 else "s")
    star = "★" if session.pinned else " "
    facts = f"{session.when:<12} {turns:>8}   {session.cost:<6}  {session.mark}"
    return f"{number}{star} {name} {facts}".rstrip()


def _has(session: Listed, wanted: Sequence[str]) -> bool:
    text = f"{session.name} {session.last} {session.id}".lower()
    return all(word in text for word in wanted)


def _moved(picker: Picker, at: int) -> Picker:
    return _changed(picker, at=max(0, min(at, len(picker.found) - 1)))


def _changed(picker: Picker, **fields: object) -> Picker:
    return msgspec.structs.replace(picker, **fields)


def _spread(left: str, right: str, columns: int) -> str:
    gap = min(columns, 96) - width_of(left) - width_of(right) if columns > 0 else 8
    return left + " " * gap + right if gap >= 3 else left


def _padded(text: str, columns: int) -> str:
    if width_of(text) > columns:
        text = text[: fitting(text, columns - 1)] + "…"
    return text + " " * (columns - width_of(text))


def _cut(text: str, columns: int) -> str:
    if columns <= 0 or width_of(text) <= columns:
        return text
    return text[: fitting(text, columns - 1)] + "…"
