"""Check policy files before and after everything that runs.

Before a command, an MCP call or a hook, a snapshot is taken; after it, a second one is compared with the first. What
may not be is quarantined, and what was there before comes back. All of it is done in threads, one after the other for
the same folders.

Between the calls of a running server nobody can tell who wrote a file. What differs then is reported once and stays.

While something runs, the first snapshot is stored in Bridle's state folder, in a file that is locked. If the engine is
killed, the next session in that folder finds the file without its lock and compares.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple, TypeVar

import msgspec

from bridle.base.fs.files import private_folder, write_all
from bridle.base.fs.paths import is_beneath, is_beneath_any
from bridle.base.fs.placeholders import CLOCK_TICK_NS, is_stand_in, take_away
from bridle.base.secrets.secret_files import is_held_file, is_secret_like
from bridle.base.threads import in_thread
from bridle.engine.ports import SpawnPolicy
from bridle.sandbox.policy_files.commits import is_committed
from bridle.sandbox.policy_files.policy_snapshot import (
    NOTHING,
    PolicyChange,
    PolicyFile,
    SeenRepository,
    Snapshot,
    compare,
    policy_folders_around,
    read_policy_file,
    take_snapshot,
)
from bridle.sandbox.policy_files.quarantine import quarantine

_REDIRECTION = ".git/commondir"
_HELD = (_REDIRECTION, ".git/config.worktree", ".git/hooks", ".git")
"""Where placeholders stand while a command runs."""
_MAX_LIST_BYTES = 256 << 20
T = TypeVar("T")


class Quarantined(NamedTuple):
    """A change and where it was moved to, or why that could not be."""

    change: PolicyChange
    aside: str | OSError


class Checked(NamedTuple):
    """What the check after something that ran came to. `committed` are policy files that git brought from a commit."""

    quarantined: Sequence[Quarantined]
    committed: Sequence[str]
    cut: bool


class _StoredList(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot as it is stored: paths are bytes, and no content of a file that may hold secrets is kept."""

    roots: tuple[bytes, ...]
    began_ns: int
    cut: bool
    skip: tuple[bytes, ...]
    may_start: bool
    files: dict[bytes, PolicyFile]
    repositories: dict[bytes, SeenRepository]


class PolicyCheck:
    """The check for the folders that are writable together. `lists` is where snapshots are stored; empty: nowhere.
    `changing` holds the paths that Bridle's own tools write in this moment.
    """

    def __init__(self, roots: Sequence[str], lists: str = "", changing: Sequence[Sequence[str]] = ()) -> None:
        self._roots = tuple(roots)
        self._changing = changing
        self._lists = lists
        self._lock = threading.Lock()
        self._baseline = NOTHING
        self._began_ns = 0
        self._running: dict[object, SpawnPolicy] = {}
        self._held: dict[object, frozenset[str]] = {}
        self._dropped: set[object] = set()
        self._earlier: dict[str, PolicyFile] = {}
        self._learned: list[tuple[str, PolicyFile | None]] = []
        self._list: _LockedFile | None = None
        self.servers = 0
        """How many servers run in these folders."""
        self.told_cut = set[str]()
        """The sessions that were told of a walk that was cut short."""

    def begin(self, token: object, policy: SpawnPolicy, held: Collection[str]) -> list[PolicyChange]:
        """Take the snapshot before something runs. Return what changed since the last one while a server ran.

        `held` are paths that no command can change.
        """
        with self._lock:
            self._prune()
            changes: list[PolicyChange] = []
            if not self._running:
                earlier = _earlier_files(self._roots, self._lists)
                changes = self._renew()
                self._earlier = earlier | _earlier_files(self._roots, self._lists)
            if token in self._dropped:
                self._dropped.remove(token)
                return changes
            self._running[token] = policy
            self._held[token] = frozenset(path for path in held if os.path.basename(path) == ".git")
            if self._list is None:
                self._store()
            return changes

    def look(self) -> list[PolicyChange]:
        """Take a snapshot while nothing runs. Return what changed since the last one while a server ran."""
        with self._lock:
            self._prune()
            return [] if self._running else self._renew()

    def drop(self, token: object) -> None:
        """Drop what never ran, at once; `tidy` removes its list."""
        self._dropped.add(token)

    def tidy(self) -> None:
        """Remove the list of what was dropped."""
        with self._lock:
            self._prune()
            self._unstore()

    def end(self, token: object) -> Checked | None:
        """Compare after something ran, and quarantine what may not be. None where that was done already."""
        with self._lock:
            if token not in self._running:
                return None
            after = take_snapshot(self._roots, self._baseline, since_ns=self._began_ns, follow_new=False)
            agreed = self._agreed()
            before = self._learn(self._baseline)
            policies = [*self._running.values()]
            found = compare(
                before,
                after,
                self._roots,
                agreed=agreed,
                skip=self._skip(),
                may_start=any(policy.new_repository for policy in policies),
                since_ns=self._began_ns,
            )
            changes, committed = found.changes, list[str]()
            if changes and all(policy.git_tree for policy in policies):
                committed = [change.path for change in changes if is_committed(change.path)]
                changes = [change for change in changes if change.path not in committed]
            restored = [change.path for change in changes if self._is_restored(change, after)]
            moved = [*_quarantined(self._from_earlier(one) for one in changes if one.path not in restored)]
            self._baseline = self._accepted(found.accepted, after, moved, [*committed, *restored])
            del self._running[token], self._held[token]
            self._unstore()
            return Checked(moved, committed, after.cut or before.cut)

    def learn(self, paths: Iterable[str]) -> None:
        """Accept what Bridle's own tools wrote, as it is now."""
        targets = [os.fsdecode(file.target) for file in self._baseline.files.values() if file.target]
        for path in paths:
            root = next((root for root in self._roots if is_beneath(path, root)), None)
            if root is not None and (
                is_held_file(os.path.relpath(path, root)) or is_beneath_any(path, targets)
            ):
                self._learned.append((path, read_policy_file(path, self._roots)))

    def _prune(self) -> None:
        for token in [*self._dropped]:
            if self._running.pop(token, None) is not None:
                del self._held[token]
                self._dropped.remove(token)

    def _renew(self) -> list[PolicyChange]:
        since_ns = self._began_ns if self.servers else None
        self._began_ns = time.time_ns() - CLOCK_TICK_NS
        after, agreed = take_snapshot(self._roots, self._baseline, since_ns=since_ns), self._agreed()
        before = self._learn(self._baseline)
        changes: list[PolicyChange] = []
        if self.servers and before.folders:
            changes = compare(before, after, self._roots, agreed=agreed, may_start=True).changes
        theirs = frozenset(
            path for path in before.theirs & after.files.keys() if after.encloses(path, self._roots)
        )
        self._baseline = after._replace(theirs=theirs)
        return changes

    def _skip(self) -> frozenset[str]:
        """Return the repositories that every running sandbox holds."""
        return frozenset[str].intersection(*self._held.values())

    def _is_restored(self, change: PolicyChange, after: Snapshot) -> bool:
        """Tell whether a file is as it was before a command of another session, whose own check put it back."""
        now, earlier = after.files.get(change.path), self._earlier.get(change.path)
        return now is not None and earlier is not None and now.is_same_as(earlier)

    def _from_earlier(self, change: PolicyChange) -> PolicyChange:
        """Return the change with what was there before a command of another session, where that is something else."""
        earlier = self._earlier.get(change.path)
        if earlier is None or (change.before is not None and change.before.is_same_as(earlier)):
            return change
        return change._replace(before=earlier)

    def _agreed(self) -> list[str]:
        policies = [policy.agreed for policy in self._running.values()]
        return [path for paths in (*self._changing, *policies) for path in paths]

    def _learn(self, snapshot: Snapshot) -> Snapshot:
        """Take what our own tools wrote into a snapshot: after `_agreed`, so that no write is between the two."""
        learned, self._learned = self._learned, []
        if not learned:
            return snapshot
        files = dict(snapshot.files)
        for path, file in learned:
            if file is None:
                files.pop(path, None)
                continue
            files[path] = file
            for folder in policy_folders_around(path, self._roots):
                if (around := read_policy_file(folder, self._roots, is_folder=True)) is not None:
                    files.setdefault(folder, around)
            for link in [name for name, known in files.items() if known.target == os.fsencode(path)]:
                files[link] = msgspec.structs.replace(files[link], digest=file.digest, content=file.content)
        return snapshot._replace(files=files)

    def _accepted(
        self, accepted: Snapshot, after: Snapshot, moved: Sequence[Quarantined], stays: Sequence[str]
    ) -> Snapshot:
        """Return what counts as it is: what `stays`, what could not be moved, and what was quarantined where it is
        now."""
        stuck = [one.change.path for one in moved if isinstance(one.aside, OSError)]
        stays = (*stays, *stuck)
        files, repositories = dict(accepted.files), dict(accepted.repositories)
        if stays:
            files |= {path: file for path, file in after.files.items() if is_beneath_any(path, stays)}
            repositories |= {
                path: one for path, one in after.repositories.items() if is_beneath_any(path, stays)
            }
        asides = [one.aside for one in moved if isinstance(one.aside, str)]
        if asides and (self.servers or len(self._running) > 1):
            now = take_snapshot(self._roots, self._baseline)
            files |= {path: file for path, file in now.files.items() if is_beneath_any(path, asides)}
            repositories |= {
                path: one for path, one in now.repositories.items() if is_beneath_any(path, asides)
            }
        return accepted._replace(files=files, repositories=repositories)

    def _store(self) -> None:
        if not self._lists:
            return
        before, files = self._baseline, {**self._baseline.files, **self._earlier}
        listed = _StoredList(
            roots=tuple(map(os.fsencode, self._roots)),
            began_ns=self._began_ns,
            cut=before.cut,
            skip=tuple(map(os.fsencode, self._skip())),
            may_start=any(policy.new_repository for policy in self._running.values()),
            files={os.fsencode(path): _storable(path, file) for path, file in files.items()},
            repositories={os.fsencode(path): one for path, one in before.repositories.items()},
        )
        with contextlib.suppress(OSError):  # on a full disk, what a killed engine leaves is not found
            name = f"{_name_of(self._roots[0])}.{os.urandom(4).hex()}"
            path = os.path.join(private_folder(self._lists), name)
            self._list = _LockedFile(path, msgspec.msgpack.encode(listed))

    def _unstore(self) -> None:
        if not self._running and self._list is not None:
            self._list.remove()
            self._list = None


class _LockedFile:
    """A file that is locked as long as this process lives."""

    def __init__(self, path: str, data: bytes) -> None:
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH)
            write_all(self._fd, data)
        except OSError:
            self.remove()
            raise

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        os.close(self._fd)


def apart(call: Callable[[], T]) -> asyncio.Future[T]:
    """Run it in a thread, so that nobody else waits. Where there is no room for a thread, run it here."""
    future = in_thread(call)
    if future.done() and isinstance(future.exception(), OSError):
        future = asyncio.get_running_loop().create_future()
        future.set_result(call())
    return future


def check_left_behind(workspace: str, lists: str) -> list[Quarantined]:
    """Compare with the snapshots that killed engines left, quarantine what may not be, and remove their placeholders
    in git's own folder."""
    found: list[Quarantined] = []
    for path in itertools.filterfalse(_is_locked, _lists_of(workspace, lists)):
        with contextlib.suppress(OSError, msgspec.MsgspecError):  # it was not written to its end: nothing ran
            found += _check_list(path)
        with contextlib.suppress(OSError):  # not sooner: we may be killed too
            os.unlink(path)
    for name in _HELD:
        if is_stand_in(place := os.path.join(workspace, name)):
            take_away(place)
    redirection = os.path.join(workspace, _REDIRECTION)
    if os.path.lexists(redirection) and not is_stand_in(redirection):
        found += _quarantined([PolicyChange(redirection, "points git to another folder")])
    return found


def _read_list(path: str) -> _StoredList:
    with open(path, "rb") as file:
        return msgspec.msgpack.decode(file.read(_MAX_LIST_BYTES), type=_StoredList)


def _earlier_files(roots: Sequence[str], lists: str) -> dict[str, PolicyFile]:
    """Return the policy files as they were before commands of other sessions that still run in the first folder."""
    found: dict[str, PolicyFile] = {}
    for path in filter(_is_locked, _lists_of(roots[0], lists) if lists else ()):
        with contextlib.suppress(OSError, msgspec.MsgspecError):  # it ended, or begins only now
            found |= {os.fsdecode(name): known for name, known in _read_list(path).files.items()}
    return found


def _check_list(path: str) -> Iterator[Quarantined]:
    listed = _read_list(path)
    roots = tuple(map(os.fsdecode, listed.roots))
    before = Snapshot(
        {},
        {os.fsdecode(name): known for name, known in listed.files.items()},
        {os.fsdecode(name): known for name, known in listed.repositories.items()},
        frozenset(),
        listed.cut,
    )
    skip = frozenset(map(os.fsdecode, listed.skip))
    after = take_snapshot(roots, before, since_ns=listed.began_ns, follow_new=False)
    found = compare(before, after, roots, skip=skip, may_start=listed.may_start, since_ns=listed.began_ns)
    return _quarantined(found.changes)


def _quarantined(changes: Iterable[PolicyChange]) -> Iterator[Quarantined]:
    for change in changes:
        try:
            aside = quarantine(change)
        except OSError as problem:
            yield Quarantined(change, problem)
            continue
        if aside:
            yield Quarantined(change, aside)


def _lists_of(workspace: str, lists: str) -> list[str]:
    beginning = f"{_name_of(workspace)}."
    try:
        return [os.path.join(lists, name) for name in os.listdir(lists) if name.startswith(beginning)]
    except OSError:
        return []


def _name_of(folder: str) -> str:
    return sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:32]


def _is_locked(path: str) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _storable(path: str, file: PolicyFile) -> PolicyFile:
    return msgspec.structs.replace(file, content=None) if is_secret_like(path) else file
