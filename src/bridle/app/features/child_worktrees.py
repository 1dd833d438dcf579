"""Run subagents in git worktrees, and commit what they leave."""

from __future__ import annotations

import functools
import os

import msgspec

from bridle.app.session_parts import SessionParts
from bridle.app.sources.gates import Gates, gates, understanding
from bridle.app.user.settings import SessionSettings
from bridle.base.fs.files import FileLock
from bridle.base.fs.paths import is_beneath, session_folders
from bridle.base.git.git_calls import clean_environment, program_on
from bridle.base.git.git_repository import GitFailed, GitStart, Repository
from bridle.base.git.own_worktrees import NewTree, OwnTree, OwnTrees, plain_name
from bridle.base.process.processes import ProcessGroup
from bridle.base.text.phrases import one_line
from bridle.base.text.terminal_text import visible
from bridle.engine.journal import masked
from bridle.protocol.errors import BridleError
from bridle.sandbox.read_only_git import repository_of
from bridle.sandbox.session_border import session_policy

NOTE_CHARACTERS = 120
SHORT_ID = 6


class ChildWorktree(msgspec.Struct, frozen=True, kw_only=True):
    """Where a child works: `cwd` is its folder in the working tree, `base` the commit that it began with. `root` is the
    working tree of whoever sent it, `lock` is held until it ends."""

    tree: OwnTree
    cwd: str
    base: str
    root: str
    lock: FileLock


class WorktreeEnd(msgspec.Struct, frozen=True, kw_only=True):
    """What a child left on `branch`; without one it changed nothing and its worktree is gone. `problem` says in a
    clause why that is not known, and not committed."""

    branch: str = ""
    files: tuple[str, ...] = ()
    problem: str = ""


def own_trees(parts: SessionParts) -> OwnTrees:
    """The working trees of ours in the repository a session works in."""
    opened, processes = parts.opened, parts.services.processes

    def at(folder: str) -> Repository:
        return repository_of(parts.spawn, cwd=folder, env=opened.env)

    async def start(git: GitStart) -> ProcessGroup:
        env = {**clean_environment(opened.env), **git.variables}
        return await processes.start(
            git.argv, cwd=git.cwd, env=env, on_output=git.on_output, on_error=git.on_error
        )

    program = program_on(opened.env.get("PATH", os.defpath), "git", outside=opened.cwd) or "git"
    folder = parts.services.where.worktrees
    return OwnTrees(folder, cwd=opened.cwd, at=at, start=start, program=program)


async def begin_worktree(parts: SessionParts, agent: str, task: str, invocation: str) -> ChildWorktree:
    """A worktree for an agent that is about to begin. Raises `NoWorktree`; then there is none."""
    trees = own_trees(parts)
    task = visible(masked(task, parts.journal.secrets()), newlines=False)
    words = f"agent {plain_name(agent)}: {one_line(task, NOTE_CHARACTERS)}"
    try:
        root = await trees.repository.root()
        new = await trees.make(f"{plain_name(agent)}-{invocation[-SHORT_ID:].lower()}", words)
    except GitFailed as failure:
        raise BridleError("NoWorktree", agent=agent, problem=failure.problem) from None
    place = _place(new, root=root, cwd=parts.opened.cwd)
    if place.cwd:
        return place
    await end_worktree(parts, place)
    raise BridleError("NoWorktree", agent=agent, problem="this folder is in no commit yet")


def _place(new: NewTree, *, root: str, cwd: str) -> ChildWorktree:
    """The folder in a worktree that stands for `cwd`, none where it has none, or a link that may lead anywhere."""
    top = os.path.realpath(root)
    there = os.path.normpath(os.path.join(new.tree.path, os.path.relpath(os.path.realpath(cwd), top)))
    cwd = there if os.path.isdir(there) and os.path.realpath(there) == there else ""
    return ChildWorktree(tree=new.tree, cwd=cwd, base=new.base, root=top, lock=new.lock)


async def end_worktree(parts: SessionParts, place: ChildWorktree) -> WorktreeEnd:
    """Commits what is there; takes the worktree away where that is nothing. What fails leaves it as it is."""
    trees, tree = own_trees(parts), place.tree
    try:
        await trees.save(tree, tree.note)
        beside = await trees.beside(tree)
        if not beside and await trees.is_untouched(tree, place.base):
            await trees.remove(tree, place.lock)
            return WorktreeEnd()
        changed = await trees.changes(tree, place.base)
    except GitFailed as failure:
        return WorktreeEnd(problem=failure.problem)
    finally:
        place.lock.release()
        parts.undo().leave(place.cwd)
    problem = f"{visible(', '.join(beside), newlines=False)}: files of another repository" if beside else ""
    return WorktreeEnd(branch=tree.branch, files=tuple(one.path for one in changed), problem=problem)


def in_worktree(parent: SessionParts, place: ChildWorktree) -> SessionParts:
    """The parts of a session as they are in a worktree of a child: other folders, and no way to write in the session's
    own or in the repository."""
    folders = session_folders(place.cwd)
    files = parent.settings.files
    paths = "workspace" if files.paths == "off" else files.paths
    files = msgspec.structs.replace(files, paths=paths, allowed_paths=(place.cwd,))
    settings = msgspec.structs.replace(parent.settings, files=files)
    opened = msgspec.structs.replace(parent.opened, cwd=place.cwd, settings=settings)
    where = parent.services.where
    policy = session_policy(
        settings.sandbox,
        folders,
        env=opened.env,
        scratch=parent.scratch,
        shown=settings.skills.readable_folders(where.config),
    )

    def overlaps(path: str) -> bool:
        real = os.path.realpath(os.path.join(place.cwd, path))
        return is_beneath(real, place.root) or is_beneath(place.root, real)

    # of one that is below another in a worktree: what that one was kept from stays out of reach
    writable = parent.policy.writable if parent.is_apart else policy.writable
    policy = msgspec.structs.replace(
        policy,
        writable=tuple(path for path in writable if not overlaps(path)),
        repository_closed=True,
    )
    made = functools.cache(lambda: _gates(parent, opened.settings, place.cwd))

    def shows_content(path: str) -> bool:
        return made().session_sight.shows_content(path)

    return msgspec.structs.replace(
        parent,
        opened=opened,
        folders=folders,
        policy=policy,
        gates=made,
        shows_content=shows_content,
        undo=functools.cache(lambda: parent.undo().placed(place.cwd)),
        is_apart=True,
    )


def _gates(parent: SessionParts, settings: SessionSettings, cwd: str) -> Gates:
    services, opened, session = parent.services, parent.opened, parent.gates()
    made = gates(
        settings,
        parent.registry,
        where=services.where,
        here=session_folders(cwd),
        understand=understanding(opened.env, cwd),
        mode=lambda: session.permissions.mode,
        saved=parent.saved,
        env=services.env,
    )
    return made.of_agents(session.permissions.placed_as(made.permissions))
