"""The empty folder that stands where a missing file has to stay missing while a sandboxed command runs.

It has the sticky bit, by which it is known. Whoever needs it holds a shared lock on it; one that nobody holds was left
by a process that was killed. To everybody else such a path is missing.
"""

from __future__ import annotations

import fcntl
import os
import stat

_KIND = 0o170000 | stat.S_ISVTX
_STICKY_FOLDER = stat.S_IFDIR | stat.S_ISVTX


def may_be_stand_in(mode: int) -> bool:
    """Whether a mode is that of a stand-in; a few other folders have it too."""
    return mode & _KIND == _STICKY_FOLDER


def is_stand_in(name: str, where: int | None = None) -> bool:
    """Whether a stand-in is there: by its path, or by its name in the open folder `where`."""
    try:
        if not may_be_stand_in(os.stat(name, dir_fd=where, follow_symlinks=False).st_mode):
            return False
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=where)
    except OSError:
        return False
    try:
        return not os.listdir(folder)
    except OSError:
        return False
    finally:
        os.close(folder)


def take_away(name: str, where: int | None = None) -> bool:
    """Removes a stand-in that nobody holds. False where somebody does: taking it away would open the path to them."""
    try:
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=where)
    except OSError:
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rmdir(name, dir_fd=where)
    except OSError:
        return False
    finally:
        os.close(folder)
    return True
