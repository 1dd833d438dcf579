"""Lists to choose from: the sessions to resume, and models, grants and profiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from bridle.base.text.phrases import age, counted
from bridle.base.text.terminal_text import visible_line
from bridle.clients.interaction.cells import cut, width_of, wrapped
from bridle.clients.interaction.composer.keys import Key, Paste, Press, Text
from bridle.clients.interaction.composer.word_completion import common_beginning
from bridle.clients.interaction.render.start_info import folder_words, marks
from bridle.protocol.queries import SessionInfo

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
    if (typed := _typed(choices.filter, key)) is not None:
        return _filtered(choices, typed), None
    if key == Press("esc") and choices.filter:
        return _filtered(choices, ""), None
    match key:
        case Press(name="enter"):
            found = choices.found
            return choices, Chosen(found[choices.at].id) if found else None
        case Press(name="esc" | "ctrl-d"):
            return choices, NothingChosen()
        case Press(name="up"):
            return _move_to(choices, choices.at - 1), None
        case Press(name="down"):
            return _move_to(choices, choices.at + 1), None
        case Press(name="tab"):
            return _completed(choices), None
        case _:
            return choices, None


def _typed(text: str, key: Key) -> str | None:
    """The text after a key that edits it; None for any other key. A paste is typed like words."""
    match key:
        case Press(name="backspace"):
            return text[:-1]
        case Press(name="ctrl-u"):
            return ""
        case Text(text=more) | Paste(text=more):
            return text + " ".join(more.split("\n"))
        case _:
            return None


def list_lines(choices: ChoiceList, *, columns: int, rows: int = 0) -> list[str]:
    """The list as text, also where nobody can choose. Columns and rows of zero mean endless ones."""
    found = choices.found
    shown = SHOWN_MAX if rows <= 0 else max(1, min(SHOWN_MAX, rows - _LEAST_ROWS))
    first = max(0, min(choices.at - shown + 1, len(found) - shown))
    lines = [choices.title, *([] if found else ["  Nothing fits."])]
    width = _name_columns(found, columns)
    for index, row in enumerate(found[first : first + shown], first):
        lines.append(cut(f"{'>' if index == choices.at else ' '} {_choice_row(row, width)}", columns))
    if (left := len(found) - first - shown) > 0:
        lines.append(f"  … {left} more")
    if found and columns > 0 and width_of(_choice_row(found[choices.at], width)) + 2 > columns:
        whole = f"    {found[choices.at].name.strip()}   {found[choices.at].about}".rstrip()
        lines += wrapped(visible_line(whole), columns, indent="    ")
    keys = f"{choices.enter} · type to filter · Tab complete · Esc back" if found else "Esc back"
    for text in filter(None, (keys, choices.below)):
        lines += wrapped(f"  {text}", columns, indent="  ")
    return lines


def plain_rows(choices: ChoiceList, *, columns: int) -> list[str]:
    """Every row to read, none of them marked."""
    width = _name_columns(choices.rows, columns)
    return [choices.title, *(f"  {_choice_row(row, width)}" for row in choices.rows)]


def _choice_row(row: ChoiceRow, width: int) -> str:
    name, about = visible_line(row.name), visible_line(row.about)
    return f"{name}{' ' * (width - width_of(name))}   {about}".rstrip()


def _name_columns(rows: Sequence[ChoiceRow], columns: int) -> int:
    widest = max((width_of(visible_line(row.name)) for row in rows), default=0)
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


def _move_to(choices: ChoiceList, at: int) -> ChoiceList:
    return msgspec.structs.replace(choices, at=max(0, min(at, len(choices.found) - 1)))


_TITLE_COLUMNS: Final = 34
_LEAST_TITLE_COLUMNS: Final = 12
_FACTS_COLUMNS: Final = 32
"""When, turns and cost, up to where a mark begins."""
_BESIDE_COLUMNS: Final = 5
"""What stands around a title, but for the digits of its number."""
_HELP: Final = "type to filter · Tab all folders"
_HELP_ALL: Final = "type to filter · Tab this folder"
_KEYS: Final = "Enter resume · Alt-F fork · Alt-P pin · Alt-R rename · Del delete"
_LEAVE: Final = "Ctrl-C again to leave"
_HEADER_COLUMNS: Final = 96
_LEAST_FOLDER_COLUMNS: Final = 12
SHOWN_MAX: Final = 12


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A session as the list shows it. `title` is a person's, else `words` are the first they typed.

    `cost` and `mark` are words, empty where there is nothing to say; `here` says that it belongs to this folder,
    `folder` is the one it belongs to.
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
    folder: str = ""
    last: str = ""

    @property
    def name(self) -> str:
        return self.title or (f'"{self.words}"' if self.words else "just begun")


def listed(session: SessionInfo, *, now_ms: int, here: str, home: str) -> Listed:
    """A stored session as the list shows it to somebody in the folder `here`."""
    return Listed(
        id=session.id,
        title=session.title if session.named else "",
        words=session.title,
        when=age(now_ms - session.updated_ms),
        turns=session.turns,
        cost=f"${session.usd:.2f}" if session.usd >= 0.005 else "",
        mark=marks(session, now_ms),
        pinned=session.pinned,
        here=session.cwd == here,
        folder=folder_words(session.cwd, home),
        last=session.last,
    )


class Picker(msgspec.Struct, frozen=True, kw_only=True):
    """The list and where a person is in it; `warned` says that another Ctrl-C leaves.

    `changes`: sessions can be forked, pinned, renamed and deleted here. `asking` is what a person is in the middle of,
    `title` what they have typed for it; `note` is what the last change came to, where it needs words.
    """

    sessions: tuple[Listed, ...]
    folder: str
    filter: str = ""
    at: int = 0
    all_folders: bool = False
    warned: bool = False
    changes: bool = False
    asking: Literal["", "rename", "delete"] = ""
    title: str = ""
    note: str = ""

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


class Deed(msgspec.Struct, frozen=True):
    """Something to be done to a session; `title` is the new one."""

    what: Literal["fork", "pin", "rename", "delete"]
    id: str
    title: str = ""


Choice: TypeAlias = Picked | Deed | Gone | None


def press(picker: Picker, key: Key) -> tuple[Picker, Choice]:
    """What a key does to the list. A paste filters like typing and never picks; one Ctrl-C never leaves."""
    if key == Press("ctrl-c"):
        return _changed(picker, warned=True, asking=""), Gone() if picker.warned else None
    picker = _changed(picker, warned=False, note="")
    if picker.asking:
        return _answered(picker, key)
    if picker.changes and picker.found and (chosen := _change(picker, key)) is not None:
        return chosen
    if (typed := _typed(picker.filter, key)) is not None:
        return _changed(picker, filter=typed, at=0), None
    if key == Press("esc") and picker.filter:
        return _changed(picker, filter="", at=0), None
    match key:
        case Press(name="enter"):
            found = picker.found
            return picker, Picked(found[picker.at].id) if found else None
        case Press(name="esc" | "ctrl-d"):
            return picker, Gone()
        case Press(name="up"):
            return _moved(picker, picker.at - 1), None
        case Press(name="down"):
            return _moved(picker, picker.at + 1), None
        case Press(name="tab"):
            return _changed(picker, all_folders=not picker.all_folders, at=0), None
        case _:
            return picker, None


def _change(picker: Picker, key: Key) -> tuple[Picker, Choice] | None:
    """The keys that change the session one is at; None for any other."""
    session = picker.found[picker.at]
    match key:
        case Press(name="alt-f"):
            return picker, Deed("fork", session.id)
        case Press(name="alt-p"):
            return picker, Deed("pin", session.id)
        case Press(name="alt-r"):
            return _changed(picker, asking="rename", title=session.title), None
        case Press(name="delete"):
            return _changed(picker, asking="delete"), None
        case _:
            return None


def _answered(picker: Picker, key: Key) -> tuple[Picker, Choice]:
    """Only a typed y deletes, and only Enter names; anything else that is no answer leaves things as they are."""
    session = picker.found[picker.at]
    done = _changed(picker, asking="", title="")
    match picker.asking, key:
        case "delete", Text(text="y" | "Y"):
            return done, Deed("delete", session.id)
        case "rename", Press(name="enter"):
            return done, Deed("rename", session.id, " ".join(picker.title.split()))
        case "rename", _ if (typed := _typed(picker.title, key)) is not None:
            return _changed(picker, title=typed), None
        case _:
            return done, None


def relisted(picker: Picker, sessions: tuple[Listed, ...], note: str = "") -> Picker:
    """The list after something was changed; a person stays where they were as far as that is still there."""
    listed = _changed(picker, sessions=sessions, note=note)
    return _moved(listed, listed.at)


def unwarned(picker: Picker) -> Picker:
    """The moment in which another Ctrl-C leaves is over."""
    return _changed(picker, warned=False)


def picker_lines(picker: Picker, *, columns: int, rows: int = 0) -> list[str]:
    """The list as text: also what is printed where nobody can choose. Columns and rows of zero mean endless ones."""
    where = "all folders" if picker.all_folders else visible_line(picker.folder)
    lines = _header(where, _HELP_ALL if picker.all_folders else _HELP, columns)
    found = picker.found
    if not found:
        lines.append("  Nothing fits.")
    shown = SHOWN_MAX if rows <= 0 else max(1, min(SHOWN_MAX, rows - 5))
    first = max(0, min(picker.at - shown + 1, len(found) - shown))
    digits = len(str(min(len(found), first + shown)))
    room = _title_columns(found[first : first + shown], digits, columns)
    for index, session in enumerate(found[first : first + shown], first):
        mark = ">" if index == picker.at else " "
        row = _row(f"{index + 1:>{digits}}", session, room, folder=picker.all_folders)
        lines.append(cut(f"{mark} {row}", columns))
    if (left := len(found) - first - shown) > 0:
        lines.append(f"  … {left} more")
    if found and (last := found[picker.at].last):
        lines.append(cut(f'     last: "{visible_line(last)}"', columns))
    lines += [cut(line, columns) for line in _below(picker)]
    return [*lines, _LEAVE] if picker.warned else lines


def _below(picker: Picker) -> list[str]:
    if picker.asking == "delete":
        name = visible_line(picker.found[picker.at].name)
        return [f"  Delete {name} for good? y delete · any other key keeps it"]
    if picker.asking == "rename":
        return [f"  New title: {visible_line(picker.title)}▏  Enter names it · Esc leaves it"]
    if picker.note:
        return [f"  {visible_line(picker.note)}"]
    return [f"  {_KEYS}"] if picker.changes and picker.found else []


def session_lines(sessions: Sequence[Listed], *, columns: int) -> list[str]:
    """The newest sessions to read, none of them marked."""
    digits = len(str(min(len(sessions), SHOWN_MAX)))
    room = _title_columns(sessions[:SHOWN_MAX], digits, columns)
    rows = [
        _row(f"{number:>{digits}}", session, room, folder=True) for number, session in enumerate(sessions, 1)
    ]
    lines = [cut(f"  {row}", columns) for row in rows[:SHOWN_MAX]]
    return [*lines, f"  … {len(rows) - SHOWN_MAX} more"] if len(rows) > SHOWN_MAX else lines


def _header(where: str, hint: str, columns: int) -> list[str]:
    """The place and the keys in one line; where they do not fit, a long place loses its beginning, not the keys."""
    left = "Sessions in "
    if columns <= 0:
        return [f"{left}{where}        {hint}"]
    wide = min(columns, _HEADER_COLUMNS)
    room = wide - len(left) - width_of(hint) - 3
    if width_of(where) > room and room >= _LEAST_FOLDER_COLUMNS:
        where = _end_of(where, room)
    if width_of(where) > room:
        return [cut(f"{left}{where}", columns), cut(f"  {hint}", columns)]
    return [f"{left}{where}" + " " * (room + 3 - width_of(where)) + hint]


def _end_of(text: str, columns: int) -> str:
    while width_of(text) > columns - 1:
        text = text[1:]
    return f"…{text}"


def _title_columns(sessions: Sequence[Listed], digits: int, columns: int) -> int:
    """The room for every title of a list: where a mark does not fit as well, titles give way first."""
    if columns <= 0:
        return _TITLE_COLUMNS
    widest = max((width_of(session.mark) for session in sessions), default=0)
    fits = columns - (_BESIDE_COLUMNS + digits + _FACTS_COLUMNS + widest if widest else _FACTS_COLUMNS)
    return max(_LEAST_TITLE_COLUMNS, min(_TITLE_COLUMNS, fits))


def _row(number: str, session: Listed, room: int, *, folder: bool) -> str:
    name = _padded(visible_line(session.name), room)
    turns = counted(session.turns, "turn")
    star = "★" if session.pinned else " "
    where = visible_line(session.folder) if folder and not session.here else ""
    about = "  ".join(filter(None, (session.mark, where)))
    facts = f"{session.when:<12} {turns:>8}   {session.cost:<6}  {about}"
    return f"{number}{star} {name} {facts}".rstrip()


def _has(session: Listed, wanted: Sequence[str]) -> bool:
    text = f"{session.name} {session.last} {session.folder} {session.id}".lower()
    return all(word in text for word in wanted)


def _moved(picker: Picker, at: int) -> Picker:
    return _changed(picker, at=max(0, min(at, len(picker.found) - 1)))


def _changed(picker: Picker, **fields: object) -> Picker:
    return msgspec.structs.replace(picker, **fields)


def _padded(text: str, columns: int) -> str:
    shown = cut(text, columns)
    return shown + " " * (columns - width_of(shown))
