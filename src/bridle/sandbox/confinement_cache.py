"""What policies meant here a moment ago, for as long as nothing changed that was looked at.

Working out a confinement asks the system about a hundred times, mostly with the same answers as for the command before.
So what was looked at is noted with how the kernel describes it. When a later look at that says the same, the answer
stands. It stands only after a second look gave the same answer: what changed between a look and its note would not show
otherwise. So does what changed so recently that the next change may have the same time.

Only plain situations are noted: a workspace that is no home, at most one ordinary repository around each folder, no
submodules, links that stay in their folder. Everything else is worked out anew for each command.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from bridle.base.file_times import FolderNames, is_settled
from bridle.base.files import read_limited
from bridle.base.git_config import submodule_folders
from bridle.base.paths import is_beneath, is_beneath_any
from bridle.base.private_places import SHOWN_IN_EMPTIED
from bridle.base.secret_files import POLICY_PARENTS
from bridle.engine.ports import SpawnPolicy
from bridle.sandbox.confinement import (
    ALWAYS_PROTECTED,
    Confinement,
    HostContext,
    absolute,
    confinement_of,
    hidden_names,
    on_one_file_system,
    policy_files_in,
    real_path,
    socket_names,
)
from bridle.sandbox.git_places import find_repository
from bridle.sandbox.mount_list import mounts_of

_MOST = 8
_OF_A_REPOSITORY = (
    *("HEAD", "objects", "refs", "hooks", "config", "config.worktree", "commondir", "modules", "worktrees", "index"),
)  # fmt: skip
_SHARED_INDEX = "sharedindex."
_MANY = ("modules", "worktrees")
_counting_of = attrgetter(*(name for name in SpawnPolicy.__struct_fields__ if name != "variables"))
"""What of a policy says what a command may touch."""

Described: TypeAlias = tuple[int, ...] | None
"""How the kernel describes what stands at a path; None: nothing does. The last number is when it changed, 0 for a
folder, in which things may come and go."""


class _Watched(NamedTuple):
    """What a confinement follows from."""

    places: tuple[str, ...]
    """Where these lead."""
    closed: tuple[str, ...]
    """Folders in which nothing came or went."""
    entries: tuple[str, ...]
    """Each as it is."""
    listed: tuple[tuple[str, frozenset[str]], ...]
    """Folders that are listed, and which of these names are missing there."""
    writable: frozenset[str]
    """Those among them in which it counts what programs obey."""
    own: tuple[str, ...]
    """The folders of the session: which files of others are around them."""
    mounted: frozenset[str]
    """Those of all of these that are mounted, or on which something is."""


class _Seen(NamedTuple):
    places: tuple[str, ...]
    closed: tuple[Described, ...]
    entries: tuple[Described, ...]
    listed: tuple[tuple[str, ...], ...]
    hidden: tuple[str, ...]
    others: tuple[str, ...]


class _Known(NamedTuple):
    confinement: Confinement
    watched: _Watched | None
    seen: _Seen | None
    stands: bool


class ConfinementCache:
    """For the commands of one process. `now_ns` is the clock by which files get their times."""

    def __init__(self, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._now_ns = now_ns
        self._known: dict[tuple[Any, ...], _Known] = {}
        self._names = FolderNames(now_ns=now_ns)
        self._obeyed: dict[str, tuple[Sequence[str], tuple[str, ...]]] = {}

    def of(self, policy: SpawnPolicy, place: HostContext, cwd: str) -> Confinement:
        """The same as `confinement_of`."""
        key = (_counting_of(policy), id(place), cwd)
        known = self._known.get(key)
        seen = None
        if known is not None and known.watched is not None:
            seen = self._look(known.watched, place)
            if known.stands and seen == known.seen:
                return known.confinement
        confinement = confinement_of(policy, place, cwd)
        if known is not None and seen is not None and seen == known.seen and confinement == known.confinement:
            self._known[key] = known._replace(stands=self._is_settled(seen))
            return known.confinement
        watched = _watched(confinement, policy, place, cwd)
        if key not in self._known and len(self._known) >= _MOST:
            self._known.clear()
        seen = self._look(watched, place) if watched is not None else None
        self._known[key] = _Known(confinement, watched, seen, stands=False)
        return confinement

    def stands(self, confinement: Confinement) -> bool:
        """Whether nothing has changed that this follows from since it was first given, by the look with which it was
        given last."""
        return any(known.stands and known.confinement is confinement for known in self._known.values())

    def are_in_place(self, confinement: Confinement) -> bool:
        """Whether everything that is mounted for this, and on which it is, is what it was, but for what is in a folder
        whose time would tell. Not for one that was worked out anew."""
        for known in self._known.values():
            if known.confinement is confinement and known.watched is not None and known.seen is not None:
                mounted, seen = (
                    known.watched.mounted,
                    zip(known.watched.entries, known.seen.entries, strict=True),
                )
                return all(_described(path) == described for path, described in seen if path in mounted)
        return False

    def forget(self) -> None:
        """Everything is worked out anew: what was known did not hold."""
        self._known.clear()

    def _look(self, watched: _Watched, place: HostContext) -> _Seen:
        return _Seen(
            tuple(map(real_path, watched.places)),
            tuple(map(_described_folder, watched.closed)),
            tuple(map(_described, watched.entries)),
            tuple(self._counting(folder, names, watched.writable) for folder, names in watched.listed),
            hidden_names(place, names_in=self._names.of),
            _of_others(watched.own, place),
        )

    def _counting(self, folder: str, names: frozenset[str], writable: frozenset[str]) -> tuple[str, ...]:
        """What of these names came to a folder, which indexes it has, and what programs obey in it."""
        try:
            there = self._names.of(folder)
        except OSError:
            return ("/",)
        came = names.intersection(there)
        if folder not in writable:
            return (*sorted(came), *(name for name in there if name.startswith(_SHARED_INDEX)))
        obeyed = self._obeyed.get(folder)
        if obeyed is None or obeyed[0] != there or not POLICY_PARENTS.isdisjoint(there):
            obeyed = self._obeyed[folder] = there, tuple(policy_files_in(folder, there))
        return (*sorted(came), *obeyed[1])

    def _is_settled(self, seen: _Seen) -> bool:
        now_ns = self._now_ns()
        return all(
            is_settled(one[-1], now_ns)
            for one in (*seen.closed, *seen.entries)
            if one is not None and one[-1]
        )


def _watched(confinement: Confinement, policy: SpawnPolicy, place: HostContext, cwd: str) -> _Watched | None:
    """What to look at; None where the situation is not plain."""
    workspace, home = real_path(policy.workspace), real_path(place.home)
    folders = confinement.folders
    links = [kept.link for kept in confinement.kept]
    if (
        (policy.git_config or policy.agreed or policy.git_tree or confinement.watched or confinement.left_out)
        or real_path(cwd or workspace) != workspace
        or any(is_beneath(home, folder) or not os.path.isdir(folder) for folder in (workspace, *folders))
        or any(not link or "/" in link for link in links)
    ):
        return None
    own = tuple(dict.fromkeys((workspace, *folders)))
    git_dirs = list[str]()
    entries = dict.fromkeys((*confinement.held, *confinement.read_only, *confinement.absent))
    entries |= dict.fromkeys(kept.path for kept in confinement.kept)
    covered = frozenset(entries)
    for folder in own:
        found = _around(folder)
        if found is None:
            return None
        entries |= dict.fromkeys(found.entries)
        git_dirs += found.git_dirs
    if place.records and not all(on_one_file_system(git_dir, place.records) for git_dir in git_dirs):
        return None  # packs come and go
    obeyed = [os.path.join(folder, name) for folder in folders for name in ALWAYS_PROTECTED]
    obeyed += [path for folder in folders for path in policy_files_in(folder)]
    if not covered.issuperset(obeyed):
        return None
    named = [*hidden_names(place), *socket_names(place, home), *SHOWN_IN_EMPTIED, *place.temporary]
    named += (*_of_others(own, place), *confinement.hidden)
    closed = dict[str, None]()
    for path in named:
        for one in dict.fromkeys((path, os.path.realpath(path))):
            entry, folder = _first_of_it(one)
            if folder == home or folder in confinement.temporary:  # much comes and goes there
                entries[entry] = None
            else:
                closed[folder] = None
    if any(is_beneath_any(folder, (workspace, *folders, *git_dirs)) for folder in closed):
        return None
    mounted = frozenset(_mounted(confinement))
    entries |= {path: None for path in mounted if os.path.dirname(path) not in closed}
    asked = [os.path.join(workspace, path) for path in (*policy.writable, *policy.readable)]
    asked += (workspace, *folders, *absolute(policy.readable, workspace), confinement.caches, policy.scratch)
    entries |= dict.fromkeys(filter(None, asked))
    listed = {folder: set[str]() for folder in (*folders, *git_dirs, home)}
    there = list[str]()
    for path in entries:
        folder, name = os.path.split(path)
        if folder in listed and not os.path.lexists(path):
            listed[folder].add(name)
        else:
            there.append(path)
    return _Watched(
        places=tuple(dict.fromkeys((policy.workspace, place.home, cwd or workspace))),
        closed=tuple(closed),
        entries=tuple(there),
        listed=tuple((folder, frozenset(names)) for folder, names in listed.items()),
        writable=frozenset(folders),
        own=own,
        mounted=mounted,
    )


def _mounted(confinement: Confinement) -> Iterator[str]:
    """What is mounted for a command, and what it is mounted on. Whoever replaces one of these takes the mount away
    with it, and no table of mounts has changed then."""
    for mount in mounts_of(confinement):
        folder, _, name = mount.path.rpartition("/")
        if mount.path != "/":
            yield mount.path
        if confinement.scratch and folder in confinement.temporary:  # where a command sees its own
            yield os.path.join(confinement.scratch, name)


def _of_others(own: tuple[str, ...], place: HostContext) -> tuple[str, ...]:
    return place.others.secrets(own) if place.others is not None else ()


class _Around(NamedTuple):
    entries: list[str]
    git_dirs: list[str]


def _around(folder: str) -> _Around | None:
    """What says which repository a folder is in; None where that is not plain to say."""
    git = find_repository(folder)
    top = git.top if git is not None else "/"
    entries = list[str]()
    for candidate in _up_to(folder, top):
        entries += (os.path.join(candidate, name) for name in (".git", "HEAD", "objects", "refs"))
    if git is None:
        return _Around(entries, []) if not any(map(os.path.lexists, entries[::4])) else None
    if git.git_dir != git.common or git.git_dir != os.path.join(top, ".git") or not git.ours:
        return None
    if any(os.path.lexists(os.path.join(git.git_dir, name)) for name in _MANY) or _names_files(git.git_dir):
        return None
    if submodule_folders(top, git.git_dir) or os.path.islink(os.path.join(git.git_dir, "index")):
        return None
    entries += (os.path.join(git.git_dir, name) for name in _OF_A_REPOSITORY)
    return _Around(entries, [git.git_dir])


def _names_files(git_dir: str) -> bool:
    """Whether the settings of a repository may lead to other files."""
    for name in ("config", "config.worktree"):
        try:
            said = read_limited(os.path.join(git_dir, name), 64 * 1024)
        except OSError:
            continue
        text = said.data.lower()
        if said.truncated or b"include" in text or b"hookspath" in text or b"worktree" in text:
            return True
    return False


def _up_to(folder: str, top: str) -> Iterator[str]:
    while True:
        yield folder
        if folder == top or folder == "/":
            return
        folder = os.path.dirname(folder)


def _first_of_it(path: str) -> tuple[str, str]:
    """The path, or of what leads to it the first that is missing; and the folder it is missing in."""
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        path, folder = folder, os.path.dirname(folder)
    return path, folder


def _described(path: str) -> Described:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if stat.S_ISDIR(status.st_mode):
        return status.st_dev, status.st_ino, status.st_mode, 0
    return (
        status.st_dev,
        status.st_ino,
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def _described_folder(path: str) -> Described:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns
