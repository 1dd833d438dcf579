"""Keep missing files in `.git` missing while commands run.

Git does not see empty folders, so nothing looks changed; where it would stumble over one, in its own folder, a file
stands there that says what holds anyway. Both have the sticky bit set, by which one that a killed engine left behind is
known (`stand_ins`) and used again. Everybody who needs it holds a shared lock on it, in whatever process; the last one
takes it away. Only what is still a stand-in is ever taken away.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import stat
from collections.abc import Callable, Iterable, Sequence

from bridle.base.fs.placeholders import says_nothing
from bridle.base.process.processes import is_scarce

_MODE = 0o1755
_FILE_MODE = 0o1444
_NAMELESS = getattr(os, "O_TMPFILE", 0)
_TRIES = 5


class Masks:
    """The placeholders of one command, each open and locked."""

    def __init__(self, paths: Iterable[str] = (), files: Iterable[tuple[str, bytes]] = ()) -> None:
        self._held: dict[str, int] = {}
        try:
            for path, content in files:
                self._held[path] = _hold_file(path, content)
            for path in paths:
                if (folder := _hold(path)) is not None:
                    self._held[path] = folder
        except OSError:
            self.release()
            raise

    def release(self, finish: Callable[[Callable[[], None]], None] | None = None) -> None:
        """Remove the placeholders that no other command holds. Harmless when called again.

        The file system frees a removed file when it is closed, which takes longest. `finish` calls what it is given in
        a thread of its choosing; without it, the files are closed here.
        """
        held, self._held = self._held, {}
        gone: list[int] = []
        for path, fd in held.items():
            if _is_taken_away(path, fd):
                gone.append(fd)
            else:  # at once: another command may wait for the lock
                os.close(fd)
        if gone and finish is not None:
            finish(functools.partial(_close, gone))
        else:
            _close(gone)


def _hold(path: str) -> int | None:
    """What came to stand there meanwhile is not ours, and is left alone: what is mounted there will cover it, or
    cannot be mounted, and then it is looked at again."""
    for _ in range(_TRIES):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, _MODE)
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        except OSError as problem:
            if is_scarce(problem):
                raise
            return None
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(folder, fcntl.LOCK_SH)
        if _is_still_there(path, folder):
            return folder
        os.close(folder)
    raise FileNotFoundError(path)


def _hold_file(path: str, content: bytes) -> int:
    """What came to stand there meanwhile says something else: it is looked at again before anything runs."""
    for _ in range(_TRIES):
        try:
            file = _make_file(path, content)
        except FileExistsError:
            try:
                file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except FileNotFoundError:
                continue
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_SH)
        if _is_still_there(path, file):
            if says_nothing(file):
                return file
            os.close(file)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        os.close(file)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _make_file(path: str, content: bytes) -> int:
    """The whole file at once: git, outside, may look at any time. It is open then."""
    begun = ""
    try:
        file = os.open(os.path.dirname(path), os.O_RDWR | _NAMELESS, 0o444)
    except OSError:  # a file system without nameless files
        begun = f"{path}.{os.urandom(4).hex()}"
        file = os.open(begun, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o444)
    try:
        os.write(file, content)
        os.fchmod(file, _FILE_MODE)
        # with a folder, which an absolute path has no use for, the call that can follow a link is made
        os.link(begun or f"/proc/self/fd/{file}", path, src_dir_fd=file, follow_symlinks=True)
    except BaseException:
        os.close(file)
        raise
    finally:
        if begun:
            os.unlink(begun)
    return file


def _is_taken_away(path: str, folder: int) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mode = os.fstat(folder).st_mode
        if not mode & stat.S_ISVTX:
            return False
        if stat.S_ISDIR(mode):
            os.rmdir(path)
        elif _is_still_there(path, folder):
            os.unlink(path)
    except OSError:  # somebody else needs it, or has put something into it
        return False
    return True


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)


def _is_still_there(path: str, folder: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(folder))
    except OSError:
        return False
