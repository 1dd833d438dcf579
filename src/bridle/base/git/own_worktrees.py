"""Create, commit and list git worktrees for subagents, each on its own branch.

They lie in one folder of ours. Git itself keeps the record of them, locked with a note, so that nothing of git's tidies
one away and whoever comes after a crash finds it. Beside each is a lock, held with the name of the repository from
before it is made until whoever works there has ended: where that name stands and nobody holds the lock, somebody was
cut off, and what became of the rest is found by it. Every call is hardened (`git.worktree_call`): no hook and no filter
of the repository runs, also none that only counts in a working tree or on a branch of ours.

Raises `GitFailed`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncGenerator, Callable, Generator
from hashlib import sha256
from typing import Final, NamedTuple

from bridle.base.fs.files import FileLock, private_folder
from bridle.base.git.git_calls import worktree_call
from bridle.base.git.git_config import submodule_folders
from bridle.base.git.git_repository import ChangedLines, GitFailed, Repository, StartGit, run_git
from bridle.base.process.processes import CannotStart

BRANCHES: Final = "bridle/"
"""What the branches of these working trees begin with."""
TIMEOUT_S: Final = 300.0
_MAX_BYTES: Final = 64_000
_LOCK: Final = ".lock"
_PATCH: Final = ".patch"
_POLL_S: Final = 0.02
_LISTING: Final = frozenset({"worktree", "branch"})
"""The git commands that read git's list of worktrees."""
_MAX_NAME: Final = 40


class OwnTree(NamedTuple):
    """One of them. `name` is that of its folder and, behind `BRANCHES`, of its branch; `note` says whose it is.

    `is_listed`: git has it on record. Of one that is not, only the branch is left.
    """

    name: str
    path: str
    note: str
    is_listed: bool = True

    @property
    def branch(self) -> str:
        return f"{BRANCHES}{self.name}"

    @property
    def patch(self) -> str:
        """Where its changes are written to be brought elsewhere."""
        return f"{self.path}{_PATCH}"

    @property
    def has_folder(self) -> bool:
        return os.path.isdir(self.path)

    def lock(self) -> FileLock:
        """Held while somebody works in it, makes it or takes it away."""
        return FileLock(f"{self.path}{_LOCK}")


class NewTree(NamedTuple):
    """One that was just made from the commit `base`, its lock held."""

    tree: OwnTree
    base: str
    lock: FileLock


def plain_name(text: str) -> str:
    """A name for one, whatever the text: no way out of the folder, nothing that git takes for something else."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_MAX_NAME].strip("-") or "agent"


def cut_off(folder: str, repository: str) -> list[str]:
    """The names of those of a repository in which somebody was cut off. `repository` is what its working trees
    share."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(_LOCK))
    except OSError:
        return []
    notes = ((name, FileLock(os.path.join(folder, name)).left_by()) for name in names)
    return [name.removesuffix(_LOCK) for name, note in notes if note == mark_of(repository)]


def mark_of(repository: str) -> dict[str, str]:
    """The note of a lock: which repository it is about. It is short, and UTF-8, whatever the path."""
    return {"repository": sha256(os.fsencode(repository)).hexdigest()}


class OwnTrees:
    """Those of one repository, in `folder`. `at` looks at the repository from a folder, `start` starts what writes."""

    def __init__(
        self, folder: str, *, cwd: str, at: Callable[[str], Repository], start: StartGit, program: str = "git"
    ) -> None:
        self._folder = os.path.realpath(folder)
        self._at = at
        self._start = start
        self._program = program
        self.cwd = cwd
        self.repository = at(cwd)
        self._common = ""

    async def make(self, name: str, note: str) -> NewTree:
        """A new one with what was committed last. Where that fails, or is cancelled, nothing of it stays."""
        root, base = await self.repository.root(), await self.repository.head()
        if base is None:
            raise GitFailed("Failed", "nothing was committed here yet")
        if filters := await self.repository.filters():
            problem = f"git hands files of this repository to a program ({', '.join(filters)})"
            raise GitFailed("FiltersConfigured", problem)
        tree = OwnTree(name, os.path.join(self._folder, name), note)
        if tree.has_folder or await self._has_branch(tree):
            raise GitFailed("Failed", f"there is a {tree.branch} already")
        with _disk_problems():
            private_folder(self._folder)
            lock = await self.hold(tree)
        add = ("worktree", "add", "--quiet", "--no-checkout", "--no-track", "--lock", f"--reason={note}")
        is_whole = False
        try:
            await self._write(root, *add, "-b", tree.branch, "--", tree.path, base)
            await self._write(tree.path, "reset", "--quiet", "--hard")
            is_whole = True
        finally:
            if not is_whole:
                try:
                    with contextlib.suppress(GitFailed):  # why there is none is said; what stayed is listed
                        await self.remove(tree, lock)
                finally:
                    lock.release(keep_note=True)
        return NewTree(tree, base, lock)

    async def hold(self, tree: OwnTree) -> FileLock:
        """The lock of one, taken. Who is cut off from here on is known by it."""
        lock, mark = tree.lock(), mark_of(await self._shared())
        with _disk_problems():
            if not lock.acquire(note=mark):
                raise GitFailed("InUse", f"somebody works in {tree.name}")
        with contextlib.suppress(OSError):  # of somebody who was cut off
            os.unlink(tree.patch)
        return lock

    async def listed(self) -> tuple[OwnTree, ...]:
        """Those there are, whoever made them, and branches whose working tree went when somebody was cut off."""
        found = await self.repository.linked_trees()
        trees = [OwnTree(os.path.basename(one.path), one.path, one.note) for one in found]
        trees = [tree for tree in trees if os.path.dirname(tree.path) == self._folder]
        known = {tree.name for tree in trees}
        for name in cut_off(self._folder, await self._shared()):
            if name in known:
                continue
            rest = OwnTree(name, os.path.join(self._folder, name), "", is_listed=False)
            _clear_empty(rest.path)
            if rest.has_folder or await self._has_branch(rest):
                trees.append(rest)
            else:
                _clear(rest)
        return tuple(trees)

    async def save(self, tree: OwnTree, message: str) -> None:
        """Commits whatever is not committed there, but for what git ignores. One that was never whole has nothing, nor
        has one whose folder is gone."""
        if not tree.has_folder:
            return
        there = self._at(tree.path)
        if await there.branch() != tree.branch:
            raise GitFailed("Failed", "its branch is not the one that is checked out there")
        if await there.head() is None:
            raise GitFailed("Failed", f"its branch {tree.branch} is gone; its files are in {tree.path}")
        if not _has_index(await there.git_folder()):
            return
        changes = {change.path for change in (await there.status(untracked="all")).changes}
        if not changes:
            return
        # git would look into other repositories inside this one, and run what their settings name
        inner = await there.inner_repositories()
        without = (f":(top,exclude,literal){path}" for path in inner)
        await self._write(tree.path, "add", "--all", "--", ":/", *without)
        if moved := changes.intersection(inner):
            await self._write(tree.path, "update-index", "--remove", "--", *moved)
        await self._write(tree.path, "commit", "--quiet", "--no-verify", "--message", message)

    async def beside(self, tree: OwnTree) -> tuple[str, ...]:
        """Folders there with files that no commit of ours can hold: they are other repositories, or stand for one."""
        if not tree.has_folder:
            return ()
        inner = submodule_folders(tree.path, await self._at(tree.path).git_folder())
        return tuple(folder.removeprefix(f"{tree.path}/") for folder in inner if _has_entries(folder))

    async def base(self, tree: OwnTree) -> str:
        """Where its branch left the one that is checked out here."""
        base = await self.repository.merge_base("HEAD", tree.branch)
        if base is None:
            raise GitFailed("Failed", f"{tree.branch} has no commit in common with what is checked out here")
        return base

    async def changes(self, tree: OwnTree, base: str) -> tuple[ChangedLines, ...]:
        return await self.repository.changed_lines(base, tree.branch)

    async def is_untouched(self, tree: OwnTree, base: str) -> bool:
        """Whether nothing was committed there."""
        commit = await self.repository.commit(f"refs/heads/{tree.branch}")
        return commit is not None and commit.name == base

    async def removal(self, tree: OwnTree) -> tuple[tuple[str, ...], ...]:
        """What is said to git to take away what there is of one: the working tree, then its branch."""
        words = list[tuple[str, ...]]()
        if any(one.path == tree.path for one in await self.repository.linked_trees()):
            words.append(("worktree", "remove", "--force", "--force", "--", tree.path))
        if await self._has_branch(tree):
            words.append(("branch", "--quiet", "-D", "--", tree.branch))
        return tuple(words)

    async def remove(self, tree: OwnTree, lock: FileLock) -> None:
        """Takes it away with its branch, and what lies beside it; `lock` is held and goes."""
        root = await self.repository.root()
        for words in await self.removal(tree):
            await self._write(root, *words)
        self.clear(tree, lock)

    def clear(self, tree: OwnTree, lock: FileLock) -> None:
        """Takes away what lies beside one that is gone."""
        _clear(tree)
        lock.release()

    def set_free(self, tree: OwnTree, lock: FileLock) -> None:
        """Gives back a lock. Of a branch without a working tree it stays on record that somebody was cut off."""
        lock.release(keep_note=not tree.is_listed)

    async def _shared(self) -> str:
        """What all working trees of the repository share."""
        if not self._common:
            self._common = await self.repository.common_folder()
        return self._common

    async def _has_branch(self, tree: OwnTree) -> bool:
        return await self.repository.commit(f"refs/heads/{tree.branch}") is not None

    async def _write(self, cwd: str, *words: str) -> None:
        async with self._alone() if words[0] in _LISTING else contextlib.nullcontext():
            await self._run(cwd, *words)

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncGenerator[None]:
        """Keep other sessions from changing git's list of worktrees meanwhile.

        Git reads the whole list when it changes it, and fails on an entry that another git has only begun.
        """
        lock = FileLock(os.path.join(self._folder, _LOCK))
        with _disk_problems():
            private_folder(self._folder)
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    while not lock.acquire():  # noqa: ASYNC110  the lock is between processes
                        await asyncio.sleep(_POLL_S)
            except TimeoutError:
                raise GitFailed("InUse", f"{lock.path} is held by another session") from None
        with lock:
            yield

    async def _run(self, cwd: str, *words: str) -> None:
        filters = await self._at(cwd).configured_filters()
        call = worktree_call(*words, filters=filters, program=self._program)
        try:
            answer = await run_git(
                call, start=self._start, cwd=cwd, timeout_s=TIMEOUT_S, max_bytes=_MAX_BYTES
            )
        except CannotStart as problem:
            raise GitFailed("NoGit", f"git cannot be started ({problem.reason})") from None
        if answer.returncode:
            said = answer.error.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise GitFailed("Failed", f"git {words[0]} failed: {said or answer.returncode}")


def _clear_empty(folder: str) -> None:
    """Takes away a working tree that git had only begun to make."""
    with contextlib.suppress(OSError):
        if os.listdir(folder) == [".git"]:
            os.unlink(os.path.join(folder, ".git"))
        os.rmdir(folder)


def _clear(tree: OwnTree) -> None:
    for path in (tree.patch, tree.lock().path):
        with contextlib.suppress(OSError):
            os.unlink(path)


@contextlib.contextmanager
def _disk_problems() -> Generator[None]:
    try:
        yield
    except OSError as problem:
        raise GitFailed("Failed", f"{problem.filename} cannot be used ({problem.strerror})") from None


def _has_entries(folder: str) -> bool:
    try:
        return bool(os.listdir(folder))
    except OSError:
        return False


def _has_index(git_folder: str) -> bool:
    """Whether a checkout came to its end: git writes the list of files last."""
    return os.path.isfile(os.path.join(git_folder, "index"))
