"""How much room text takes on a terminal, and where a line breaks. Text only, no terminal codes."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

TAB_CELLS = 4


def cells_of(character: str) -> int:
    """Columns one character takes: none for combining marks and joiners, two for wide ones."""
    if character.isascii():
        return TAB_CELLS if character == "\t" else 1
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def width_of(text: str) -> int:
    return len(text) if text.isascii() and "\t" not in text else sum(map(cells_of, text))


def fitting(text: str, columns: int) -> int:
    """How many characters of `text` fit into `columns`; at least one, so that whoever wraps gets on."""
    if text.isascii() and "\t" not in text:
        return min(len(text), max(columns, 1))
    used = 0
    for index, character in enumerate(text):
        used += cells_of(character)
        if used > columns and index:
            return index
    return len(text)


def cut(text: str, columns: int) -> str:
    """Text that fits into `columns`; one that is longer ends with a mark. Columns of zero or less mean endless ones."""
    return text if columns <= 0 or width_of(text) <= columns else f"{text[: fitting(text, columns - 1)]}…"


def wrapped(text: str, columns: int, *, indent: str = "") -> Iterator[str]:
    """One line as rows of at most `columns`, broken at blanks; later rows begin with `indent`.

    Nothing but the blanks at a break is left out. Columns of zero or less mean that nothing is broken.
    """
    if columns <= 0 or width_of(text) <= columns:
        yield text
        return
    if len(indent) > columns // 2:
        indent = ""
    row, begin = text, ""
    while width_of(begin + row) > columns:
        room = columns - len(begin)
        cut = fitting(row, room)
        blank = row.rfind(" ", 1, cut + 1)
        if blank > 0 and row[:blank].strip():
            yield (begin + row[:blank]).rstrip()
            row = row[blank + 1 :].lstrip(" ")
        else:
            yield begin + row[:cut]
            row = row[cut:]
        begin = indent
    if row:
        yield begin + row


def chopped(text: str, columns: int) -> Iterator[str]:
    """One line cut into rows exactly as it stands: for commands and code, where every blank counts."""
    if columns <= 0:
        yield text
        return
    while width_of(text) > columns:
        cut = fitting(text, columns)
        yield text[:cut]
        text = text[cut:]
    yield text
