"""Keeping a missing path missing: while commands run, an empty folder stands there that nobody inside can write to.

Git does not see empty folders, so nothing looks changed; where it would stumble over one, in its own folder, a file
stands there that says what holds anyway. Both have the sticky bit set, by which one that a killed engine left behind is
known (`stand_ins`) and used again. Everybody who needs it holds a shared lock on it, in whatever process; the last one
takes it away. Only what is still a stand-in is ever taken away.

Making and removing them takes longer than moving them. So the commands of a turn hand theirs on (`HandedMasks`): in
between they lie in a folder of Bridle's own. Where that is not so, what is taken away is freed by the file system when
it is closed; that takes longer than all the rest, and nobody needs to wait for it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence

from bridle.base.files import private_folder
from bridle.base.processes import is_scarce
from bridle.base.stand_ins import may_be_stand_in, says_nothing, take_away

_MODE = 0o1755
_FILE_MODE = 0o1444
_NAMELESS = getattr(os, "O_TMPFILE", 0)
_TRIES = 5
_HERE_FD, _NO_REPLACE = -100, 1
"""Of `renameat2`: a path that is no other's, and nothing may stand there."""


class Mask:
    """One that is held: open and locked, at its path or, while nobody needs it, in a folder of ours."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._name = os.urandom(8).hex()
        self._away = ""
        self._stamp_ns = 0

    @property
    def is_away(self) -> bool:
        return bool(self._away)

    def stays(self) -> bool:
        """Whether it may stay where it is while nobody of ours needs it."""
        return stat.S_ISREG(os.fstat(self._fd).st_mode) and _is_still_there(self.path, self._fd)

    def move_away(self, folder: str) -> None:
        """Moves it into a folder, if nobody else needs it. Raises `OSError`, and it is where it was then: what somebody
        has put into it is theirs."""
        away = os.path.join(folder, self._name)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = os.fstat(self._fd)
            if not self._says_nothing(held):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path)
            rename_to_free(self.path, away)
            moved = os.lstat(away)
            if not (
                os.path.samestat(moved, held) and self._says_nothing(moved)
            ):  # who came in this moment keeps it
                rename_to_free(away, self.path)
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path)
        finally:  # lost by trying; also on a full disk: the next command waits for it, and would for ever
            fcntl.flock(self._fd, fcntl.LOCK_SH)
        self._away = away

    def move_back(self) -> None:
        """Moves it where it was, as if it were made now: should we be killed, that says when a command began. Raises
        `OSError` where something else stands there by now, or in the place of the one that was moved away."""
        if not _is_still_there(self._away, self._fd):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._away)
        self._stamp_ns = time.time_ns()
        os.utime(self._fd, ns=(self._stamp_ns, self._stamp_ns))
        rename_to_free(self._away, self.path)
        self._away = ""

    def is_empty(self) -> bool:
        """Whether nobody has put anything into it."""
        return self._says_nothing(os.fstat(self._fd))

    def is_taken_away(self) -> bool:
        """Removes it, wherever it is, if nobody else needs it. It is still open then: what is taken away is freed by
        the file system when it is closed."""
        return _is_taken_away(self._away or self.path, self._fd)

    def close(self) -> None:
        os.close(self._fd)

    def _says_nothing(self, status: os.stat_result) -> bool:
        """The kernel never gives a time of ours: what has one was not touched."""
        untouched = status.st_mtime_ns == self._stamp_ns and may_be_stand_in(status.st_mode)
        return untouched or says_nothing(self._fd)


class HandedMasks:
    """Masks that lie in a folder of ours, out of the workspace, between one command of a turn and the next. Who has
    them closes it; what would be handed on after that is taken away."""

    def __init__(self) -> None:
        self._lying: dict[str, Mask] = {}
        self.folder = ""
        """Where they lie; empty: nothing is handed on."""

    def put(self, mask: Mask) -> bool:
        """Whether it lies there for the next one; else it is still the caller's, where it was."""
        if not self.folder:
            return False
        try:
            if not mask.is_away:
                mask.move_away(self.folder)
        except OSError:  # somebody else needs it, has put something into it, or it cannot be moved
            return False
        self._drop(mask.path)
        self._lying[mask.path] = mask
        return True

    def take(self, path: str) -> Mask | None:
        """The one for a place, moved there; it is the caller's then."""
        mask = self._lying.get(path)
        if mask is None:
            return None
        try:
            if not mask.is_empty():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            mask.move_back()
        except (
            OSError
        ):  # it is not what it was, or something stands where it should: as if there had been none
            self._drop(path)
            return None
        return self._lying.pop(path)

    def close(self) -> None:
        """Nobody needs any more. Harmless when called again."""
        self.folder = ""
        for path in [*self._lying]:
            self._drop(path)

    def _drop(self, path: str) -> None:
        if (mask := self._lying.pop(path, None)) is not None:
            mask.is_taken_away()
            mask.close()


class Masks:
    """The masks one command needs. Those that an earlier one left in `handed` are used again."""

    def __init__(
        self,
        paths: Iterable[str] = (),
        files: Iterable[tuple[str, bytes]] = (),
        *,
        handed: HandedMasks | None = None,
    ) -> None:
        self._held: dict[str, Mask] = {}
        self._handed = handed or HandedMasks()
        self.add(paths, files)

    def add(self, paths: Iterable[str] = (), files: Iterable[tuple[str, bytes]] = ()) -> None:
        """Takes more; where that fails, none is held any more."""
        try:
            for path, content in files:
                self._keep(self._handed.take(path) or _hold_file(path, content))
            for path in paths:
                self._keep(self._handed.take(path) or _hold(path))
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
        for mask in self._held.values():
            try:
                mask.move_away(folder)
            except BlockingIOError:
                if not mask.stays():
                    raise

    def put_back(self) -> None:
        """Moves them where they were. Raises `OSError` where something else stands there by now, or in the place of one
        that was put away."""
        for mask in self._held.values():
            if mask.is_away:
                mask.move_back()

    def release(self, finish: Callable[[Callable[[], None]], None] | None = None) -> None:
        """Hands them on, or takes away those that nobody else holds. Harmless when called again.

        `finish` calls what it is given, in a thread of its choosing: that closes what was taken away. Without it, that
        is done here.
        """
        held, self._held = self._held, {}
        gone: list[Mask] = []
        for mask in held.values():
            if self._handed.put(mask):
                continue
            if mask.is_taken_away():
                gone.append(mask)
            else:  # at once: somebody may wait for it
                mask.close()
        if gone and finish is not None:
            finish(functools.partial(_close, gone))
        else:
            _close(gone)

    def _keep(self, mask: Mask | None) -> None:
        if mask is not None:
            self._held[mask.path] = mask


def _hold(path: str) -> Mask | None:
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
            return Mask(path, folder)
        os.close(folder)
    raise FileNotFoundError(path)


def _hold_file(path: str, content: bytes) -> Mask:
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
                return Mask(path, file)
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


def _close(masks: Sequence[Mask]) -> None:
    for mask in masks:
        mask.close()


def _is_still_there(path: str, folder: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(folder))
    except OSError:
        return False
