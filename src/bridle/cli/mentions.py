"""The files a mention may complete to: what lies below a folder, as far as somebody would look."""

from __future__ import annotations

import os
from collections import deque

MOST = 5_000
SKIPPED = frozenset({"node_modules", "__pycache__"})


def paths_below(folder: str, most: int = MOST) -> list[str]:
    """Files and folders relative to `folder`, near ones first, folders with a slash at the end.

    Hidden ones and what package managers put there are left out, links to folders are not followed, and after `most`
    it is enough. What cannot be read is not there.
    """
    found: list[str] = []
    waiting = deque([""])
    while waiting and len(found) < most:
        below = waiting.popleft()
        for name, is_folder in _entries(os.path.join(folder, below)):
            found.append(below + name + ("/" if is_folder else ""))
            if is_folder:
                waiting.append(f"{below}{name}/")
    return found[:most]


def _entries(folder: str) -> list[tuple[str, bool]]:
    try:
        with os.scandir(folder) as entries:
            found = [
                (entry.name, entry.is_dir(follow_symlinks=False))
                for entry in entries
                if not entry.name.startswith(".") and entry.name not in SKIPPED and _is_text(entry.name)
            ]
    except OSError:
        return []
    return sorted(found)


def _is_text(name: str) -> bool:
    """A name that is no UTF-8 cannot be written in a message."""
    return not any("\ud800" <= character <= "\udfff" for character in name)
