"""Edit the draft: state and key in, new state and effect out.

A draft is a row of cells: what a person sees as one character, or a long paste folded into one atom that the cursor
jumps over and that is whole again when it is sent.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from bridle.base.text.terminal_text import visible, visible_line
from bridle.clients.interaction.composer.keys import Key, Paste, Press, Text
from bridle.protocol.messages import ImageBlock

FOLD_LINES: Final = 10
FOLD_CHARACTERS: Final = 2_000
HISTORY_MAX: Final = 500

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_JOINER: Final = "\u200d"
_SKIN: Final = range(0x1F3FB, 0x1F400)
_FLAG: Final = range(0x1F1E6, 0x1F200)
_LONGEST_CELL: Final = 16


class Fold(msgspec.Struct, frozen=True):
    """A long paste, shown as a few words."""

    text: str

    @property
    def label(self) -> str:
        lines = self.text.count("\n") + 1
        return f"[pasted {lines} lines]" if lines > 1 else f"[pasted {len(self.text)} characters]"


class Picture(msgspec.Struct, frozen=True):
    """An image that is sent with the draft, shown as a few words that stand in it."""

    label: str
    block: ImageBlock

    @property
    def text(self) -> str:
        return self.label


Cell: TypeAlias = str | Fold | Picture
"""One character with what belongs to it (accents, the parts of an emoji), a folded paste, or an image."""
Cells: TypeAlias = tuple[Cell, ...]


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Looking for an earlier prompt. `place` is the one shown, None while none fits; `parked` the draft before."""

    query: str = ""
    place: int | None = None
    parked: Cells = ()


class Composer(msgspec.Struct, frozen=True, kw_only=True):
    """The draft, the place of the cursor in it, what was cut last, and the prompts before it.

    `place` is where in the history the draft came from; `parked` is the draft that was left to walk there. `search`
    is set while earlier prompts are searched; `half_key` after the first of two keys that belong together.
    """

    cells: Cells = ()
    at: int = 0
    cut: Cells = ()
    history: tuple[Cells, ...] = ()
    place: int | None = None
    parked: Cells = ()
    search: Search | None = None
    half_key: bool = False

    @property
    def empty(self) -> bool:
        return not self.cells and self.search is None

    @property
    def pictures(self) -> int:
        return sum(isinstance(cell, Picture) for cell in self.cells)


class Send(msgspec.Struct, frozen=True):
    """The draft is to be sent; `steer` says now, during the turn."""

    text: str
    shown: str
    cells: Cells
    steer: bool = False

    @property
    def images(self) -> tuple[ImageBlock, ...]:
        return tuple(cell.block for cell in self.cells if isinstance(cell, Picture))


def typed(text: str, *, steer: bool = False) -> Send:
    """Words that came from elsewhere than a draft, to be sent."""
    return Send(text, visible(text), tuple(text), steer)


WishName: TypeAlias = Literal[
    "interrupt",
    "escape",
    "leave",
    "suspend",
    "redraw",
    "edit",
    "complete",
    "mode",
    "thinking",
    "paste_image",
]


class Wish(msgspec.Struct, frozen=True):
    """A key that is not about the text."""

    what: WishName


_WISHES: Final[dict[str, WishName]] = {
    "ctrl-c": "interrupt",
    "ctrl-g": "edit",
    "ctrl-l": "redraw",
    "ctrl-o": "thinking",
    "ctrl-v": "paste_image",
    "ctrl-z": "suspend",
    "esc": "escape",
    "shift-tab": "mode",
}

Effect: TypeAlias = Send | Wish | None


def composer_with(history: tuple[str, ...] = ()) -> Composer:
    """An empty draft with the prompts of earlier sessions behind it, oldest first."""
    return Composer(history=tuple(clusters(text) for text in history[-HISTORY_MAX:]))


def clusters(text: str) -> tuple[str, ...]:
    """The text in cells. Joined together they are the text again."""
    if text.isascii():
        return tuple(text)
    found: list[str] = []
    for character in text:
        if found and _belongs(found[-1], character):
            found[-1] += character
        else:
            found.append(character)
    return tuple(found)


def _belongs(cell: str, character: str) -> bool:
    """Whether a character is drawn on the one before it rather than beside it."""
    if character.isascii() or cell[-1].isspace() or len(cell) >= _LONGEST_CELL:
        return False
    if character == _JOINER or cell[-1] == _JOINER or ord(character) in _SKIN:
        return True
    if ord(character) in _FLAG:
        return len(cell) == 1 and ord(cell) in _FLAG
    return unicodedata.category(character) in ("Mn", "Me")


def text_of(cells: Cells) -> str:
    """What is sent: every fold whole."""
    return "".join(cell if isinstance(cell, str) else cell.text for cell in cells)


def shown(cells: Cells) -> str:
    """What a person sees: folds as their label, nothing a terminal would obey."""
    return "".join(map(shown_cell, cells))


def shown_cell(cell: Cell) -> str:
    return visible(cell) if isinstance(cell, str) else visible_line(cell.label)


def remembered(state: Composer, cells: Cells) -> Composer:
    """The state with one more prompt to recall; the same one twice in a row counts once."""
    if not cells or (state.history and state.history[-1] == cells):
        return state
    return _with(state, history=(*state.history, cells)[-HISTORY_MAX:], place=None)


def cleared(state: Composer) -> Composer:
    """An empty draft; Up brings the old one back."""
    return _with(remembered(state, state.cells), cells=(), at=0, place=None, parked=())


def press(state: Composer, key: Key) -> tuple[Composer, Effect]:
    if state.search is not None:
        return _searching(state, state.search, key)
    if state.half_key:
        state = _with(state, half_key=False)
        if key == Press("ctrl-e"):
            return state, Wish("edit")
    match key:
        case Text(text=text):
            return _typed(state, text), None
        case Paste(text=text):
            return _pasted(state, text), None
        case Press(name="enter"):
            return _enter(state)
        case Press(name="ctrl-s"):
            return _sent(state, steer=True)
        case Press(name="ctrl-d"):
            return (state, Wish("leave")) if state.empty else (_deleted(state), None)
        case Press(name="ctrl-x"):
            return _with(state, half_key=True), None
        case Press(name="ctrl-r"):
            return _with(state, search=Search(parked=state.cells)), None
        case Press(name="tab"):
            return state, None if state.empty else Wish("complete")
        case Press(name=name) if name in _WISHES:
            return state, Wish(_WISHES[name])
        case Press(name=name):
            return _edited(state, name), None


def _with(state: Composer, **fields: object) -> Composer:
    return msgspec.structs.replace(state, **fields)


def _enter(state: Composer) -> tuple[Composer, Effect]:
    under = state.cells[state.at] if state.at < len(state.cells) else None
    if isinstance(under, Fold):
        return _unfolded(state, state.at), None
    if under is None and state.cells[-1:] == ("\\",):  # as in a shell: the line goes on
        return _inserted(_deleted(_with(state, at=state.at - 1)), ("\n",)), None
    return _sent(state, steer=False)


def _sent(state: Composer, *, steer: bool) -> tuple[Composer, Effect]:
    if not text_of(state.cells).strip():
        return state, None
    send = Send(text_of(state.cells), shown(state.cells), state.cells, steer)
    return _with(state, cells=(), at=0, place=None, parked=()), send


def _inserted(state: Composer, cells: Cells) -> Composer:
    before, after = state.cells[: state.at], state.cells[state.at :]
    return _with(state, cells=before + cells + after, at=state.at + len(cells))


def _typed(state: Composer, text: str) -> Composer:
    """Typed text; an accent that comes by itself joins the letter before it."""
    before = state.cells[state.at - 1] if state.at else None
    if isinstance(before, str) and not text.isascii():
        state = _deleted(_with(state, at=state.at - 1))
        text = before + text
    return _inserted(state, clusters(text))


def rewritten(state: Composer, text: str) -> Composer:
    """The draft as another program left it; what a terminal would obey is written out."""
    cells = clusters(_without_controls(text.replace("\r\n", "\n").removesuffix("\n")))
    return _with(state, cells=cells, at=len(cells), place=None, parked=())


def with_pictures(state: Composer, pictures: Sequence[Picture]) -> Composer:
    """The draft with images where the cursor is, each with a blank behind it."""
    cells: Cells = tuple(cell for picture in pictures for cell in (picture, " "))
    return _inserted(_with(state, search=None), cells)


def replaced(state: Composer, start: int, end: int, text: str) -> Composer:
    """The draft with `text` in the place of some cells, and the cursor behind it."""
    cells = clusters(text)
    return _with(state, cells=state.cells[:start] + cells + state.cells[end:], at=start + len(cells))


def _without_controls(text: str) -> str:
    return _CONTROLS.sub(lambda control: visible_line(control[0]), text)


def _pasted(state: Composer, text: str) -> Composer:
    """A paste is one edit. The same long one again unfolds what is there."""
    text = _without_controls(text)
    if not text:
        return state
    if text.count("\n") < FOLD_LINES and len(text) <= FOLD_CHARACTERS:
        return _inserted(state, clusters(text))
    fold = Fold(text)
    if state.at and state.cells[state.at - 1] == fold:
        return _unfolded(state, state.at - 1)
    return _inserted(state, (fold,))


def _unfolded(state: Composer, at: int) -> Composer:
    fold = state.cells[at]
    assert isinstance(fold, Fold)
    cells = clusters(fold.text)
    return _with(state, cells=state.cells[:at] + cells + state.cells[at + 1 :], at=at + len(cells))


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
        case "ctrl-home":
            return _with(state, at=0)
        case "ctrl-end":
            return _with(state, at=len(state.cells))
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
        case "alt-d":
            return _cut(state, state.at, _word_end(state.cells, state.at))
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


# Searching earlier prompts


def search_words(search: Search) -> str:
    found = "Ctrl-R older · Enter take it · Esc back"
    if search.query and search.place is None:
        found = "no earlier prompt has this · Esc back"
    return f"search: {visible_line(search.query)}   {found}"


def _searching(state: Composer, search: Search, key: Key) -> tuple[Composer, Effect]:
    """A key while searching. One that edits takes what was found and edits it; none of them sends."""
    match key:
        case Text(text=text) | Paste(text=text):
            query = search.query + _without_controls(text.partition("\n")[0])
            return _found(state, search, query, len(state.history)), None
        case Press(name="backspace"):
            return _found(state, search, search.query[:-1], len(state.history)), None
        case Press(name="ctrl-r"):
            before = len(state.history) if search.place is None else search.place
            return _found(state, search, search.query, before), None
        case Press(name="enter" | "tab"):
            return _with(state, search=None, place=None, parked=()), None
        case Press(name="esc" | "ctrl-g"):
            return _searched(state, search), None
        case Press(name="ctrl-c"):
            return _searched(state, search), Wish("interrupt")
        case _:
            return press(_with(state, search=None, place=None, parked=()), key)


def _searched(state: Composer, search: Search) -> Composer:
    """Back from searching, with the draft as it was."""
    return _with(state, cells=search.parked, at=len(search.parked), search=None)


def _found(state: Composer, search: Search, query: str, before: int) -> Composer:
    """The newest prompt older than `before` that has the words and is not the one shown; else nothing moves."""
    if not query:
        back = _searched(state, search)
        return _with(back, search=Search(parked=search.parked))
    for place in range(before - 1, -1, -1):
        cells = state.history[place]
        same_again = query == search.query and cells == state.cells
        if query.lower() in text_of(cells).lower() and not same_again:
            found = Search(query=query, place=place, parked=search.parked)
            return _with(state, cells=cells, at=len(cells), search=found)
    place = search.place if query == search.query else None
    return _with(state, search=Search(query=query, place=place, parked=search.parked))
