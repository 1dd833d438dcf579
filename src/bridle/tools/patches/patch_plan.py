"""Compute what a patch does to each file, in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from bridle.base.text.line_diff import Diff, diff_of
from bridle.tools.names import relative_path
from bridle.tools.patches.atomic_writes import FileState
from bridle.tools.patches.edits import Help, help_with
from bridle.tools.patches.patches import Hunk, PatchedFile
from bridle.tools.patches.text_files import (
    WRITES_MASK,
    NotEditable,
    TextFile,
    newline_of,
    read_text,
    would_lose_secret,
)

NEAR_LINES = 20
"""How far a change may be from where it says when its lines are found more than once."""
MAX_NAMED_LINES = 10

Key = Callable[[str], str]


class DoesNotApply(Exception):
    """The text is not what the patch was made for. `hunk` counts from 1; `problem` reads as the end of a sentence."""

    def __init__(self, hunk: int, problem: str, excerpt: str = "") -> None:
        super().__init__(problem)
        self.hunk = hunk
        self.help = Help(problem, excerpt)


class Applied(NamedTuple):
    """`notes`: what was not as the patch says, a sentence's end for each, with the number of the change."""

    text: str
    notes: tuple[tuple[int, str], ...]


class _Line(NamedTuple):
    text: str
    end: str


class _Place(NamedTuple):
    start: int
    note: str = ""


def applied(text: str, hunks: Sequence[Hunk]) -> Applied:
    """Return the text with all changes made. Every place is a place of the text as it was. Raises `DoesNotApply`.

    A change is made only where all the lines it names are found: at the place it gives, else where they stand alone or
    near by, else where they are found without counting whitespace. Lines that stay are the file's own, byte for byte.
    """
    lines = _split(text)
    newline = newline_of(text)
    taken: list[tuple[int, int, list[_Line]]] = []
    notes: list[tuple[int, str]] = []
    unended = bool(lines) and not lines[-1].end
    cursor = 0
    for number, hunk in enumerate(hunks, 1):
        free = _Free([line.text for line in lines], [(start, end) for start, end, _ in taken])
        place = _find(free, hunk, number, cursor)
        end = place.start + len(hunk.old)
        taken.append((place.start, end, _replaced(lines[place.start : end], hunk, newline)))
        if place.note:
            notes.append((number, place.note))
        if end == len(lines) and (hunk.old_unended or hunk.new_unended):
            unended = hunk.new_unended
        cursor = end
    result = list(lines)
    # From the bottom up, so that places keep their numbers; of two at one place the later one is below.
    for _, (start, end, new) in sorted(
        enumerate(taken), key=lambda item: (*item[1][:2], item[0]), reverse=True
    ):
        result[start:end] = new
    return Applied(_joined(result, newline, unended=unended), tuple(notes))


def new_text(hunks: Sequence[Hunk]) -> str:
    """The content of a file that was not there before."""
    text = "".join(f"{line}\n" for hunk in hunks for line in hunk.new)
    return text.removesuffix("\n") if hunks and hunks[-1].new_unended else text


class _Free:
    """The lines of a file and which of them are spoken for."""

    def __init__(self, lines: list[str], taken: list[tuple[int, int]]) -> None:
        self.lines = lines
        self._taken = taken

    def splits(self, at: int) -> bool:
        """Whether lines put before line `at` would stand in the middle of a change."""
        return any(start < at < end for start, end in self._taken)

    def places(self, wanted: Sequence[str], key: Key) -> list[int]:
        """Where all wanted lines stand in a row, compared through `key`."""
        if not wanted:
            return []
        keyed, lines = [key(line) for line in wanted], [key(line) for line in self.lines]
        first, count = keyed[0], len(keyed)
        return [
            start
            for start in range(len(lines) - count + 1)
            if lines[start] == first
            and lines[start : start + count] == keyed
            and not any(begin < start + count and start < end for begin, end in self._taken)
        ]


def _find(free: _Free, hunk: Hunk, number: int, cursor: int) -> _Place:
    if not hunk.old:
        return _insertion(free, hunk, number, cursor)
    after = _anchored(free, hunk, number, cursor) if hunk.anchors else cursor
    for key, note in _KEYS:
        places = free.places(hunk.old, key)
        if hunk.at_end:
            places = [start for start in places if start + len(hunk.old) == len(free.lines)]
        if places:
            place = _chosen(places, hunk, number, after)
            return _Place(place.start, "; ".join(filter(None, (note, place.note))))
    near = help_with(free.lines, hunk.old, name="the patch")
    where = "at the end of the file" if hunk.at_end else "in the file"
    raise DoesNotApply(number, f"its lines are not {where}: {near.problem}", near.excerpt)


def _chosen(places: list[int], hunk: Hunk, number: int, after: int) -> _Place:
    """Which of several places is meant; none when that would be a guess."""
    if hunk.start is not None:
        return _nearest(places, hunk.start - 1, number)
    following = [start for start in places if start >= after] or places
    if len(following) > 1 and not hunk.anchors:
        raise DoesNotApply(number, f"its lines are there more than once ({_named(following)}); add context")
    return _Place(following[0])


def _nearest(places: list[int], expected: int, number: int) -> _Place:
    best = min(places, key=lambda start: abs(start - expected))
    away = best - expected
    rivals = [start for start in places if start != best]
    unclear = abs(away) > NEAR_LINES or any(abs(start - expected) == abs(away) for start in rivals)
    if away and rivals and unclear:
        raise DoesNotApply(
            number, f"its lines are there more than once ({_named(places)}), none where it says; add context"
        )
    if not away:
        return _Place(best)
    count = f"{abs(away)} line{'s' if abs(away) != 1 else ''}"
    return _Place(best, f"found {count} {'below' if away > 0 else 'above'} where it says")


def _insertion(free: _Free, hunk: Hunk, number: int, cursor: int) -> _Place:
    """Where lines go that come without a neighbour."""
    place = _Place(len(free.lines), "" if hunk.at_end else "put at the end of the file")
    if hunk.anchors:
        place = _Place(_anchored(free, hunk, number, cursor) + 1)
    elif hunk.start is not None and not hunk.at_end:
        place = _Place(hunk.start)
    if place.start > len(free.lines):
        raise DoesNotApply(
            number, f"it adds lines after line {place.start}, but there are only {len(free.lines)}"
        )
    if free.splits(place.start):
        raise DoesNotApply(number, "it adds lines in the middle of another change")
    return place


def _anchored(free: _Free, hunk: Hunk, number: int, cursor: int) -> int:
    """The line of the last anchor; each is looked for below the one before, from `cursor` first."""
    at = cursor
    for anchor in hunk.anchors:
        found = _line_with(free.lines, anchor, at)
        if found is None and at == cursor:
            found = _line_with(free.lines, anchor, 0)
        if found is None:
            raise DoesNotApply(number, f'the line "@@ {anchor}" names is not in the file')
        at = found
    return at


def _line_with(lines: Sequence[str], anchor: str, start: int) -> int | None:
    whole = (index for index in range(start, len(lines)) if lines[index].strip() == anchor)
    part = (index for index in range(start, len(lines)) if anchor in lines[index])
    found = next(whole, None)
    return found if found is not None else next(part, None)


def _replaced(old: Sequence[_Line], hunk: Hunk, newline: str) -> list[_Line]:
    """The new lines of a place; those that stay are the file's own."""
    kept = iter(old)
    new: list[_Line] = []
    for line in hunk.lines:
        match line.mark:
            case " ":
                new.append(next(kept))
            case "-":
                next(kept)
            case "+":
                new.append(_Line(line.text, newline))
    return new


def _split(text: str) -> list[_Line]:
    *ended, last = text.split("\n")
    lines = [_Line(line[:-1], "\r\n") if line.endswith("\r") else _Line(line, "\n") for line in ended]
    return [*lines, _Line(last, "")] if last else lines


def _joined(lines: Sequence[_Line], newline: str, *, unended: bool) -> str:
    """Every line has an end but perhaps the last."""
    if not lines:
        return ""
    whole = "".join(line.text + (line.end or newline) for line in lines[:-1])
    last = lines[-1]
    return whole + last.text + ("" if unended else last.end or newline)


def _named(places: Sequence[int]) -> str:
    numbers = ", ".join(str(start + 1) for start in places[:MAX_NAMED_LINES])
    return f"at lines {numbers}{', …' if len(places) > MAX_NAMED_LINES else ''}"


def _as_is(line: str) -> str:
    return line


def _without_spacing(line: str) -> str:
    return " ".join(line.split())


_KEYS: tuple[tuple[Key, str], ...] = (
    (_as_is, ""),
    (str.rstrip, "matched without counting whitespace at line ends"),
    (_without_spacing, "matched without counting whitespace; check the indentation"),
)


class FileReport(NamedTuple):
    """What a patch does to one file, as people read it. `old` is None for a new file, `new` for one that goes."""

    path: str
    diff: Diff
    old: str | None
    new: str | None
    moved_from: str | None = None

    @property
    def kind(self) -> Literal["create", "change", "delete", "move"]:
        if self.old is None:
            return "create"
        if self.new is None:
            return "delete"
        return "change" if self.moved_from is None else "move"


class Plan(NamedTuple):
    """Every touched file as it was and as it shall be, by resolved path; None: there is no such file."""

    before: Mapping[str, TextFile | None]
    after: Mapping[str, TextFile | None]
    reports: tuple[FileReport, ...]
    notes: tuple[str, ...]

    @property
    def states(self) -> list[FileState]:
        """What has to be written, new content before deletions."""
        changed = [path for path in self.before if self.before[path] != self.after[path]]
        states = (FileState(path, self.before[path], self.after[path]) for path in changed)
        return sorted(states, key=lambda state: state.after is None)


class NotApplied(Exception):
    """`reason` is one of ours, `help` says the rest."""

    def __init__(self, reason: str, path: str, problem: str, excerpt: str = "") -> None:
        super().__init__(f"{path}: {problem}")
        self.reason = reason
        self.path = path
        self.help = Help(problem, excerpt)


class Planning:
    """Works out what a patch makes of the files, one change after the other, writing nothing."""

    def __init__(self, resolve: Callable[[str], str], cwd: str) -> None:
        self._resolve = resolve
        self._cwd = cwd
        self._before: dict[str, TextFile | None] = {}
        self._after: dict[str, TextFile | None] = {}
        self._notes: list[str] = []

    def plan(self, changes: Iterable[PatchedFile]) -> Plan:
        reports = tuple(self._change(change) for change in changes)
        if self._before == self._after:
            raise NotApplied("InvalidInput", reports[0].path, "the patch would change nothing")
        return Plan(self._before, self._after, reports, tuple(self._notes))

    def _change(self, change: PatchedFile) -> FileReport:
        resolved = self._resolve(change.path)
        path = relative_path(resolved, self._cwd)
        old = self._current(resolved, path)
        if change.changes_mode:
            self._notes.append(f"{path}: its mode was left as it is")
        if change.kind == "add":
            return self._add(change, resolved, path, old)
        if old is None:
            raise NotApplied("FileUnreadable", path, "No such file or directory")
        if change.kind == "delete" or change.moved_to is not None:
            self._refuse_link(change.path, path)
        text = self._applied(change, path, old)
        if change.kind == "delete":
            return self._delete(change, resolved, path, old, text)
        return self._update(change, resolved, path, old, text)

    def _add(self, change: PatchedFile, resolved: str, path: str, old: TextFile | None) -> FileReport:
        if old is not None:
            raise NotApplied("FileUnwritable", path, "the patch creates it, but it is there already")
        text = new_text(change.hunks)
        self._after[resolved] = TextFile(text=text)
        return FileReport(path, diff_of(path, None, text), None, text)

    def _delete(self, change: PatchedFile, resolved: str, path: str, old: TextFile, rest: str) -> FileReport:
        if change.hunks and rest:
            raise NotApplied("InvalidInput", path, "the patch deletes it, but it has lines the patch lacks")
        self._after[resolved] = None
        return FileReport(path, _renamed(diff_of(path, old.text, ""), path, path, new=None), old.text, None)

    def _update(self, change: PatchedFile, resolved: str, path: str, old: TextFile, text: str) -> FileReport:
        if would_lose_secret(old.text, text):
            raise NotApplied("FileUnwritable", path, WRITES_MASK)
        new = msgspec.structs.replace(old, text=text)
        if change.moved_to is None:
            self._after[resolved] = new
            return FileReport(path, diff_of(path, old.text, text), old.text, text)
        target = self._resolve(change.moved_to)
        target_path = relative_path(target, self._cwd)
        if self._current(target, target_path) is not None:
            raise NotApplied("FileUnwritable", target_path, f"{path} moves there, but it is there already")
        self._after[resolved], self._after[target] = None, new
        diff = _renamed(diff_of(target_path, old.text, text), target_path, path, new=target_path)
        return FileReport(target_path, diff, old.text, text, moved_from=path)

    def _applied(self, change: PatchedFile, path: str, old: TextFile) -> str:
        try:
            text, notes = applied(old.text, change.hunks)
        except DoesNotApply as problem:
            where = f"change {problem.hunk} of {len(change.hunks)}: {problem.help.problem}"
            raise NotApplied("InvalidInput", path, where, problem.help.excerpt) from None
        self._notes += (f"{path}, change {number}: {note}" for number, note in notes)
        return text

    def _current(self, resolved: str, path: str) -> TextFile | None:
        if resolved not in self._after:
            try:
                self._before[resolved] = read_text(resolved)
            except FileNotFoundError:
                self._before[resolved] = None
            except NotEditable as refused:
                raise NotApplied("FileUnreadable", path, refused.problem) from None
            except OSError as problem:
                raise NotApplied("FileUnreadable", path, problem.strerror or str(problem)) from None
            self._after[resolved] = self._before[resolved]
        return self._after[resolved]

    def _refuse_link(self, named: str, path: str) -> None:
        """A link is written through, but deleting it would delete what it leads to."""
        if os.path.islink(os.path.join(self._cwd, named)):
            raise NotApplied(
                "FileUnwritable", named, f"it is a link to {path}; use bash to move or delete it"
            )


def _renamed(diff: Diff, path: str, old: str, *, new: str | None) -> Diff:
    """The diff with the names of both sides; without a new one the file goes."""
    if not diff.text:
        return diff
    _, _, body = diff.text.split("\n", 2)
    after = "/dev/null" if new is None else f"b/{new}"
    return msgspec.structs.replace(diff, text=f"--- a/{old}\n+++ {after}\n{body}")
