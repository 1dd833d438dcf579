"""Provider keys from a project's secrets file, if the user approved it and git ignores it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bridle.base.fs.paths import PROJECT_SECRETS_FILE
from bridle.credentials.project_secrets import ProjectKeys, project_keys
from bridle.engine.ports import Spawn
from bridle.safety.trust.approvals import Approvals, content_digest
from bridle.sandbox.read_only_git import ignored_by_git


async def keys_of_project(
    root: str, approvals: Approvals, spawn: Spawn, env: Mapping[str, str]
) -> ProjectKeys:
    """Return what the file below `root` gives, or why it gives nothing."""
    return await project_keys(
        root,
        is_agreed=is_agreed_secret(approvals, root),
        is_ignored=ignored_by_git(spawn, root=root, env=env),
    )


def is_agreed_secret(approvals: Approvals, root: str) -> Callable[[bytes], bool]:
    """For the secrets file of a project: whether a person agreed to this very content of it."""

    def agreed(data: bytes) -> bool:
        return approvals.holds(content_digest(data), kind="config", root=root, path=PROJECT_SECRETS_FILE)

    return agreed
