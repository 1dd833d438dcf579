"""Programs of the system itself. PATH is not asked: a workspace may have put something on it."""

from __future__ import annotations

import os

_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin", "/run/current-system/sw/bin")


def find_program(name: str) -> str | None:
    """Where a program of this name is, if it can be run."""
    candidates = (os.path.join(folder, name) for folder in _FOLDERS)
    return next((path for path in candidates if os.path.isfile(path) and os.access(path, os.X_OK)), None)
