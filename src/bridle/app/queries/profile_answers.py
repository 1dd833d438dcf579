"""Queries about profiles."""

from __future__ import annotations

from bridle.app.session_parts import SessionParts
from bridle.app.user.setting_sections import TABLE
from bridle.app.user.settings import is_acked
from bridle.base.text.terminal_text import visible
from bridle.config.folders import Folders, project_folder
from bridle.config.profiles import (
    PROJECT_CHOICE_NAME,
    ProfileFile,
    ProjectProfile,
    about_words,
    chosen_by_project,
    described_file,
    described_profile,
    find_profile,
    find_profiles,
    read_preset,
)
from bridle.protocol.errors import CommandRefused
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
    found = ProjectProfile(TABLE, file, read_preset(file).parsed, {})
    return not found.is_broken and is_acked(Approvals(where.config))(found.workspace_file)


def profile_description(name: str, where: Folders) -> ProfileDescription:
    """Describe a profile of Bridle or of the user. Raise `UnknownProfile` for another name."""
    found = described_profile(name, config_folder=where.config)
    if found is None:
        raise CommandRefused("UnknownProfile", profile=visible(name, newlines=False)[:100])
    return ProfileDescription(name=name, about=found.about, settings=found.settings, scope=found.scope)


def session_profile(parts: SessionParts) -> ProfileDescription:
    """Return the profile of a session, with what the session has now."""
    settings, cwd, config = parts.settings, parts.opened.cwd, parts.services.where.config
    name, project = settings.profile, project_folder(cwd)
    file = (
        chosen_by_project(project)
        if name == PROJECT_CHOICE_NAME
        else find_profile(name, config_folder=config, project=project, relative_to=cwd)
    )
    described = None if file is None else described_file(file)  # it may be gone since
    return ProfileDescription(
        name=name,
        about="" if described is None else described.about,
        settings={} if described is None else described.settings,
        scope="own" if described is None else described.scope,
        tools=tuple(tool.name for tool in parts.registry.list()),
        servers=tuple(sorted(settings.servers.tables)),
        skills=() if parts.skills is None else tuple(parts.skills.offered.skills),
        plugins=tuple(feature.name for feature in parts.opened.plugged),
    )
