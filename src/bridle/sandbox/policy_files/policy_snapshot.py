"""Take a snapshot of policy files, and compare two snapshots.

A snapshot holds every policy file with its content, and every repository with the reasons not to trust it. A new or
changed policy file is a change, wherever it is; so is a repository that came to name programs for git to run. A file
that is gone is none, nor is what came with a new, harmless repository.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec

from bridle.base.fs.files import files_below, read_limited
from bridle.base.fs.paths import follow_links, is_beneath, is_beneath_any
from bridle.base.fs.placeholders import is_stand_in, may_be_stand_in
from bridle.base.fs.walker import FolderEntry, FolderWalk, SeenFolder, is_telling, reopen, walk_folders
from bridle.base.git.git_config import LOOKING_HOOKS, MAX_CONFIG_BYTES, unproven_settings
from bridle.base.secrets.secret_files import POLICY_PARENTS, is_held_file
from bridle.sandbox.git_places import GitPlaces, repository_at

_MAX_BYTES = 256 * 1024
_MAX_FILES = 20_000
"""In one policy folder."""
_TRIES = 3
_GIT = ".git"
_BARE = frozenset({"HEAD", "objects", "refs"})
_LED_ELSEWHERE = frozenset({"HEAD", "commondir"})
"""The same to git, with objects and settings in another folder."""
_IS_POLICY = "is a policy file"
_PARTIAL_CLONE = ("[remote ", "promisor", "partialclonefilter")


class PolicyFile(msgspec.Struct, frozen=True, array_like=True):
    """A policy file: its kernel times, what it holds if that is known, and where it leads if it is a link.

    `signature` is (ctime, inode, size). `target` is the file or folder below the same folders that a link leads to;
    `digest` and `content` are of that one then. A file without a digest was too large or could not be read.
    `settled`: the next change to it has another time.
    """

    signature: tuple[int, int, int]
    mode: int
    is_folder: bool = False
    digest: bytes = b""
    content: bytes | None = None
    link: bytes = b""
    target: bytes = b""
    settled: bool = False

    def is_same_as(self, other: PolicyFile) -> bool:
        if not (self.is_folder or self.digest or self.link) and self.signature != other.signature:
            return False
        mine = (self.is_folder, self.digest, self.link, self.target)
        return mine == (other.is_folder, other.digest, other.link, other.target)


class SeenRepository(msgspec.Struct, frozen=True, array_like=True):
    """A repository by device and inode, and why git should not look at it."""

    identity: tuple[int, int]
    reasons: frozenset[str]


class PolicyChange(NamedTuple):
    """A change that no command may make. `before` is what was there, if that is known; `why` reads behind "it"."""

    path: str
    why: str
    before: PolicyFile | None = None


class _Entries(NamedTuple):
    """What counts in a folder: policy files by name and whether they are folders, and whether it is a repository."""

    obeyed: tuple[tuple[str, bool], ...]
    repository: bool
    bare: bool


class Snapshot(NamedTuple):
    """The policy files and repositories by path. `theirs` came with a repository that a command made or cloned."""

    folders: dict[str, SeenFolder[_Entries | None]]
    files: dict[str, PolicyFile]
    repositories: dict[str, SeenRepository]
    theirs: frozenset[str]
    cut: bool

    def encloses(self, path: str, roots: Sequence[str]) -> str:
        """Return the folder of the repository below the roots that a path lies in; empty if there is none."""
        folder = os.path.dirname(path)
        while folder not in roots and len(folder) > 1:
            if os.path.join(folder, _GIT) in self.repositories:
                return folder
            folder = os.path.dirname(folder)
        return ""


NOTHING = Snapshot({}, {}, {}, frozenset(), cut=False)


class Difference(NamedTuple):
    """What may not be, and the snapshot that counts from here on: without that."""

    changes: list[PolicyChange]
    accepted: Snapshot


def take_snapshot(
    roots: Sequence[str], before: Snapshot, *, since_ns: int | None = None, follow_new: bool = True
) -> Snapshot:
    """Return what is there. Unchanged files are not read again.

    A folder that was closed since `since_ns` is opened for its owner. Folders beyond a limit are as they were before.
    `follow_new`: what is in a folder that a new policy link leads to counts, too.
    """
    walk: FolderWalk[_Entries | None] = walk_folders(roots, before.folders, _note, reopen_since_ns=since_ns)
    folders = {**before.folders, **walk.folders} if walk.cut else walk.folders
    files: dict[str, PolicyFile] = {}
    repositories: dict[str, SeenRepository] = {}
    cut = walk.cut
    for path, seen in folders.items():
        if seen.entries is None:
            continue
        if seen.entries.repository:
            _add_repository(os.path.join(path, _GIT), roots, repositories, bare=False)
        if seen.entries.bare and path not in roots:
            _add_repository(path, roots, repositories, bare=True)
        for name, is_folder in seen.entries.obeyed:
            inner = os.path.join(path, name)
            cut |= _add(inner, is_folder, roots, before, files, since_ns=since_ns, follow_new=follow_new)
    return Snapshot(folders, files, repositories, before.theirs & files.keys(), cut)


def compare(
    before: Snapshot,
    after: Snapshot,
    roots: Sequence[str],
    *,
    agreed: Collection[str] = (),
    skip: Collection[str] = (),
    may_start: bool = False,
    since_ns: int = 0,
) -> Difference:
    """Compare two moments. `agreed` may change; `skip` are repositories that sandboxes hold; `may_start`: a root may
    become a repository.

    Where the first walk was cut short, what the kernel says is older than `since_ns` was there before. A repository at
    the top of a root that is older was there as well.
    """
    changes: dict[str, PolicyChange] = {}
    repositories = dict(after.repositories)
    tops = [os.path.join(root, _GIT) for root in roots]
    for path, now in after.repositories.items():
        is_new = path not in before.repositories
        is_recent = _changed_ns(path) >= since_ns
        is_start = is_new and is_recent and path in tops and not may_start
        why = _IS_POLICY if is_start else _words(_new_reasons(path, now, before))
        if why and path not in skip and not (before.cut and is_new and not is_recent):
            changes[path] = PolicyChange(_entry(path), why)
            del repositories[path]
    files: dict[str, PolicyFile] = {}
    moved = {file.signature for path, file in before.files.items() if path not in before.theirs}
    theirs = set(before.theirs)
    new_folder = ""
    for path, now in after.files.items():
        if new_folder and path.startswith(new_folder):
            continue
        old = before.files.get(path)
        change: PolicyChange | None = None
        home = after.encloses(path, roots)
        if is_beneath_any(path, agreed) or (
            now.is_folder and any(one.startswith(f"{path}/") for one in agreed)
        ):
            theirs.discard(path)
        elif old is not None and (path not in theirs or home):
            change = _changed(path, old, now, after, agreed)
        elif home and _is_made(home, before) and f"{home}/{_GIT}" in repositories:
            theirs.add(path)
        else:
            theirs.discard(path)
            if now.signature not in moved and not (before.cut and now.signature[0] < since_ns):
                change = PolicyChange(path, _IS_POLICY)
        if change is None:
            files[path] = now
            continue
        changes.setdefault(change.path, change)
        if now.is_folder:
            new_folder = f"{path}/"
        if old is not None:
            files[path] = old
    if after.cut:
        files = {**before.files, **files}
        repositories = {**before.repositories, **repositories}
    accepted = Snapshot(after.folders, files, repositories, frozenset(theirs & files.keys()), after.cut)
    return Difference([*changes.values()], accepted)


def _is_made(folder: str, before: Snapshot) -> bool:
    """Tell whether the repository of a folder is new, and nothing was in the folder before."""
    if f"{folder}/{_GIT}" in before.repositories:
        return False
    return folder not in before.folders or before.folders[folder].size == 0


def _changed(
    path: str, old: PolicyFile, now: PolicyFile, after: Snapshot, agreed: Collection[str]
) -> PolicyChange | None:
    if now.is_same_as(old):
        return None
    if not now.link or now.link != old.link:
        return PolicyChange(path, _IS_POLICY, old)
    if now.target != old.target:
        return PolicyChange(path, _IS_POLICY)
    target = os.fsdecode(now.target)
    if target in after.files or is_beneath_any(target, agreed):
        return None  # it is judged by itself, or may change
    before = PolicyFile(old.signature, 0o644, content=old.content) if old.content is not None else None
    return PolicyChange(target, _IS_POLICY, before)


def read_policy_file(
    path: str, roots: Sequence[str], known: PolicyFile | None = None, *, is_folder: bool = False
) -> PolicyFile | None:
    """Return the file as it is; `known`, if the kernel says that it is so still. None if it is gone."""
    try:
        status = os.lstat(path)
        signature = (status.st_ctime_ns, status.st_ino, status.st_size)
        mode = stat.S_IMODE(status.st_mode)
        if is_folder:
            return PolicyFile(signature, mode, is_folder=True)
        if stat.S_ISLNK(status.st_mode):
            target, link = follow_links(path), os.fsencode(os.readlink(path))
            if not is_beneath_any(target, roots):
                return PolicyFile(signature, mode, link=link)
            return PolicyFile(signature, mode, False, *_content(target), link, os.fsencode(target))
        if known is not None and known.settled and known.signature == signature:
            return known
        settled = is_telling(signature[0], time.time_ns())
        return PolicyFile(signature, mode, False, *_content(path), settled=settled)
    except OSError:
        return None


def policy_folders_around(path: str, roots: Sequence[str]) -> Iterator[str]:
    """Yield the folders around a policy file of which every file is one."""
    root = next(root for root in roots if is_beneath(path, root))
    folder = os.path.dirname(path)
    while is_beneath(folder, root) and is_held_file(os.path.relpath(folder, root)):
        yield folder
        folder = os.path.dirname(folder)


def _note(path: str, listed: Sequence[FolderEntry], excluded: bool) -> tuple[_Entries | None, list[str]]:
    """Of an excluded folder only repositories count."""
    inner: list[str] = []
    obeyed: list[tuple[str, bool]] = []
    above = path.rpartition("/")[2]
    parent = f"{above}/" if above.lower() in POLICY_PARENTS else ""
    names: set[str] = set()
    for name, is_folder, _ in listed:
        names.add(name)
        if name == _GIT:
            continue
        if not excluded and is_held_file(parent + name):
            obeyed.append((name, is_folder))
        elif is_folder:
            inner.append(name)
    repository, bare = _GIT in names, names >= _BARE or names >= _LED_ELSEWHERE
    entries = _Entries(tuple(sorted(obeyed)), repository, bare) if obeyed or repository or bare else None
    return entries, inner


def _add(
    path: str,
    is_folder: bool,
    roots: Sequence[str],
    before: Snapshot,
    files: dict[str, PolicyFile],
    *,
    since_ns: int | None,
    follow_new: bool,
) -> bool:
    """Add a policy file, and what is in it if it is a folder or leads to one. Return whether that was too much.

    Without `follow_new`, a link that came or changed is a change by itself: what is in its folder may be anything.
    """
    known = before.files.get(path)
    file = read_policy_file(path, roots, known, is_folder=is_folder)
    if file is None:
        return False
    files[path] = file
    below = path if is_folder else os.fsdecode(file.target)
    if not is_folder and (
        is_beneath(path, below) or not (follow_new or (known is not None and known.target == file.target))
    ):
        return False
    for count, inner in enumerate(files_below(below, enter=lambda folder: reopen(folder, since_ns))):
        if count == _MAX_FILES:
            return True
        if (found := read_policy_file(inner, roots, before.files.get(inner))) is not None:
            files[inner] = found
    return False


def _content(path: str) -> tuple[bytes, bytes | None]:
    """Return the digest of a file and what it holds; neither where it is too large or cannot be read."""
    try:
        contents = read_limited(path, _MAX_BYTES)
    except OSError:
        return b"", None
    return (b"", None) if contents.truncated else (sha256(contents.data).digest(), contents.data)


# Repositories


def _add_repository(
    path: str, roots: Sequence[str], repositories: dict[str, SeenRepository], *, bare: bool
) -> None:
    try:
        status = os.lstat(path)
        for _ in range(_TRIES):  # the placeholders of commands that run come and go
            if not may_be_stand_in(status.st_mode):
                break
            if is_stand_in(path):
                return
            status = os.lstat(path)
    except OSError:
        return
    repositories[path] = SeenRepository((status.st_dev, status.st_ino), _reasons(path, roots, bare=bare))


def _new_reasons(path: str, now: SeenRepository, before: Snapshot) -> frozenset[str]:
    """A repository that was moved with its folder is the same one."""
    if path in before.repositories:
        return now.reasons - before.repositories[path].reasons
    moved = (old.reasons for old in before.repositories.values() if old.identity == now.identity)
    return now.reasons - frozenset[str]().union(*moved)


def _entry(path: str) -> str:
    """Return what to rename so that git does not take it for a repository."""
    return path if os.path.basename(path) == _GIT else os.path.join(path, "HEAD")


def _words(reasons: Collection[str]) -> str:
    if not reasons:
        return ""
    return "points git to another folder" if "elsewhere" in reasons else "names programs for git to run"


def _changed_ns(path: str) -> int:
    """Return when a repository came to be what it is."""
    hooks = (f"hooks/{hook}" for hook in LOOKING_HOOKS)
    names = ("", "config", "config.worktree", "commondir", "HEAD", "hooks", *hooks)
    changed = 0
    for name in names:
        try:
            changed = max(changed, os.lstat(os.path.join(path, name).rstrip("/")).st_ctime_ns)
        except OSError:
            continue
    return changed


def _reasons(path: str, roots: Sequence[str], *, bare: bool) -> frozenset[str]:
    """Return why git should not look at a repository: what may name a program, as written, and where it leads."""
    if bare or (os.path.isdir(path) and not os.path.islink(path)):
        return _reasons_of(path, harmless=_PARTIAL_CLONE)
    git = repository_at(os.path.dirname(path), path)
    if git is None or not git.ours:
        return frozenset({"elsewhere"})
    if _is_guarded(git, roots):
        return frozenset()
    return _reasons_of(git.common, harmless=(*_PARTIAL_CLONE, "worktree"))


def _is_guarded(git: GitPlaces, roots: Sequence[str]) -> bool:
    """Tell whether it is a working tree or submodule of a repository whose settings no command changes."""
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
        settings = unproven_settings(contents.data.decode("utf-8", "backslashreplace"))
        found |= {setting for setting in settings if not _is_harmless(setting, harmless)}
        if contents.truncated:
            found.add("unreadable")
    return frozenset(found)


def _is_harmless(setting: str, harmless: Sequence[str]) -> bool:
    """Tell whether it says how a partial clone knows its remote, or where the files of a submodule are."""
    section, _, line = setting.rpartition("] ")
    key = line.partition("=")[0].strip().lower()
    if section.startswith("[remote "):
        return key in harmless
    return (section == "[core" and key == "worktree" and "worktree" in harmless) or (
        section == "[extensions" and key == "partialclone"
    )
