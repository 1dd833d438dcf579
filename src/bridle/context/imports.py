"""Imports: `@path` in an instruction file stands for another one, which is found, bounded, and trusted by itself.

A path is relative to the file that names it. What a project's file names must lie in the project, what the person's
own file names in their config folder or in the project; `@` inside code is no import, and neither is one that names no
file (`@somebody`). Each file comes in once, whoever names it, so a circle ends.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from bridle.context.instruction_files import NOT_TEXT, TEXT_SUFFIXES, InstructionFile, read_instructions

MAX_DEPTH: Final = 5
MAX_IMPORTS: Final = 20
MAX_IMPORTED_BYTES: Final = 128 * 1024
"""How far imports lead, how many come in, and how much text together."""
MAX_NAMED: Final = 200
"""So many `@` words of one file are looked at."""

_TOO_MUCH: Final = (
    f"is more than imports may bring ({MAX_IMPORTS} files, {MAX_IMPORTED_BYTES >> 10} KiB, {MAX_DEPTH} steps)"
)
_IMPORT: Final = r"(?:^|(?<=[\s(\[]))@([^\s`<>\"'()\[\]{}|*@]+)"
_FENCE: Final = r" {0,3}(`{3,}|~{3,})"
_TICKS: Final = r"`+"


def imported_names(text: str) -> list[str]:
    """What a text names with `@` outside of code, each once, in order. Pure."""
    prose: list[str] = []
    fence = ""
    for line in text.splitlines():
        found = re.match(_FENCE, line)
        if fence:
            if found and found[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            continue
        if found:
            fence = found[1]
            prose.append("")
            continue
        prose.append(line)
    words = re.finditer(_IMPORT, _without_spans("\n".join(prose)))
    named = (found[1].rstrip(".,;:!?") for found in words)
    return list(dict.fromkeys(filter(None, named)))[:MAX_NAMED]


def _without_spans(text: str) -> str:
    """The text without what stands between two equally long runs of backticks. Linear: the text is anybody's."""
    runs = [(found.start(), found.end()) for found in re.finditer(_TICKS, text)]
    later: dict[int, list[int]] = {}
    for at, (start, end) in reversed(list(enumerate(runs))):
        later.setdefault(end - start, []).append(at)
    kept: list[str] = []
    at = done = 0
    while at < len(runs):
        start, end = runs[at]
        same = later[end - start]
        while same and same[-1] <= at:
            same.pop()
        if same:
            at = same[-1]
            kept += (text[done:start], " ")
            done = runs[at][1]
        at += 1
    return "".join((*kept, text[done:]))


class Imports:
    """What the instruction files of one session bring along. It counts: ask it for each file that is used, once."""

    def __init__(self, *, cwd: str, root: str, config_folder: str) -> None:
        self._cwd = cwd
        self._root = root
        self._config = config_folder
        self._count = self._bytes = 0
        self._met: set[str] = set()

    def of(self, file: InstructionFile) -> Iterator[InstructionFile]:
        """The files that this one names, with a `problem` where they cannot be used."""
        self._met.add(os.path.realpath(file.path))
        for name in imported_names(file.body):
            path = os.path.normpath(os.path.join(os.path.dirname(file.path), os.path.expanduser(name)))
            found = self._read(path, name, file)
            if found is None:
                continue
            key = path if found.problem else os.path.realpath(path)
            if key in self._met:
                continue
            self._met.add(key)
            yield msgspec.structs.replace(
                self._bounded(found, file.depth + 1), imported_by=file.shown, depth=file.depth + 1
            )

    def all_of(
        self,
        files: Iterable[InstructionFile],
        follows: Callable[[InstructionFile], bool] = lambda _file: True,
    ) -> Iterator[InstructionFile]:
        """The files, each followed by what it brings along where one `follows` it."""
        for file in files:
            yield file
            if not file.problem and follows(file):
                yield from self.all_of(self.of(file), follows)

    def _read(self, path: str, name: str, by: InstructionFile) -> InstructionFile | None:
        """None where the word names no file."""
        own = by.scope == "global" and _is_below(path, self._config)
        shown = f"{os.path.relpath(path, self._config)} (yours)" if own else os.path.relpath(path, self._cwd)
        if not own and not _is_below(path, self._root):
            if not name.endswith(TEXT_SUFFIXES) and "/" not in name:
                return None
            return _unread(path, f"@{name}", "leads out of this project", by, self._root)
        if not os.path.isfile(path) and not os.path.islink(path):
            missing = name.endswith(TEXT_SUFFIXES) and not os.path.exists(path)
            return _unread(path, shown, "is not there", by, self._root) if missing else None
        if own and not _is_below(os.path.realpath(path), os.path.realpath(self._config)):
            return _unread(path, shown, "leads out of your config folder", by, "")
        if self._count >= MAX_IMPORTS:
            return _unread(path, shown, _TOO_MUCH, by, "" if own else self._root)
        found = read_instructions(path, shown, root="" if own else self._root)
        return found[0] if found else None

    def _bounded(self, file: InstructionFile, depth: int) -> InstructionFile:
        """The file, without its text where it is one too many."""
        problem = file.problem
        if not problem and b"\0" in file.data:
            problem = NOT_TEXT
        elif not problem and (
            self._count >= MAX_IMPORTS
            or self._bytes + len(file.data) > MAX_IMPORTED_BYTES
            or depth > MAX_DEPTH
        ):
            problem = _TOO_MUCH
        if problem:
            return msgspec.structs.replace(file, problem=problem, text="", data=b"", body="")
        self._count += 1
        self._bytes += len(file.data)
        return file


def _unread(path: str, shown: str, problem: str, by: InstructionFile, root: str) -> InstructionFile:
    return InstructionFile(
        path=path, shown=shown, scope=by.scope, text="", sha256="", root=root, problem=problem
    )


def _is_below(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")
