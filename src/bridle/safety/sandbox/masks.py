"""Keeping a missing path missing: while commands run, an empty folder stands there that nobody inside can write to.

Git does not see empty folders, so nothing looks changed. The folder has the sticky bit set, by which one that a killed
engine left behind is known (`confinement.is_left_over`) and used again. Everybody who needs it holds a shared lock on
it, in whatever process; the last one takes it away. Only an empty folder is ever taken away.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable

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

    def release(self) -> None:
        """Takes away those that nobody else holds. Harmless when called again."""
        held, self._held = self._held, {}
        for path, folder in held.items():
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(folder).st_mode & 0o1000:
                    os.rmdir(path)
            except OSError:  # somebody else needs it, or has put something into it
                pass
            finally:
                os.close(folder)

    def _hold(self, path: str) -> None:
        """What came to stand there meanwhile is not ours: it is left alone, and protected like anything else."""
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


def _is_still_there(path: str, folder: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(folder))
    except OSError:
        return False
