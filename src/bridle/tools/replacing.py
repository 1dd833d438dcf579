"""Putting a whole file in place at a path that was checked before, following no symlink on the way.

The new content appears at once or not at all. Nothing here waits, so a call cannot be cancelled in the
middle.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Generator

from bridle.base.files import open_beneath
from bridle.base.stand_ins import is_stand_in, may_be_stand_in, take_away

_KEPT_AWAY = "a command still runs that must not be able to change it; write it when that one has ended"
_NEW_FILE_MODE = 0o666
_NEW_FOLDER_MODE = 0o777


def replace_beneath(resolved_path: str, data: bytes) -> bool:
    """Writes the file and makes missing folders; True when there was no file before.

    An existing file keeps its mode; a new one gets what the umask says. Raises OSError for a folder, a device
    or a file that may not be written, and `PathChanged` when a symlink stands where the check saw none.
    """
    folder, name = os.path.split(resolved_path)
    with _folder(folder) as where:
        mode = _existing_mode(name, where, resolved_path)
        temporary = f".{os.urandom(12).hex()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        fd = os.open(temporary, flags, _NEW_FILE_MODE if mode is None else 0o600, dir_fd=where)
        try:
            try:
                _write_all(fd, data)
                if mode is not None:
                    os.fchmod(fd, mode)
            finally:
                os.close(fd)
            os.replace(temporary, name, src_dir_fd=where, dst_dir_fd=where)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=where)
            raise
    return mode is None


def _existing_mode(name: str, where: int, shown: str) -> int | None:
    try:
        status = os.stat(name, dir_fd=where, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        if not (may_be_stand_in(status.st_mode) and is_stand_in(name, where)):
            raise IsADirectoryError(errno.EISDIR, "it is a folder", shown)
        if not take_away(name, where):
            raise IsADirectoryError(errno.EISDIR, _KEPT_AWAY, shown)
        return None
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", shown)
    # Replacing needs no right to write the old file; the person who took that right away meant it.
    if not os.access(name, os.W_OK, dir_fd=where):
        raise PermissionError(errno.EACCES, "it is read-only", shown)
    return stat.S_IMODE(status.st_mode)


@contextlib.contextmanager
def _folder(path: str) -> Generator[int, None, None]:
    """The open folder, made first if it is missing; each step goes through the folder above it."""
    missing: list[str] = []
    while True:
        try:
            where = open_beneath(path, os.O_RDONLY | os.O_DIRECTORY)
            break
        except FileNotFoundError:
            path, name = os.path.split(path)
            missing.append(name)
    try:
        for name in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, _NEW_FOLDER_MODE, dir_fd=where)
            deeper = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=where)
            os.close(where)
            where = deeper
        yield where
    finally:
        os.close(where)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
