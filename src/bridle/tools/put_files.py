"""Several files put in place together: when one cannot be written, those before it are put back.

NotPut   a file could not be written; `left` names those that stayed changed

Nothing here waits, so a call cannot be cancelled in the middle. A power cut can still come between two files.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import NamedTuple

from bridle.base.files import open_beneath
from bridle.tools.replace_file import replace_beneath
from bridle.tools.text_files import TextFile


class FileState(NamedTuple):
    """A file as it was read and as it shall be; None: there is no such file."""

    path: str
    before: TextFile | None
    after: TextFile | None


class NotPut(Exception):
    def __init__(self, path: str, problem: str, left: Sequence[str]) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem
        self.left = tuple(left)


def put_all(states: Sequence[FileState]) -> None:
    """Makes every file what it shall be, or raises `NotPut` and leaves all as they were, as far as it can."""
    done: list[FileState] = []
    made: list[str] = []
    for state in states:
        made += _missing_folders(state.path)
        try:
            _put(state.path, state.after)
        except OSError as problem:
            left = _put_back(done, made)
            raise NotPut(state.path, problem.strerror or str(problem), left) from problem
        except BaseException:
            _put_back(done, made)
            raise
        done.append(state)


def _put_back(done: Sequence[FileState], made: Sequence[str]) -> list[str]:
    left: list[str] = []
    for state in reversed(done):
        try:
            _put(state.path, state.before)
        except OSError:
            left.append(state.path)
    for folder in reversed(made):
        with contextlib.suppress(OSError):  # not empty: somebody else uses it by now
            os.rmdir(folder)
    return left


def _put(path: str, file: TextFile | None) -> None:
    if file is None:
        remove_beneath(path)
        return
    created = replace_beneath(path, file.encoded(file.text))
    if created and file.mode is not None:
        fd = open_beneath(path, os.O_RDONLY)
        try:
            os.fchmod(fd, file.mode)
        finally:
            os.close(fd)


def remove_beneath(resolved_path: str) -> None:
    """Deletes a file at a path that was checked before, following no symlink on the way. Raises OSError."""
    folder, name = os.path.split(resolved_path)
    where = open_beneath(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.unlink(name, dir_fd=where)
    finally:
        os.close(where)


def _missing_folders(path: str) -> list[str]:
    """The folders that will have to be made, outermost first."""
    missing: list[str] = []
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing[::-1]
