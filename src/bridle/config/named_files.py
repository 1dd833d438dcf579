"""Settings files that somebody names by a path, with the rights of a person's own, and that a model could write.

To name one is a word on what it says then. What it says later, after something could have changed it, is nobody's word:
it counts once a person agreed to that very content. A file outside the session's folders is as much theirs as their
`config.toml`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from bridle.base.fs.files import repository_root
from bridle.base.fs.paths import is_beneath_any
from bridle.config.folders import Folders
from bridle.config.problems import Problem, shown
from bridle.config.settings_file import ParsedFile, SettingsFile
from bridle.config.workspace import SpokenFor, WorkspaceFile


class NamedFiles:
    """What decides about those of one run."""

    def __init__(
        self,
        *,
        where: Folders,
        cwd: str,
        add_dirs: Sequence[str],
        is_acked: Callable[[WorkspaceFile], bool],
    ) -> None:
        self._own = tuple(map(os.path.realpath, where.all))
        self._cwd = cwd
        self._add_dirs = add_dirs
        self._is_acked = is_acked

    def judge(
        self,
        place: SettingsFile,
        parsed: ParsedFile,
        spoken_for: SpokenFor,
        *,
        used: list[WorkspaceFile],
        waiting: list[WorkspaceFile],
    ) -> Problem | None:
        """Why a file does not count that lies where a model can write; None where it counts. It is added to one of the
        two lists."""
        if not parsed.data or not self._can_be_written(place.path):
            return None
        file = named_file(place.path, parsed.data, spoken_for)
        if self._is_acked(file):
            used.append(file)
            return None
        waiting.append(file)
        clause = (
            "you have not agreed to what it says now, and it lies where a model can write. "
            f"Look at it and agree: bridle trust ack {shown(os.path.relpath(place.path, self._cwd))}"
        )
        return Problem(
            severity="error", source=place.source, path=place.path, problem=clause, reason="SettingsNotAgreed"
        )

    def _can_be_written(self, path: str) -> bool:
        """Whether its name, or what the name leads to, is in a folder of the session and not in Bridle's own."""
        folders = (repository_root(os.path.realpath(self._cwd)), *map(os.path.realpath, self._add_dirs))
        return any(
            is_beneath_any(one, folders) and not is_beneath_any(one, self._own)
            for one in (_named_place(path), os.path.realpath(path))
        )


def named_file(path: str, data: bytes, spoken_for: SpokenFor) -> WorkspaceFile:
    """The file as a person agrees to it or not, by its place in the repository it lies in."""
    place = _named_place(path)
    root = repository_root(os.path.dirname(place))
    shown_path = os.path.relpath(place, root)
    return WorkspaceFile(root=root, path=shown_path, shown=shown_path, data=data, spoken_for=spoken_for)


def _named_place(path: str) -> str:
    """The path without links on the way to the file: what it is itself decides its content."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)
