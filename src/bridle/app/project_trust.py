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
from bridle.config.folders import Folders, project_folder
from bridle.config.tiers import Tiers, load
from bridle.config.workspace import WorkspaceFile
from bridle.context.consent import AT_A_DESK, Consent
from bridle.context.instruction_files import (
    DEFAULT_SOURCES,
    InstructionFile,
    find_instruction_files,
)
from bridle.engine.ports import AskPerson
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import Notice
from bridle.safety.trust.approvals import Approvals, content_digest
from bridle.safety.trust.trust_items import TrustItem, hook_item, launch_item, server_launch
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


def agreed_and_waiting(
    approvals: Approvals, files: Sequence[InstructionFile]
) -> tuple[list[InstructionFile], list[InstructionFile]]:
    """The instruction files that are used without a question, and those that wait for a person's word."""
    used = [
        file
        for file in files
        if not file.outside and (file.scope == "global" or _instruction_item(file).is_trusted(approvals))
    ]
    return used, [file for file in files if file not in used]


def require_trust(
    approvals: Approvals, files: Sequence[InstructionFile], waiting: Sequence[WorkspaceFile]
) -> None:
    """For `--require-trust`: refuses to begin while anything of the project waits for a person."""
    unseen = [file for file in waiting if not is_acked(approvals)(file)]
    if unseen:
        raise CommandRefused("NonInteractiveAckRefused", kind=f"settings file {unseen[0].shown}")
    for file in files:
        if file.scope == "project" and (file.outside or not _instruction_item(file).is_trusted(approvals)):
            raise CommandRefused("NonInteractiveAckRefused", kind=f"instruction file {file.shown}")


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
        *_server_items(tiers, root=root, env=env),
        *_secrets_items(root),
    )


def _server_items(tiers: Tiers, *, root: str, env: Mapping[str, str]) -> Iterator[TrustItem]:
    search_path = env.get("PATH", os.defpath)
    servers = cast("Mapping[str, Mapping[str, Any]]", tiers.get("mcp_servers") or {})
    for name, server in servers.items():
        origin = tiers.origin(("mcp_servers", name))
        if origin is not None and origin.tier in ("project", "local") and server.get("command"):
            launch = server_launch(server, root=root, search_path=search_path)
            yield launch_item("mcp_server", root, f"mcp_servers.{name}", launch, "Bridle starts")


def _hook_items(tiers: Tiers, *, root: str, cwd: str, where: Folders) -> Iterator[TrustItem]:
    """The project's files that hooks would run, whoever wrote the hook; its settings file is an item of its own."""
    from bridle.app.hook_feature import written_hook
    from bridle.safety.hooks.hook_sources import Project, find_hooks
    from bridle.safety.hooks.trusted import unapproved

    written = list(map(written_hook, tiers.written("hooks")))
    project = Project(root=root, folder=project_folder(cwd))
    settings = {hook.path for hook in written}
    found = find_hooks(
        written,
        config_folder=where.config,
        project=project,
        cwd=cwd,
        is_trusted=lambda _path, _digest: True,
        allow_project_hooks=True,
    )
    seen: set[str] = set()
    for hook in found.hooks:
        needed: list[str] = []

        def note(path: str, _digest: str, needed: list[str] = needed) -> bool:
            needed.append(path)
            return True

        unapproved(hook, cwd=cwd, workspaces=(root,), is_trusted=note)
        for path in needed:
            if path not in settings and path not in seen:
                seen.add(path)
                yield from hook_item(path, root, hook.shown, f"{hook.event} happens")


def _secrets_items(root: str) -> Iterator[TrustItem]:
    """The secrets file of the project, if it could count; a person is shown the names in it and no value."""
    if not has_secrets_file(root):
        return
    from bridle.credentials.project_secrets import Unusable, parse, read_private, without_values

    try:
        data = read_private(root)
        names, text = list(parse(data)), without_values(data)
    except Unusable:
        return
    yield TrustItem(
        kind="config",
        root=root,
        path=PROJECT_SECRETS_FILE,
        shown=PROJECT_SECRETS_FILE,
        digest=content_digest(data),
        reviewed=ReviewedText(
            shown=PROJECT_SECRETS_FILE,
            text=text,
            kind="config",
            wishes=tuple(f"give the key {name}" for name in names),
        ),
        private=True,
    )


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
