"""Replace one part of a text, for `edit_file`.

What is looked for must be there exactly; only the way lines end may differ, and then the text keeps its own.
A text that is not there is answered with the place it was probably meant for. Pure.
"""

from __future__ import annotations

import re

import msgspec

from bridle.tools.patches.nearest import help_with
from bridle.tools.patches.text_files import MASK, is_all_crlf, newline_of

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
