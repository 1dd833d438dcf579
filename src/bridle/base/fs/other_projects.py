"""Find `.env` files at the top of other projects around a workspace.

Such a file has no fixed place, so it is looked for where projects are: beside the folders of a session, in the home and
in the folders of the home where people keep projects, one level deep. What a look found is remembered as long as the
kernel says that a folder did not change. With each command the folders that hold projects are asked about, and of the
projects a few in turn: what came to one of many is noticed some commands later.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from bridle.base.fs.paths import is_beneath_any
from bridle.base.fs.walker import is_settled
from bridle.base.secrets.secret_files import SECRET_FILES, is_secret_like

MAX_PROJECTS = 200
"""So many folders are looked into, those beside the workspace first."""
MAX_SECRETS = 64
"""So many files are told: a sandbox needs a mount for each."""
_MAX_ENTRIES = 2_000
_LOOK_S = 0.05
"""Nobody waits longer for a slow disk; what was not seen then is looked at with the next command."""
_IN_TURN = 8
"""So many projects are asked about with each command."""
_MARK = ".env"
_PATTERNS = tuple(pattern for pattern in SECRET_FILES if _MARK in pattern or pattern.startswith("!"))
_FOLDERS_OF_PROJECTS = frozenset(
    {"code", "src", "projects", "repos", "repositories", "git", "github", "work", "dev", "developer", "workspace",
     "workspaces", "development", "documents", "desktop"}
)  # fmt: skip
"""Folders in a home, in small letters, whose folders are projects too."""
_TOO_WIDE = frozenset({"/", "/home", "/Users", "/mnt", "/media", "/Volumes", "/tmp", "/var/tmp"})  # noqa: S108
"""What is right in these is nobody's project, or another person's."""


def is_environment_file(name: str) -> bool:
    """Whether a name is that of a file with the variables, and so the passwords, of a project."""
    return _MARK in name.lower() and is_secret_like(name, _PATTERNS)


class _Listed(NamedTuple):
    changed_ns: int
    """-1: so recently that the next change may not show."""
    secrets: tuple[str, ...]
    folders: tuple[str, ...]


class _Look(NamedTuple):
    """What was found around some folders: in those that hold projects, in the projects, and all the secrets there."""

    holding: tuple[str, ...]
    projects: tuple[str, ...]
    secrets: tuple[str, ...]
    whole: bool


class OtherProjects:
    """What is around the folders of a session, for as long as it lasts. `home` is the person's."""

    def __init__(self, home: str) -> None:
        self._home = os.path.realpath(home)
        self._known: dict[str, _Listed] = {}
        self._looks: dict[tuple[str, ...], _Look] = {}
        self._turn = 0

    def secrets(self, inside: Iterable[str]) -> tuple[str, ...]:
        """The environment files around these folders, which are resolved; none that is in one of them."""
        own = tuple(inside)
        look = self._looks.get(own)
        if look is None or not self._still_holds(look):
            look = self._looks[own] = self._look(own)
        return look.secrets

    def _still_holds(self, look: _Look) -> bool:
        begin = self._turn % max(len(look.projects), 1)
        self._turn = begin + _IN_TURN
        asked = (*look.holding, *look.projects[begin : begin + _IN_TURN])
        return look.whole and all(self._known[folder].changed_ns == _changed_ns(folder) for folder in asked)

    def _look(self, own: tuple[str, ...]) -> _Look:
        until_s = time.monotonic() + _LOOK_S
        seen: dict[str, _Listed] = {}
        holding = self._beside(own)
        projects: list[str] = []
        for folder in holding:  # grows meanwhile
            if not self._list(folder, seen):
                continue
            for name in seen[folder].folders:
                inner = f"{folder}/{name}"
                if folder == self._home and name.lower() in _FOLDERS_OF_PROJECTS and inner not in holding:
                    holding.append(inner)
                wanted = len(projects) < MAX_PROJECTS and inner not in own and inner not in holding
                if wanted and time.monotonic() < until_s and self._list(inner, seen):
                    projects.append(inner)
        secrets = (path for listed in seen.values() for path in listed.secrets)
        return _Look(
            tuple(folder for folder in holding if folder in seen),
            tuple(projects),
            tuple(islice((path for path in secrets if not is_beneath_any(path, own)), MAX_SECRETS)),
            whole=time.monotonic() < until_s,
        )

    def _beside(self, own: tuple[str, ...]) -> list[str]:
        """The folders that hold projects, as far as they are known before one is listed."""
        beside = dict.fromkeys(os.path.dirname(folder) for folder in own if folder != self._home)
        found = [folder for folder in beside if folder not in _TOO_WIDE]
        if self._home not in (*found, "/") and not is_beneath_any(self._home, own):
            found.append(self._home)
        return found

    def _list(self, folder: str, seen: dict[str, _Listed]) -> bool:
        """Whether what is in a folder could be told, and was not before."""
        changed_ns = _changed_ns(folder)
        listed = self._known.get(folder)
        if listed is None or listed.changed_ns != changed_ns:
            listed = _listed(folder, changed_ns)
        if folder in seen or listed is None:
            return False
        self._known[folder] = seen[folder] = listed
        return True


def _changed_ns(folder: str) -> int:
    try:
        return os.lstat(folder).st_ctime_ns
    except OSError:
        return 0


def _listed(folder: str, changed_ns: int) -> _Listed | None:
    secrets: list[str] = []
    folders: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in islice(entries, _MAX_ENTRIES):
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith("."):
                        folders.append(entry.name)
                elif is_environment_file(entry.name):
                    secrets.append(entry.path)
    except OSError:
        return None
    settled = is_settled(changed_ns, time.time_ns())
    return _Listed(changed_ns if settled else -1, tuple(sorted(secrets)), tuple(sorted(folders)))
