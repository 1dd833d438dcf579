"""Looking at a workspace: every file below it, and the content of those that are new or changed since the last look.

The first look reads everything it keeps; a later one asks the system how each file is described and reads only what
differs. No symlink is followed, each folder is entered from the one above it, and every look has limits: what lies
beyond them is named, never guessed.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import time
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256

import msgspec

from bridle.base.file_times import is_settled
from bridle.base.files import PathChanged, open_beneath, read_limited
from bridle.base.stand_ins import is_stand_in, may_be_stand_in
from bridle.engine.undo_records import NEVER_THE_SAME, Missed, Seen, Signature, State
from bridle.undo.repositories import GIT, Keep

MAX_DEPTH = 100
_SMALL_BYTES = 256 << 10
"""Files up to this size are read on the way; larger ones afterwards, the smallest first."""

# fmt: off
NOT_COVERED = frozenset({
    ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache",
    ".pytest_cache", ".ruff_cache", ".hypothesis", ".gradle", ".next", ".nuxt", ".turbo", ".parcel-cache",
})
# fmt: on
"""Folders that tools make again by themselves, and the records of version control other than git's."""
NOT_COVERED_OF_GIT = frozenset({"lfs", "annex", "rr-cache"})
_OBJECTS = "objects"
_CACHE_TAG = "CACHEDIR.TAG"
_KIND = 0o170000
_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How far a look goes.

    `entries` are files, links and folders of one look, `git_entries` those of repositories, their objects apart,
    `file_bytes` the largest file it reads, `read_bytes` what it
    reads at most. A first look, which reads the whole workspace, may take `first_s`, a later one `later_s`.
    """

    entries: int = 20_000
    git_entries: int = 4_000
    file_bytes: int = 4 << 20
    read_bytes: int = 64 << 20
    first_s: float = 2.0
    later_s: float = 1.0


USUAL = Limits()
MAX_EXACT_BYTES = 16 << 20
"""The largest file that is kept when a call names it."""


class Look(msgspec.Struct, kw_only=True):
    """What was seen. Nothing is known about what lies in `unlisted` folders. `apart` are folders left out by rule,
    `objects` those in which repositories keep their objects.

    `fresh` is what differs from what was known before: entries that are not the same, and None for what is gone. Of
    thousands that is mostly few, and nobody needs to look at the others again.
    """

    tree: dict[str, Seen] = {}
    fresh: dict[str, Seen | None] = {}
    unlisted: set[str] = set()
    apart: dict[str, tuple[int, ...]] = {}
    objects: list[str] = []

    def put(self, path: str, seen: Seen) -> None:
        self.tree[path] = self.fresh[path] = seen

    def drop(self, path: str) -> None:
        del self.tree[path]
        self.fresh[path] = None

    def covers(self, path: str) -> bool:
        """Whether a path that was not seen was certainly not there."""
        if not self.unlisted:
            return True
        folder = os.path.dirname(path)
        while folder not in self.unlisted:
            if folder == "/":
                return True
            folder = os.path.dirname(folder)
        return False


def look_around(
    roots: Sequence[str],
    *,
    known: Mapping[str, Seen],
    keep: Keep,
    repositories: Sequence[str] = (),
    apart: Collection[str] = (),
    limits: Limits = USUAL,
    first: bool = False,
) -> Look:
    """Everything below the resolved folders, and the small files of `repositories` that lie elsewhere. `apart` are
    absolute folders nobody looks into.

    What is `known` and described as before is taken over; the rest is read and given to `keep`.
    """
    limit_s = limits.first_s if first else limits.later_s
    return _Walk(known, keep, frozenset(apart), limits, limit_s).around(roots, repositories)


def look_at(path: str, *, keep: Keep, limit: int = MAX_EXACT_BYTES) -> Seen:
    """One path without following any symlink; its content goes to `keep` unless it is larger than `limit`.

    Below a link nothing is there: what the link leads to has another path. Raises OSError where one cannot look.
    """
    encoded = os.fsencode(path)
    folder, name = os.path.split(path)
    try:
        where = open_beneath(folder, _ENTER)
    except (FileNotFoundError, NotADirectoryError, PathChanged):
        return Seen(encoded, NEVER_THE_SAME, None)
    try:
        now_ns = time.time_ns()
        status = os.stat(name, dir_fd=where, follow_symlinks=False)
        if may_be_stand_in(status.st_mode) and is_stand_in(name, where):
            return Seen(encoded, NEVER_THE_SAME, None)
        return _seen(encoded, name, where, status, now_ns, limit, keep)
    except FileNotFoundError:
        return Seen(encoded, NEVER_THE_SAME, None)
    finally:
        os.close(where)


def newly_missed(before: Look, after: Look, roots: Sequence[str]) -> list[Missed]:
    """What changed out of sight between two looks, as far as it can be told."""
    missed = [
        Missed(shown_below(path, roots), "skipped")
        for path in sorted(before.apart.keys() | after.apart.keys())
        if before.apart.get(path) != after.apart.get(path)
    ]
    unlisted = sorted(before.unlisted | after.unlisted)
    return [*missed, *(Missed(shown_below(path, roots), "limit") for path in unlisted)]


def shown_below(path: str, roots: Sequence[str]) -> str:
    """The path as people read it, relative to the workspace, which is the first root. Any text can hold it."""
    workspace = roots[0].rstrip("/") + "/"
    shown = path.removeprefix(workspace) if path != roots[0] else "."
    return shown.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def signature_of(status: os.stat_result, now_ns: int) -> Signature:
    """How the system describes a file, if that is enough to notice the next change; folders have only a mode."""
    if stat.S_ISDIR(status.st_mode):
        return (0, 0, 0, 0, status.st_mode)
    if not is_settled(status.st_ctime_ns, now_ns):
        return NEVER_THE_SAME
    return _described(status)


def _described(status: os.stat_result) -> Signature:
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode)


def _seen(
    encoded: bytes, name: str, where: int, status: os.stat_result, now_ns: int, limit: int, keep: Keep
) -> Seen:
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISREG(status.st_mode):
        data = _content(name, where, status, limit)
        if data is None:
            return Seen(encoded, _described(status), State("file", mode, size=status.st_size))
        digest = sha256(data).digest()
        keep(digest, data)
        return Seen(encoded, signature_of(status, now_ns), State("file", mode, digest, size=len(data)))
    if stat.S_ISDIR(status.st_mode):
        return Seen(encoded, signature_of(status, now_ns), State("folder", mode))
    if stat.S_ISLNK(status.st_mode):
        target = os.fsencode(os.readlink(name, dir_fd=where))
        return Seen(encoded, signature_of(status, now_ns), State("link", target=target))
    return Seen(encoded, _described(status), State("other", mode))


def _content(name: str, where: int, status: os.stat_result, limit: int) -> bytes | None:
    """What the file holds, if it may be read, is not too large and was not swapped since it was looked at."""
    if status.st_size > limit:
        return None
    try:
        fd = os.open(name, _READ, dir_fd=where)
    except OSError:
        return None
    try:
        if not os.path.samestat(os.fstat(fd), status):
            return None
        contents = read_limited(fd, limit)
    except OSError:
        return None
    finally:
        os.close(fd)
    return None if contents.truncated else contents.data


class _Walk:
    def __init__(
        self, known: Mapping[str, Seen], keep: Keep, apart: frozenset[str], limits: Limits, limit_s: float
    ) -> None:
        self._known = known
        self._keep = keep
        self._apart = apart
        self._limits = limits
        self._until_s = time.monotonic() + limit_s
        self._now_ns = time.time_ns()
        self._room = limits.entries
        self._git_room = min(limits.git_entries, limits.entries)
        self._read = 0
        self._later: list[tuple[int, str]] = []
        self._device = 0
        self._look = Look(tree=dict(known))  # what is as before stays; what was not met goes in the end
        self._met: list[str] = []

    def around(self, roots: Sequence[str], repositories: Sequence[str]) -> Look:
        for root in (*repositories, *roots):
            if any(root == other or root.startswith(f"{other}/") for other in roots if other is not root):
                continue
            try:
                fd = open_beneath(root, _ENTER)
            except OSError:
                self._look.unlisted.add(root)
                continue
            try:
                self._device = os.fstat(fd).st_dev
                self._below(fd, root, 0, git=root in repositories)
            finally:
                os.close(fd)
        self._drop_gone()
        self._read_later()
        return self._look

    def _drop_gone(self) -> None:
        tree = self._look.tree
        if len(self._met) < len(tree):
            for path in tree.keys() - set(self._met):
                self._look.drop(path)

    def _below(self, fd: int, folder: str, depth: int, *, git: bool) -> None:
        """The files of a folder first, then the folders in it, a repository before the others.

        With `git` it is a folder of a repository's own: those have limits of their own, however large the rest is.
        """
        room = self._git_room if git else self._room
        try:
            with os.scandir(fd) as found:
                entries = list(itertools.islice(found, room + 1))
        except OSError:
            self._look.unlisted.add(folder)
            return
        if len(entries) > room or depth > MAX_DEPTH or time.monotonic() > self._until_s:
            self._look.unlisted.add(folder)
            return
        if git:
            self._git_room -= len(entries)
        else:
            self._room -= len(entries)
        folders: list[tuple[str, str]] = []
        known, met = self._known.get, self._met.append
        above = folder if folder == "/" else f"{folder}/"
        for entry in entries:  # thousands of times per command: hence so plain
            name = entry.name
            path = above + name
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # it went away while we were looking
            old = known(path)
            mode = status.st_mode
            if mode & _KIND == stat.S_IFDIR:
                if self._is_apart(name, path, status, fd, git) or (
                    mode & stat.S_ISVTX and is_stand_in(name, fd)
                ):
                    continue
                if name == GIT:
                    folders.insert(0, (name, path))
                else:
                    folders.append((name, path))
                is_as_before = old is not None and old.signature == (0, 0, 0, 0, mode)
            else:
                # what is known has settled, or is called never the same; `_described`, without a call
                is_as_before = old is not None and old.signature == (
                    status.st_mtime_ns,
                    status.st_ctime_ns,
                    status.st_size,
                    status.st_ino,
                    mode,
                )
            if is_as_before:
                met(path)
            else:
                self._take(path, name, fd, status)
        is_top = git and (folder.endswith(f"/{GIT}") or {_OBJECTS, "refs"} <= {name for name, _ in folders})
        for name, path in folders:
            if is_top and name == _OBJECTS:
                self._look.objects.append(path)
                self._take_alternates(path)
            elif not (is_top and name in NOT_COVERED_OF_GIT):
                self._enter(name, path, fd, depth, git=git or name == GIT)

    def _take_alternates(self, objects: str) -> None:
        """The one small file among the objects: it says where more of them are."""
        path = f"{objects}/info/alternates"
        with contextlib.suppress(OSError):
            seen = look_at(path, keep=self._keep, limit=self._limits.file_bytes)
            if seen.state is not None:
                self._met.append(path)
                if self._known.get(path) != seen:
                    self._look.put(path, seen)

    def _enter(self, name: str, path: str, where: int, depth: int, *, git: bool) -> None:
        try:
            fd = os.open(name, _ENTER, dir_fd=where)
        except OSError:
            self._look.unlisted.add(path)
            return
        try:
            self._below(fd, path, depth + 1, git=git)
        finally:
            os.close(fd)

    def _is_apart(self, name: str, path: str, status: os.stat_result, where: int, git: bool) -> bool:
        """A folder that was covered stays so: nobody hides it by calling it a cache."""
        if path in self._apart or status.st_dev != self._device:
            return True
        if git or (
            name not in NOT_COVERED and (path in self._known or not _exists(f"{name}/{_CACHE_TAG}", where))
        ):
            return False
        self._look.apart[path] = (status.st_mtime_ns, status.st_ino)
        return True

    def _take(self, path: str, name: str, where: int, status: os.stat_result) -> None:
        size = status.st_size
        if stat.S_ISREG(status.st_mode) and size > _SMALL_BYTES:
            self._later.append((size, path))
            self._met.append(path)
            unread = State("file", stat.S_IMODE(status.st_mode), size=size)
            self._look.put(path, Seen(os.fsencode(path), _described(status), unread))
            return
        limit = -1 if self._read > self._limits.read_bytes else self._limits.file_bytes
        try:
            seen = _seen(os.fsencode(path), name, where, status, self._now_ns, limit, self._keep)
        except OSError:
            return  # it went away while we were looking
        self._met.append(path)
        self._look.put(path, seen)
        self._read += size

    def _read_later(self) -> None:
        """Large files, the smallest first, as far as the limits allow. The others stay unknown."""
        for size, path in sorted(self._later):
            if (
                size > self._limits.file_bytes
                or self._read + size > self._limits.read_bytes
                or time.monotonic() > self._until_s
            ):
                return
            self._read += size
            try:
                seen = look_at(path, keep=self._keep, limit=self._limits.file_bytes)
            except OSError:
                continue
            if seen.state is None:
                self._look.drop(path)
            else:
                self._look.put(path, seen)


def _exists(name: str, where: int) -> bool:
    try:
        os.stat(name, dir_fd=where, follow_symlinks=False)
    except OSError:
        return False
    return True
