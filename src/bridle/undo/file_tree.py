"""Looking at a workspace: every file below it, and the content of those that are new or changed since the last look.

The walker lists the folders that changed. In each folder the system is asked how every file is described, and what
differs is read. No symlink is followed, and every look has limits: what lies beyond them is named, never guessed.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import time
from collections.abc import Generator, Sequence
from hashlib import sha256
from typing import NamedTuple, TypeAlias

import msgspec

from bridle.base.fs.files import PathChanged, open_beneath, read_limited
from bridle.base.fs.paths import is_beneath_any
from bridle.base.fs.placeholders import is_stand_in, may_be_stand_in
from bridle.base.fs.walker import FolderEntry, Note, SeenFolder, is_settled, walk_folders
from bridle.base.threads import blocking
from bridle.engine.store_ports import UndoStore
from bridle.engine.undo_records import NEVER_THE_SAME, Contents, Missed, Seen, Signature, State
from bridle.undo.repositories import GIT, Keep

_SMALL_BYTES = 256 << 10
"""Files up to this size are read on the way; larger ones afterwards, the smallest first."""

_OTHER_REPOSITORIES = frozenset({".hg", ".svn", ".jj"})
_NOT_COVERED_OF_GIT = frozenset({"objects", "lfs", "annex", "rr-cache"})
_OBJECTS = "objects"
_CACHE_TAG = "CACHEDIR.TAG"
_KIND = 0o170000
_SEARCH = getattr(os, "O_PATH", os.O_RDONLY)
_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How far a look goes.

    `entries` are files, links and folders of one look, `git_entries` those of repositories, their objects apart,
    `file_bytes` the largest file it reads, `read_bytes` what it reads at most. A first look, which reads the whole
    workspace, may take `first_s`, a later one `later_s`.
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


class _Names(NamedTuple):
    """The names in a folder. `special` is a folder among them that is looked at in its own way: a repository, or the
    objects of one."""

    names: tuple[str, ...]
    special: str = ""


Folders: TypeAlias = dict[str, SeenFolder[_Names | None]]


class Look(msgspec.Struct, kw_only=True):
    """What was seen. Nothing is known about what lies in `unlisted` folders. `apart` are folders left out by rule, with
    their times, `objects` those in which repositories keep their objects. `folders` is for the next walk.

    `fresh` is what differs from what was known before: entries that are not the same, and None for what is gone. Of
    thousands that is mostly few, and nobody needs to look at the others again.
    """

    tree: dict[str, Seen] = {}
    fresh: dict[str, Seen | None] = {}
    unlisted: set[str] = set()
    apart: dict[str, tuple[int, ...]] = {}
    objects: list[str] = []
    folders: Folders = {}

    def put(self, path: str, seen: Seen) -> None:
        self.tree[path] = self.fresh[path] = seen

    def covers(self, path: str) -> bool:
        """Tell whether a path that was not seen was certainly not there: the nearest folder that is known decides."""
        while path not in self.unlisted and path not in self.apart:
            if path == "/" or path in self.tree or path in self.folders:
                return True
            path = os.path.dirname(path)
        return False


class WatchedFolders(msgspec.Struct, frozen=True, kw_only=True):
    """Where undo looks: the workspace first, then folders added to it, all resolved; `apart` are Bridle's own.

    `repositories` are git's own folders for them that lie elsewhere: of a working tree, or of a folder above. Below
    `kept_objects` are the objects of repositories, under the names git gave them. `place` is whose record in the store
    it is (`file_states.rows_in`).
    """

    roots: tuple[str, ...]
    kept_objects: str
    repositories: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    limits: Limits = USUAL
    place: str = ""

    def around(self, known: Look, keep: Keep, *, first: bool = False) -> Look:
        """Look at everything. What is `known` and described as before is taken over; the rest is read, for `keep`."""
        limit_s = self.limits.first_s if first else self.limits.later_s
        looking = _Looking(self, known, keep, time.monotonic() + limit_s)
        looking.around(walk_s=limit_s / 2)
        return looking.look

    def is_of_repository(self, path: str) -> bool:
        """Whether it belongs to a repository that lies elsewhere."""
        return is_beneath_any(path, self.repositories)

    def holds(self, path: str) -> bool:
        return is_beneath_any(path, self.roots)


def look_at(path: str, *, keep: Keep, limit: int = MAX_EXACT_BYTES) -> Seen:
    """One path without following any symlink; its content goes to `keep` unless it is larger than `limit`.

    Below a link nothing is there: what the link leads to has another path. Raises OSError where one cannot look.
    """
    encoded = os.fsencode(path)
    folder, name = os.path.split(path)
    with (
        contextlib.suppress(FileNotFoundError, NotADirectoryError, PathChanged),
        opened_folder(folder) as where,
    ):
        status = os.stat(name, dir_fd=where, follow_symlinks=False)
        if not (may_be_stand_in(status.st_mode) and is_stand_in(name, where)):
            return _seen(encoded, name, where, status, limit, keep)
    return Seen(encoded, NEVER_THE_SAME, None)


@contextlib.contextmanager
def opened_folder(path: str, flags: int = os.O_RDONLY) -> Generator[int]:
    """Open a folder, through no symbolic link."""
    fd = open_beneath(path, flags | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


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
    if stat.S_ISDIR(status.st_mode) or is_settled(status.st_ctime_ns, now_ns):
        return _described(status)
    return NEVER_THE_SAME


def _described(status: os.stat_result) -> Signature:
    if status.st_mode & _KIND == stat.S_IFDIR:
        return (0, 0, 0, 0, status.st_mode)
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode)


def _seen(encoded: bytes, name: str, where: int, status: os.stat_result, limit: int, keep: Keep) -> Seen:
    now_ns = time.time_ns()  # before it is read
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
    with contextlib.suppress(OSError):
        fd = os.open(name, _READ, dir_fd=where)
        try:
            if os.path.samestat(os.fstat(fd), status):
                contents = read_limited(fd, limit)
                return None if contents.truncated else contents.data
        finally:
            os.close(fd)
    return None


class _Looking(msgspec.Struct):
    """A look that goes on until `until_s`. `read` counts bytes; `large` are files to read in the end, by their size."""

    ground: WatchedFolders
    known: Look
    keep: Keep
    until_s: float
    read: int = 0
    large: list[tuple[int, str]] = []
    look: Look = msgspec.field(default_factory=Look)

    def around(self, walk_s: float) -> None:
        """List the folders, then look into them. Repositories come first and have a limit of their own."""
        look, ground, limits = self.look, self.ground, self.ground.limits
        ordinary = self._walk(ground.roots, self._note, limits.entries, walk_s)
        found = [
            os.path.join(path, GIT)
            for path, seen in ordinary.items()
            if seen.entries and seen.entries.special
        ]
        git_entries = min(limits.git_entries, limits.entries)
        within = self._walk((*ground.repositories, *found), _note_of_repository, git_entries, walk_s)
        look.folders = within | ordinary
        look.apart = {path: seen.times for path, seen in look.folders.items() if seen.entries is None}
        for above, paths in itertools.groupby(look.folders, os.path.dirname):
            inside = [path for path in paths if path not in look.apart]
            look.unlisted.update(inside)  # until they are looked into
            with contextlib.suppress(OSError), opened_folder(above, _SEARCH) as where:
                for path in inside:
                    with contextlib.suppress(OSError):
                        self._look_into(path, where)
        self._read_large()
        look.fresh |= dict.fromkeys(path for path in self.known.tree if path not in look.tree)

    def _walk(
        self, roots: Sequence[str], note: Note[_Names | None], max_entries: int, max_s: float
    ) -> Folders:
        known = self.known.folders
        folders = walk_folders(roots, known, note, max_entries=max_entries, max_s=max_s).folders
        wanted = itertools.chain(roots, *(seen.folders for seen in folders.values()))
        self.look.unlisted.update(path for path in wanted if path not in folders)
        return folders

    def _note(
        self, path: str, listed: Sequence[FolderEntry], excluded: bool
    ) -> tuple[_Names | None, Sequence[str]]:
        """Keep nothing of what tools make again, nor of other file systems. A folder that was covered stays so: a
        command cannot hide it by calling it a cache."""
        above, own = os.path.join(path, ""), self.ground.apart
        names = {one.name: one.is_folder for one in listed if above + one.name not in own}
        if path not in self.ground.roots and (
            excluded
            or os.path.basename(path) in _OTHER_REPOSITORIES
            or (_CACHE_TAG in names and path not in self.known.tree)
            or _is_mount(path)
        ):
            return None, ()
        inner = [name for name, is_folder in names.items() if is_folder and name != GIT]
        return _Names(tuple(names), GIT if names.get(GIT) else ""), inner

    def _look_into(self, path: str, where: int) -> None:
        look, entries = self.look, self.look.folders[path].entries
        if entries is None or time.monotonic() > self.until_s:
            return
        fd = os.open(os.path.basename(path) or ".", _ENTER, dir_fd=where)
        try:
            self._look_at_names(fd, path, entries.names)
        finally:
            os.close(fd)
        look.unlisted.discard(path)
        if entries.special == _OBJECTS:  # the one small file among them says where more of them are
            look.objects.append(f"{path}/{_OBJECTS}")
            self._take_path(f"{path}/{_OBJECTS}/info/alternates")
        roots = self.ground.roots
        while path not in look.tree and path not in roots and is_beneath_any(path, roots):
            self._take_path(path)  # a link leads here: to restore it takes the folders above it
            path = os.path.dirname(path)

    def _look_at_names(self, fd: int, folder: str, names: Sequence[str]) -> None:
        known, apart, tree = self.known.tree.get, self.look.apart, self.look.tree
        above = os.path.join(folder, "")
        for name in names:  # thousands of times per command: hence so plain
            path = above + name
            try:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except OSError:
                continue  # it went away while we were looking
            mode = status.st_mode
            if path in apart or (mode & stat.S_ISVTX and is_stand_in(name, fd)):
                continue
            # what is known has settled, or is called never the same
            old = known(path)
            if old is not None and old.signature == _described(status):
                tree[path] = old
            else:
                self._take(path, name, fd, status)

    def _take_path(self, path: str) -> None:
        with contextlib.suppress(OSError):
            seen = look_at(path, keep=self.keep, limit=self.ground.limits.file_bytes)
            if seen.state is not None:
                self.look.tree[path] = seen
                if seen != self.known.tree.get(path):
                    self.look.fresh[path] = seen

    def _take(self, path: str, name: str, where: int, status: os.stat_result) -> None:
        limits, is_small = self.ground.limits, status.st_size <= _SMALL_BYTES
        limit = limits.file_bytes if is_small and self.read <= limits.read_bytes else -1
        with contextlib.suppress(OSError):  # it went away while we were looking
            self.look.put(path, _seen(os.fsencode(path), name, where, status, limit, self.keep))
            if is_small:
                self.read += status.st_size
            else:
                self.large.append((status.st_size, path))

    def _read_large(self) -> None:
        """Read large files, the smallest first, as far as the limits allow. The others stay unknown."""
        limits = self.ground.limits
        for size, path in sorted(self.large):
            self.read += size
            if size > limits.file_bytes or self.read > limits.read_bytes or time.monotonic() > self.until_s:
                return
            self._take_path(path)


def _is_mount(path: str) -> bool:
    """Tell whether a folder lies on another device than the one above it: `os.path.ismount` resolves the whole path."""
    with contextlib.suppress(OSError):
        return os.lstat(path).st_dev != os.lstat(os.path.dirname(path)).st_dev
    return False


def _note_of_repository(
    path: str, listed: Sequence[FolderEntry], _excluded: bool
) -> tuple[_Names, Sequence[str]]:
    """Walk everything of a repository but its objects and its large files."""
    names = tuple(one.name for one in listed)
    inner = {one.name for one in listed if one.is_folder}
    if not (path.endswith(f"/{GIT}") or {_OBJECTS, "refs"} <= inner):
        return _Names(names), sorted(inner)
    return _Names(names, _OBJECTS if _OBJECTS in inner else ""), sorted(inner - _NOT_COVERED_OF_GIT)


BATCH_BYTES = 4 << 20
"""Contents are written in parts of this size, so that a large workspace does not fill the memory."""


class Keeping:
    """Take contents in, part by part, in a worker thread. `rest` gives those that are not stored yet."""

    def __init__(self, store: UndoStore, now_ms: int) -> None:
        self._store = store
        self._keep = blocking(store.keep)
        self._now_ms = now_ms
        self._contents: dict[bytes, bytes] = {}
        self._bytes = 0

    def __call__(self, digest: bytes, data: bytes) -> None:
        self._contents[digest] = data
        self._bytes += len(data)
        if self._bytes >= BATCH_BYTES:
            self._keep(self.rest(), self._now_ms)

    async def flush(self) -> None:
        if contents := self.rest():
            await self._store.keep(contents, self._now_ms)

    def get(self, digest: bytes) -> bytes | None:
        """One of the contents that are not stored yet."""
        return self._contents.get(digest)

    def rest(self) -> Contents:
        contents, self._contents, self._bytes = self._contents, {}, 0
        return contents
