"""The note by which a later session finds what a process that stays left, should its engine be killed."""

from __future__ import annotations

import contextlib
import fcntl
import os

from bridle.base.stand_ins import noted


class CutOffNote:
    """A file that is locked while its engine lives, and says since when nobody looked after a resident."""

    def __init__(self, notes: str, folder: str) -> None:
        self._path = f"{noted(notes, folder)}.{os.urandom(4).hex()}" if notes else ""
        self._fd: int | None = None

    def write(self, since_ns: int) -> None:
        """One that is there says of an earlier time."""
        if self._fd is not None or not self._path:
            return
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_SH)
        os.write(self._fd, str(since_ns).encode())

    def drop(self) -> None:
        """Harmless where there is none."""
        fd, self._fd = self._fd, None
        if fd is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            os.close(fd)


def cut_off_notes(notes: str, folder: str) -> list[str]:
    """The notes of engines that are gone, about residents in this folder."""
    beginning = f"{os.path.basename(noted(notes, folder))}."
    try:
        names = [name for name in os.listdir(notes) if name.startswith(beginning)]
    except OSError:
        return []
    return [path for path in (os.path.join(notes, name) for name in names) if not _is_locked(path)]


def _is_locked(path: str) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False
