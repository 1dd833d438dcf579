"""What stands where a missing file has to stay missing while a sandboxed command runs: an empty folder, or where git
would stumble over one, a small file that says to it what it does anyway.

It has the sticky bit, by which it is known. Whoever needs it holds a shared lock on it; one that nobody holds was left
by a process that was killed. To everybody else such a path is missing.
"""

from __future__ import annotations

import fcntl
import os
import stat

_KIND = 0o170000 | stat.S_ISVTX
_STICKY_FOLDER = stat.S_IFDIR | stat.S_ISVTX
_STICKY_FILE = stat.S_IFREG | stat.S_ISVTX
HERE = b".\n"
"""For git's `commondir`: the repository is where it is."""
FILE_CONTENTS = (b"", HERE)


def may_be_stand_in(mode: int) -> bool:
    """Whether a mode is that of a stand-in; a few other folders and files have it too."""
    return mode & _KIND in (_STICKY_FOLDER, _STICKY_FILE)


def is_stand_in(name: str, where: int | None = None) -> bool:
    """Whether a stand-in is there: by its path, or by its name in the open folder `where`."""
    try:
        if not may_be_stand_in(os.stat(name, dir_fd=where, follow_symlinks=False).st_mode):
            return False
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=where)
    except OSError:
        return False
    try:
        return says_nothing(fd)
    finally:
        os.close(fd)


def says_nothing(fd: int) -> bool:
    """Whether what is open there is a stand-in: it has the mark, and nothing in it that one has not."""
    try:
        mode = os.fstat(fd).st_mode
        if mode & _KIND == _STICKY_FOLDER:
            return not os.listdir(fd)
        return mode & _KIND == _STICKY_FILE and os.pread(fd, len(HERE) + 1, 0) in FILE_CONTENTS
    except OSError:
        return False


def take_away(name: str, where: int | None = None) -> bool:
    """Removes a stand-in that nobody holds. False where somebody does: taking it away would open the path to them."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=where)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            os.rmdir(name, dir_fd=where)
        elif says_nothing(fd):
            os.unlink(name, dir_fd=where)
        else:
            return False
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
