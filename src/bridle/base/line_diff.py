"""Two texts compared line by line, with the lines around each change. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

AROUND: Final = 3
COMPARED_LINES: Final = 2_000
"""Longer texts are told as one going and the other coming: finding what they share would take too long."""

Mark: TypeAlias = Literal["+", "-", " ", "…"]


class DiffLine(msgspec.Struct, frozen=True, array_like=True):
    """One line: it came, went, or stays. `…` stands for `number` lines that stay and are left out."""

    mark: Mark
    number: int
    text: str = ""


class LineDiff(msgspec.Struct, frozen=True):
    """A change as lines, and how many of them came and went. Nothing changed: no lines."""

    lines: tuple[DiffLine, ...]
    added: int
    removed: int


def lines_of(text: str) -> list[str]:
    """Lines without their ends; a Windows line end is one, and hides nothing."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def line_diff(old: Sequence[str], new: Sequence[str]) -> LineDiff:
    """The change from one to the other. What went has its number in `old`, everything else its number in `new`."""
    lines = tuple(_compared(old, new))
    added = sum(line.mark == "+" for line in lines)
    removed = sum(line.mark == "-" for line in lines)
    return LineDiff(lines if added or removed else (), added, removed)


def _compared(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    last = 0
    for group in _groups(old, new):
        yield from _left_out(group[0][3] - last)
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                yield from (DiffLine(" ", at + 1, new[at]) for at in range(new_from, new_to))
            else:
                yield from (DiffLine("-", at + 1, old[at]) for at in range(old_from, old_to))
                yield from (DiffLine("+", at + 1, new[at]) for at in range(new_from, new_to))
            last = new_to
    yield from _left_out(len(new) - last)


def _left_out(count: int) -> Iterator[DiffLine]:
    if count:
        yield DiffLine("…", count)


def _groups(old: Sequence[str], new: Sequence[str]) -> Iterable[Sequence[tuple[str, int, int, int, int]]]:
    if max(len(old), len(new)) > COMPARED_LINES:
        return ((("replace", 0, len(old), 0, len(new)),),)
    from difflib import SequenceMatcher  # slow to import, and only for this

    return SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(AROUND)
