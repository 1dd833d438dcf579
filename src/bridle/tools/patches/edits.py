"""Replace one part of a text, for `edit_file`, and find the place that a missing text was probably meant for.

The text to replace must be there exactly; only line ends may differ, and then the file keeps its own. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from bridle.base.secrets.redact import lines_within_secrets, stored_marker
from bridle.tools.patches.text_files import MASK, is_all_crlf, newline_of

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


MAX_NAMED_LINES = 20


class NoSuchEdit(Exception):
    """The text cannot be changed as asked: why, and the place that was probably meant."""

    def __init__(self, problem: str, excerpt: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.excerpt = excerpt


class Edited(msgspec.Struct, frozen=True):
    """`adapted`: lines end differently in the file and in what was sent; the file's way was kept."""

    text: str
    replacements: int
    adapted: bool


def edited(text: str, old: str, new: str, *, replace_all: bool = False) -> Edited:
    """The text after the edit; raises `NoSuchEdit` when it is not clear what is meant."""
    cuts_line_ends = "\n" in old and "\r" not in old and is_all_crlf(text)  # it would begin inside of one
    places = [] if cuts_line_ends else _places(re.escape(old), text)
    exact = bool(places)
    places = places or _places(_any_line_end(old), text)
    if not places:
        raise _not_found(text, old)
    if len(places) > 1 and not replace_all:
        raise NoSuchEdit(_not_unique(text, places))
    pieces: list[str] = []
    done, adapted = 0, not exact
    for start, end in places:
        fitting = _fitting(new, old, text, text[start:end], exact=exact)
        adapted = adapted or fitting != new
        pieces += text[done:start], fitting
        done = end
    result = "".join((*pieces, text[done:]))
    if result == text:
        raise NoSuchEdit("nothing would change: old_string and new_string differ only in line ends")
    return Edited(result, len(places), adapted)


def _places(pattern: str, text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(pattern, text)]


def _any_line_end(old: str) -> str:
    """A pattern for the same lines however they end; the last one may be the last of the file."""
    *lines, last = (re.escape(line) for line in old.replace("\r\n", "\n").split("\n"))
    if any(lines) and not last:
        return r"\r?\n".join(lines) + r"(?:\r?\n|(?<!\n)\Z)"
    return r"\r?\n".join((*lines, last))


def _fitting(new: str, old: str, text: str, found: str, *, exact: bool) -> str:
    """`new` with line ends as the file has them there.

    What was found exactly is taken at its word, unless it had no line end to show that the file uses CRLF.
    """
    if exact:
        return new.replace("\n", "\r\n") if is_all_crlf(text) and "\r" not in old + new else new
    plain = new.replace("\r\n", "\n")
    if old.endswith("\n") and not found.endswith("\n"):  # the last line of a file that does not end it
        plain = plain.removesuffix("\n")
    return plain.replace("\n", newline_of(found) if "\n" in found else newline_of(text))


def _not_unique(text: str, places: list[tuple[int, int]]) -> str:
    lines = [str(text.count("\n", 0, start) + 1) for start, _ in places[:MAX_NAMED_LINES]]
    more = ", …" if len(places) > MAX_NAMED_LINES else ""
    where = f"{len(places)} times, in lines {', '.join(lines)}{more}"
    return f"old_string is there {where}; add lines around it, or set replace_all"


def _not_found(text: str, old: str) -> NoSuchEdit:
    if MASK in old:
        return NoSuchEdit(
            "old_string shows a secret as its mask; the file has the secret itself, so leave it out"
        )
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    wanted = old.replace("\r\n", "\n").removesuffix("\n").split("\n")
    near = help_with(lines, wanted, name="old_string")
    return NoSuchEdit(f"old_string is not there: {near.problem}", near.excerpt)
