"""Profiles: preset bundles of settings as TOML files, found by name or by path.

Those that ship lie in `profiles/`; the person's own in `profiles/` of the config folder, and go before. A file more
is a profile more. The `default` that ships sets nothing, so it is never even read. A project has profiles in
`.bridle/profiles`, behind those two, and with `.bridle/profile.toml` one that it wants where the person chose none: of
both nothing counts before the person agreed to their very bytes (`ProjectProfile`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from bridle.base.fs.files import first_entries
from bridle.base.text.spelling import nearest
from bridle.config.folders import PROJECT_FOLDER
from bridle.config.origins import SettingsSource
from bridle.config.problems import Problem, shown, shown_names
from bridle.config.setting_table import LineNumbers, SettingPath, SettingTable, Table
from bridle.config.settings_file import ParsedFile, ProfileScope, SettingsFile, read
from bridle.config.value_check import folded, validated
from bridle.config.workspace import WorkspaceFile, ignored, sifted, workspace_file

SCHEMA_VERSION = 1
HEADER = ("schema_version", "name", "about")
"""Keys of a profile that are about the profile and not settings."""
MOVED: Mapping[str, SettingPath] = {
    "context_sources": ("context", "sources"),
    "skill_packs": ("skills", "folders"),
    "tool_packs": ("tools", "packs"),
    "allow_project_hooks": ("hook_defaults", "allow_project"),
}
"""Keys of the short form that stand elsewhere among our settings."""
IN_PERMISSIONS = ("mode", "permissions", "allowed_tools", "disallowed_tools")
"""What a file of permissions may set."""
_SERVERS = "mcp_servers"


class WrittenProfile(msgspec.Struct, frozen=True):
    """What a profile says under the names of our settings, and the file it names for its permissions."""

    parsed: ParsedFile
    permissions: SettingsFile | None = None


def as_settings(place: SettingsFile, parsed: ParsedFile, *, scope: ProfileScope) -> WrittenProfile:
    """The settings of a profile. One of a version we do not know means nothing to us: it says so and sets nothing."""
    version = parsed.values.get("schema_version", SCHEMA_VERSION)
    if type(version) is not int or not 0 < version <= SCHEMA_VERSION:
        line = parsed.lines.get(("schema_version",))
        clause = (
            f"schema_version = {shown(str(version))} is not one this Bridle knows (up to {SCHEMA_VERSION})"
        )
        return WrittenProfile(ParsedFile({}, {}, [*parsed.problems, place.error(clause, line)], parsed.data))
    form = _Form(place, parsed)
    form.move()
    form.name_servers()
    file = form.permissions_file(scope)
    return WrittenProfile(ParsedFile(form.values, form.lines, form.problems, parsed.data), file)


class _Form:
    def __init__(self, place: SettingsFile, parsed: ParsedFile) -> None:
        self.values: Table = {key: value for key, value in parsed.values.items() if key not in HEADER}
        self.lines: LineNumbers = dict(parsed.lines)
        self.problems: list[Problem] = list(parsed.problems)
        self._place = place

    def move(self) -> None:
        for key, path in MOVED.items():
            if key not in self.values:
                continue
            section, name = cast("tuple[str, str]", path)
            value, line = self.values.pop(key), self.lines.get((key,))
            below = self.values.setdefault(section, {})
            if not isinstance(below, dict) or name in below:
                clause = f"{key} and {section}.{name} are one setting; write one of them"
                self.problems.append(self._place.error(clause, line))
                continue
            self.values[section] = {**cast("Table", below), name: value}
            self._move_lines((key,), path)

    def name_servers(self) -> None:
        """A list of servers as the table of servers that settings have."""
        listed = self.values.get(_SERVERS)
        if not isinstance(listed, list):
            return
        named: Table = {}
        for at, entry in enumerate(cast("list[object]", listed)):
            table = cast("Table", entry) if isinstance(entry, dict) else {}
            name, line = table.get("name"), self.lines.get((_SERVERS, at))
            if not isinstance(name, str) or not name:
                clause = f"server {at + 1} of {_SERVERS} has no name"
                self.problems.append(self._place.error(clause, line))
            elif name in named:
                clause = f'there are two servers "{shown(name)}"'
                self.problems.append(self._place.error(clause, line))
            else:
                named[name] = dict(self._server(table))
                for key in table:
                    self._move_lines(
                        (_SERVERS, at, key), (_SERVERS, name, "command" if key == "cmd" else key)
                    )
                if line is not None:
                    self.lines[(_SERVERS, name)] = line
        self.values[_SERVERS] = named

    def _server(self, table: Table) -> Iterator[tuple[str, Any]]:
        for key, value in table.items():
            if key == "cmd":  # one program, whatever stands in its path
                yield "command", [value] if isinstance(value, str) else value
            elif key != "name":
                yield key, value

    def permissions_file(self, scope: ProfileScope) -> SettingsFile | None:
        """The file that is named in place of permissions. A project has all it wants in the file people agree to."""
        named = self.values.get("permissions")
        if not isinstance(named, str):
            return None
        del self.values["permissions"]
        line = self.lines.get(("permissions",))
        if scope == "project":
            clause = (
                "ignored permissions (a profile of a project has its rules in itself: [[permissions.rules]])"
            )
            self.problems.append(self._place.report("warning", clause, line, "permissions"))
            return None
        path = os.path.join(os.path.dirname(self._place.path), os.path.expanduser(named))
        if not os.path.lexists(path):
            clause = f'permissions names "{shown(named)}", which is not there'
            self.problems.append(self._place.error(clause, line))
            return None
        return SettingsFile(path=os.path.abspath(path), source=f"{self._place.source}: {shown(named)}")

    def _move_lines(self, source: SettingPath, to: SettingPath) -> None:
        depth = len(source)
        for path in [path for path in self.lines if path[:depth] == source]:
            self.lines[(*to, *path[depth:])] = self.lines.pop(path)


def only_permissions(place: SettingsFile, parsed: ParsedFile) -> ParsedFile:
    """What a file of permissions says, less whatever else stands in it, which is named."""
    others = [key for key in parsed.values if key not in (*IN_PERMISSIONS, *HEADER)]
    values = {key: value for key, value in parsed.values.items() if key in IN_PERMISSIONS}
    problems = [
        place.report(
            "warning",
            f"ignored {shown(key)} (a file of permissions sets {', '.join(IN_PERMISSIONS)})",
            parsed.lines.get((key,)),
            key,
        )
        for key in others
    ]
    return ParsedFile(values, parsed.lines, [*parsed.problems, *problems], parsed.data)


DEFAULT = "default"
FOLDER = "profiles"
MAX_PROFILES = 200
"""So many entries of a folder of profiles are looked at."""
PROJECT_CHOICE = "profile.toml"
"""In the folder of a project: the profile it wants where the person chose none."""
PROJECT_CHOICE_NAME = f"{PROJECT_FOLDER}/{PROJECT_CHOICE}"
TOLD = ("mode", "permissions", "sandbox", "budget", "context", "trust", "tools")
"""What of a profile anybody may know who may begin a session."""


class ProfileFile(msgspec.Struct, frozen=True, kw_only=True):
    """A profile that can be chosen by `name`, and where it stands. `hides` are files that its name means no more.

    `project` is the folder `.bridle` of one that is a project's.
    """

    name: str
    path: str
    scope: ProfileScope
    hides: tuple[str, ...] = ()
    project: str = ""

    @property
    def place(self) -> SettingsFile:
        source = f"profile {shown(self.name)}"
        return SettingsFile(path=self.path, source=source, foreign=self.scope == "project")


class Preset(msgspec.Struct, frozen=True):
    """What a profile says as settings, and of whom; `file` is None where there is none, or where it sets nothing.

    `permissions` is what the file says that it names in their place.
    """

    file: ProfileFile | None
    parsed: ParsedFile
    permissions: tuple[SettingsFile, ParsedFile] | None = None


NOTHING = ParsedFile({}, {}, [])


def shipped_folder() -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), FOLDER)


def find_profiles(config_folder: str, project: str | None = None) -> list[ProfileFile]:
    """Every profile that can be chosen by name, in the order of their names. `project` is the folder `.bridle` of one.

    The person's own goes before one that ships, and both before one of a project.
    """
    found: dict[str, list[ProfileFile]] = {}
    places: list[tuple[ProfileScope, str]] = [
        ("own", os.path.join(config_folder, FOLDER)),
        ("shipped", shipped_folder()),
    ]
    if project is not None:
        places.append(("project", os.path.join(project, FOLDER)))
    for scope, folder in places:
        for name in _names_in(folder):
            path = os.path.join(folder, f"{name}.toml")
            of = (project or "") if scope == "project" else ""
            found.setdefault(name, []).append(ProfileFile(name=name, path=path, scope=scope, project=of))
    return [
        msgspec.structs.replace(files[0], hides=tuple(file.path for file in files[1:]))
        for _, files in sorted(found.items())
    ]


def profile_names(config_folder: str, project: str | None = None) -> list[str]:
    return [file.name for file in find_profiles(config_folder, project)]


def chosen_by_project(project: str | None) -> ProfileFile | None:
    """The profile that a project wants where the person chose none."""
    path = os.path.join(project or "", PROJECT_CHOICE)
    if project is None or not os.path.lexists(path):
        return None
    return ProfileFile(name=PROJECT_CHOICE_NAME, path=path, scope="project", project=project)


def find_profile(
    chosen: str, *, config_folder: str, project: str | None, relative_to: str
) -> ProfileFile | None:
    """The file of a profile a person chose: a name, or a path (with a slash, or ending in .toml), which must exist."""
    if not is_path(chosen):
        return next((file for file in find_profiles(config_folder, project) if file.name == chosen), None)
    path = os.path.join(relative_to, os.path.expanduser(chosen))
    if not os.path.lexists(path):
        return None
    path = os.path.abspath(path)
    folder, real = os.path.realpath(os.path.dirname(path)), os.path.realpath(project or "/")
    if project is None or os.path.commonpath((folder, real)) != real:
        return ProfileFile(name=chosen, path=path, scope="path")
    # As it is named below its project: whoever reads it follows no link there.
    path = os.path.join(project, os.path.relpath(folder, real), os.path.basename(path))
    return ProfileFile(name=chosen, path=os.path.normpath(path), scope="project", project=project)


def read_profile(chosen: str, *, config_folder: str, project: str | None, relative_to: str) -> Preset:
    if chosen == DEFAULT and not os.path.lexists(os.path.join(config_folder, FOLDER, f"{DEFAULT}.toml")):
        return Preset(None, NOTHING)
    file = find_profile(chosen, config_folder=config_folder, project=project, relative_to=relative_to)
    return _missing(chosen, profile_names(config_folder, project)) if file is None else read_preset(file)


def read_preset(file: ProfileFile) -> Preset:
    """What stands in the file of a profile."""
    from bridle.config.profiles import as_settings  # most have none

    place = file.place
    written = as_settings(place, read(place), scope=file.scope)
    if written.permissions is None:
        return Preset(file, written.parsed)
    named = written.permissions
    return Preset(file, written.parsed, (named, read(named)))


class DescribedProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What others may know of a profile: of its settings, those that say how a session works."""

    name: str
    scope: ProfileScope
    about: str
    settings: dict[str, Any]


def described_profile(name: str, *, config_folder: str) -> DescribedProfile | None:
    """A profile of this name, of the person or shipped. What a project says of its own is for who looks at trust."""
    file = next((file for file in find_profiles(config_folder) if file.name == name), None)
    return None if file is None else described_file(file)


def described_file(file: ProfileFile) -> DescribedProfile:
    values = read_preset(file).parsed.values
    return DescribedProfile(
        name=file.name,
        scope=file.scope,
        about=about_words(file),
        settings={key: values[key] for key in TOLD if key in values},
    )


def about_words(file: ProfileFile) -> str:
    about = read(file.place).values.get("about", "")
    return " ".join(about.split()) if isinstance(about, str) else ""


def is_path(chosen: str) -> bool:
    """Whether a profile is chosen by its file and not by its name."""
    return "/" in chosen or chosen.endswith(".toml")


def is_name(chosen: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_-]+", chosen) is not None


def _names_in(folder: str) -> list[str]:
    try:
        files = first_entries(folder, MAX_PROFILES)
    except OSError:
        return []
    names = (file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))
    return [name for name in names if is_name(name)]


def _missing(chosen: str, names: list[str]) -> Preset:
    close = nearest(chosen, names)
    there = f"there are {shown_names(names)}"
    hint = f"nearest: {close}; {there}" if close else there
    clause = f'there is no profile "{shown(chosen)}" ({hint})'
    return Preset(None, ParsedFile({}, {}, [Problem(severity="error", source="profile", problem=clause)]))


_PIN = re.compile(r"[0-9a-fA-F]{64}")
_STARTED = frozenset({"command", "args", "env", "cwd"})
"""What has a say in what a server starts, be it one that the person's own settings name."""


class ProjectProfile:
    """One of them, as it was read. `own` are the settings it may not be looser than."""

    def __init__(
        self,
        table: SettingTable,
        file: ProfileFile,
        parsed: ParsedFile,
        own: Mapping[str, Any],
        *,
        allow_hooks: bool = False,
    ) -> None:
        self._table = table
        self.problems: list[Problem] = []
        self._file = file
        self._parsed = parsed
        self._own = own
        self._allow_hooks = allow_hooks
        self._names = folded(table, parsed.values, parsed.lines, file.place.report)
        shown_path = f"{PROJECT_FOLDER}/{os.path.relpath(file.path, file.project)}"
        named = SettingsFile(path=file.path, source=shown_path, foreign=True)
        self.workspace_file: WorkspaceFile = workspace_file(
            table, named, os.path.dirname(file.project), parsed.data, self._names.values
        )

    @property
    def is_broken(self) -> bool:
        """Whether it cannot be read at all: then there is nothing to agree to."""
        return not self._parsed.data

    def left_out(self, *, is_chosen: bool) -> list[Problem]:
        """What is said where nobody agreed to it. Somebody who chose it is not given another run than they wanted."""
        if self.is_broken:
            unusable = [self._file.place.error("cannot be used")] if is_chosen else []
            return [*self._parsed.problems, *unusable]
        place, path = self._file.place, self.workspace_file.shown
        if is_chosen:
            clause = f"is of this project and not trusted yet. Look at it and agree: bridle trust ack {shown(path)}"
            return [place.error(clause)]
        return [place.report("warning", f"ignored (not trusted yet: bridle trust ack {shown(path)})")]

    def source(self, *, name_it: bool) -> SettingsSource:
        """What it may set. With `name_it` it says itself which profile is in force."""
        place, report = self._file.place, self._file.place.report
        values = self._with_pinned(self._names.values)
        allowed = sifted(
            self._table, values, self._names.lines, self._own, acked=True, allow_hooks=self._allow_hooks
        )
        kept = validated(self._table, allowed.values, allowed.lines, report)
        self.problems += [
            *self._parsed.problems,
            *self._names.problems,
            *ignored(place, allowed),
            *kept.problems,
        ]
        named = {"profile": PROJECT_CHOICE_NAME} if name_it else {}
        return SettingsSource(
            "project", place.source, {**kept.values, **named}, path=place.path, lines=kept.lines
        )

    def _with_pinned(self, values: Table) -> Table:
        """Without the servers that would start a program of which nobody says what it is."""
        servers = values.get("mcp_servers")
        if not isinstance(servers, dict):
            return values
        kept: Table = {}
        for name, server in cast("Table", servers).items():
            table = cast("Table", server) if isinstance(server, dict) else {}
            if not _STARTED.isdisjoint(table) and not _is_pin(table.get("sha256")):
                why = "a profile of a project names the sha256 of what it starts"
                clause = f"ignored mcp_servers.{shown(name)} ({why})"
                line = self._names.lines.get(("mcp_servers", name))
                self.problems.append(self._file.place.report("warning", clause, line, f"mcp_servers.{name}"))
            else:
                kept[name] = server
        return {**values, "mcp_servers": kept}


def project_profile_files(
    table: SettingTable, config_folder: str, project: str | None
) -> list[WorkspaceFile]:
    """The profiles of a project that can be chosen by name, each as a person agrees to it or not."""
    if project is None:
        return []
    files = [file for file in find_profiles(config_folder, project) if file.scope == "project"]
    found = [ProjectProfile(table, file, read_preset(file).parsed, {}) for file in files]
    return [one.workspace_file for one in found if not one.is_broken]


def _is_pin(value: object) -> bool:
    return isinstance(value, str) and _PIN.fullmatch(value) is not None
