"""Load settings: read every tier, check it against the table and hold back what a workspace file may not set.

The tiers, low to high: defaults, profile, user, project, local, the user's choice for this project
(`project_choices`), `--config`, environment, flags. `.mcp.json` of a project, as other tools write it, counts as its
settings; nothing in it is filled in, as `${NAME}` would hand the user's variables to the author of the project.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from bridle.base.fs.files import repository_root
from bridle.config.bundles import bundle_sources
from bridle.config.folders import PROJECT_CHOICES, PROJECT_FOLDER, Folders, project_folder
from bridle.config.origins import GivenOption, SettingsSource, environment_sources, flag_sources
from bridle.config.problems import Problem, shown
from bridle.config.profiles import (
    DEFAULT,
    Preset,
    ProfileFile,
    ProjectProfile,
    chosen_by_project,
    only_permissions,
    read_preset,
    read_profile,
)
from bridle.config.project_choices import chosen_agent_source
from bridle.config.setting_table import LineNumbers, SettingPath, SettingTable, Table, key_of
from bridle.config.settings_file import (
    LOCAL_NAMES,
    OWN_NAMES,
    ParsedFile,
    SettingsFile,
    SettingsTier,
    overlooked,
    present,
    read,
)
from bridle.config.tiers import Tiers, holds_value, merged
from bridle.config.value_check import CheckedSettings, folded, validated
from bridle.config.workspace import NamedFiles, SpokenFor, WorkspaceFile, ignored, sifted, workspace_file

# {"mcpServers": {"files": {"command": "npx", "args": ["-y", "some-server"]}, "far": {"type": "http", "url":
# "…"}}} Nothing in it is filled in: `${NAME}` would hand variables of the person to whoever wrote the
# project.


_TRANSPORTS: Final = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
_SAME: Final = ("args", "env", "cwd", "url", "headers", "disabled")


def server_settings_of(parsed: ParsedFile, place: SettingsFile) -> ParsedFile:
    """The servers of such a file as settings; what cannot be used is left out, and said."""
    if not parsed.data or parsed.problems:
        return parsed
    problems: list[Problem] = []
    listed: object = parsed.values.get("mcpServers")
    if not isinstance(listed, dict):
        return ParsedFile({}, {}, [place.unusable("has no mcpServers")], parsed.data)
    servers: Table = {}
    for name, entry in cast("dict[str, object]", listed).items():
        found = _server(entry)
        if isinstance(found, str):
            line = parsed.lines.get(("mcpServers", name))
            problems.append(place.report("warning", f"left out the server {shown(name)}: {found}", line))
        else:
            servers[name] = found
    lines: LineNumbers = {
        ("mcp_servers", *path[1:]): line for path, line in parsed.lines.items() if path[0] == "mcpServers"
    }
    return ParsedFile({"mcp_servers": servers} if servers else {}, lines, problems, parsed.data)


def _server(entry: object) -> Table | str:
    """One server under our names, or why it cannot be one."""
    if not isinstance(entry, dict):
        return "it is no object"
    table = cast("dict[str, Any]", entry)
    if b"${" in msgspec.json.encode(table):
        return (
            "it wants ${…} filled in, which is not done for files of a project; "
            "take it into your own settings with: bridle mcp import .mcp.json"
        )
    found: Table = {key: table[key] for key in _SAME if table.get(key) is not None}
    if table.get("command"):
        found["command"] = table["command"]
    kind = table.get("type") or table.get("transport")
    if kind is not None:
        if kind not in _TRANSPORTS:
            return f"its type is none of {', '.join(_TRANSPORTS)}"
        found["transport"] = _TRANSPORTS[kind]
    return found


MCP_JSON = ".mcp.json"
"""Servers of a project, in the file that other tools share."""
PRESET: SettingPath = ("context", "preset")
CONTEXT_PRESETS: Mapping[str, Table] = {
    "late": {"max_tokens": "off", "compact_at": 0.9, "recent_turns": 3, "summary": "model"},
    "messages": {"max_tokens": "off", "max_messages": 100, "recent_messages": 10, "summary": "deterministic"},
    "fixed": {
        "max_tokens": 48_000,
        "compact_at": 0.7,
        "recent_turns": 6,
        "summary": "deterministic",
        "summary_tokens": 3_000,
    },
}
"""Values of `context` that belong together. `late` does nothing before `context.max_tokens` is set; `fixed` has the
same limit for every model and asks none for a summary."""


def load(
    table: SettingTable,
    *,
    where: Folders,
    cwd: str,
    env: Mapping[str, str],
    config_file: str | None = None,
    profile: str | None = None,
    sets: Sequence[str] = (),
    options: Sequence[GivenOption] = (),
    is_acked: Callable[[WorkspaceFile], bool] = lambda file: bool(file.spoken_for),
    allow_project_hooks: bool = False,
    add_dirs: Sequence[str] = (),
    profile_kept: bool = False,
) -> Tiers:
    """Load every tier for a caller in `cwd` with this environment. Never raises for what files say: see `problems`.

    `is_acked` returns whether the user agreed to the exact bytes of a workspace file; by default only files that were
    named by a path count. `profile_kept`: the profile is that of a stored session and was not named now.
    """
    files = _Files(table, NamedFiles(where=where, cwd=cwd, add_dirs=add_dirs, is_acked=is_acked), is_acked)
    user = files.user_source(where.config)
    explicit = files.explicit_source(config_file, env, cwd)
    environment = environment_sources(table, env)
    named = [GivenOption("--profile", "profile", profile)] if profile else []
    flags = flag_sources(table, sets, [*options, *named])
    choosing = [*user, *explicit, *environment.sources, *flags.sources]
    preset, chosen_in = _chosen_profile(choosing, where.config, cwd, project_folder(cwd))
    spoken_for = "earlier" if profile_kept or _is_relative_variable(chosen_in) else "now"
    own = [
        SettingsSource("defaults", "default", table.defaults()),
        *files.bundles(where.data),
        *files.own_profile(preset, spoken_for),
        *user,
    ]
    files.allow_hooks = allow_project_hooks or _allows_project_hooks([*own, *choosing])
    if preset.file is not None and preset.file.scope == "project":
        own[1:1] = files.project_profile(preset.file, preset, own, is_chosen=chosen_in is not None)
    project = files.workspace_sources(cwd, own)
    files.problems += [*environment.problems, *flags.problems]
    chosen = files.chosen_here(where.state, cwd)
    sources = [*own, *project, *chosen, *explicit, *environment.sources, *flags.sources]
    return Tiers(table, _with_preset(sources), files.problems, files.waiting, files.used)


class _Files:
    """Reads settings files into sources, and collects problems and the files that wait for the user's consent."""

    def __init__(
        self, table: SettingTable, named: NamedFiles, is_acked: Callable[[WorkspaceFile], bool]
    ) -> None:
        self.problems: list[Problem] = []
        self.waiting: list[WorkspaceFile] = []
        self.used: list[WorkspaceFile] = []
        self.allow_hooks = False
        self._table = table
        self._named = named
        self._is_acked = is_acked

    def user_source(self, folder: str) -> list[SettingsSource]:
        there = present(folder, OWN_NAMES)
        if there.name is None:
            return []
        place = SettingsFile(path=os.path.join(folder, there.name), source=there.name)
        self.problems += overlooked(place, there.others)
        return self._source("user", place, read(place))

    def explicit_source(self, option: str | None, env: Mapping[str, str], cwd: str) -> list[SettingsSource]:
        path = option or env.get("BRIDLE_CONFIG") or None
        if path is None:
            return []
        place = SettingsFile(path=os.path.abspath(os.path.join(cwd, path)), source=path)
        spoken_for = "now" if option or os.path.isabs(path) else "earlier"
        return self._named_source("config", place, read(place), spoken_for)

    def bundles(self, data_folder: str) -> list[SettingsSource]:
        """Return the settings of installed bundles; below a profile, which may take something of theirs out."""
        if not os.path.isdir(os.path.join(data_folder, "bundles")):
            return []
        return bundle_sources(self._table, data_folder, self.problems)

    def own_profile(self, preset: Preset, spoken_for: SpokenFor) -> list[SettingsSource]:
        """Return the settings of a profile of the user, or one that ships: first the file of permissions it names."""
        if preset.file is None:
            self.problems += preset.parsed.problems
            return []
        if preset.file.scope == "project":
            return []
        files: list[tuple[SettingsFile, ParsedFile]] = [(preset.file.place, preset.parsed)]
        if preset.permissions is not None:
            place, parsed = preset.permissions
            files.insert(0, (place, only_permissions(place, parsed)))
        if preset.file.scope != "path":
            return [source for file in files for source in self._source("profile", *file)]
        return [source for file in files for source in self._named_source("profile", *file, spoken_for)]

    def project_profile(
        self, file: ProfileFile, preset: Preset, own: Sequence[SettingsSource], *, is_chosen: bool
    ) -> list[SettingsSource]:
        """Return the settings of a profile of the project, which stand below the user's own: nothing before the user
        agreed to its exact bytes, and then what a workspace file may set."""
        own_values = merged(self._table, (source.values for source in own))
        found = ProjectProfile(self._table, file, preset.parsed, own_values, allow_hooks=self.allow_hooks)
        if not self._is_acked(found.workspace_file):
            if not found.is_broken:
                self.waiting.append(found.workspace_file)
            self.problems += found.left_out(is_chosen=is_chosen)
            return []
        source = found.source(name_it=not is_chosen)
        self.problems += found.problems
        return [source]

    def workspace_sources(self, cwd: str, own: Sequence[SettingsSource]) -> list[SettingsSource]:
        """Return the settings of the workspace. A part of them counts only next to those of the user's `own` tiers."""
        sources: list[SettingsSource] = []
        for tier, place, project in self._workspace_files(cwd):
            parsed = read(place)
            if place.source == MCP_JSON:
                parsed = server_settings_of(parsed, place)
            names = folded(self._table, parsed.values, parsed.lines, place.report)
            file = workspace_file(self._table, place, project, parsed.data, names.values)
            own_values = merged(self._table, (source.values for source in own))
            allowed = sifted(self._table, names.values, names.lines, own_values)
            if allowed.untrusted and self._is_acked(file):
                allowed = sifted(
                    self._table,
                    names.values,
                    names.lines,
                    own_values,
                    acked=True,
                    allow_hooks=self.allow_hooks,
                )
            elif allowed.untrusted:
                self.waiting.append(file)
            kept = validated(self._table, allowed.values, allowed.lines, place.report)
            self.problems += [*parsed.problems, *names.problems, *ignored(place, allowed), *kept.problems]
            sources.append(SettingsSource(tier, place.source, kept.values, path=place.path, lines=kept.lines))
        return sources

    def chosen_here(self, state_folder: str, cwd: str) -> list[SettingsSource]:
        """Return the user's choice for this project alone."""
        if not os.path.lexists(os.path.join(state_folder, PROJECT_CHOICES)):
            return []
        return chosen_agent_source(state_folder, cwd, self.problems)

    def _workspace_files(self, cwd: str) -> Iterator[tuple[SettingsTier, SettingsFile, str]]:
        """Yield the settings files of the workspace, low to high, each with its tier and the folder it is about."""
        root = repository_root(os.path.realpath(cwd))
        path = os.path.join(root, MCP_JSON)
        if os.path.lexists(path):
            yield "project", SettingsFile(path=path, source=MCP_JSON, foreign=True), root
        folder = project_folder(cwd)
        if folder is None:
            return
        tiers: tuple[tuple[SettingsTier, tuple[str, ...]], ...] = (
            ("project", OWN_NAMES),
            ("local", LOCAL_NAMES),
        )
        for tier, file_names in tiers:
            there = present(folder, file_names)
            if there.name is not None:
                path = os.path.join(folder, there.name)
                place = SettingsFile(path=path, source=f"{PROJECT_FOLDER}/{there.name}", foreign=True)
                self.problems += overlooked(place, there.others)
                yield tier, place, os.path.dirname(folder)

    def _named_source(
        self, tier: SettingsTier, place: SettingsFile, parsed: ParsedFile, spoken_for: SpokenFor
    ) -> list[SettingsSource]:
        """Return the settings of a file that was named by a path, if it counts."""
        problem = self._named.judge(place, parsed, spoken_for, used=self.used, waiting=self.waiting)
        if problem is not None:
            self.problems.append(problem)
            return []
        return self._source(tier, place, parsed)

    def _source(self, tier: SettingsTier, place: SettingsFile, parsed: ParsedFile) -> list[SettingsSource]:
        self.problems += parsed.problems
        names = folded(self._table, parsed.values, parsed.lines, place.report)
        self.problems += names.problems
        secrets = [path for path in _leaves(self._table, names.values, ()) if self._is_secret(path)]
        values = names.values
        if tier != "user":
            for path in secrets:
                values = _without(values, path)
                clause = f"ignored {key_of(path)} (only your own config.toml may hold a key)"
                self.problems.append(place.report("warning", clause, names.lines.get(path), key_of(path)))
        kept = validated(self._table, values, names.lines, place.report)
        self.problems += kept.problems
        if tier == "user":
            self._warn_of_exposed(secrets, kept, place)
        return [SettingsSource(tier, place.source, kept.values, path=place.path, lines=kept.lines)]

    def _warn_of_exposed(
        self, secrets: Sequence[SettingPath], kept: CheckedSettings, place: SettingsFile
    ) -> None:
        """Warn of a file with a key that other users of the machine can read."""
        held = next((path for path in secrets if holds_value(kept.values, path)), None)
        try:
            if held is None or not os.stat(place.path).st_mode & 0o077:
                return
        except OSError:
            return
        clause = f"holds {key_of(held)} and others can read it; run: chmod 600 {place.path}"
        self.problems.append(place.report("warning", clause, kept.lines.get(held), key_of(held)))

    def _is_secret(self, path: SettingPath) -> bool:
        node = self._table.node_at(path)
        return node is not None and node.setting is not None and node.setting.about.secret


def _with_preset(sources: list[SettingsSource]) -> list[SettingsSource]:
    """Put the preset that the highest tier chooses right above the defaults: every written value goes before it."""
    chosen = [source.values["context"]["preset"] for source in sources if holds_value(source.values, PRESET)]
    if not chosen:
        return sources
    defaults, *written = sources
    values = {"context": dict(CONTEXT_PRESETS[chosen[-1]])}
    return [defaults, SettingsSource("defaults", f"preset {chosen[-1]}", values), *written]


def _chosen_profile(
    sources: Sequence[SettingsSource], config_folder: str, cwd: str, project: str | None
) -> tuple[Preset, SettingsSource | None]:
    """Return the profile that the highest of these tiers chooses, else that of the project; and the tier that chose.

    A path in a file is relative to that file.
    """
    chosen_in = next((source for source in reversed(sources) if "profile" in source.values), None)
    if chosen_in is None and (wanted := chosen_by_project(project)) is not None:
        return read_preset(wanted), None
    chosen = cast("str", chosen_in.values["profile"]) if chosen_in is not None else DEFAULT
    relative_to = os.path.dirname(chosen_in.path) if chosen_in is not None and chosen_in.path else cwd
    preset = read_profile(chosen, config_folder=config_folder, project=project, relative_to=relative_to)
    return preset, chosen_in


def _is_relative_variable(chosen_in: SettingsSource | None) -> bool:
    """Return whether a variable names the profile in a way that means another file in every folder."""
    if chosen_in is None or chosen_in.tier != "environment":
        return False
    return not os.path.isabs(os.path.expanduser(chosen_in.values["profile"]))


def _allows_project_hooks(sources: Iterable[SettingsSource]) -> bool:
    """Return whether the user lets hooks of projects run, in their profile or above it."""
    said = [source.values.get("hook_defaults", {}).get("allow_project") for source in sources]
    return bool(next((one for one in reversed(said) if one is not None), None))


def _leaves(table: SettingTable, values: Mapping[str, Any], place: SettingPath) -> Iterator[SettingPath]:
    """Yield the paths of settings; a setting's own map is part of its value."""
    for name, value in values.items():
        path = (*place, name)
        node = table.node_at(path)
        if isinstance(value, Mapping) and node is not None and node.setting is None:
            yield from _leaves(table, cast("Table", value), path)
        else:
            yield path


def _without(values: Table, path: SettingPath) -> Table:
    name, *rest = path
    assert isinstance(name, str)
    if not rest:
        return {key: value for key, value in values.items() if key != name}
    return {**values, name: _without(values[name], tuple(rest))}
