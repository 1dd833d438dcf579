"""What programs obey below the folders that commands write to: how it was, and what a command made of it.

Mounts hold the top of a folder. Below it, and where a name is missing that is rarely there, a command is looked after
once it is over: files that later runs obey, and repositories that came to name programs for git to run, wherever they
are. What it had from before is known from the look with which the first command began.

A look costs one call for each folder: what is in one is read again only when the kernel says that it changed. When a
file came to be what it is, the kernel says too (`ctime`); no command can set that.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from bridle.base.file_times import is_telling
from bridle.base.files import open_up, read_limited
from bridle.base.git_config import LOOKING_HOOKS, MAX_CONFIG_BYTES, unproven_settings
from bridle.base.paths import is_beneath, is_beneath_any
from bridle.base.secret_files import POLICY_PARENTS, is_held_file
from bridle.base.stand_ins import CLOCK_TICK_NS, is_stand_in, may_be_stand_in
from bridle.sandbox.confinement import ALWAYS_PROTECTED
from bridle.sandbox.git_places import GitPlaces, repository_at

MAX_FOLDERS = 30_000
FIRST_S, LATER_S = 1.0, 0.5
"""How far a look goes, nearest folders first."""
LONG_LOOK = 1_000
"""So many folders take some ms."""
_MAX_BYTES = 256 * 1024
_MAX_OBEYED = 512
_GIT = ".git"
_BARE = frozenset({"HEAD", "objects", "refs"})
# fmt: off
_DEPENDENCIES = frozenset({
    "node_modules", "bower_components", "site-packages", "__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache",
    ".pytest_cache", ".ruff_cache", ".hypothesis", ".gradle", ".next", ".nuxt", ".turbo", ".parcel-cache",
})
# fmt: on
"""Nobody works in these: only repositories count there."""
_OBEYED = "is something that later runs obey"
_PARTIAL_CLONE = ("[remote ", "promisor", "partialclonefilter")

Kind = Literal["file", "folder", "repository", "bare"]


class ObeyedFile(NamedTuple):
    """A file that later runs obey: how the kernel describes it, and what it holds if that is known."""

    signature: tuple[int, ...]
    mode: int
    content: bytes | None
    link: str = ""


class MadeFile(NamedTuple):
    """What a command made. `before` is what was there, if that is known; `why` reads behind "it"."""

    path: str
    why: str
    before: ObeyedFile | None = None


class _Inner(NamedTuple):
    """A folder in another. Of dependencies only repositories count; `theirs` is what is beneath a new repository."""

    path: str
    depends: bool = False
    theirs: bool = False


class _Folder(NamedTuple):
    described: tuple[int, int, int]
    settled: bool
    inner: tuple[_Inner, ...]
    obeyed: tuple[tuple[str, Kind], ...]
    repository: bool
    bare: bool


class _Met(NamedTuple):
    path: str
    kind: Kind
    theirs: bool
    """It is beneath a new repository, and part of it."""


class FolderLook(NamedTuple):
    """What was found; `since_ns` is what was asked for."""

    met: Sequence[_Met]
    folders: dict[str, _Folder]
    since_ns: int = 0


class Lookout:
    """For the folders that are writable together, from the first command to the last."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = tuple(root for root in roots if not _is_bare(root))
        self._folders: dict[str, _Folder] = {}
        self._obeyed: dict[str, ObeyedFile | None] = {}
        self._repositories: dict[str, frozenset[str]] = {}
        self._theirs: set[str] = set()
        self._running: list[int] = []
        self._shared = False
        self._begun = False

    @property
    def is_long(self) -> bool:
        """Whether a look takes so long that nobody else should wait for it: `before` and `after` are for a thread
        then."""
        return not self._begun or len(self._folders) > LONG_LOOK

    def before(self, held: Collection[str] = ()) -> FolderLook:
        """What is there before a command, for `begin`. `held` no command can change."""
        if self._running:
            return FolderLook((), self._folders)
        return self._look(LATER_S if self._begun else FIRST_S, held, before_command=True)

    def begin(self, before: FolderLook) -> int:
        """A command is about to start. What it is called when it ends."""
        self._shared = bool(self._running)
        if not self._shared:
            self._learn_all(before)
        self._begun = True
        began = time.time_ns() - CLOCK_TICK_NS
        self._running.append(began)
        return began

    def learn_all(self, held: Collection[str] = ()) -> None:
        """What is there now counts as it is, unless a command runs that may have made it."""
        if not self._running:
            self._learn_all(self.before(held))
        self._begun = True

    def after(self, held: Collection[str] = ()) -> FolderLook:
        """What is there after a command, for `end`. `held` no command can change."""
        return self._look(LATER_S, held, since_ns=min(self._running, default=time.time_ns()))

    def end(self, began: int, after: FolderLook, *, agreed: Collection[str] = ()) -> list[MadeFile]:
        """What the command made that it may not. `agreed` a person let it change."""
        self._running.remove(began)
        self._folders = after.folders
        return self._sift(after.met, after.since_ns, began, agreed, alone=not self._shared)

    def look(
        self, since_ns: int, *, held: Collection[str], agreed: Collection[str], top_only: bool
    ) -> list[MadeFile]:
        """What came or changed since then that may not: somebody who stays may have made it. `top_only` looks at the
        top of the folders and no further."""
        look = self._look(LATER_S, held, since_ns=since_ns, top_only=top_only)
        self._folders = look.folders
        return self._sift(look.met, since_ns, since_ns, agreed, alone=False)

    def learn_top(self, until_ns: int, *, held: Collection[str]) -> None:
        """At the top of the folders, what has not changed since then counts as it is, unless a command may have made
        it."""
        until_ns = min((until_ns, *self._running))
        look = self._look(LATER_S, held, top_only=True)
        self._folders = look.folders
        for met in look.met:
            if (changed_ns := _changed_ns(met)) < until_ns:
                self._learn(met, changed_ns)

    def _learn_all(self, look: FolderLook) -> None:
        self._folders = look.folders
        for met in look.met:
            self._learn(met)

    def _sift(
        self, walk: Iterable[_Met], first: int, began: int, agreed: Collection[str], *, alone: bool
    ) -> list[MadeFile]:
        """Of what is met, what came or changed since it `began` and may not; nothing older than `first` is judged."""
        came: list[MadeFile] = []
        above = ""
        for met in walk:
            if above and met.path.startswith(above):
                continue
            changed_ns = _changed_ns(met)
            if met.theirs:
                self._theirs.add(met.path)
            if met.theirs or is_beneath_any(met.path, agreed):
                self._learn(met)
            elif met.path in self._theirs and self._is_orphaned(met.path):
                came.append(MadeFile(met.path, _OBEYED))
            elif changed_ns < first:
                if alone and self._was_moved(met):
                    came.append(MadeFile(_entry(met), _OBEYED))
                else:
                    self._learn(met, changed_ns)
            elif changed_ns >= began and (found := self._judge(met, agreed)):
                came.append(found)
                if met.kind == "folder":
                    above = f"{met.path}/"
        return came

    def forget(self, began: int) -> None:
        """The command did not start after all."""
        self._running.remove(began)

    def left_since(self, since_ns: int, *, top_held: bool) -> list[MadeFile]:
        """Repositories that name programs since then, and files that later runs obey, where nobody knows what was
        there before. Where the top was held, some of these cannot be of a command."""
        found: list[MadeFile] = []
        names = ALWAYS_PROTECTED if top_held else ()
        held = {os.path.join(root, name) for root in self._roots for name in names}
        for met in self._look(FIRST_S, held).met:
            if met.kind == "folder" or is_beneath_any(met.path, held) or _changed_ns(met) < since_ns:
                continue
            if met.kind == "file":
                found.append(MadeFile(met.path, _OBEYED))
            elif reasons := _reasons(met.path, met.kind, self._roots):
                found.append(MadeFile(_entry(met), _words(reasons)))
        return found[:_MAX_OBEYED]

    def learn(self, paths: Iterable[str]) -> None:
        """Somebody else changed these, as they may."""
        for path in paths:
            if self._begun and is_beneath_any(path, self._roots):
                self._obeyed[path] = _read(path)
                for folder in _held_folders(path, self._roots):
                    self._obeyed.setdefault(folder, None)

    def learn_aside(self, path: str) -> None:
        """This was put aside, and stays as it is: a repository is one under any name."""
        if _is_bare(path):
            self._learn(_Met(path, "bare", False))

    def _judge(self, met: _Met, agreed: Collection[str]) -> MadeFile | None:
        if met.kind in ("repository", "bare"):
            reasons = _reasons(met.path, met.kind, self._roots)
            new = reasons - self._repositories.get(met.path, frozenset())
            if new:
                return MadeFile(_entry(met), _words(new))
            self._repositories[met.path] = reasons
            return None
        if met.path not in self._obeyed:
            if met.kind == "folder" and any(path.startswith(f"{met.path}/") for path in agreed):
                return None
            if met.kind == "file" and self._is_the_same(met):
                self._learn(met)
                return None
            return MadeFile(met.path, _OBEYED)
        if met.kind == "folder":
            return None
        known = self._obeyed[met.path]
        now = _read(met.path, known)
        unread = now is None or (now.content is None and not now.link)
        if not unread and known is not None and now is not None and now[2:] == known[2:]:
            return None
        return MadeFile(met.path, _OBEYED, known)

    def _is_the_same(self, met: _Met) -> bool:
        """Whether it is a file that was there, untouched: it was made just before, and moved with its folder."""
        now = _read(met.path)
        return now is not None and any(
            known == now for path, known in self._obeyed.items() if path not in self._theirs
        )

    def _is_orphaned(self, path: str) -> bool:
        """Whether the repository that it came with is gone, so that it speaks for the folder around it now."""
        folder = os.path.dirname(path)
        while folder not in self._roots and len(folder) > 1:
            if os.path.lexists(os.path.join(folder, _GIT)):
                return False
            folder = os.path.dirname(folder)
        self._theirs.discard(path)
        return True

    def _was_moved(self, met: _Met) -> bool:
        """Whether a command brought something old here with the folder around it, that was obeyed nowhere before.

        Only a command that ran alone can have: what was there when it began is known.
        """
        if met.kind == "folder" or met.path in self._obeyed or met.path in self._repositories:
            return False
        if met.kind != "file":
            known = frozenset[str]().union(*self._repositories.values())
            return not _reasons(met.path, met.kind, self._roots) <= known
        now = _read(met.path)
        return now is not None and all(
            known is None or known[2:] != now[2:]
            for path, known in self._obeyed.items()
            if path not in self._theirs
        )

    def _learn(self, met: _Met, changed_ns: int | None = None) -> None:
        """It counts as it is. Not if it was changed since `changed_ns` after all: somebody may work while we look."""
        if met.kind == "folder":
            self._obeyed.setdefault(met.path, None)
            return
        if met.kind == "file":
            now, reasons = _read(met.path, self._obeyed.get(met.path)), frozenset[str]()
        else:
            now, reasons = None, _reasons(met.path, met.kind, self._roots)
        if changed_ns is not None and _changed_ns(met) != changed_ns:
            return
        if met.kind != "file":
            self._repositories[met.path] = reasons
        elif len(self._obeyed) < _MAX_OBEYED or met.path in self._obeyed:
            self._obeyed[met.path] = now

    def _look(
        self,
        limit_s: float,
        held: Collection[str] = (),
        *,
        before_command: bool = False,
        since_ns: int | None = None,
        top_only: bool = False,
    ) -> FolderLook:
        """Everything that counts, nearest first; what is in a folder after the folder itself. A folder that cannot be
        looked into, since then, is opened for its owner. Nothing is noted here, so that it may be done in a thread."""
        known = self._folders
        folders: dict[str, _Folder] = {}
        walk = self._walk(known, folders, limit_s, held, before_command, since_ns, top_only)
        met = list(walk)
        return FolderLook(met, {**known, **folders} if top_only else folders, since_ns or 0)

    def _walk(
        self,
        before: Mapping[str, _Folder],
        folders: dict[str, _Folder],
        limit_s: float,
        held: Collection[str],
        before_command: bool,
        since_ns: int | None,
        top_only: bool,
    ) -> Iterator[_Met]:
        until_s = time.monotonic() + limit_s
        level = [_Inner(root) for root in self._roots]
        count = 0
        while level:
            below: list[_Inner] = []
            for folder in level:  # tens of thousands, before and after each command
                count += 1
                if count > MAX_FOLDERS or (count % 256 == 0 and time.monotonic() > until_s):
                    folders |= {path: seen for path, seen in before.items() if path not in folders}
                    return
                path, _, theirs = folder
                seen = before.get(path)
                if seen is None or not (seen.settled and _stands(path, seen, since_ns)):
                    seen = _seen(folder, seen, before_command=before_command, since_ns=since_ns)
                if seen is None:
                    continue
                folders[path], own = seen, theirs
                if (
                    seen.repository
                    and (entry := os.path.join(path, _GIT)) not in held
                    and not _keeps_missing(entry)
                ):
                    new = path not in before and entry not in self._repositories
                    own = theirs or (new and not _reasons(entry, "repository", self._roots))
                    yield _Met(entry, "repository", False)
                if seen.bare and path not in self._roots:
                    yield _Met(path, "bare", False)
                for name, kind in seen.obeyed:
                    inner = os.path.join(path, name)
                    if inner not in held and not _keeps_missing(inner):
                        yield _Met(inner, kind, own)
                        if kind == "folder":
                            yield from _inside(inner, own)
                below += [inner._replace(theirs=True) for inner in seen.inner] if own else seen.inner
            level = below
            if top_only:
                return


def _stands(path: str, known: _Folder, since_ns: int | None) -> bool:
    """Whether a folder is as it was, and was so before that time."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    described = (status.st_dev, status.st_ino, status.st_ctime_ns)
    return described == known.described and (since_ns is None or status.st_ctime_ns < since_ns)


def _seen(
    folder: _Inner, known: _Folder | None, *, before_command: bool, since_ns: int | None
) -> _Folder | None:
    path, depends, _ = folder
    try:
        status = os.lstat(path)
        if since_ns is not None and status.st_ctime_ns >= since_ns and status.st_mode & 0o500 != 0o500:
            open_up(path)
            status = os.lstat(path)
        ctime_ns = status.st_ctime_ns
        described = (
            status.st_dev,
            status.st_ino,
            ctime_ns,
        )  # two folders may have one time, and change places
        if known is not None and known.described == described:
            if known.settled:
                return known
            if before_command and is_telling(ctime_ns, time.time_ns()):  # a command will change it
                return known._replace(settled=True)
        with os.scandir(path) as entries:
            listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except OSError:
        return None
    inner: list[_Inner] = []
    obeyed: list[tuple[str, Kind]] = []
    above = os.path.basename(path)
    parent = f"{above}/" if above in POLICY_PARENTS else ""
    beneath = f"{path.rstrip('/')}/"
    for name, is_folder in listed:
        if name == _GIT:
            continue
        if not depends and is_held_file(parent + name):
            obeyed.append((name, "folder" if is_folder else "file"))
        elif is_folder:
            inner.append(_Inner(beneath + name, depends or name in _DEPENDENCIES))
    names = {name for name, _ in listed}
    return _Folder(
        described,
        is_telling(ctime_ns, time.time_ns()),
        tuple(inner),
        tuple(obeyed),
        _GIT in names,
        names >= _BARE,
    )


def _held_folders(path: str, roots: Sequence[str]) -> Iterator[str]:
    """The folders around it of which everything is obeyed."""
    root = next(root for root in roots if is_beneath(path, root))
    folder = os.path.dirname(path)
    while is_beneath(folder, root) and is_held_file(os.path.relpath(folder, root)):
        yield folder
        folder = os.path.dirname(folder)


def _keeps_missing(path: str) -> bool:
    """Whether it only stands there while a command runs."""
    try:
        return may_be_stand_in(os.lstat(path).st_mode) and is_stand_in(path)
    except OSError:
        return False


def _inside(folder: str, theirs: bool) -> Iterator[_Met]:
    """Every file in a folder of which everything is obeyed."""
    count = 0
    for above, _, names in os.walk(folder):
        for name in names:
            count += 1
            if count > _MAX_OBEYED:
                return
            yield _Met(os.path.join(above, name), "file", theirs)


def _read(path: str, known: ObeyedFile | None = None) -> ObeyedFile | None:
    """The file as it is; `known`, if that is how it is still. None if it is gone or no file."""
    try:
        status = os.lstat(path)
        signature = (status.st_ctime_ns, status.st_ino, status.st_size)
        if (
            known is not None
            and known.signature == signature
            and time.time_ns() - signature[0] > CLOCK_TICK_NS
        ):
            return known
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            return ObeyedFile(signature, mode, None, os.readlink(path))
        contents = read_limited(path, _MAX_BYTES)
    except OSError:
        return None
    return ObeyedFile(signature, mode, None if contents.truncated else contents.data)


def _changed_ns(met: _Met) -> int:
    """When it came to be what it is."""
    paths = [met.path]
    if met.kind in ("repository", "bare"):
        names = (
            "config",
            "config.worktree",
            "commondir",
            "HEAD",
            "hooks",
            *(f"hooks/{hook}" for hook in LOOKING_HOOKS),
        )
        paths += [os.path.join(met.path, name) for name in names]
    return max(map(_ctime_ns, paths))


def _ctime_ns(path: str) -> int:
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 0


def _entry(met: _Met) -> str:
    """What to rename so that git does not take it for a repository."""
    return os.path.join(met.path, "HEAD") if met.kind == "bare" else met.path


def _words(reasons: Collection[str]) -> str:
    return "leads git elsewhere" if "elsewhere" in reasons else "names programs for git to run"


def _reasons(path: str, kind: Kind, roots: Sequence[str]) -> frozenset[str]:
    """Why git should not look at a repository: what may name a program, as it is written, and where it leads."""
    if kind == "bare" or (os.path.isdir(path) and not os.path.islink(path)):
        return _reasons_of(path, harmless=_PARTIAL_CLONE)
    git = repository_at(os.path.dirname(path), path)
    if git is None or not git.ours:
        return frozenset({"elsewhere"})
    return (
        frozenset()
        if _is_guarded(git, roots)
        else _reasons_of(git.common, harmless=(*_PARTIAL_CLONE, "worktree"))
    )


def _is_guarded(git: GitPlaces, roots: Sequence[str]) -> bool:
    """Whether it is a working tree or submodule of a repository whose settings no command changes."""
    tops = [os.path.join(root, _GIT) for root in roots]
    return is_beneath_any(git.common, tops) or not is_beneath_any(git.common, roots)


def _reasons_of(git_dir: str, *, harmless: Sequence[str]) -> frozenset[str]:
    found = {hook for hook in LOOKING_HOOKS if os.path.lexists(os.path.join(git_dir, "hooks", hook))}
    redirection = os.path.join(git_dir, "commondir")
    if os.path.lexists(redirection) and not is_stand_in(redirection):
        found.add("elsewhere")
    for name in ("config", "config.worktree"):
        try:
            contents = read_limited(os.path.join(git_dir, name), MAX_CONFIG_BYTES)
        except FileNotFoundError:
            continue
        except OSError:
            found.add("unreadable")
            continue
        settings = unproven_settings(os.fsdecode(contents.data))
        found |= {setting for setting in settings if not _is_harmless(setting, harmless)}
        if contents.truncated:
            found.add("unreadable")
    return frozenset(found)


def _is_harmless(setting: str, harmless: Sequence[str]) -> bool:
    """Of what is not proven: how a partial clone knows its remote, and where the files of a submodule are."""
    section, _, line = setting.rpartition("] ")
    key = line.partition("=")[0].strip().lower()
    if section.startswith("[remote "):
        return key in harmless
    return (section == "[core" and key == "worktree" and "worktree" in harmless) or (
        section == "[extensions" and key == "partialclone"
    )


def _is_bare(folder: str) -> bool:
    return all(os.path.lexists(os.path.join(folder, name)) for name in _BARE)
