"""Resolve paths and compare them by whole components.

PathRefused   the text cannot name a file at all

Comparing text is never enough: `src/../../x`, a link to `/etc` and `/code/shop-old` beside `/code/shop` all
look like the workspace to a prefix test.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from bridle.base.fs.files import KEPT_OBJECTS

PathPlace: TypeAlias = Literal["workspace", "added", "outside"]

PROJECT_SECRETS_FILE = ".bridle-secrets/env"
"""The secrets file of a project, below its root, as people know it."""
MAX_PATH_BYTES = 4095
MAX_NAME_BYTES = 255
_HANDLE_ONLY: int | None = os.O_PATH | os.O_CLOEXEC if hasattr(os, "O_PATH") else None
"""Opens a name without opening what it leads to; only Linux has it."""

MAX_GLANCED = 2_000
GLANCE_DEPTH = 2
"""How far a folder is looked through before a call in it is called quiet."""
NOT_OURS = frozenset(
    {"node_modules", ".venv", "venv", "vendor", "target", "dist", "build", "__pycache__", ".tox"}
)
"""Folders in which programs put what they fetched or made."""

_INSIDE_PROCESS = frozenset({"environ", "mem", "fd", "root", "cwd", "map_files"})


class PathRefused(Exception):
    """This text cannot be used as a path. `problem` reads as the end of a sentence."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class SessionFolders(msgspec.Struct, frozen=True, kw_only=True):
    """The folders a session works in, resolved once when it starts.

    Later on a command could turn the workspace into a link to somewhere else; its own name must not move
    then. Make one with `session_folders`.
    """

    workspace: str
    added: tuple[str, ...] = ()

    def place(self, resolved: str) -> PathPlace:
        if is_beneath(resolved, self.workspace):
            return "workspace"
        return "added" if is_beneath_any(resolved, self.added) else "outside"

    def shown(self, resolved: str) -> str:
        """The path as people and rules read it: relative inside the workspace, absolute elsewhere."""
        if not is_beneath(resolved, self.workspace):
            return resolved
        return resolved[len(self.workspace.rstrip("/")) + 1 :] or "."


def session_folders(workspace: str, added: Iterable[str] = ()) -> SessionFolders:
    """The folders with every symlink resolved; added ones that are relative start at the workspace."""
    root = os.path.realpath(workspace)
    return SessionFolders(
        workspace=root, added=tuple(os.path.realpath(os.path.join(root, path)) for path in added)
    )


class PathTarget(msgspec.Struct, frozen=True):
    """Where a path leads: its name without symlinks, and what stands there; None where nothing does."""

    path: str
    status: os.stat_result | None


def name_of(path: bytes) -> str:
    """A path as text; what is no UTF-8 in it is held the way `os.fsdecode` holds it."""
    return os.fsdecode(path)


def resolve(value: str, cwd: str) -> str:
    """The absolute path that `value` means in `cwd`, without symlinks, `.`, `..` or doubled slashes.

    What does not exist yet resolves through the folders that do. `~` is an ordinary character. Raises
    `PathRefused` for text that names nothing: empty, with a NUL, too long, not encodable, a circle of links.
    """
    return find(value, cwd).path


def find(value: str, cwd: str) -> PathTarget:
    """What `resolve` says, and what stands there."""
    _check_text(value)
    named = value if value.startswith("/") else os.path.join(cwd, value)
    if (target := _found_by_kernel(named) or _missing_by_kernel(named)) is not None:
        return target
    _check_links(named)
    try:
        resolved = _single_slash(os.path.realpath(named))
    except OSError:
        raise PathRefused("its links cannot be read") from None
    _check_length(resolved)
    try:
        status = os.lstat(resolved)
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            raise PathRefused("its links lead in a circle") from None
        status = None
    is_link = status is not None and stat.S_ISLNK(status.st_mode)
    if is_link or (_met_links(named, resolved) and any(map(os.path.islink, _self_and_parents(resolved)))):
        raise PathRefused("its links lead in a circle")
    return PathTarget(resolved, status)


def _check_links(named: str) -> None:
    """Raises `PathRefused` where the system meets a circle. From Python 3.13 on `realpath` walks on behind one."""
    try:
        os.stat(named)
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            raise PathRefused("its links lead in a circle") from None


def _found_by_kernel(named: str) -> PathTarget | None:
    """What `find` says of something that exists, asked of the system in one go; None where it has to be worked out.

    Walking a path by hand takes a system call per name in it, and a guard looks twice at every call.
    """
    if _HANDLE_ONLY is None:
        return None
    try:
        handle = os.open(named, _HANDLE_ONLY)
    except (OSError, ValueError):
        return None
    try:
        path, status = os.readlink(f"/proc/self/fd/{handle}"), os.fstat(handle)
    except OSError:
        return None
    finally:
        os.close(handle)
    if not path.startswith("/") or path.endswith(" (deleted)"):
        return None
    _check_length(path)
    return PathTarget(path, status)


def _missing_by_kernel(named: str) -> PathTarget | None:
    """The same of a name that is free in a folder that exists."""
    folder, slash, name = named.rpartition("/")
    if not slash or name in {"", ".", ".."} or (above := _found_by_kernel(folder or "/")) is None:
        return None
    path = os.path.join(above.path, name)
    _check_length(path)
    try:
        os.lstat(path)
    except FileNotFoundError:
        return PathTarget(path, None)
    except OSError:
        return None
    return None


def find_entry(value: str, cwd: str) -> PathTarget:
    """The same for a name that is to be removed or moved: a link at its end is meant itself, not what it leads to."""
    _check_text(value)
    folder, name = os.path.split(value)
    if name in {"", ".", ".."}:
        return find(value, cwd)
    path = os.path.join(find(folder or ".", cwd).path, name)
    _check_length(path)
    try:
        return PathTarget(path, os.lstat(path))
    except OSError:
        return PathTarget(path, None)


def _single_slash(path: str) -> str:
    """POSIX lets exactly two slashes at the start mean something else; here they mean one."""
    return path[1:] if path.startswith("//") else path


def _met_links(named: str, resolved: str) -> bool:
    """Whether a link may have been on the way.

    Where there was none, a circle shows at the end of the path already. Otherwise each folder has to be looked at: a
    circle leaves the rest of a path as it was written.
    """
    return ".." in named or _single_slash(os.path.normpath(named)) != resolved


def follow_links(path: str) -> str:
    """Return where a path leads; the path itself if that takes more links than can be followed.

    `os.path.realpath` calls itself for each link, and a command can make any number of them.
    """
    try:
        return os.path.realpath(path)
    except RecursionError:
        return path


def is_beneath(path: str, folder: str) -> bool:
    """Whether a resolved path is `folder` or inside it, compared by whole components."""
    return path == folder or path.startswith(folder if folder == "/" else folder + "/")


def is_beneath_any(path: str, folders: Iterable[str]) -> bool:
    return any(is_beneath(path, folder) for folder in folders)


def is_inside_same_folder(path: str, folders: Iterable[str], *, status: os.stat_result | None = None) -> bool:
    """Whether a resolved path lies in one of the folders under whatever name.

    The identity of every folder above it is compared, not only its name: a link, a file system that ignores case and
    a second mount give one folder two names. A folder that does not exist yet is found through the one that will hold
    it. `status` is what stands at the path, for a caller who has looked already.
    """
    looked_at: _Identities = {}
    forbidden = [_anchor(folder, looked_at) for folder in folders]
    identities = {identity for identity, _ in forbidden}
    below: list[str] = []
    known = (status.st_dev, status.st_ino) if status is not None else None
    for parent in _self_and_parents(path):
        identity = known or _identity(parent, looked_at)
        known = None
        if identity in identities and _reaches(below, identity, forbidden):
            return True
        below.append(os.path.basename(parent))
    return False


_Identity: TypeAlias = tuple[int, int] | None
"""Which file or folder a name leads to; None where it leads nowhere."""
_Identities: TypeAlias = dict[str, _Identity]
"""What one question has looked at: Bridle's folders lie beside each other, and those above them are looked at once."""
_Anchor: TypeAlias = tuple[_Identity, tuple[str, ...]]
"""A folder that exists, and the names that are missing below it, innermost last."""


def _anchor(folder: str, looked_at: _Identities) -> _Anchor:
    identity = _identity(folder, looked_at)
    if identity is not None:
        return identity, ()
    if os.path.islink(folder):
        folder = os.path.realpath(folder)
    missing: list[str] = []
    while identity is None:
        parent, _, name = folder.rpartition("/")
        if not name or not parent or parent.endswith("/"):  # not an ordinary path, or the last step
            parent, name = os.path.split(folder)
            if parent == folder:
                break
        folder = parent
        missing.append(name.casefold())
        identity = _identity(folder, looked_at)
    return identity, tuple(reversed(missing))


def _reaches(below: Sequence[str], identity: _Identity, forbidden: Iterable[_Anchor]) -> bool:
    """Whether the names below a folder, innermost first, go where a forbidden one is or will be."""
    for anchor, missing in forbidden:
        if anchor == identity and len(below) >= len(missing):
            names = [name.casefold() for name in reversed(below[len(below) - len(missing) :])]
            if tuple(names) == missing:
                return True
    return False


def is_second_name(status: os.stat_result | None, folders: Iterable[str]) -> bool:
    """Whether a file is a hard link to one inside the folders. A file with one name only is not looked for."""
    if status is None or status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
        return False
    return any(_holds(folder, status) for folder in folders)


def second_names(target: PathTarget, root: str) -> list[str]:
    """The other names a file has below a folder, as far as a glance goes. A file with one name only is not looked for.

    Dependencies and deep folders are not looked through: tools that install them link files on purpose.
    """
    status = target.status
    if status is None or status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
        return []
    found: list[str] = []
    folders, left = [(root, 0)], MAX_GLANCED
    while folders and left > 0:
        folder, depth = folders.pop(0)  # near ones first
        try:
            with os.scandir(folder) as entries:
                listed = list(entries)
        except OSError:
            continue
        left -= len(listed)
        found += (entry.path for entry in listed if entry.inode() == status.st_ino and not entry.is_symlink())
        if depth < GLANCE_DEPTH:
            below = (entry for entry in listed if entry.name not in NOT_OURS and entry.name != "objects")
            folders += ((entry.path, depth + 1) for entry in below if entry.is_dir(follow_symlinks=False))
    return [path for path in found if path != target.path]


def _holds(folder: str, status: os.stat_result) -> bool:
    """Whether the folder, at any depth, has an entry for this very file. Hard links stay on one file system.

    Those that undo made of git's objects are the person's files.
    """
    try:
        if os.stat(folder).st_dev != status.st_dev:
            return False
        with os.scandir(folder) as entries:
            listed = list(entries)
    except OSError:
        return False
    if any(entry.inode() == status.st_ino and not entry.is_symlink() for entry in listed):
        return True
    return any(
        _holds(entry.path, status)
        for entry in listed
        if entry.name != KEPT_OBJECTS and entry.is_dir(follow_symlinks=False)
    )


def is_process_state(resolved: str) -> bool:
    """Whether the path shows a running process: its environment, memory or open files, ours included."""
    if not resolved.startswith("/proc/"):
        return False
    process = resolved.split("/", 3)[2]
    return process.isdigit() or process in {"self", "thread-self"}


def leads_into_process(path: str) -> bool:
    """Whether a command that uses this path would see the secrets of a process other than its own."""
    if not path.startswith("/proc/"):
        return False
    process, *below = path.split("/")[2:]
    return process.isdigit() and not _INSIDE_PROCESS.isdisjoint(below)


def _check_text(value: str) -> None:
    if not value.strip():
        raise PathRefused("it is empty")
    if "\0" in value:
        raise PathRefused("it has a NUL character")
    _check_length(value)


def _check_length(value: str) -> None:
    if value.isascii() and len(value) <= MAX_NAME_BYTES:
        return
    try:
        encoded = os.fsencode(value)
    except UnicodeEncodeError:
        raise PathRefused("it has characters no file name can have") from None
    if len(encoded) <= MAX_NAME_BYTES:
        return
    if len(encoded) > MAX_PATH_BYTES or any(len(name) > MAX_NAME_BYTES for name in encoded.split(b"/")):
        raise PathRefused("it is too long")


def _self_and_parents(resolved: str) -> Iterable[str]:
    while True:
        yield resolved
        parent = resolved.rpartition("/")[0]
        if not parent or parent[-1] == "/":  # not an ordinary path, or the last step
            parent = os.path.dirname(resolved)
            if parent == resolved:
                return
        resolved = parent


def _identity(path: str, looked_at: _Identities) -> _Identity:
    if path not in looked_at:
        try:
            status = os.stat(path)
        except OSError:
            looked_at[path] = None
        else:
            looked_at[path] = status.st_dev, status.st_ino
    return looked_at[path]


def has_secrets_file(root: str) -> bool:
    """Whether a project has a secrets file, whatever there is to say against it."""
    return os.path.lexists(os.path.join(root, PROJECT_SECRETS_FILE))
