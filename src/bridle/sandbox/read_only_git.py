"""How a session looks at its repository: hardened calls, through its own `Spawn`, which may only read."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping

from bridle.base.git.git_calls import clean_environment, program_on
from bridle.base.git.git_repository import GitFailed, GitStart, Repository
from bridle.base.process.processes import CannotStart
from bridle.engine.ports import Process, Spawn, SpawnPolicy

UNENCLOSED = ("env-only", "off")
"""The adapters behind which a command has the rights of the person."""


def repository_of(spawn: Spawn, *, cwd: str, env: Mapping[str, str]) -> Repository:
    """The repository around `cwd`. Nothing it makes git run has the network or can write."""
    program = program_on(env.get("PATH", os.defpath), "git", outside=cwd)

    async def start(git: GitStart) -> Process:
        if program is None:  # whoever encloses it would say something else of that
            raise CannotStart(git.argv[0], "not found")
        if git.enclosed and spawn.adapter in UNENCLOSED:
            raise CannotStart(git.argv[0], "no sandbox")
        policy = SpawnPolicy(
            mode="read-only",
            workspace=git.cwd,
            network="deny",
            required=git.enclosed,
            variables=git.variables,
        )
        return await spawn(
            git.argv,
            cwd=git.cwd,
            env=clean_environment(env),
            policy=policy,
            call_id="git",
            on_output=git.on_output,
            on_error=git.on_error,
        )

    return Repository(start, cwd=cwd, program=program or "git")


def ignored_by_git(spawn: Spawn, *, root: str, env: Mapping[str, str]) -> Callable[[str], Awaitable[bool]]:
    """Asks git, which runs nothing of the repository and may only read. Without an answer, nothing is ignored."""

    async def is_ignored(path: str) -> bool:
        try:
            return await repository_of(spawn, cwd=root, env=env).is_ignored(path)
        except GitFailed:
            return False

    return is_ignored
