"""Read and write files safely: atomic writes, bounded reads, locks, no symlink races.

PathChanged (an OSError)   a component of a checked path turned out to be a symlink

Nothing here decides whether a path is allowed: callers resolve and check first, then `open_beneath` makes
sure that what is opened is still what was checked.
"""

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import cast

import msgspec

KEPT_OBJECTS = "git-objects"
"""The folder among Bridle's own where undo has second names of git's objects. They are the person's, not Bridle's."""
MEMORIES = "memory"
"""The folder among Bridle's own where notes lie that last beyond a session."""
MOST_ENTRIES = 10_000
"""So many entries of a folder are looked at that anybody may have filled."""
_READ_SIZE = 1 << 20
_NOTE_LIMIT = 4096
_LOCK_POLL_S = 0.01

# On Linux a folder that may be searched but not listed can still be walked through.
_WALK_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW


class PathChanged(OSError):
    """`component`, part of a path that was already resolved, is a symlink now."""

    def __init__(self, path: str, component: str) -> None:
        super().__init__(errno.ELOOP, "path changed after it was checked", path)
        self.path = path
        self.component = component


def write_atomic(path: str, data: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Replace the file at `path` with `data`: readers see the old content or the new, never a mixture.

    `mode` holds whatever the umask says. With `durable` the content and the name survive a power cut once
    this returns. A symlink at `path` is replaced, not followed. On any failure the old file stays and the
    temporary one goes.
    """
    folder = os.path.dirname(path) or "."
    temporary = os.path.join(folder, f".{os.urandom(12).hex()}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        try:
            os.fchmod(fd, mode)
            write_all(fd, data)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if durable:
        sync_folder(folder)


def write_new(path: str, text: str) -> None:
    """Makes a file that is not there yet; where it cannot be written whole, nothing of it is left.

    Raises OSError, FileExistsError where something is there.
    """
    with open(path, "x", encoding="utf-8") as made:
        try:
            made.write(text)
            made.flush()
        except OSError:
            os.unlink(path)
            raise


def write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def sync_folder(folder: str) -> None:
    """What was made, renamed or removed in the folder is so after a power cut too."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def private_folder(path: str) -> str:
    """Make `path` and its missing parents, readable by the owner only, and return it as an absolute path.

    Folders that exist keep the mode they have.
    """
    folder = os.path.abspath(path)
    missing: list[str] = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for folder in reversed(missing):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise
    return os.path.abspath(path)


class FileLock:
    """A lock between processes. It ends with `release()`, with `with`, or with the process, however that
    dies.

    The file itself means nothing and is never deleted: only the kernel's lock on it counts, so a file left
    behind by a dead process is no obstacle. Not reentrant; two locks on one path exclude each other inside
    a process too.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd: int | None = None

    @property
    def held(self) -> bool:
        return self._fd is not None

    def acquire(self, *, note: Mapping[str, str | int] | None = None, timeout_s: float = 0.0) -> bool:
        """Take the lock, waiting at most `timeout_s`; False when somebody else kept it.

        It blocks the calling thread while it waits. `note` is a small text for people who find the lock
        taken.
        """
        if self._fd is not None:
            raise RuntimeError("this lock is already held")
        deadline = time.monotonic() + timeout_s
        while not self._try():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(_LOCK_POLL_S, left_s))
        self._write_note(note or {})
        return True

    def holder(self) -> dict[str, str | int] | None:
        """The note of whoever took the lock last; it describes a holder only just after `acquire` said False.

        None when there is no note (or not yet).
        """
        import msgspec

        try:
            note: object = msgspec.json.decode(read_limited(self.path, _NOTE_LIMIT).data)
        except (OSError, ValueError):
            return None
        if not isinstance(note, dict):
            return None
        return cast("dict[str, str | int]", note) or None

    def left_by(self) -> dict[str, str | int] | None:
        """The note of a holder that ended without giving the lock back; None where there is none, or somebody holds it.

        The note stays for whoever asks next, until the lock is taken.
        """
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return self.holder()
        except BlockingIOError:
            return None
        finally:
            os.close(fd)

    def release(self, *, keep_note: bool = False) -> None:
        """Give the lock back; harmless when it is not held. With `keep_note` it looks like one whose holder died."""
        fd, self._fd = self._fd, None
        if fd is not None:
            try:
                if not keep_note:
                    os.ftruncate(fd, 0)
            finally:
                os.close(fd)

    def __enter__(self) -> "FileLock":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _try(self) -> bool:
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._is_current(fd):
                self._fd, fd = fd, -1
                return True
            return False
        except BlockingIOError:
            return False
        finally:
            if fd >= 0:
                os.close(fd)

    def _is_current(self, fd: int) -> bool:
        """Whether the file we locked still has the name: a lock on a deleted file excludes nobody."""
        try:
            return os.path.samestat(os.fstat(fd), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _write_note(self, note: Mapping[str, str | int]) -> None:
        import msgspec

        assert self._fd is not None
        text = msgspec.json.encode(dict(note))
        if len(text) > _NOTE_LIMIT:
            self.release()
            raise ValueError(f"a lock's note has at most {_NOTE_LIMIT} bytes")
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, text, 0)
        except OSError:
            self.release()  # a full disk must not leave a lock nobody asked for
            raise


def open_beneath(resolved_path: str, flags: int, mode: int = 0o666) -> int:
    """Open a path that was resolved and checked before, following no symlink in any component.

    `resolved_path` is absolute and free of `.`, `..` and empty components (ValueError otherwise). Raises
    `PathChanged` when a symlink now stands where the check saw none, and the usual OSError otherwise. The
    caller closes the result. Opening a FIFO blocks unless `flags` has O_NONBLOCK.
    """
    *folders, name = _components(resolved_path)
    where = os.open("/", _WALK_FLAGS)
    try:
        for index, folder in enumerate(folders):
            deeper = _open_component(
                resolved_path, "/".join(["", *folders[: index + 1]]), folder, _WALK_FLAGS, 0, where
            )
            os.close(where)
            where = deeper
        flags |= os.O_NOFOLLOW | os.O_NOCTTY
        return _open_component(resolved_path, resolved_path, name, flags, mode, where)
    finally:
        os.close(where)


def _components(resolved_path: str) -> list[str]:
    root, *components = resolved_path.split("/")
    if components == [""]:
        return ["."]  # the root itself, which is no symlink
    if root or not components or any(part in {"", ".", ".."} for part in components):
        raise ValueError(f"not a resolved absolute path: {resolved_path!r}")
    return components


def _open_component(path: str, so_far: str, name: str, flags: int, mode: int, where: int) -> int:
    try:
        return os.open(name, flags, mode, dir_fd=where)
    except OSError as error:
        # Systems differ in the errno for "refused to follow"; asking what stands there now is the same on
        # all.
        if error.errno in {errno.ELOOP, errno.EMLINK, errno.ENOTDIR} and _is_symlink(name, where):
            raise PathChanged(path, so_far) from error
        error.filename = path
        raise


def _is_symlink(name: str, where: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=where, follow_symlinks=False).st_mode)
    except OSError:
        return False


class FileContents(msgspec.Struct, frozen=True):
    """`data` has at most the asked number of bytes; `truncated` says that there was more."""

    data: bytes
    truncated: bool


def open_up(folder: str) -> None:
    """Gives the owner back every right to a folder, which may not be reached through a link. Raises OSError, as it
    does where the system cannot open a folder without reading it."""
    fd = open_beneath(folder, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY)
    try:
        mode = os.fstat(fd).st_mode & 0o7777
        os.chmod(f"/proc/self/fd/{fd}", mode | 0o700)
    finally:
        os.close(fd)


def files_below(folder: str, *, enter: Callable[[str], object] | None = None) -> Iterator[str]:
    """Yield the files and links below a folder. Folders that cannot be listed are left out.

    `enter` is called with each folder first. `os.walk` is not used: it calls itself for each level of folders.
    """
    waiting = [folder]
    while waiting:
        path = waiting.pop()
        try:
            if enter is not None:
                enter(path)
            with os.scandir(path) as found:
                entries = list(found)
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            else:
                yield entry.path


def read_limited(source: int | str, limit: int) -> FileContents:
    """Read at most `limit` bytes from an open descriptor (from where it stands; it stays open) or from a
    file.

    A path must name a regular file, so that a FIFO or a device can neither hang nor flood the reader.
    """
    if isinstance(source, int):
        return _read(source, limit)
    fd = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        kind = os.fstat(fd).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), source)
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "not a regular file", source)
        return _read(fd, limit)
    finally:
        os.close(fd)


def read_each(paths: Iterable[str], limit: int) -> Iterator[tuple[str, bytes]]:
    """What each of these files begins with. No plain file, no right to read it, or a name that is no text: left out."""
    for path in paths:
        try:
            path.encode()
            if stat.S_ISREG(
                os.stat(path).st_mode
            ):  # opening a pipe would wake whoever waits to write into it
                yield path, read_limited(path, limit).data
        except (OSError, ValueError):
            continue


class UntrustedFile(OSError):
    """Somebody else could have written a file that is obeyed. `strerror` says why and what to do, as a clause."""


def read_trusted(path: str, limit: int, *, strict: bool = True) -> FileContents:
    """Read a file that grants authority as `read_limited` does, if only we or root could have written it.

    Raises `UntrustedFile` where it belongs to somebody else or others can write it. Where it is not `strict` it may be
    a link, as people have it who keep their settings elsewhere, and a group may write it: many have one of their own.
    """
    follow = 0 if not strict else os.O_NOFOLLOW
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | follow)
    except OSError as problem:
        if problem.errno != errno.ELOOP or not strict:
            raise
        raise UntrustedFile(errno.ELOOP, "it is a symbolic link; put the file itself there", path) from None
    try:
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        if status.st_uid not in (0, os.geteuid()):
            theirs = f"it belongs to user {status.st_uid}; if you wrote it: chown {os.geteuid()} {path}"
            raise UntrustedFile(errno.EPERM, theirs, path)
        if status.st_mode & (stat.S_IWOTH | (stat.S_IWGRP if strict else 0)):
            raise UntrustedFile(
                errno.EPERM, f"others can write to it; if it is as you want it: chmod go-w {path}", path
            )
        return _read(fd, limit)
    finally:
        os.close(fd)


def _read(fd: int, limit: int) -> FileContents:
    parts: list[bytes] = []
    wanted = limit + 1  # one more, to know whether there was more
    while wanted and (part := os.read(fd, min(wanted, _READ_SIZE))):
        parts.append(part)
        wanted -= len(part)
    data = b"".join(parts)
    return FileContents(data[:limit], len(data) > limit)


def repository_root(folder: str) -> str:
    """The nearest folder at or above this one that holds `.git`; this one itself where there is none.

    The way up is that of the name: where links matter, give a resolved one.
    """
    root = folder
    while not os.path.lexists(os.path.join(root, ".git")):
        parent = os.path.dirname(root)
        if parent == root:
            return folder
        root = parent
    return root


def first_entries(folder: str, most: int = MOST_ENTRIES) -> "list[os.DirEntry[str]]":
    """The entries of a folder, by name, and no more than so many: whoever filled it has no say in how long that takes.
    Raises OSError."""
    with os.scandir(folder) as entries:
        return sorted(islice(entries, most), key=lambda entry: entry.name)


def real_folder(folder: str) -> str:
    """The folder by its name without links, from the root."""
    return os.path.realpath(folder)


def branch_of(folder: str) -> str:
    """The git branch a folder is on, read from the repository's own note; empty where there is none."""
    try:
        head = read_limited(os.path.join(repository_root(folder), ".git", "HEAD"), 4096)
    except (OSError, ValueError):
        return ""
    text = head.data.decode("utf-8", "replace")
    return text.strip().removeprefix("ref: refs/heads/") if text.startswith("ref: ") else ""


def marked_ms(marker: str) -> int | None:
    """The moment that `mark_ms` noted; None where there is none to be read."""
    try:
        return int(read_limited(marker, 100).data)
    except (OSError, ValueError):
        return None


def mark_ms(marker: str, now_ms: int) -> bool:
    """Notes a moment in a file of its own. False where it cannot be written."""
    try:
        private_folder(os.path.dirname(marker))
        write_atomic(marker, str(now_ms).encode(), durable=False)
    except OSError:
        return False
    return True
