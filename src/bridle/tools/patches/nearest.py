"""Find the place that a missing text was probably meant for."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridle.base.secrets.redact import lines_within_secrets, stored_marker

MAX_SHOWN_LINES = 12
MAX_LINE_CHARACTERS = 200
MAX_COMPARED = 4000
"""Of the lines that are compared letter by letter; more take too long."""
_TELLING_CHARACTERS = 4
"""A line of fewer, such as a closing bracket, says nothing about a place."""
_SIMILAR = 0.6


class Nearest(msgspec.Struct, frozen=True):
    """A place of the same length. Lines count from 0; `differs` is the first one that does not fit.

    `whitespace_only`: nothing else is different.
    """

    start: int
    differs: int
    whitespace_only: bool


def nearest_place(lines: Sequence[str], wanted: Sequence[str]) -> Nearest | None:
    """The best place for `wanted` in `lines`, or None when nothing resembles it."""
    start = _by_equal_lines(lines, wanted)
    if start is None:
        start = _by_similar_line(lines, wanted)
    if start is None:
        return None
    start = max(start, 0)
    pairs = [(_at(lines, start + index), line) for index, line in enumerate(wanted)]
    differs = next((index for index, (found, line) in enumerate(pairs) if found != line), 0)
    same_words = all(found is not None and found.split() == line.split() for found, line in pairs)
    return Nearest(start, differs, same_words)


class Help(msgspec.Struct, frozen=True):
    """`problem` reads as the end of a sentence; `excerpt` is the place in the file, numbered, or nothing."""

    problem: str
    excerpt: str = ""


def help_with(lines: Sequence[str], wanted: Sequence[str], *, name: str) -> Help:
    """What to tell whoever looked for `wanted`, `name` being what they call it. Lines in the middle of a secret are
    not told: nothing around them would have them masked."""
    if hidden := lines_within_secrets(lines):
        lines = [stored_marker("secret") if line in hidden else line for line in lines]
    place = nearest_place(lines, wanted)
    if place is None:
        return Help("nothing in the file resembles it; read the file first")
    last = min(place.start + len(wanted), len(lines))
    where = f"line {place.start + 1}" if last - place.start <= 1 else f"lines {place.start + 1} to {last}"
    how = "except for whitespace" if place.whitespace_only else "best"
    number = place.start + place.differs
    found = _at(lines, number)
    has = f"the file has {quoted(found)}" if found is not None else "the file has ended"
    fits = "fits" if where.startswith("line ") else "fit"
    return Help(
        f"{where} {fits} {how}; the first difference is in line {number + 1}, where {has} "
        f"and {name} has {quoted(wanted[place.differs])}",
        _excerpt(lines, place.start, last),
    )


def _excerpt(lines: Sequence[str], first: int, last: int) -> str:
    shown = [f"{n + 1}\t{_cut(lines[n])}" for n in range(first, min(last, first + MAX_SHOWN_LINES))]
    if len(shown) < last - first:
        shown.append(f"… {last - first - len(shown)} more lines")
    return "".join(f"\n{line}" for line in shown)


def quoted(line: str) -> str:
    """A line in which tabs and other invisible characters can be seen."""
    import json  # only needed when something went wrong

    return json.dumps(_cut(line), ensure_ascii=False)


def _cut(line: str) -> str:
    line = line.encode("utf-8", "replace").decode()
    return line if len(line) <= MAX_LINE_CHARACTERS else line[:MAX_LINE_CHARACTERS] + "…"


def _at(lines: Sequence[str], index: int) -> str | None:
    return lines[index] if index < len(lines) else None


def _by_equal_lines(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """The start most of the wanted lines agree on, indentation aside."""
    offsets: dict[str, list[int]] = {}
    for index, line in enumerate(wanted):
        if len(line.strip()) >= _TELLING_CHARACTERS:
            offsets.setdefault(" ".join(line.split()), []).append(index)
    votes: dict[int, int] = {}
    for number, line in enumerate(lines):
        for index in offsets.get(" ".join(line.split()), ())[:MAX_SHOWN_LINES]:
            votes[number - index] = votes.get(number - index, 0) + 1
    return max(votes, key=lambda start: (votes[start], -start)) if votes else None


def _by_similar_line(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Where the longest wanted line has a near relative."""
    from difflib import SequenceMatcher  # only needed when something went wrong

    index, longest = max(enumerate(wanted), key=lambda item: len(item[1].strip()), default=(0, ""))
    longest = longest.strip()[:MAX_LINE_CHARACTERS]
    if len(longest) < _TELLING_CHARACTERS:
        return None
    matcher = SequenceMatcher(None, "", longest, autojunk=False)
    best, at = _SIMILAR, None
    for number, line in enumerate(lines[:MAX_COMPARED]):
        matcher.set_seq1(line.strip()[:MAX_LINE_CHARACTERS])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and matcher.ratio() > best:
            best, at = matcher.ratio(), number
    return None if at is None else at - index
