"""What of a project wants to be obeyed, as its settings and its files say: the items of `safety/trust` made from them.

items = project_items(approvals, where=…, cwd=…, env=…)
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, cast

from bridle.agents.agent_settings import AgentFolders
from bridle.app.features.prompt_file_feature import prompt_items
from bridle.app.features.server_trust import ServerPlace, project_server_item
from bridle.app.features.tool_module_source import module_items
from bridle.app.sources.agent_sources import agent_items
from bridle.app.sources.hook_feature import written_hook
from bridle.app.sources.skill_sources import project_skill_items
from bridle.app.user.instruction_trust import all_instruction_files, instruction_item
from bridle.app.user.setting_sections import TABLE, PromptSettings, load
from bridle.app.user.settings import SessionSettings, consent_kind, is_acked, skill_settings
from bridle.base.fs.files import repository_root
from bridle.base.fs.paths import PROJECT_SECRETS_FILE, has_secrets_file
from bridle.config.folders import Folders, project_folder, prompt_folders
from bridle.config.profiles import project_profile_files
from bridle.config.settings_file import SettingsFile, read
from bridle.config.tiers import Tiers
from bridle.config.workspace import WorkspaceFile, named_file
from bridle.context.context_settings import ContextSettings
from bridle.context.imports import Imports
from bridle.context.instruction_files import (
    InstructionFile,
    files_in,
    prefix_folders,
)
from bridle.context.session_instructions import OfferedSources
from bridle.context.skills.skill_records import SkillSettings
from bridle.credentials.project_secrets import Unusable, parse, read_private, without_values
from bridle.safety.hooks.hook_sources import Project, hook_items
from bridle.safety.trust.approvals import Approvals
from bridle.safety.trust.trust_items import TrustItem, refuse_unseen, secrets_item
from bridle.safety.trust.trust_questions import ReviewedText
from bridle.tools.search.folder_walk import ALWAYS_SKIPPED, BUILD_OUTPUT, walk

MAX_LOOKED_AT = 50_000
MAX_NESTED_FOLDERS = 100
"""So many files of a project are looked at for instruction files further down, and so many folders are told of."""


def _nested_files(where: Folders, cwd: str, sources: Sequence[str]) -> Iterator[InstructionFile]:
    """The instruction files of folders further down, which join a session when a file there is touched."""
    root = repository_root(cwd)
    names = tuple(dict.fromkeys((*sources, *OfferedSources(where.state, root).used())))
    folders: dict[str, None] = {}
    for path, _entry in islice(walk(root, skipped=ALWAYS_SKIPPED | BUILD_OUTPUT), MAX_LOOKED_AT):
        for name in names:
            parts = path.split("/")
            depth = len(parts) - name.count("/") - 1
            if depth > 0 and fnmatchcase("/".join(parts[depth:]), name):
                folders[os.path.join(root, *parts[:depth])] = None
    counted_before = {*prefix_folders(cwd), os.path.join(cwd, ".bridle")}
    imports = Imports(cwd=cwd, root=root, config_folder=where.config)
    for folder in islice((one for one in folders if one not in counted_before), MAX_NESTED_FOLDERS):
        yield from imports.all_of(files_in(folder, names, cwd=cwd, root=root))


def require_trust(
    approvals: Approvals, settings: SessionSettings, *, where: Folders, cwd: str, env: Mapping[str, str]
) -> None:
    """For `--require-trust`: refuses to begin while anything of the project waits for a person."""
    configured = ((f"settings file {file.shown}", _config_item(file)) for file in settings.waiting)
    instructions = (
        (f"instruction file {file.shown}", None if file.problem else instruction_item(file))
        for file in all_instruction_files(where, cwd, settings.context.sources)
        if file.scope == "project"
    )
    folders = settings.agents.folders if settings.agents is not None else ()
    more = (
        *_skill_items(settings.skills, where=where, cwd=cwd, env=env),
        *agent_items(folders, where=where, cwd=cwd, env=env),
    )
    wanted = ((f"{item.kind} {item.shown}", item) for item in more)
    refuse_unseen(approvals, (*configured, *instructions, *wanted))


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
    places = {file.path for file in seen}
    seen += [
        file
        for file in project_profile_files(TABLE, where.config, project_folder(cwd))
        if file.path not in places
    ]
    sources = tiers.section("context", ContextSettings).sources
    root = repository_root(cwd)
    files = (*all_instruction_files(where, cwd, sources), *_nested_files(where, cwd, sources))
    return (
        *(_config_item(file) for file in seen),
        *(instruction_item(file) for file in files if file.scope == "project" and not file.problem),
        *_skill_items(skill_settings(tiers), where=where, cwd=cwd, env=env),
        *_hook_items(tiers, root=root, cwd=cwd, where=where),
        *_server_items(tiers, cwd=cwd, env=env),
        *_secrets_items(root),
        *_prompt_items(tiers, root=root, cwd=cwd, where=where),
        *_named_items(
            approvals, root, {item.path for item in map(_config_item, tiers.named + tiers.waiting)}
        ),
        *agent_items(tiers.section("agents", AgentFolders).folders, where=where, cwd=cwd, env=env),
        *module_items(where, cwd),
    )


def named_settings_item(path: str) -> TrustItem | None:
    """A settings file by its path, as somebody agrees that it counts like their own; None where it is none."""
    if not path.endswith((".toml", ".json")):
        return None
    data = read(SettingsFile(path=path, source=path)).data
    return _config_item(named_file(path, data, "earlier")) if data else None


def _named_items(approvals: Approvals, root: str, known: Collection[str]) -> Iterator[TrustItem]:
    """The files of this repository that somebody named as settings of their own once."""
    once = {
        entry.path for entry in approvals.read().entries if (entry.kind, entry.root) == ("settings", root)
    }
    for path in sorted(once.difference(known)):
        if (item := named_settings_item(os.path.join(root, path))) is not None:
            yield item


def _prompt_items(tiers: Tiers, *, root: str, cwd: str, where: Folders) -> Iterator[TrustItem]:
    _, project = prompt_folders(where, cwd, tiers.section("commands", PromptSettings).folders)
    return prompt_items(project, root)


def _project_servers(tiers: Tiers) -> dict[str, Mapping[str, Any]]:
    """The servers that files of the workspace name."""
    servers = cast("Mapping[str, Mapping[str, Any]]", tiers.get("mcp_servers") or {})
    origins = {name: tiers.origin(("mcp_servers", name)) for name in servers}
    of_project = {name for name, at in origins.items() if at is not None and at.tier in ("project", "local")}
    return {name: server for name, server in servers.items() if name in of_project}


def _server_items(tiers: Tiers, *, cwd: str, env: Mapping[str, str]) -> Iterator[TrustItem]:
    """The programs that servers of the project would be."""
    for name, server in _project_servers(tiers).items():
        if server.get("command"):
            yield project_server_item(name, server, ServerPlace(cwd=cwd, env=env))


def _hook_items(tiers: Tiers, *, root: str, cwd: str, where: Folders) -> Iterator[TrustItem]:
    written = list(map(written_hook, tiers.written("hooks")))
    project = Project(root=root, folder=project_folder(cwd))
    return hook_items(written, project=project, config_folder=where.config, cwd=cwd)


def _skill_items(
    settings: SkillSettings, *, where: Folders, cwd: str, env: Mapping[str, str]
) -> Iterator[TrustItem]:
    if not settings.enabled:
        return iter(())
    return project_skill_items(settings, where=where, cwd=cwd, env=env)


def _secrets_items(root: str) -> Iterator[TrustItem]:
    """The secrets file of the project, if it could count."""
    if not has_secrets_file(root):
        return
    try:
        data = read_private(root)
        names, text = list(parse(data)), without_values(data)
    except Unusable:
        return
    yield secrets_item(root, PROJECT_SECRETS_FILE, data, names, text)


def _config_item(file: WorkspaceFile) -> TrustItem:
    kind = consent_kind(file)
    return TrustItem(
        kind=kind,
        root=file.root,
        path=file.path,
        shown=file.shown,
        digest=file.sha256,
        data=file.data,
        reviewed=ReviewedText(
            shown=file.shown, text=file.data.decode("utf-8", "replace"), kind=kind, wishes=file.wishes
        ),
    )


def config_items(files: Sequence[WorkspaceFile]) -> tuple[TrustItem, ...]:
    """The settings files that wait for the person, to be asked about before a session begins."""
    return tuple(map(_config_item, files))
