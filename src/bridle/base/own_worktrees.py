"""Working trees of our own in somebody's repository: made, committed, listed, each on a branch of its own.

They lie in one folder of ours. Git itself keeps the record of them, locked with a note, so that nothing of git's tidies
one away and whoever comes after a crash finds it. Every call is hardened (`git.worktree_call`): no hook and no filter
of the repository runs, also none that only counts in a working tree or on a branch of ours.

Raises `GitFailed`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, NamedTuple

from bridle.base.files import FileLock, private_folder
from bridle.base.git import worktree_call
from bridle.base.git_repository import ChangedLines, GitFailed, Repository, StartGit, run_git
from bridle.base.processes import CannotStart

BRANCHES: Final = "bridle/"
"""What the branches of these working trees begin with."""
TIMEOUT_S: Final = 300.0
_MAX_BYTES: Final = 64_000


class OwnTree(NamedTuple):
    """One of them. `name` is that of its folder and, behind `BRANCHES`, of its branch; `note` says whose it is."""

    name: str
    path: str
    note: str

    @property
    def branch(self) -> str:
        return f"{BRANCHES}{self.name}"

    def lock(self) -> FileLock:
        """Held while somebody works in it."""
        return FileLock(f"{self.path}.lock")


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

    async def make(self, name: str, note: str) -> tuple[OwnTree, str]:
        """A new one with what was committed last, and that commit."""
        root, base = await self.repository.root(), await self.repository.head()
        if base is None:
            raise GitFailed("Failed", "nothing was committed here yet")
        if filters := await self.repository.filters():
            problem = f"git hands files of this repository to a program ({', '.join(filters)})"
            raise GitFailed("FiltersConfigured", problem)
        private_folder(self._folder)
        tree = OwnTree(name, os.path.join(self._folder, name), note)
        add = ("worktree", "add", "--quiet", "--no-checkout", "--no-track", "--lock", f"--reason={note}")
        await self._write(root, *add, "-b", tree.branch, "--", tree.path, base)
        is_whole = False
        try:
            await self._write(tree.path, "reset", "--quiet", "--hard")
            is_whole = True
        finally:
            if not is_whole:
                await self.remove(tree)
        return tree, base

    async def listed(self) -> tuple[OwnTree, ...]:
        """Those there are, whoever made them."""
        found = await self.repository.linked_trees()
        trees = (OwnTree(os.path.basename(one.path), one.path, one.note) for one in found)
        return tuple(tree for tree in trees if os.path.dirname(tree.path) == self._folder)

    async def save(self, tree: OwnTree, message: str) -> None:
        """Commits whatever is not committed there, but for what git ignores. One that was never whole has nothing."""
        there = self._at(tree.path)
        if await there.branch() != tree.branch:
            raise GitFailed("Failed", "its branch is not the one that is checked out there")
        if not _has_index(await there.git_folder()) or not (await there.status(untracked="all")).changes:
            return
        await self._write(tree.path, "add", "--all")
        await self._write(tree.path, "commit", "--quiet", "--no-verify", "--message", message)

    async def base(self, tree: OwnTree) -> str:
        """Where its branch left the one that is checked out here."""
        return await self.repository.merge_base("HEAD", tree.branch) or tree.branch

    async def changes(self, tree: OwnTree, base: str) -> tuple[ChangedLines, ...]:
        """What its commits changed."""
        return await self.repository.changed_lines(base, tree.branch)

    async def is_untouched(self, tree: OwnTree, base: str) -> bool:
        """Whether nothing was committed there."""
        commit = await self.repository.commit(f"refs/heads/{tree.branch}")
        return commit is not None and commit.name == base

    async def remove(self, tree: OwnTree) -> None:
        """Takes it away with its branch."""
        root = await self.repository.root()
        for words in removal(tree):
            await self._write(root, *words)

    async def _write(self, cwd: str, *words: str) -> None:
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


def _has_index(git_folder: str) -> bool:
    """Whether a checkout came to its end: git writes the list of files last."""
    return os.path.isfile(os.path.join(git_folder, "index"))


def removal(tree: OwnTree) -> tuple[tuple[str, ...], ...]:
    """What is said to git to take one away with its branch."""
    return (
        ("worktree", "remove", "--force", "--force", "--", tree.path),
        ("branch", "--quiet", "-D", "--", tree.branch),
    )
