"""Keeping a missing path missing: while commands run, an empty folder stands there that nobody inside can write to.

Git does not see empty folders, so nothing looks changed. The folder has the sticky bit set, by which one that a killed
engine left behind is known (`confinement.is_left_over`) and used again. Everybody who needs it holds a shared lock on
it, in whatever process; the last one takes it away. Only an empty folder is ever taken away.

What is taken away is freed by the file system when it is closed. That takes longer than all the rest, and nobody needs
to wait for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import stat
from collections.abc import Callable, Iterable, Sequence

from bridle.base.processes import is_scarce

_MODE = 0o1755
_TRIES = 5


class Masks:
    """The masks one command needs."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._held: dict[str, int] = {}
        try:
            for path in paths:
                self._hold(path)
        except OSError:
            self.release()
            raise

    def release(self, finish: Callable[[Callable[[], None]], None] | None = None) -> None:
        """Takes away those that nobody else holds. Harmless when called again.

        `finish` calls what it is given, in a thread of its choosing: that closes what was taken away. Without it, that
        is done here.
        """
        held, self._held = self._held, {}
        gone = [folder for path, folder in held.items() if _is_taken_away(path, folder)]
        for folder in held.values():
            if folder not in gone:  # at once: somebody may wait for it
                os.close(folder)
        if gone and finish is not None:
            finish(functools.partial(_close, gone))
        else:
            _close(gone)

    def _hold(self, path: str) -> None:
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
                return
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(folder, fcntl.LOCK_SH)
            if _is_still_there(path, folder):
                self._held[path] = folder
                return
            os.close(folder)
        raise FileNotFoundError(path)


def _is_taken_away(path: str, folder: int) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.fstat(folder).st_mode & stat.S_ISVTX:
            return False
        os.rmdir(path)
    except OSError:  # somebody else needs it, or has put something into it
        return False
    return True


def _close(folders: Sequence[int]) -> None:
    for folder in folders:
        os.close(folder)


def _is_still_there(path: str, folder: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(folder))
    except OSError:
        return False
