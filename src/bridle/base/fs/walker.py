"""Walk folders, and list again only those that the kernel says have changed.

The result maps each folder to its kernel times and to the entries the caller is interested in. A folder whose device,
inode and change time (`ctime`, which no command can set) are as before has the same names in it; what is in its files
is for the caller to compare. Excluded folders, such as `node_modules`, are walked last and marked. A link from another
folder that leads into one makes what it leads to an ordinary folder. A folder may become a symlink during a walk: what
the walk finds is names, and callers open what they read with `open_beneath`.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from bridle.base.fs.files import open_up
from bridle.base.fs.paths import follow_links, is_beneath_any
from bridle.base.fs.placeholders import CLOCK_TICK_NS

# A file system's clock ticks: what changes twice within a tick has one time. So what is seen shortly after a
# change tells nothing about the next one, and is looked at again.


_SECOND_NS = 1_000_000_000
_COARSE_TICK_NS = 2 * _SECOND_NS
"""The same where whole seconds are counted."""


def is_settled(changed_ns: int, now_ns: int) -> bool:
    """Whether the next change will have another time."""
    tick_ns = _COARSE_TICK_NS if changed_ns % _SECOND_NS == 0 else CLOCK_TICK_NS
    return now_ns - changed_ns > tick_ns


def is_telling(changed_ns: int, now_ns: int) -> bool:
    """Whether the next change will have another time, whoever makes it.

    A time in whole seconds may be one that commands set as they like, as over SFTP, or one that never changes.
    """
    return changed_ns % _SECOND_NS != 0 and is_settled(changed_ns, now_ns)


MAX_FOLDERS = 200_000
MAX_ENTRIES = 100_000_000
MAX_S = 2.0
_CHECK_EVERY = 128
_READ_AND_ENTER = 0o500
# fmt: off
EXCLUDED = frozenset({
    "node_modules", "bower_components", "site-packages", "__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache",
    ".pytest_cache", ".ruff_cache", ".hypothesis", ".gradle", ".next", ".nuxt", ".turbo", ".parcel-cache",
})
# fmt: on
"""Folders that tools make again by themselves, and in which nobody works."""

T = TypeVar("T")


class FolderEntry(NamedTuple):
    name: str
    is_folder: bool
    is_link: bool


class SeenFolder(NamedTuple, Generic[T]):
    """A folder as it was listed, with `size` names. `folders` and `links` are the paths in it that the walk follows."""

    times: tuple[int, int, int]
    settled: bool
    excluded: bool
    size: int
    folders: tuple[str, ...]
    links: tuple[str, ...]
    entries: T


class FolderWalk(NamedTuple, Generic[T]):
    """The folders that were listed, those near the roots first. `cut`: a limit left some out. What is in the `folders`
    of a listed folder and was not listed itself lies beyond a limit, is unreadable or went away."""

    folders: dict[str, SeenFolder[T]]
    cut: bool


Note: TypeAlias = Callable[[str, Sequence[FolderEntry], bool], tuple[T, Iterable[str]]]
"""Gets a folder, the names in it and whether it is excluded. Returns the entries to keep of it, and the names of the
folders in it to walk."""


def walk_folders(
    roots: Sequence[str],
    known: Mapping[str, SeenFolder[T]],
    note: Note[T],
    *,
    reopen_since_ns: int | None = None,
    max_folders: int = MAX_FOLDERS,
    max_entries: int = MAX_ENTRIES,
    max_s: float = MAX_S,
) -> FolderWalk[T]:
    """Walk the resolved `roots`. Entries of folders in `known` that have not changed are taken over.

    A folder that cannot be read, and has changed since `reopen_since_ns`, is opened for its owner first. An ordinary
    folder with more names than are left of `max_entries` is left out, and the walk continues with the next one.
    """
    until_s = time.monotonic() + max_s
    found: dict[str, SeenFolder[T]] = {}
    ordinary, excluded = deque(roots), deque[str]()
    count, room, cut = 0, max_entries, False
    while ordinary or excluded:
        is_excluded = not ordinary
        path = excluded.popleft() if is_excluded else ordinary.popleft()
        if path in found:
            continue
        count += 1
        if count > max_folders or (count % _CHECK_EVERY == 0 and time.monotonic() > until_s):
            return FolderWalk(found, True)
        allowed = MAX_ENTRIES if is_excluded else room
        seen = _seen(path, known.get(path), note, is_excluded, allowed, reopen_since_ns)
        if seen is None:
            continue
        if seen.size > allowed:
            cut = True
            continue
        found[path] = seen
        if is_excluded:
            excluded += seen.folders
            continue
        room -= seen.size
        for inner in seen.folders:
            (excluded if inner.rpartition("/")[2] in EXCLUDED else ordinary).append(inner)
        if seen.links:
            ordinary += _led_into(seen.links, roots)
    return FolderWalk(found, cut)


def reopen(folder: str, since_ns: int | None) -> os.stat_result:
    """Return the status of a folder. One that cannot be read, and has changed since `since_ns`, is opened for its owner
    first."""
    status = os.lstat(folder)
    if (
        since_ns is not None
        and status.st_ctime_ns >= since_ns
        and status.st_mode & _READ_AND_ENTER != _READ_AND_ENTER
    ):
        open_up(folder)
        status = os.lstat(folder)
    return status


def _led_into(links: Iterable[str], roots: Sequence[str]) -> list[str]:
    """Return the folders in excluded ones below the roots that links lead to."""
    return [
        target
        for target in map(follow_links, filter(os.path.isdir, links))
        if not EXCLUDED.isdisjoint(target.split("/")) and is_beneath_any(target, roots)
    ]


def _seen(
    path: str,
    known: SeenFolder[T] | None,
    note: Note[T],
    excluded: bool,
    max_entries: int,
    reopen_since_ns: int | None,
) -> SeenFolder[T] | None:
    try:
        status = reopen(path, reopen_since_ns)
        times = (status.st_dev, status.st_ino, status.st_ctime_ns)
        if known is not None and known.settled and known.times == times and known.excluded == excluded:
            return known
        settled = is_telling(status.st_ctime_ns, time.time_ns())
        with os.scandir(path) as found:
            listed = [
                FolderEntry(one.name, one.is_dir(follow_symlinks=False), one.is_symlink())
                for one in islice(found, max_entries + 1)
            ]
    except OSError:
        return None
    entries, inner = note(path, listed, excluded)
    above = f"{path.rstrip('/')}/"
    folders = tuple(above + name for name in inner)
    links = () if excluded else tuple(above + one.name for one in listed if one.is_link)
    return SeenFolder(times, settled, excluded, len(listed), folders, links, entries)
