"""Where a named path really is: symlinks and `..` resolved first, whole components compared afterwards.

PathRefused   the text cannot name a file at all

Comparing text is never enough: `src/../../x`, a link to `/etc` and `/code/shop-old` beside `/code/shop` all
look like the workspace to a prefix test.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

Place: TypeAlias = Literal["workspace", "added", "outside"]

MAX_PATH_BYTES = 4095
MAX_NAME_BYTES = 255

_PROCESS_FOLDER = re.compile(r"/proc/(self|thread-self|\d+)(/|$)")


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

    def place(self, resolved: str) -> Place:
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


def resolve(value: str, cwd: str) -> str:
    """The absolute path that `value` means in `cwd`, without symlinks, `.`, `..` or doubled slashes.

    What does not exist yet resolves through the folders that do. `~` is an ordinary character. Raises
    `PathRefused` for text that names nothing: empty, with a NUL, too long, not encodable, a circle of links.
    """
    _check_text(value)
    resolved = os.path.realpath(os.path.join(cwd, value))
    if resolved.startswith("//"):  # POSIX lets exactly two slashes mean something else; here they mean one
        resolved = resolved[1:]
    _check_length(resolved)
    if any(os.path.islink(path) for path in _self_and_parents(resolved)):
        raise PathRefused("its links lead in a circle")
    return resolved


def is_beneath(path: str, folder: str) -> bool:
    """Whether a resolved path is `folder` or inside it, compared by whole components."""
    return path == folder or path.startswith(folder if folder == "/" else folder + "/")


def is_beneath_any(path: str, folders: Iterable[str]) -> bool:
    return any(is_beneath(path, folder) for folder in folders)


def is_inside_same_folder(path: str, folders: Iterable[str], *, clear: str = "") -> bool:
    """Whether a resolved path lies in one of the folders under whatever name.

    The identity of every folder above it is compared, not only its name: a link, a file system that ignores case and
    a second mount give one folder two names. A folder that does not exist yet is compared by name. `clear` is a folder
    known to lie in none of them: what is above it need not be looked at again.
    """
    forbidden: set[tuple[int, int]] = set()
    for folder in folders:
        identity = _identity(folder)
        if identity is not None:
            forbidden.add(identity)
        elif is_beneath(path, os.path.realpath(folder)):
            return True
    for parent in _self_and_parents(path):
        if parent == clear:
            return False
        if _identity(parent) in forbidden:
            return True
    return False


def is_process_state(resolved: str) -> bool:
    """Whether the path shows a running process: its environment, memory or open files, ours included."""
    return _PROCESS_FOLDER.match(resolved) is not None


def _check_text(value: str) -> None:
    if not value.strip():
        raise PathRefused("it is empty")
    if "\0" in value:
        raise PathRefused("it has a NUL character")
    _check_length(value)


def _check_length(value: str) -> None:
    try:
        encoded = os.fsencode(value)
    except UnicodeEncodeError:
        raise PathRefused("it has characters no file name can have") from None
    if len(encoded) > MAX_PATH_BYTES or any(len(name) > MAX_NAME_BYTES for name in encoded.split(b"/")):
        raise PathRefused("it is too long")


def _self_and_parents(resolved: str) -> Iterable[str]:
    while True:
        yield resolved
        parent = os.path.dirname(resolved)
        if parent == resolved:
            return
        resolved = parent


def _identity(path: str) -> tuple[int, int] | None:
    """Which file or folder a name leads to; None where it leads nowhere."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
