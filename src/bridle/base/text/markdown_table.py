"""Split the lines of a Markdown table into cells."""

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

Align: TypeAlias = Literal["left", "right", "centre"]


class Table(NamedTuple):
    """A head and rows below it, each with as many cells as there are `aligns`; cells are Markdown of one line."""

    aligns: tuple[Align, ...]
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def table_of(text: str) -> Table:
    """The table whose lines these are: a head, a rule, rows. What a row has beyond the head joins its last cell."""
    head, rule, *rows = (tuple(_cells(line)) for line in text.rstrip("\n").split("\n"))
    width = max(len(head), 1)
    aligns: tuple[Align, ...] = tuple(_align(rule[at] if at < len(rule) else "") for at in range(width))
    return Table(aligns, _filled(head, width), tuple(_filled(row, width) for row in rows))


def _align(cell: str) -> Align:
    if not cell.endswith(":"):
        return "left"
    return "centre" if cell.startswith(":") else "right"


def _filled(cells: tuple[str, ...], width: int) -> tuple[str, ...]:
    if len(cells) > width:
        return (*cells[: width - 1], " | ".join(cells[width - 1 :]))
    return (*cells, *[""] * (width - len(cells)))


def _cells(line: str) -> Iterator[str]:
    """A bar in code is none, and neither is one behind a backslash."""
    inner = line.strip().removeprefix("|")
    cell, at, ticks = "", 0, False
    while at < len(inner):
        if inner.startswith("\\|", at):
            cell, at = cell + "|", at + 2
            continue
        letter = inner[at]
        at += 1
        if letter == "`":
            ticks = not ticks if ticks or "`" in inner[at:] else ticks
        if letter == "|" and not ticks:
            yield cell.strip()
            cell = ""
        else:
            cell += letter
    if cell.strip() or not inner.endswith("|"):
        yield cell.strip()
