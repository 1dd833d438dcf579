"""Empty folders that keep a missing path missing while a sandboxed command runs.

It has the sticky bit, by which it is known. Whoever needs it holds a shared lock on it; one that nobody holds was left
by a process that was killed. To everybody else such a path is missing.

Run as a program, with a list on stdin, this takes away those in the list that nobody holds: a guardian does that for a
process that was killed. So nothing else of ours can be imported here.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Mapping

_KIND = 0o170000 | stat.S_ISVTX
_STICKY_FOLDER = stat.S_IFDIR | stat.S_ISVTX
_STICKY_FILE = stat.S_IFREG | stat.S_ISVTX
HERE = b".\n"
"""For git's `commondir`: the repository is where it is."""
FILE_CONTENTS = (b"", HERE)
CLOCK_TICK_NS = 20_000_000
"""How far the time of a file may be behind the clock."""
_MOST_BYTES = 16 * 1024**2


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
    """Remove a stand-in that nobody holds. False where somebody does: taking it away would open the path to them."""
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


def listed(places: Mapping[str, int]) -> bytes:
    """List stand-ins to take away, by path: each only if it came there after that time."""
    fields = [field for path, since_ns in places.items() for field in (path, str(since_ns))]
    return b"".join(os.fsencode(field) + b"\0" for field in fields)


def _take_away_listed(data: bytes) -> None:
    fields = [os.fsdecode(field) for field in data.split(b"\0")[:-1]]
    for path, since_ns in zip(fields[::2], map(int, fields[1::2]), strict=True):
        try:
            found = os.lstat(path)
        except OSError:
            continue
        if found.st_ctime_ns >= since_ns - CLOCK_TICK_NS and is_stand_in(path):
            take_away(path)


if __name__ == "__main__":
    import sys

    _take_away_listed(os.pread(0, _MOST_BYTES, int(sys.argv[1])))
