"""The draft a person writes: state and key in, new state and effect out. Pure; it draws and sends nothing.

A draft is a row of cells: a character, or a long paste folded into one atom that the cursor jumps over and that is
whole again when it is sent.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

import msgspec

from bridle.base.visible import visible
from bridle.clients.line.keys import Key, Paste, Press, Text

FOLD_LINES: Final = 10
FOLD_CHARACTERS: Final = 2_000
HISTORY_MAX: Final = 500

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Fold(msgspec.Struct, frozen=True):
    """A long paste, shown as a few words."""

    text: str

    @property
    def label(self) -> str:
        lines = self.text.count("\n") + 1
        return f"[pasted {lines} lines]" if lines > 1 else f"[pasted {len(self.text)} characters]"


Cell: TypeAlias = str | Fold
"""One character, or a folded paste."""
Cells: TypeAlias = tuple[Cell, ...]


class Composer(msgspec.Struct, frozen=True, kw_only=True):
    """The draft, the place of the cursor in it, what was cut last, and the prompts before it.

    `place` is where in the history the draft came from; `parked` is the draft that was left to walk there.
    """

    cells: Cells = ()
    at: int = 0
    cut: Cells = ()
    history: tuple[Cells, ...] = ()
    place: int | None = None
    parked: Cells = ()

    @property
    def empty(self) -> bool:
        return not self.cells


class Send(msgspec.Struct, frozen=True):
    """The draft is to be sent; `steer` says now, during the turn."""

    text: str
    shown: str
    cells: Cells
    steer: bool = False


class Wish(msgspec.Struct, frozen=True):
    """A key that is not about the text."""

    what: Literal["interrupt", "leave", "suspend", "redraw"]


Effect: TypeAlias = Send | Wish | None


def composer_with(history: tuple[str, ...] = ()) -> Composer:
    """An empty draft with the prompts of earlier sessions behind it, oldest first."""
    return Composer(history=tuple(tuple(text) for text in history[-HISTORY_MAX:]))


def text_of(cells: Cells) -> str:
    """What is sent: every fold whole."""
    return "".join(cell.text if isinstance(cell, Fold) else cell for cell in cells)


def shown(cells: Cells) -> str:
    """What a person sees: folds as their label, nothing a terminal would obey."""
    return "".join(map(shown_cell, cells))


def shown_cell(cell: Cell) -> str:
    return cell.label if isinstance(cell, Fold) else visible(cell)


def remembered(state: Composer, cells: Cells) -> Composer:
    """The state with one more prompt to recall; the same one twice in a row counts once."""
    if not cells or (state.history and state.history[-1] == cells):
        return state
    return _with(state, history=(*state.history, cells)[-HISTORY_MAX:], place=None)


def cleared(state: Composer) -> Composer:
    """An empty draft; Up brings the old one back."""
    return _with(remembered(state, state.cells), cells=(), at=0, place=None, parked=())


def press(state: Composer, key: Key) -> tuple[Composer, Effect]:
    """What one key does to the draft."""
    match key:
        case Text(text=text):
            return _inserted(state, tuple(text)), None
        case Paste(text=text):
            return _pasted(state, text), None
        case Press(name="enter"):
            return _enter(state)
        case Press(name="ctrl-s"):
            return _sent(state, steer=True)
        case Press(name="ctrl-d"):
            return (state, Wish("leave")) if state.empty else (_deleted(state), None)
        case Press(name="ctrl-c"):
            return state, Wish("interrupt")
        case Press(name="ctrl-z"):
            return state, Wish("suspend")
        case Press(name="ctrl-l"):
            return state, Wish("redraw")
        case Press(name=name):
            return _edited(state, name), None


def _with(state: Composer, **fields: object) -> Composer:
    return msgspec.structs.replace(state, **fields)


def _enter(state: Composer) -> tuple[Composer, Effect]:
    under = state.cells[state.at] if state.at < len(state.cells) else None
    if isinstance(under, Fold):
        return _unfolded(state, state.at), None
    return _sent(state, steer=False)


def _sent(state: Composer, *, steer: bool) -> tuple[Composer, Effect]:
    if not text_of(state.cells).strip():
        return state, None
    send = Send(text_of(state.cells), shown(state.cells), state.cells, steer)
    return _with(state, cells=(), at=0, place=None, parked=()), send


def _inserted(state: Composer, cells: Cells) -> Composer:
    before, after = state.cells[: state.at], state.cells[state.at :]
    return _with(state, cells=before + cells + after, at=state.at + len(cells))


def _pasted(state: Composer, text: str) -> Composer:
    """A paste is one edit. The same long one again unfolds what is there."""
    text = _CONTROLS.sub(lambda control: visible(control[0], newlines=False), text)
    if not text:
        return state
    if text.count("\n") < FOLD_LINES and len(text) <= FOLD_CHARACTERS:
        return _inserted(state, tuple(text))
    fold = Fold(text)
    if state.at and state.cells[state.at - 1] == fold:
        return _unfolded(state, state.at - 1)
    return _inserted(state, (fold,))


def _unfolded(state: Composer, at: int) -> Composer:
    fold = state.cells[at]
    assert isinstance(fold, Fold)
    cells = state.cells[:at] + tuple(fold.text) + state.cells[at + 1 :]
    return _with(state, cells=cells, at=at + len(fold.text))


def _deleted(state: Composer) -> Composer:
    return _with(state, cells=state.cells[: state.at] + state.cells[state.at + 1 :])


def _edited(state: Composer, name: str) -> Composer:
    """Keys that move or cut. A key that means nothing here changes nothing."""
    match name:
        case "ctrl-j" | "alt-enter" | "shift-enter":
            return _inserted(state, ("\n",))
        case "left" | "ctrl-b":
            return _with(state, at=max(0, state.at - 1))
        case "right" | "ctrl-f":
            return _with(state, at=min(len(state.cells), state.at + 1))
        case "home" | "ctrl-a":
            return _with(state, at=_line_start(state.cells, state.at))
        case "end" | "ctrl-e":
            return _with(state, at=_line_end(state.cells, state.at))
        case "alt-b" | "ctrl-left" | "alt-left":
            return _with(state, at=_word_start(state.cells, state.at))
        case "alt-f" | "ctrl-right" | "alt-right":
            return _with(state, at=_word_end(state.cells, state.at))
        case "backspace" if state.at:
            return _deleted(_with(state, at=state.at - 1))
        case "delete":
            return _deleted(state)
        case "ctrl-w" | "alt-backspace":
            return _cut(state, _word_start(state.cells, state.at), state.at)
        case "ctrl-u":
            return _cut(state, _line_start(state.cells, state.at), state.at)
        case "ctrl-k":
            return _cut(state, state.at, _line_end(state.cells, state.at))
        case "ctrl-y":
            return _inserted(state, state.cut)
        case "up":
            return _up(state)
        case "down":
            return _down(state)
        case _:
            return state


def _cut(state: Composer, start: int, end: int) -> Composer:
    if start == end:
        return state
    return _with(state, cells=state.cells[:start] + state.cells[end:], at=start, cut=state.cells[start:end])


def _line_start(cells: Cells, at: int) -> int:
    while at and cells[at - 1] != "\n":
        at -= 1
    return at


def _line_end(cells: Cells, at: int) -> int:
    while at < len(cells) and cells[at] != "\n":
        at += 1
    return at


def _is_blank(cell: Cell) -> bool:
    return isinstance(cell, str) and cell.isspace()


def _word_start(cells: Cells, at: int) -> int:
    while at and _is_blank(cells[at - 1]):
        at -= 1
    while at and not _is_blank(cells[at - 1]):
        at -= 1
    return at


def _word_end(cells: Cells, at: int) -> int:
    while at < len(cells) and _is_blank(cells[at]):
        at += 1
    while at < len(cells) and not _is_blank(cells[at]):
        at += 1
    return at


def _up(state: Composer) -> Composer:
    start = _line_start(state.cells, state.at)
    if start:
        above = _line_start(state.cells, start - 1)
        return _with(state, at=min(above + state.at - start, start - 1))
    place = len(state.history) if state.place is None else state.place
    if not place:
        return state
    parked = state.cells if state.place is None else state.parked
    return _recalled(_with(state, parked=parked), place - 1)


def _down(state: Composer) -> Composer:
    end = _line_end(state.cells, state.at)
    if end < len(state.cells):
        column = state.at - _line_start(state.cells, state.at)
        return _with(state, at=min(end + 1 + column, _line_end(state.cells, end + 1)))
    if state.place is None:
        return state
    if state.place + 1 < len(state.history):
        return _recalled(state, state.place + 1)
    return _with(state, cells=state.parked, at=len(state.parked), place=None, parked=())


def _recalled(state: Composer, place: int) -> Composer:
    cells = state.history[place]
    return _with(state, cells=cells, at=len(cells), place=place)
