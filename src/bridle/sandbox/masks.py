"""Keeping a missing path missing: while commands run, an empty folder stands there that nobody inside can write to.

Git does not see empty folders, so nothing looks changed; where it would stumble over one, in its own folder, a file
stands there that says what holds anyway. Both have the sticky bit set, by which one that a killed engine left behind is
known (`stand_ins`) and used again. Everybody who needs it holds a shared lock on it, in whatever process; the last one
takes it away. Only what is still a stand-in is ever taken away.

What is taken away is freed by the file system when it is closed. That takes longer than all the rest, and nobody needs
to wait for it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import stat
from collections.abc import Callable, Iterable, Sequence

from bridle.base.files import private_folder
from bridle.base.processes import is_scarce
from bridle.base.stand_ins import says_nothing, take_away

_MODE = 0o1755
_FILE_MODE = 0o1444
_NAMELESS = getattr(os, "O_TMPFILE", 0)
_TRIES = 5
_HERE_FD, _NO_REPLACE = -100, 1
"""Of `renameat2`: a path that is no other's, and nothing may stand there."""


class Masks:
    """The masks one command needs."""

    def __init__(self, paths: Iterable[str] = (), files: Iterable[tuple[str, bytes]] = ()) -> None:
        self._held: dict[str, int] = {}
        self._away: dict[str, str] = {}
        self.add(paths, files)

    def add(self, paths: Iterable[str] = (), files: Iterable[tuple[str, bytes]] = ()) -> None:
        """Takes more; where that fails, none is held any more."""
        try:
            for path, content in files:
                self._hold_file(path, content)
            for path in paths:
                self._hold(path)
        except OSError:
            self.release()
            raise

    def __bool__(self) -> bool:
        return bool(self._held)

    def put_away(self, folder: str) -> None:
        """Moves them into a folder of ours until `put_back`: what is mounted on one elsewhere moves with it, so that
        nothing stands in the workspace while nobody needs it. Raises `OSError` where somebody else needs one too, or it
        cannot be moved; some may be away then. A file stays if somebody else needs it: those are in git's own folder,
        where they are in nobody's way."""
        name = os.urandom(8).hex()
        for number, (path, fd) in enumerate(self._held.items()):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                fcntl.flock(fd, fcntl.LOCK_SH)  # which is lost by trying
                if stat.S_ISREG(os.fstat(fd).st_mode) and _is_still_there(path, fd):
                    continue
                raise
            away = os.path.join(folder, f"{name}-{number}")
            try:
                rename_to_free(path, away)
                if not _is_still_there(away, fd):  # what came there in this moment is not ours
                    rename_to_free(away, path)
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
                self._away[path] = away
            finally:  # also on a full disk: the next command waits for it, and would for ever
                fcntl.flock(fd, fcntl.LOCK_SH)

    def put_back(self) -> None:
        """Moves them where they were, as if they were made now: should we be killed, that says when a command began.
        Raises `OSError` where something else stands there by now, or in the place of one that was put away."""
        while self._away:
            path, away = next(iter(self._away.items()))
            if not _is_still_there(away, self._held[path]):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), away)
            os.utime(self._held[path])
            rename_to_free(away, path)
            del self._away[path]

    def release(self, finish: Callable[[Callable[[], None]], None] | None = None) -> None:
        """Takes away those that nobody else holds. Harmless when called again.

        `finish` calls what it is given, in a thread of its choosing: that closes what was taken away. Without it, that
        is done here.
        """
        held, self._held = self._held, {}
        away, self._away = self._away, {}
        gone = [folder for path, folder in held.items() if _is_taken_away(away.get(path, path), folder)]
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

    def _hold_file(self, path: str, content: bytes) -> None:
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
                    self._held[path] = file
                    return
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


def clear_away(folder: str) -> str:
    """Makes a folder to put masks away in. What processes left there that are gone is removed."""
    for name in os.listdir(private_folder(folder)):
        take_away(os.path.join(folder, name))
    return folder


def rename_to_free(path: str, free: str) -> None:
    """Renames to a name that is free. Raises `OSError`, `FileExistsError` where it is not; nothing is ever replaced."""
    rename = _renameat2()
    if rename is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), free)
    if rename(_HERE_FD, os.fsencode(path), _HERE_FD, os.fsencode(free), _NO_REPLACE):
        import ctypes

        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), free)


@functools.cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    import ctypes

    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


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


def _close(folders: Sequence[int]) -> None:
    for folder in folders:
        os.close(folder)


def _is_still_there(path: str, folder: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(folder))
    except OSError:
        return False
