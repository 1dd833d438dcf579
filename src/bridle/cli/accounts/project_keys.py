"""Load the provider keys of the current project."""

from __future__ import annotations

from collections.abc import Mapping

from bridle.app.user.secrets_file import keys_of_project
from bridle.base.fs.files import repository_root
from bridle.base.fs.paths import has_secrets_file
from bridle.base.process.processes import Processes
from bridle.config.folders import folders, home_of
from bridle.credentials.project_secrets import ProjectKeys
from bridle.safety.trust.approvals import Approvals, session_approvals
from bridle.sandbox.session_border import machine_spawn


async def keys_here(env: Mapping[str, str], cwd: str) -> tuple[str, ProjectKeys] | None:
    """The project around a folder, and what its secrets file gives; None where it has none."""
    root = repository_root(cwd)
    if not has_secrets_file(root):
        return None
    where = folders(env)
    approvals = session_approvals(Approvals(where.config), lockfile=None, env=env, cwd=cwd)
    processes = Processes()
    try:
        spawn = machine_spawn(processes, where=where, home=home_of(env), env=env)
        return root, await keys_of_project(root, approvals, spawn, env)
    finally:
        await processes.close()
