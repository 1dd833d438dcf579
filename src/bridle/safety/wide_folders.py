"""Folders that are no workspace by accident: what a session may write would be a whole home or the system itself."""

from __future__ import annotations

import os

import msgspec

from bridle.base.fs.files import UntrustedFile, private_folder, read_trusted, write_atomic
from bridle.base.fs.paths import is_beneath, is_beneath_any

FILE = "wide_folders.json"
MAX_BYTES = 1 << 20
# fmt: off
_SYSTEM = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/sbin", "/sys", "/usr", "/System",
    "/private/etc",
)
"""The system's, with what is below."""
_OPEN_BELOW = ("/dev/shm", "/usr/src", "/usr/local")  # noqa: S108  compared, never opened
_SHARED = (
    "/home", "/root", "/Users", "/var", "/opt", "/srv", "/run", "/mnt", "/media", "/var/lib", "/var/www",
    "/tmp", "/var/tmp",  # noqa: S108
    "/usr/src", "/usr/local", "/usr/local/src", "/dev/shm", "/Library", "/Applications", "/Volumes",  # noqa: S108
    "/private", "/private/tmp", "/private/var",
)
"""Folders that hold the folders of many; one below them is a place to work in."""
# fmt: on


def why_wide(folder: str, home: str) -> str | None:
    """Why a resolved folder is too much for a workspace, as the end of a sentence; None for an ordinary one."""
    home = os.path.realpath(home)
    if folder == "/":
        return "it is the whole file system"
    if folder == home:
        return "it is your home folder"
    if is_beneath(home, folder):
        return "your home folder is in it"
    if folder in _SHARED or (is_beneath_any(folder, _SYSTEM) and not is_beneath_any(folder, _OPEN_BELOW)):
        return "it belongs to the system"
    return None


class AcceptedFolders:
    """The wide folders a person chose to work in at a terminal, one private file for a user."""

    def __init__(self, state: str) -> None:
        self.path = os.path.join(state, FILE)
        self.problem: str | None = None

    def hold(self, folder: str) -> bool:
        """Whether a person said yes to this resolved folder. `problem` says why the file counts for nothing."""
        return folder in self._read()

    def add(self, folder: str) -> None:
        """Raises OSError where it cannot be kept."""
        private_folder(os.path.dirname(self.path))
        write_atomic(self.path, msgspec.json.encode(sorted({*self._read(), folder})) + b"\n")

    def _read(self) -> list[str]:
        self.problem = None
        try:
            return msgspec.json.decode(read_trusted(self.path, MAX_BYTES).data, type=list[str])
        except UntrustedFile as problem:
            self.problem = problem.strerror
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            pass
        return []
