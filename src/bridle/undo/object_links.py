"""Hard links to the objects of git repositories, so that undo gives back a repository that a command destroyed.

Git writes an object or a pack once and names it by its content. Each gets a second name in a folder of Bridle's own.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from bridle.base.fs.files import private_folder
from bridle.base.fs.paths import is_beneath_any
from bridle.engine.undo_records import Lost
from bridle.undo.file_tree import WatchedFolders, opened_folder

_NAME = re.compile(r"[0-9a-f]{2}/(?:[0-9a-f]{38}|[0-9a-f]{62})|pack/pack-[0-9a-f]{40,64}\.[a-z]+")
_INDEX = b"\377tOc\0\0\0\2"
_IDS_AT = len(_INDEX) + 256 * 4


class ObjectLinks:
    """The links below `folder`. `problems` says of which objects no link can be made, and why."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._seen: dict[str, set[str]] = {}
        self.problems: dict[str, str] = {}

    def look(self, objects: str) -> Lost | None:
        """Link new objects. Return those that went since the last look, or at first since an earlier session."""
        now, store = _names_in(objects), self._store(objects)
        known = self._seen[objects] if objects in self._seen else _names_in(store)
        self._seen[objects] = now
        try:
            for name in now - known:
                private_folder(os.path.join(store, os.path.dirname(name)))
                with contextlib.suppress(FileExistsError, FileNotFoundError):
                    os.link(os.path.join(objects, name), os.path.join(store, name), follow_symlinks=False)
        except OSError as problem:
            self.problems[objects] = problem.strerror or str(problem)
        lost = self._missing(objects, went := known - now, now)
        for name in went - lost:  # git packed it, and the link would only take room
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(store, name))
        kept = tuple(sorted(name for name in lost if os.path.lexists(os.path.join(store, name))))
        return Lost(os.fsencode(objects), kept) if kept else None

    def knows(self, objects: str) -> bool:
        return os.path.isdir(self._store(objects))

    def holds(self, lost: Lost, number: str) -> bool:
        indexes = (os.path.join(self._store(lost.name), name) for name in lost.names if name.endswith(".idx"))
        packed = any(bytes.fromhex(number) in _pack_ids(index, int(number[:2], 16)) for index in indexes)
        return packed or f"{number[:2]}/{number[2:]}" in lost.names

    def put_back(self, lost: Lost) -> list[str]:
        """Link what is missing back, through no symbolic link. Return the names that could not be put back."""
        failed: list[str] = []
        for name in sorted(lost.names, key=lambda name: name.endswith(".idx")):  # by which git finds a pack
            folder, rest = os.path.split(name)
            kept = os.path.join(self._store(lost.name), name)
            try:
                with opened_folder(lost.name) as where, contextlib.suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=where)
                with opened_folder(f"{lost.name}/{folder}") as where, contextlib.suppress(FileExistsError):
                    os.link(kept, rest, dst_dir_fd=where, follow_symlinks=False)
            except OSError:
                failed.append(name)
        return failed

    def forget_old(self, now_ms: int, days: int) -> None:
        """Remove links whose object went from its repository so many days ago."""
        for folder, _, names in os.walk(self._folder, topdown=False):
            with contextlib.suppress(OSError):
                for path in (os.path.join(folder, name) for name in names):
                    status = os.lstat(path)
                    if status.st_nlink == 1 and status.st_ctime < now_ms / 1000 - days * 24 * 3600:
                        os.unlink(path)
                os.rmdir(folder)  # fails unless it is empty

    def _store(self, objects: str) -> str:
        return os.path.join(self._folder, hashlib.sha256(os.fsencode(objects)).hexdigest()[:32])

    def _missing(self, objects: str, went: set[str], now: set[str]) -> set[str]:
        """Return the names among `went` with an object that is neither loose nor in a pack now."""
        missing, here = _loose(went), _loose(now)
        packs = {name[:-4] for name in now if name.endswith(".idx") and f"{name[:-4]}.pack" in now}
        gone = {name.partition(".")[0] for name in went if name.startswith("pack/")} - packs
        lost = set[str]()
        for first in range(256) if went else ():
            have = {*here}.union(*(_pack_ids(os.path.join(objects, f"{pack}.idx"), first) for pack in packs))
            missing = {number: name for number, name in missing.items() if number not in have}
            old = {pack: _pack_ids(os.path.join(self._store(objects), f"{pack}.idx"), first) for pack in gone}
            lost |= {pack for pack, ids in old.items() if not ids <= have}
        return {*missing.values(), *(name for name in went if name.partition(".")[0] in lost)}


def _names_in(objects: str) -> set[str]:
    return {name for name in glob.glob("*/*", root_dir=objects) if _NAME.fullmatch(name)}


def _loose(names: set[str]) -> dict[bytes, str]:
    return {bytes.fromhex(name.replace("/", "")): name for name in names if name[2] == "/"}


def _pack_ids(index: str, first: int) -> set[bytes]:
    """Return the ids in the index of a pack that begin with this byte; none if it cannot be read."""
    width = 32 if len(os.path.basename(index)) > len("pack-.idx") + 40 else 20
    with contextlib.suppress(OSError, struct.error), open(index, "rb") as file:
        head = file.read(_IDS_AT)
        if head.startswith(_INDEX):
            ends = (0, *struct.unpack(">256I", head[len(_INDEX) :]))
            file.seek(_IDS_AT + ends[first] * width)
            ids = file.read(max(0, ends[first + 1] - ends[first]) * width)
            return {ids[at : at + width] for at in range(0, len(ids), width)}
    return set()


class FoundRepository(Protocol):
    """A repository that git would use in a folder: what its working trees share, and whether it surely is theirs."""

    @property
    def common(self) -> str: ...
    @property
    def ours(self) -> bool: ...


def watched_folders(
    roots: Iterable[str],
    *,
    kept_objects: str,
    apart: Sequence[str],
    find_repository: Callable[[str], FoundRepository | None],
) -> WatchedFolders:
    """The folders of a session with the repositories they belong to; `apart` are Bridle's own, as they are named."""
    roots = tuple(dict.fromkeys(roots))
    found = map(find_repository, roots)
    repositories = dict.fromkeys(git.common for git in found if git is not None and git.ours)
    return WatchedFolders(
        roots=roots,
        kept_objects=kept_objects,
        repositories=tuple(path for path in repositories if not is_beneath_any(path, roots)),
        apart=tuple(map(os.path.realpath, apart)),
    )


def with_destroyed(
    watched: WatchedFolders, named_repositories: Callable[[str], Iterable[str]]
) -> WatchedFolders:
    """Add the repositories elsewhere that were watched and are destroyed. `named_repositories` are those that a
    folder and the ones above it name."""
    objects = ObjectLinks(watched.kept_objects)
    named = dict.fromkeys(
        (*watched.repositories, *(path for root in watched.roots for path in named_repositories(root)))
    )
    known = (path for path in named if objects.knows(os.path.join(path, "objects")))
    elsewhere = tuple(path for path in known if not is_beneath_any(path, watched.roots))
    return msgspec.structs.replace(watched, repositories=elsewhere)
