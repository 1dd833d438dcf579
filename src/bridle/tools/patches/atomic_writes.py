"""Write several files or none, without following symlinks.

The new content appears at once or not at all. Nothing here waits, so a call cannot be cancelled in the middle. A power
cut can still come between two files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Generator, Sequence
from typing import NamedTuple

from bridle.base.fs.files import open_beneath, write_all
from bridle.tools.patches.text_files import TextFile

_NEW_FILE_MODE = 0o666
_NEW_FOLDER_MODE = 0o777
_ACCESS_LIST = "system.posix_acl_access"
_KEPT_ATTRIBUTES = ("user.", "system.", "security.selinux")
"""How attributes begin that belong to a file whatever it holds. Others the kernel takes away with each change."""


def replace_beneath(resolved_path: str, data: bytes) -> bool:
    """Writes the file and makes missing folders; True when there was no file before.

    An existing file keeps its mode, owner, group, extended attributes and access list; a new one gets what the umask
    says. Raises OSError for a folder, a device, a file that may not be written or whose like cannot be made, and
    `PathChanged` when a symlink stands where the check saw none.
    """
    folder, name = os.path.split(resolved_path)
    with _folder(folder) as where:
        existing = _existing(name, where, resolved_path)
        temporary = f".{os.urandom(12).hex()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        fd = os.open(temporary, flags, _NEW_FILE_MODE if existing is None else 0o600, dir_fd=where)
        try:
            try:
                write_all(fd, data)
                if existing is not None:
                    _make_alike(fd, existing, _attributes(f"/proc/self/fd/{where}/{name}"), resolved_path)
            finally:
                os.close(fd)
            os.replace(temporary, name, src_dir_fd=where, dst_dir_fd=where)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=where)
            raise
    return existing is None


def _make_alike(fd: int, old: os.stat_result, attributes: dict[str, bytes], shown: str) -> None:
    """Gives a new file what the old one has beside its content, or raises OSError and says what it cannot have."""
    new = os.fstat(fd)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(fd, old.st_uid, old.st_gid)
        except OSError as problem:
            whose = f"it belongs to user {old.st_uid} and group {old.st_gid}, and a changed file could not"
            raise PermissionError(problem.errno, f"{whose}; use bash to change it in place", shown) from None
    os.fchmod(fd, stat.S_IMODE(old.st_mode))  # after the owner, who takes the setuid bit away
    given = _attributes(fd)
    if _ACCESS_LIST in given and _ACCESS_LIST not in attributes:  # the folder has one for what is made in it
        os.removexattr(fd, _ACCESS_LIST)
        os.fchmod(fd, stat.S_IMODE(old.st_mode))
    for name, value in attributes.items():
        if given.get(name) == value:
            continue
        try:
            os.setxattr(fd, name, value)
        except OSError as problem:
            lost = f"its attribute {name} could not be kept; use bash to change it in place"
            raise OSError(problem.errno, lost, shown) from None


def _attributes(file: int | str) -> dict[str, bytes]:
    """The extended attributes that a changed file should have too; none where the system or the disk knows none."""
    if not hasattr(os, "listxattr"):
        return {}
    follow = isinstance(file, int)
    try:
        names = os.listxattr(file, follow_symlinks=follow)
        kept = (name for name in names if name.startswith(_KEPT_ATTRIBUTES))
        return {name: os.getxattr(file, name, follow_symlinks=follow) for name in kept}
    except OSError as problem:
        if problem.errno in (errno.ENOTSUP, errno.ENOSYS, errno.ENOENT):  # or no /proc
            return {}
        raise


def _existing(name: str, where: int, shown: str) -> os.stat_result | None:
    try:
        status = os.stat(name, dir_fd=where, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", shown)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", shown)
    # Replacing needs no right to write the old file; the person who took that right away meant it.
    if not os.access(name, os.W_OK, dir_fd=where):
        raise PermissionError(errno.EACCES, "it is read-only", shown)
    return status


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


class FileState(NamedTuple):
    """A file as it was read and as it shall be; None: there is no such file."""

    path: str
    before: TextFile | None
    after: TextFile | None


class NotPut(Exception):
    """A file could not be written. `left` names the files that stayed changed."""

    def __init__(self, path: str, problem: str, left: Sequence[str]) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem
        self.left = tuple(left)


def put_all(states: Sequence[FileState]) -> None:
    """Makes every file what it shall be, or raises `NotPut` and leaves all as they were, as far as it can."""
    done: list[FileState] = []
    made: list[str] = []
    for state in states:
        made += _missing_folders(state.path)
        try:
            _put(state.path, state.after)
        except OSError as problem:
            left = _put_back(done, made)
            raise NotPut(state.path, problem.strerror or str(problem), left) from problem
        except BaseException:
            _put_back(done, made)
            raise
        done.append(state)


def _put_back(done: Sequence[FileState], made: Sequence[str]) -> list[str]:
    left: list[str] = []
    for state in reversed(done):
        try:
            _put(state.path, state.before)
        except OSError:
            left.append(state.path)
    for folder in reversed(made):
        with contextlib.suppress(OSError):  # not empty: somebody else uses it by now
            os.rmdir(folder)
    return left


def _put(path: str, file: TextFile | None) -> None:
    if file is None:
        remove_beneath(path)
        return
    created = replace_beneath(path, file.encoded(file.text))
    if created and file.mode is not None:
        fd = open_beneath(path, os.O_RDONLY)
        try:
            os.fchmod(fd, file.mode)
        finally:
            os.close(fd)


def remove_beneath(resolved_path: str) -> None:
    """Deletes a file at a path that was checked before, following no symlink on the way. Raises OSError."""
    folder, name = os.path.split(resolved_path)
    where = open_beneath(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.unlink(name, dir_fd=where)
    finally:
        os.close(where)


def _missing_folders(path: str) -> list[str]:
    """The folders that will have to be made, outermost first."""
    missing: list[str] = []
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing[::-1]
