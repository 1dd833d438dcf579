"""Compare texts by line: as data for people, and as a unified diff."""

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


MAX_DIFF_BYTES = 32 * 1024
MAX_COMPARED_LINES = 2000
"""Of the part that differs, on either side. Finding the smallest change in more takes too long."""
_CONTEXT_LINES = 3
_NO_NEWLINE = "\\ No newline at end of file"


class Diff(msgspec.Struct, frozen=True):
    text: str
    added: int
    removed: int


def diff_of(path: str, old: str | None, new: str) -> Diff:
    """The change from `old` (None: there was no file) to `new`.

    Longer than 32 KB, it ends with a line saying how many lines are missing; the counts are of the whole
    change.
    """
    before, after = _lines(old or ""), _lines(new)
    body = list(_hunks(before, after))
    if not body:
        return Diff("", 0, 0)
    added = sum(line.startswith("+") for line in body)
    removed = sum(line.startswith("-") for line in body)
    header = ["--- /dev/null" if old is None else f"--- a/{path}", f"+++ b/{path}"]
    return Diff(_bounded([*header, *body]), added, removed)


def _lines(text: str) -> list[str]:
    """The lines with their ends; only a newline ends a line, so a form feed cannot split one."""
    lines = text.split("\n")
    last = lines.pop()
    ended = [f"{line}\n" for line in lines]
    return [*ended, last] if last else ended


def _hunks(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    changed_before, changed_after = len(before) - start - end, len(after) - start - end
    if not changed_before and not changed_after:
        return
    if max(changed_before, changed_after) > MAX_COMPARED_LINES:
        yield from _replaced(before, after, start, end)
        return
    import difflib  # only needed when something is written

    # What is equal at both ends is left out of the comparison; the context around the change stays in.
    first = max(start - _CONTEXT_LINES, 0)
    last = max(end - _CONTEXT_LINES, 0)
    matcher = difflib.SequenceMatcher(
        None, before[first : len(before) - last], after[first : len(after) - last]
    )
    for group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
        (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = group[0], group[-1]
        old_range = _range(first + old_from, first + old_to)
        yield f"@@ -{old_range} +{_range(first + new_from, first + new_to)} @@"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from _marked(" ", before[first + i1 : first + i2])
                continue
            yield from _marked("-", before[first + i1 : first + i2])
            yield from _marked("+", after[first + j1 : first + j2])


def _replaced(before: Sequence[str], after: Sequence[str], start: int, end: int) -> Iterator[str]:
    """The whole differing part as one change."""
    yield f"@@ -{_range(start, len(before) - end)} +{_range(start, len(after) - end)} @@"
    yield from _marked("-", before[start : len(before) - end])
    yield from _marked("+", after[start : len(after) - end])


def _common(before: Sequence[str], after: Sequence[str]) -> int:
    count = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            break
        count += 1
    return count


def _range(start: int, stop: int) -> str:
    """Lines as the unified format counts them: an empty range names the line before it."""
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if line.endswith("\n"):
            yield mark + line[:-1]
        else:
            yield mark + line
            yield _NO_NEWLINE


def _bounded(lines: Sequence[str]) -> str:
    kept: list[str] = []
    room = MAX_DIFF_BYTES
    for line in lines:
        room -= len(line.encode("utf-8", "replace")) + 1
        if room < 0:
            kept.append(f"… {len(lines) - len(kept)} more lines")
            break
        kept.append(line)
    return "\n".join(kept) + "\n"
