"""Compute what a patch does to each file, in memory.

NotApplied   the patch does not fit what is there
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

import msgspec

from bridle.base.text.unified_diff import Diff, diff_of
from bridle.tools.names import relative_path
from bridle.tools.patches.atomic_writes import FileState
from bridle.tools.patches.hunks import DoesNotApply, applied, new_text
from bridle.tools.patches.nearest import Help
from bridle.tools.patches.patches import PatchedFile
from bridle.tools.patches.text_files import NotEditable, TextFile, read_text, would_lose_secret


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
            problem = "it holds a secret that you see masked; writing the mask would lose it; use bash"
            raise NotApplied("FileUnwritable", path, problem)
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
