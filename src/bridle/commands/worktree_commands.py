"""`/worktrees`: what agents left in worktrees of their own, for the person to see, to bring here or to throw away.

What was not committed there when an agent was cut off is committed first, on its branch: nothing of it can get lost on
the way. What changes the person's own files or branches is shown and runs as the person, like every git command.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Final, NamedTuple

from bridle.base.fs.files import FileLock
from bridle.base.git.git_repository import ChangedLines, GitFailed
from bridle.base.git.own_worktrees import BRANCHES, OwnTree, OwnTrees
from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible_line
from bridle.commands.git_work import MAX_FILES, GitWork
from bridle.engine.slash_command import SlashEvent
from bridle.protocol.errors import BridleError, UsageError
from bridle.protocol.questions import GitDeed, GitFile, GitQuestion

MAX_DIFF_BYTES: Final = 32 * 1024
MAX_PATCH_BYTES: Final = 100_000_000
_NAMED: Final = 5
_USAGE: Final = "/worktrees, /worktrees show|merge|drop NAME or /worktrees undo|redo NAME"
_DOES_NOT_FIT: Final = re.compile(r"^error: (?:patch failed: (.+):\d+|(.+?): .+)$", re.MULTILINE)


class _Left(NamedTuple):
    """What is left in a worktree. `beside` are folders in it that are repositories of their own: what is in them is on
    no branch of ours. `problem` says why it is not known whole."""

    tree: OwnTree
    base: str = ""
    changes: tuple[ChangedLines, ...] = ()
    is_used: bool = False
    has_no_folder: bool = False
    beside: tuple[str, ...] = ()
    problem: str = ""


async def worktrees(work: GitWork, words: str) -> SlashEvent | None:
    """Carries out `/worktrees words`. An undo has an event of its own."""
    trees = work.needs.trees()
    match words.split():
        case [] | ["list"]:
            work.data["told"] = await _list(trees)
        case ["show", name]:
            work.data["told"] = await _show(work, trees, await _named(trees, name))
        case ["merge", name]:
            await _merge(work, trees, await _named(trees, name))
        case ["drop", name]:
            await _drop(work, trees, await _named(trees, name))
        case ["undo", name]:
            return await _take_back(work, trees, await _named(trees, name))
        case ["undo", name, call]:
            return await _take_back(work, trees, await _named(trees, name), call)
        case ["redo", name]:
            return await _take_back(work, trees, await _named(trees, name), again=True)
        case ["show" | "merge" | "drop" | "undo" | "redo" as deed]:
            raise UsageError(f"Which one? It is written /worktrees {deed} NAME, and /worktrees lists them")
        case _:
            raise UsageError(f"That is none of its words: {_USAGE}")
    return None


async def _list(trees: OwnTrees) -> str:
    await trees.repository.root()  # raises where there is no repository
    left = [await _left(trees, tree) for tree in await trees.listed()]
    if not left:
        return "No agent has left a worktree here."
    return "\n".join(
        [*map(_line, left), "See, take or take back one: /worktrees show|merge|drop|undo|redo NAME"]
    )


def _line(left: _Left) -> str:
    what = "an agent works there" if left.is_used else left.problem or _amount(left.changes)
    what += ", its folder is gone" * left.has_no_folder
    what += f", not on its branch: {_files(left.beside)}" if left.beside else ""
    return f"{left.tree.name}   {what}   {visible_line(left.tree.note)}"


def _amount(changes: Sequence[ChangedLines]) -> str:
    more, less = sum(one.added or 0 for one in changes), sum(one.removed or 0 for one in changes)
    return f"{counted(len(changes), 'file')} +{more} -{less}"


async def _named(trees: OwnTrees, name: str) -> _Left:
    wanted = name.removeprefix(BRANCHES)
    for tree in await trees.listed():
        if tree.name == wanted:
            left = await _left(trees, tree)
            if left.is_used:
                raise BridleError("WorktreeInUse", name=tree.name)
            return left
    raise BridleError("NoSuchWorktree", shown=f'"{visible_line(name)}"')


async def _left(trees: OwnTrees, tree: OwnTree) -> _Left:
    """Saves what is there first, unless somebody works in it."""
    gone = not tree.has_folder
    try:
        lock = await trees.hold(tree)
    except GitFailed as failure:
        return _Left(tree, is_used=failure.reason == "InUse", problem=failure.problem)
    try:
        await trees.save(tree, tree.note)
        base = await trees.base(tree)
        changes, beside = await trees.changes(tree, base), await trees.beside(tree)
        return _Left(tree, base, changes, has_no_folder=gone, beside=beside)
    except GitFailed as failure:
        return _Left(tree, problem=failure.problem, has_no_folder=gone)
    finally:
        trees.set_free(tree, lock)


@contextlib.asynccontextmanager
async def _held(trees: OwnTrees, tree: OwnTree) -> AsyncGenerator[FileLock]:
    """Nobody else does anything with it meanwhile."""
    try:
        lock = await trees.hold(tree)
    except GitFailed as failure:
        if failure.reason == "InUse":
            raise BridleError("WorktreeInUse", name=tree.name) from None
        raise
    try:
        yield lock
    finally:
        trees.set_free(tree, lock)


async def _show(work: GitWork, trees: OwnTrees, left: _Left) -> str:
    """What was changed there, but for files that may hold secrets, which are named."""
    _refuse_unknown(left)
    root = await trees.repository.root()
    paths = [one.path for one in left.changes]
    seen = [path for path in paths if work.needs.shows(os.path.join(root, path))]
    hidden = [path for path in paths if path not in seen]
    parts = [_line(left)]
    if seen:
        diff = await trees.repository.diff_between(
            left.base, left.tree.branch, paths=seen, max_bytes=MAX_DIFF_BYTES
        )
        parts.append(work.needs.mask(diff.text).rstrip("\n"))
        if diff.truncated:
            parts.append(
                f"There is more: this is the beginning. All of it: !git diff {left.base[:9]} {left.tree.branch}"
            )
    if hidden:
        parts.append(f"Changed, not shown because it may hold secrets: {_files(hidden)}")
    return "\n\n".join(parts)


async def _merge(work: GitWork, trees: OwnTrees, left: _Left) -> None:
    """Brings the changes into the person's working tree and index; git does that whole, or not at all."""
    _refuse_unknown(left)
    tree, paths = left.tree, [one.path for one in left.changes]
    if not paths:
        raise BridleError("WorktreeEmpty", name=tree.name)
    status = await work.repository.status(untracked="all")
    dirty = {path for change in status.changes for path in (change.path, change.before) if path}
    if both := [path for path in paths if path in dirty]:
        raise BridleError("WorktreeOverlaps", files=_files(both), name=tree.name)
    root = await work.repository.root()
    patch = await trees.repository.patch(left.base, tree.branch, max_bytes=MAX_PATCH_BYTES)
    command = ("git", "apply", "--index", "--whitespace=nowarn", "--", tree.patch)
    await work.agree(_question("merge", root, (command,), left))
    kept = work.needs.keeping([os.path.join(root, path) for path in paths], f"/worktrees merge {tree.name}")
    try:
        async with _held(trees, tree), kept:
            await asyncio.to_thread(_write, tree.patch, patch)
            await work.run(command, root, quietly=True)
    except BridleError as failure:
        torn = {
            one or other for one, other in _DOES_NOT_FIT.findall(work.runs[-1].output if work.runs else "")
        }
        if failure.reason != "GitFailed" or not torn:
            raise
        raise BridleError("WorktreeConflict", files=_files(sorted(torn)), branch=tree.branch) from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(tree.patch)
    work.data |= {"merged": tree.name, "files": _files(paths)}
    work.tell_model(
        f"I brought the changes of the branch {tree.branch} into the working tree: {_files(paths)}"
    )


async def _drop(work: GitWork, trees: OwnTrees, left: _Left) -> None:
    tree, root = left.tree, await work.repository.root()
    commands = tuple(("git", *words) for words in await trees.removal(tree))
    await work.agree(_question("drop", root, commands, left))
    async with _held(trees, tree) as lock:
        for command in commands:
            await work.run(command, root, quietly=True)
        trees.clear(tree, lock)
    work.data["dropped"] = tree.name


async def _take_back(
    work: GitWork, trees: OwnTrees, left: _Left, what: str = "", *, again: bool = False
) -> SlashEvent:
    """Undo in the worktree alone; what comes of it is committed on its branch, as everything that is left there."""
    _refuse_unknown(left)
    tree = left.tree
    if left.has_no_folder:
        raise BridleError("NothingInWorktree", name=tree.name)
    async with _held(trees, tree):
        done = await work.needs.take_back(tree, what, again=again)
        await trees.save(tree, tree.note)
    return done


def _question(deed: GitDeed, root: str, commands: tuple[tuple[str, ...], ...], left: _Left) -> GitQuestion:
    paths = [one.path for one in left.changes] + [f"{folder}/" for folder in left.beside if deed == "drop"]
    files = [GitFile(path=path, did="changed") for path in paths]
    return GitQuestion(
        deed=deed,
        cwd=root,
        commands=commands,
        branch=left.tree.branch,
        files=tuple(files[:MAX_FILES]),
        more_files=max(0, len(files) - MAX_FILES),
    )


def _refuse_unknown(left: _Left) -> None:
    if left.problem:
        raise GitFailed("Failed", left.problem)


def _files(paths: Iterable[str]) -> str:
    names = [visible_line(path) for path in paths]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _write(path: str, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(data)
