"""The keys of the project here, for a command that begins no session."""

from __future__ import annotations

from collections.abc import Mapping

from bridle.app.project_secrets import ProjectKeys, ignored_by_git, project_keys
from bridle.app.sandboxing import machine_spawn
from bridle.app.trusting import has_secrets_file, session_approvals
from bridle.base.files import repository_root
from bridle.base.processes import Processes
from bridle.config.folders import folders
from bridle.safety.trust.approvals import Approvals


async def keys_here(env: Mapping[str, str], cwd: str) -> tuple[str, ProjectKeys] | None:
    """The project around a folder, and what its secrets file gives; None where it has none."""
    root = repository_root(cwd)
    if not has_secrets_file(root):
        return None
    where = folders(env)
    approvals = session_approvals(Approvals(where.config), lockfile=None, env=env, cwd=cwd)
    processes = Processes()
    try:
        is_ignored = ignored_by_git(machine_spawn(processes, where=where, env=env), root=root, env=env)
        return root, await project_keys(root, approvals=approvals, is_ignored=is_ignored)
    finally:
        await processes.close()
