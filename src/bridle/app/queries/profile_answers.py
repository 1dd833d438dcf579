"""Queries about profiles."""

from __future__ import annotations

from bridle.app.session_parts import OpenedLog
from bridle.app.user.settings import is_acked
from bridle.config.folders import Folders, project_folder
from bridle.config.profiles import (
    PROJECT_CHOICE_NAME,
    ProfileFile,
    about_words,
    chosen_by_project,
    described_file,
    find_profile,
    find_profiles,
    read_preset,
)
from bridle.config.project_profile import ProjectProfile
from bridle.context.skills.session_skills import SessionSkills
from bridle.engine.tools import Registry
from bridle.protocol.queries import ProfileDescription, ProfileEntry, ProfileList
from bridle.safety.trust.approvals import Approvals


def profile_list(where: Folders, *, cwd: str | None = None, in_force: str = "") -> ProfileList:
    """Every profile that can be chosen by name; those of a project where its folder is meant."""
    entries = tuple(profile_entries(where, cwd=cwd, in_force=in_force))
    return ProfileList(profiles=tuple(entry.name for entry in entries), entries=entries)


def profile_entries(where: Folders, *, cwd: str | None, in_force: str = "") -> list[ProfileEntry]:
    project = None if cwd is None else project_folder(cwd)
    files = find_profiles(where.config, project)
    wanted = chosen_by_project(project)
    entries: list[ProfileEntry] = []
    for file in (*files, *((wanted,) if wanted is not None else ())):
        trusted = file.scope != "project" or is_trusted_profile(file, where)
        entries.append(
            ProfileEntry(
                name=file.name,
                about=about_words(file) if trusted else "",
                scope=file.scope,
                trusted=trusted,
                in_force=file.name == in_force,
            )
        )
    return entries


def is_trusted_profile(file: ProfileFile, where: Folders) -> bool:
    """Whether the person agreed to a profile of a project, to its very bytes."""
    found = ProjectProfile(file, read_preset(file).parsed, {})
    return not found.is_broken and is_acked(Approvals(where.config))(found.workspace_file)


def profile_in_force(
    opened: OpenedLog, registry: Registry, where: Folders, skills: SessionSkills | None
) -> ProfileDescription:
    """The profile of a session, and what that session has now."""
    settings = opened.settings
    name, project = settings.profile, project_folder(opened.cwd)
    file = (
        chosen_by_project(project)
        if name == PROJECT_CHOICE_NAME
        else find_profile(name, config_folder=where.config, project=project, relative_to=opened.cwd)
    )
    described = None if file is None else described_file(file)  # it may be gone since
    return ProfileDescription(
        name=name,
        about="" if described is None else described.about,
        settings={} if described is None else described.settings,
        scope="own" if described is None else described.scope,
        tools=tuple(tool.name for tool in registry.list()),
        servers=tuple(sorted(settings.servers.tables)),
        skills=() if skills is None else tuple(skills.offered.skills),
        plugins=tuple(feature.name for feature in opened.plugged),
    )
