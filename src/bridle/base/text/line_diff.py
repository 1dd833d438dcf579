"""Compare two texts line by line, with lines of context."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

AROUND: Final = 3
COMPARED_LINES: Final = 2_000
"""Of longer texts all between the first and the last difference is told as going and coming: finding what is shared in
there would take too long."""

LineMark: TypeAlias = Literal["+", "-", " ", "…"]


class DiffLine(msgspec.Struct, frozen=True, array_like=True):
    """One line: it came, went, or stays. `…` stands for `number` lines that stay and are left out."""

    mark: LineMark
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


def line_diff(old: Sequence[str], new: Sequence[str], *, whole: bool = False) -> LineDiff:
    """The change from one to the other. What went has its number in `old`, everything else its number in `new`.

    Of lines that stay only those around a change are told, unless the `whole` text is wanted.
    """
    lines = tuple(_compared(old, new))
    added = sum(line.mark == "+" for line in lines)
    removed = sum(line.mark == "-" for line in lines)
    if not added and not removed:
        return LineDiff((), 0, 0)
    return LineDiff(lines if whole else folded(lines), added, removed)


def folded(lines: Sequence[DiffLine], around: int = AROUND) -> tuple[DiffLine, ...]:
    """Without the lines that stay and have no change near them; what is left out is counted."""
    kept = [False] * len(lines)
    for at, line in enumerate(lines):
        if line.mark in "+-":
            for near in range(max(0, at - around), min(len(lines), at + around + 1)):
                kept[near] = True
    result: list[DiffLine] = []
    left_out = 0
    for line, is_kept in zip(lines, kept, strict=True):
        if line.mark == "…":
            left_out += line.number
        elif not is_kept:
            left_out += 1
        else:
            if left_out:
                result.append(DiffLine("…", left_out))
            left_out = 0
            result.append(line)
    return (*result, DiffLine("…", left_out)) if left_out else tuple(result)


def _compared(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    for tag, old_from, old_to, new_from, new_to in _steps(old, new):
        if tag == "equal":
            yield from (DiffLine(" ", at + 1, new[at]) for at in range(new_from, new_to))
        else:
            yield from (DiffLine("-", at + 1, old[at]) for at in range(old_from, old_to))
            yield from (DiffLine("+", at + 1, new[at]) for at in range(new_from, new_to))


def _steps(old: Sequence[str], new: Sequence[str]) -> Iterable[tuple[str, int, int, int, int]]:
    if max(len(old), len(new)) > COMPARED_LINES:
        return _differing(old, new)
    from difflib import SequenceMatcher  # slow to import, and only for this

    return SequenceMatcher(None, old, new, autojunk=False).get_opcodes()


def _differing(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    most = min(len(old), len(new))
    begin = next((at for at in range(most) if old[at] != new[at]), most)
    same = next((at for at in range(most - begin) if old[-1 - at] != new[-1 - at]), most - begin)
    yield "equal", 0, begin, 0, begin
    yield "replace", begin, len(old) - same, begin, len(new) - same
    yield "equal", len(old) - same, len(old), len(new) - same, len(new)
