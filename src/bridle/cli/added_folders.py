"""What `--add-dir` names."""

from __future__ import annotations

import os
from collections.abc import Iterable

from bridle.protocol.errors import UsageError


def added_folders(given: Iterable[str]) -> tuple[str, ...]:
    """The folders as absolute paths. Raises `UsageError` for one that is not there: it would allow nothing."""
    folders = tuple(map(os.path.abspath, given))
    for folder in folders:
        if not os.path.isdir(folder):
            raise UsageError(f"--add-dir: there is no folder {folder}")
    return folders
