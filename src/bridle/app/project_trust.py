"""What of a project wants to be obeyed, as its settings and its files say: the items of `safety/trust` made from them.

files = await consent(approvals, files, …).usable(files)
items = project_items(approvals, where=…, cwd=…, env=…)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from bridle.app.settings import is_acked
from bridle.base.clock import Clock
from bridle.base.files import repository_root
from bridle.base.paths import PROJECT_SECRETS_FILE, has_secrets_file
from bridle.config.folders import Folders
from bridle.config.tiers import Tiers, load
from bridle.config.workspace import WorkspaceFile
from bridle.context.consent import AT_A_DESK, Consent
from bridle.context.instruction_files import (
    DEFAULT_SOURCES,
    InstructionFile,
    find_instruction_files,
)
from bridle.engine.ports import AskPerson
from bridle.protocol.events import Notice
from bridle.safety.trust.approvals import Approvals, content_digest
from bridle.safety.trust.trust_items import TrustItem, hook_items, refuse_unseen, secrets_item, server_items
from bridle.safety.trust.trust_questions import ReviewedText


def is_agreed_secret(approvals: Approvals, root: str) -> Callable[[bytes], bool]:
    """For the secrets file of a project: whether a person agreed to this very content of it."""

    def agreed(data: bytes) -> bool:
        return approvals.holds(content_digest(data), kind="config", root=root, path=PROJECT_SECRETS_FILE)

    return agreed


def consent(
    approvals: Approvals,
    files: Sequence[InstructionFile],
    *,
    ask: AskPerson,
    notice: Callable[[Notice], object],
    clock: Clock,
    how: str = AT_A_DESK,
) -> Consent:
    """Consent to these instruction files, remembered with their text so that a change can be shown as one.

    `how` is said of one that nobody could be asked about.
    """
    items = {file.sha256: _instruction_item(file) for file in files if not file.outside}
    return Consent(
        is_approved=lambda digest: items[digest].is_trusted(approvals),
        approve=lambda _path, digest: items[digest].approve(approvals),
        question=lambda file: items[file.sha256].question(approvals, clock.now_ms()),
        ask=ask,
        notice=notice,
        how=how,
    )


def is_trusted_file(approvals: Approvals) -> Callable[[InstructionFile], bool]:
    return lambda file: _instruction_item(file).is_trusted(approvals)


def require_trust(
    approvals: Approvals, files: Sequence[InstructionFile], waiting: Sequence[WorkspaceFile]
) -> None:
    """For `--require-trust`: refuses to begin while anything of the project waits for a person."""
    settings = ((f"settings file {file.shown}", _config_item(file)) for file in waiting)
    instructions = (
        (f"instruction file {file.shown}", None if file.outside else _instruction_item(file))
        for file in files
        if file.scope == "project"
    )
    refuse_unseen(approvals, (*settings, *instructions))


# What `bridle trust` looks at


def project_items(
    approvals: Approvals, *, where: Folders, cwd: str, env: Mapping[str, str]
) -> tuple[TrustItem, ...]:
    """Everything of the project around `cwd` that wants trust, in the order it would count. Nothing of it is run."""
    seen: list[WorkspaceFile] = []

    def acked(file: WorkspaceFile) -> bool:
        seen.append(file)
        return is_acked(approvals)(file)

    tiers = load(where=where, cwd=cwd, env=env, is_acked=acked, allow_project_hooks=True)
    sources = tuple(tiers.get("context.sources") or DEFAULT_SOURCES)
    root = repository_root(cwd)
    files = find_instruction_files(cwd, config_folder=where.config, sources=sources)
    return (
        *(_config_item(file) for file in seen),
        *(_instruction_item(file) for file in files if file.scope == "project" and not file.outside),
        *_hook_items(tiers, root=root, cwd=cwd, where=where),
        *server_items(_project_servers(tiers), root=root, search_path=env.get("PATH", os.defpath)),
        *_secrets_items(root),
    )


def _project_servers(tiers: Tiers) -> dict[str, Mapping[str, Any]]:
    """The servers that files of the workspace name."""
    servers = cast("Mapping[str, Mapping[str, Any]]", tiers.get("mcp_servers") or {})
    origins = {name: tiers.origin(("mcp_servers", name)) for name in servers}
    of_project = {name for name, at in origins.items() if at is not None and at.tier in ("project", "local")}
    return {name: server for name, server in servers.items() if name in of_project}


def _hook_items(tiers: Tiers, *, root: str, cwd: str, where: Folders) -> Iterator[TrustItem]:
    from bridle.app.hook_feature import written_hook
    from bridle.config.folders import project_folder
    from bridle.safety.hooks.hook_sources import Project

    written = list(map(written_hook, tiers.written("hooks")))
    project = Project(root=root, folder=project_folder(cwd))
    return hook_items(written, project=project, config_folder=where.config, cwd=cwd)


def _secrets_items(root: str) -> Iterator[TrustItem]:
    """The secrets file of the project, if it could count."""
    if not has_secrets_file(root):
        return
    from bridle.credentials.project_secrets import Unusable, parse, read_private, without_values

    try:
        data = read_private(root)
        names, text = list(parse(data)), without_values(data)
    except Unusable:
        return
    yield secrets_item(root, PROJECT_SECRETS_FILE, data, names, text)


def _instruction_item(file: InstructionFile) -> TrustItem:
    return TrustItem(
        kind="instructions",
        root=file.root,
        path=os.path.relpath(file.path, file.root) if file.root else file.path,
        shown=file.shown,
        digest=file.sha256,
        data=file.data,
        reviewed=ReviewedText(
            shown=file.shown,
            text=file.text,
            changed_ms=file.changed_ms,
            owner=file.owner,
            truncated=file.truncated,
        ),
    )


def _config_item(file: WorkspaceFile) -> TrustItem:
    return TrustItem(
        kind="config",
        root=file.root,
        path=file.path,
        shown=file.shown,
        digest=file.sha256,
        data=file.data,
        reviewed=ReviewedText(
            shown=file.shown, text=file.data.decode("utf-8", "replace"), kind="config", wishes=file.wishes
        ),
    )


def config_items(files: Sequence[WorkspaceFile]) -> tuple[TrustItem, ...]:
    """The settings files that wait for the person, to be asked about before a session begins."""
    return tuple(map(_config_item, files))
