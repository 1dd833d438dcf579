"""All settings of a run: found, merged and explained. Read once, never changed afterwards.

`load` reads the tiers, low to high: defaults, profile, user, project, local, what a person chose for this project
(`project_choices`), `--config`, environment, flags. Maps merge by name, lists replace, an entry with `disabled = true`
goes; lists of rules and hooks add up, the higher tier first.
Each package decodes its own section:

    tiers = load(where=folders(env), cwd=cwd, env=env).checked()
    tiers.section("hooks", HookSettings)
    tiers.get("budget.max_steps")         # 100
    tiers.origin("budget.max_steps")      # Origin(tier="defaults", …)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast

import msgspec

from bridle.base.fs.files import repository_root
from bridle.config.folders import PROJECT_CHOICES, PROJECT_FOLDER, Folders, project_folder
from bridle.config.named_files import NamedFiles
from bridle.config.origins import GivenOption, SettingsSource, ValueOrigin, environment_sources, flag_sources
from bridle.config.problems import Problem
from bridle.config.profiles import DEFAULT, Preset, ProfileFile, chosen_by_project, read_preset, read_profile
from bridle.config.project_profile import ProjectProfile
from bridle.config.setting_table import (
    FLAG,
    JOINED,
    Node,
    SettingPath,
    Table,
    awaited,
    defaults,
    key_of,
    node_at,
    path_of,
    tree,
)
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
from bridle.config.value_check import CheckedSettings, folded, validated
from bridle.config.workspace import SpokenFor, WorkspaceFile, ignored, sifted, workspace_file

T = TypeVar("T")

MCP_JSON = ".mcp.json"
"""Servers of a project, in the file that other tools share."""
PRESET: SettingPath = ("context", "preset")
_JudgeNamed: TypeAlias = "Callable[[SettingsFile, ParsedFile, SpokenFor], Problem | None]"
"""Why a file that somebody named by a path does not count; None where it does."""


class WrittenEntry(msgspec.Struct, frozen=True):
    """An entry of a list whose tiers add up, and where it stands."""

    value: Mapping[str, Any]
    origin: ValueOrigin


class Tiers:
    """Merged settings with their origins. Everything it hands out is immutable."""

    def __init__(
        self,
        sources: Iterable[SettingsSource],
        problems: Iterable[Problem] = (),
        waiting: Iterable[WorkspaceFile] = (),
        named: Iterable[WorkspaceFile] = (),
    ) -> None:
        """`sources` stand low to high; `waiting` are workspace files of which a part waits for the person's word,
        `named` those that count because somebody named them by a path."""
        self.sources = tuple(sources)
        self.problems = tuple(problems)
        self.waiting = tuple(waiting)
        self.named = tuple(named)
        self._merged = cast("Mapping[str, Any]", _frozen(merged(_joining(self.sources))))

    def checked(self) -> Tiers:
        """These tiers, if nothing is wrong; raises the first error (`BadConfig`) otherwise."""
        for problem in self.problems:
            if problem.severity == "error":
                raise problem.error()
        return self

    @property
    def warnings(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "warning")

    @property
    def unused(self) -> Mapping[SettingPath, str]:
        """What somebody has written and nothing uses yet, in the order of the table, each with what will."""
        written = [source.values for source in self.sources if source.tier != "defaults"]
        if not written:
            return {}
        return {
            path: capability
            for key, capability in awaited().items()
            for values in written
            for path in _meant(values, tuple(key.split(".")))
        }

    @property
    def values(self) -> Mapping[str, Any]:
        """Everything, as nested read-only mappings and tuples."""
        return self._merged

    def get(self, key: str | SettingPath) -> Any:
        """The value of a setting or section; None if nobody set it."""
        value: Any = self._merged
        for part in _path(key):
            value = _child(value, part)
            if value is None:
                return None
        return value

    def origin(self, key: str | SettingPath) -> ValueOrigin | None:
        """Where the value of a setting comes from; of a section, the highest tier that says something in it.

        None where `get` has nothing.
        """
        path = _path(key)
        if self.get(path) is None:
            return None
        for source in reversed(self.sources):
            if _held(source.values, path):
                return source.origin(path)
        return None

    def section(self, name: str, kind: type[T]) -> T:
        """One section, decoded as the package that owns it wants it; its defaults fill the gaps.

        Raises `BadConfig`.
        """
        value = self.get(name)
        try:
            return msgspec.convert({} if value is None else value, kind)
        except msgspec.ValidationError as problem:
            origin = self.origin(name) or ValueOrigin(tier="defaults", name="default")
            where = SettingsFile(path=origin.path or origin.name, source=origin.name)
            raise where.error(f"{name} cannot be used: {problem}", origin.line).error() from None

    def written(self, key: str) -> tuple[WrittenEntry, ...]:
        """The entries of a list whose tiers add up, the highest tier first, each with its own origin."""
        path = path_of(key)
        return tuple(
            WrittenEntry(cast("Mapping[str, Any]", _frozen(entry)), source.origin((*path, index)))
            for source in reversed(self.sources)
            for index, entry in enumerate(_entries(source.values, path))
            if entry.get("disabled") is not True
        )

    def __repr__(self) -> str:  # without values: there may be keys among them
        return f"Tiers({', '.join(map(repr, self.sources))})"


def merge(lower: Mapping[str, Any], upper: Mapping[str, Any], place: str = "") -> Table:
    """What holds when `upper` is laid over `lower`. Pure and associative."""
    result: Table = dict(lower)
    for name, value in upper.items():
        key = f"{place}.{name}" if place else name
        below = result.get(name)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            result[name] = merge(cast("Table", below), cast("Table", value), key)
        elif isinstance(below, list) and isinstance(value, list) and key in JOINED:
            result[name] = [*cast("list[Any]", value), *cast("list[Any]", below)]
        else:
            result[name] = value
    return result


def merged(tables: Iterable[Mapping[str, Any]]) -> Table:
    """All tables, low to high, and then without the entries that are disabled.

    Disabling is an ordinary key until the end: a tier above may set it back to false.
    """
    result: Table = {}
    for table in tables:
        result = merge(result, table)
    return _enabled(result, tree())


def _joining(sources: Sequence[SettingsSource]) -> Iterator[Mapping[str, Any]]:
    """The values of every source, as they are laid over each other.

    Of a server that a file of the workspace leads elsewhere, or has run something else, what stands below that file
    gives no values: a key that a person wrote for their server is for that server.
    """
    led: dict[str, set[str]] = {}
    for source in sources:
        if source.tier in ("project", "local"):
            for name, table in source.values.get("mcp_servers", {}).items():
                led.setdefault(name, set()).update(table)
    last = max((at for at, source in enumerate(sources) if source.tier in ("project", "local")), default=-1)
    for at, source in enumerate(sources):
        servers = source.values.get("mcp_servers")
        if at > last or source.tier in ("project", "local") or not servers:
            yield source.values
        else:
            yield {
                **source.values,
                "mcp_servers": {name: _left(table, led.get(name, set())) for name, table in servers.items()},
            }


def _left(server: Mapping[str, Any], said: Collection[str]) -> Mapping[str, Any]:
    """What stays of a server where a file of the workspace has said so much of it."""
    if not {"command", "args", "cwd", "env", "url", "transport"} & {*said}:
        return server
    values = ("env", "headers", "args") if "command" in said else ("env", "headers")
    return {key: value for key, value in server.items() if key not in values}


def load(
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
    """Every tier for a caller in `cwd` with this environment. Never raises for what files say: see `problems`.

    `is_acked` says whether the person has agreed to a workspace file's very bytes; without it nobody has, and what they
    name by a path counts. `profile_kept`: a stored session has the profile, nobody named it now.
    """
    problems: list[Problem] = []
    waiting: list[WorkspaceFile] = []
    used: list[WorkspaceFile] = []

    def named(place: SettingsFile, parsed: ParsedFile, spoken_for: SpokenFor) -> Problem | None:
        files = NamedFiles(where=where, cwd=cwd, add_dirs=add_dirs, is_acked=is_acked)
        return files.judge(place, parsed, spoken_for, used=used, waiting=waiting)

    user = _own_source("user", where.config, problems)
    explicit = _explicit_source(config_file, env, cwd, named, problems)
    environment = environment_sources(env)
    flags = flag_sources(
        sets, [*options, *([GivenOption("--profile", "profile", profile)] if profile else [])]
    )
    choosing = [*user, *explicit, *environment.sources, *flags.sources]
    folder = project_folder(cwd)
    preset, chosen_in = _chosen_profile(choosing, where.config, cwd, folder)
    is_chosen = chosen_in is not None
    spoken_for = "earlier" if profile_kept or _is_left_open(chosen_in) else "now"
    own = [
        SettingsSource("defaults", "default", defaults()),
        *_bundles(where.data, problems),
        *_own_profile(preset, named, spoken_for, problems),
        *user,
    ]
    may = _Consent(
        is_acked,
        allow_project_hooks or _lets_project_hooks([*own, *choosing]),
        waiting,
    )
    if preset.file is not None and preset.file.scope == "project":
        own[1:1] = _project_profile(preset.file, preset, own, may, problems, is_chosen=is_chosen)
    project = _workspace_sources(cwd, own, may, problems)
    problems += [*environment.problems, *flags.problems]
    chosen = _chosen_here(where.state, cwd, problems)
    sources = [*own, *project, *chosen, *explicit, *environment.sources, *flags.sources]
    return Tiers(_with_preset(sources), problems, waiting, used)


def _chosen_here(state_folder: str, cwd: str, problems: list[Problem]) -> list[SettingsSource]:
    """What the person chose for this project alone."""
    if not os.path.lexists(os.path.join(state_folder, PROJECT_CHOICES)):
        return []
    from bridle.config.project_choices import chosen_agent_source  # few choose anything

    return chosen_agent_source(state_folder, cwd, problems)


class _Consent(msgspec.Struct, frozen=True):
    """What a person has agreed to; files with something that waits for them are put into `waiting`."""

    is_acked: Callable[[WorkspaceFile], bool]
    allow_hooks: bool
    waiting: list[WorkspaceFile]


def _with_preset(sources: list[SettingsSource]) -> list[SettingsSource]:
    """The preset that the highest tier chooses, right above the defaults: whatever somebody wrote goes before it."""
    chosen = [source.values["context"]["preset"] for source in sources if _held(source.values, PRESET)]
    if not chosen:
        return sources
    from bridle.config.context_presets import preset  # hardly anybody chooses one

    defaults_source, *written = sources
    values = {"context": preset(chosen[-1])}
    return [defaults_source, SettingsSource("defaults", f"preset {chosen[-1]}", values), *written]


def _own_source(tier: SettingsTier, folder: str, problems: list[Problem]) -> list[SettingsSource]:
    there = present(folder, OWN_NAMES)
    if there.name is None:
        return []
    place = SettingsFile(path=os.path.join(folder, there.name), source=there.name)
    problems += overlooked(place, there.others)
    return _source(tier, place, read(place), problems)


def _explicit_source(
    option: str | None, env: Mapping[str, str], cwd: str, named: _JudgeNamed, problems: list[Problem]
) -> list[SettingsSource]:
    path = option or env.get("BRIDLE_CONFIG") or None
    if path is None:
        return []
    place = SettingsFile(path=os.path.abspath(os.path.join(cwd, path)), source=path)
    spoken_for = "now" if option or os.path.isabs(path) else "earlier"
    return _named_source("config", place, read(place), named, spoken_for, problems)


def _named_source(
    tier: SettingsTier,
    place: SettingsFile,
    parsed: ParsedFile,
    named: _JudgeNamed,
    spoken_for: SpokenFor,
    problems: list[Problem],
) -> list[SettingsSource]:
    """What a file says that somebody named by a path, where that counts."""
    if (problem := named(place, parsed, spoken_for)) is not None:
        problems.append(problem)
        return []
    return _source(tier, place, parsed, problems)


def _chosen_profile(
    sources: Sequence[SettingsSource], config_folder: str, cwd: str, project: str | None
) -> tuple[Preset, SettingsSource | None]:
    """The profile that the highest of these tiers chooses, or else what the project wants; and who chose.

    A path in a file is relative to that file.
    """
    chosen_in = next((source for source in reversed(sources) if "profile" in source.values), None)
    if chosen_in is None and (wanted := chosen_by_project(project)) is not None:
        return read_preset(wanted), None
    chosen = cast("str", chosen_in.values["profile"]) if chosen_in is not None else DEFAULT
    relative_to = os.path.dirname(chosen_in.path) if chosen_in is not None and chosen_in.path else cwd
    preset = read_profile(chosen, config_folder=config_folder, project=project, relative_to=relative_to)
    return preset, chosen_in


def _is_left_open(chosen_in: SettingsSource | None) -> bool:
    """Whether a variable says it in a way that means another file in every folder."""
    if chosen_in is None or chosen_in.tier != "environment":
        return False
    return not os.path.isabs(os.path.expanduser(chosen_in.values["profile"]))


def _bundles(data_folder: str, problems: list[Problem]) -> list[SettingsSource]:
    """What the bundles set that the person installed; below a profile, which may take something of theirs out."""
    if not os.path.isdir(os.path.join(data_folder, "bundles")):
        return []
    from bridle.config.bundles import bundle_sources  # hardly anybody has one

    return bundle_sources(data_folder, problems)


def _own_profile(
    preset: Preset, named: _JudgeNamed, spoken_for: SpokenFor, problems: list[Problem]
) -> list[SettingsSource]:
    """What a profile of the person, or one that ships, says: first the file of permissions it names, then its own."""
    if preset.file is None:
        problems += preset.parsed.problems
        return []
    if preset.file.scope == "project":
        return []
    files: list[tuple[SettingsFile, ParsedFile]] = [(preset.file.place, preset.parsed)]
    if preset.permissions is not None:
        from bridle.config.profile_form import only_permissions

        place, parsed = preset.permissions
        files.insert(0, (place, only_permissions(place, parsed)))
    if preset.file.scope != "path":
        return [source for file in files for source in _source("profile", *file, problems)]
    return [
        source for file in files for source in _named_source("profile", *file, named, spoken_for, problems)
    ]


def _project_profile(
    file: ProfileFile,
    preset: Preset,
    own: Sequence[SettingsSource],
    may: _Consent,
    problems: list[Problem],
    *,
    is_chosen: bool,
) -> list[SettingsSource]:
    """What a profile of the project says, below the person's own settings like any other: nothing before they agreed to
    its very bytes, and then what a file of the workspace may set."""
    found = ProjectProfile(
        file, preset.parsed, merged(source.values for source in own), allow_hooks=may.allow_hooks
    )
    if not may.is_acked(found.workspace_file):
        if not found.is_broken:
            may.waiting.append(found.workspace_file)
        problems += found.left_out(is_chosen=is_chosen)
        return []
    source = found.source(name_it=not is_chosen)
    problems += found.problems
    return [source]


def _lets_project_hooks(sources: Iterable[SettingsSource]) -> bool:
    """Whether the person says that hooks of projects may count, in their profile or anywhere above it."""
    said = [source.values.get("hook_defaults", {}).get("allow_project") for source in sources]
    return bool(next((one for one in reversed(said) if one is not None), None))


def _source(
    tier: SettingsTier, place: SettingsFile, parsed: ParsedFile, problems: list[Problem]
) -> list[SettingsSource]:
    problems += parsed.problems
    names = folded(parsed.values, parsed.lines, place.report)
    problems += names.problems
    if tier != "user":
        names = _without_secrets(names, place, problems)
    kept = validated(names.values, names.lines, place.report)
    problems += kept.problems
    if tier == "user":
        problems += _exposed_secrets(kept, place)
    return [SettingsSource(tier, place.source, kept.values, path=place.path, lines=kept.lines)]


def _workspace_sources(
    cwd: str, own: Sequence[SettingsSource], may: _Consent, problems: list[Problem]
) -> list[SettingsSource]:
    """What the workspace says. A part of it counts only beside what the person's `own` tiers say."""
    written = list(_workspace_files(cwd, problems))
    if not written:
        return []
    sources: list[SettingsSource] = []
    for tier, place, project in written:
        parsed = read(place)
        if place.source == MCP_JSON:
            from bridle.config.mcp_json import server_settings_of

            parsed = server_settings_of(parsed, place)
        names = folded(parsed.values, parsed.lines, place.report)
        file = workspace_file(place, project, parsed.data, names.values)
        own_values = merged(source.values for source in own)
        allowed = sifted(names.values, names.lines, own_values)
        if allowed.untrusted and may.is_acked(file):
            allowed = sifted(names.values, names.lines, own_values, acked=True, allow_hooks=may.allow_hooks)
        elif allowed.untrusted:
            may.waiting.append(file)
        kept = validated(allowed.values, allowed.lines, place.report)
        problems += [*parsed.problems, *names.problems, *ignored(place, allowed), *kept.problems]
        sources.append(SettingsSource(tier, place.source, kept.values, path=place.path, lines=kept.lines))
    return sources


def _workspace_files(cwd: str, problems: list[Problem]) -> Iterator[tuple[SettingsTier, SettingsFile, str]]:
    """The settings files of the workspace, low to high, each with its tier and the folder it is about."""
    root = repository_root(os.path.realpath(cwd))
    path = os.path.join(root, MCP_JSON)
    if os.path.lexists(path):
        yield "project", SettingsFile(path=path, source=MCP_JSON, foreign=True), root
    folder = project_folder(cwd)
    if folder is None:
        return
    tiers: tuple[tuple[SettingsTier, tuple[str, ...]], ...] = (("project", OWN_NAMES), ("local", LOCAL_NAMES))
    for tier, file_names in tiers:
        there = present(folder, file_names)
        if there.name is not None:
            path = os.path.join(folder, there.name)
            place = SettingsFile(path=path, source=f"{PROJECT_FOLDER}/{there.name}", foreign=True)
            problems += overlooked(place, there.others)
            yield tier, place, os.path.dirname(folder)


def _without_secrets(
    checked: CheckedSettings, place: SettingsFile, problems: list[Problem]
) -> CheckedSettings:
    """Keys count in the user's own file only; anywhere else they are left out, and that is said."""
    secrets = [path for path in _leaves(checked.values, ()) if _is_secret(path)]
    values = checked.values
    for path in secrets:
        values = _without(values, path)
        clause = f"ignored {key_of(path)} (only your own config.toml may hold a key)"
        problems.append(place.report("warning", clause, checked.lines.get(path), key_of(path)))
    return CheckedSettings(values, checked.lines, checked.problems)


def _exposed_secrets(checked: CheckedSettings, place: SettingsFile) -> list[Problem]:
    secrets = [path for path in _leaves(checked.values, ()) if _is_secret(path)]
    try:
        exposed = bool(secrets) and os.stat(place.path).st_mode & 0o077 != 0
    except OSError:
        return []
    if not exposed:
        return []
    clause = f"holds {key_of(secrets[0])} and others can read it; run: chmod 600 {place.path}"
    return [place.report("warning", clause, checked.lines.get(secrets[0]), key_of(secrets[0]))]


def _is_secret(path: SettingPath) -> bool:
    node = node_at(path)
    return node is not None and node.setting is not None and node.setting.secret


def _leaves(values: Mapping[str, Any], place: SettingPath) -> Iterator[SettingPath]:
    """The paths of settings; what stands inside a setting's own map is part of its value."""
    for name, value in values.items():
        path = (*place, name)
        node = node_at(path)
        if isinstance(value, Mapping) and node is not None and node.setting is None:
            yield from _leaves(cast("Table", value), path)
        else:
            yield path


def _without(values: Table, path: SettingPath) -> Table:
    name, *rest = path
    assert isinstance(name, str)
    if not rest:
        return {key: value for key, value in values.items() if key != name}
    return {**values, name: _without(values[name], tuple(rest))}


def _enabled(value: Any, node: Node | None) -> Any:
    """Without the entries that say `disabled = true`, at the places where an entry may say so: `node` describes it."""
    if isinstance(value, list):
        listed = None if node is None else node.listed
        entries = cast("list[Any]", value)
        return [_settled(entry) for entry in entries if not _is_disabled(entry, listed)]
    if not isinstance(value, Mapping):
        return value
    kept: Table = {}
    for name, entry in cast("Table", value).items():
        child = None if node is None else node.child(name)
        if not _is_disabled(entry, child):
            kept[name] = _enabled(_settled(entry) if _may_be_disabled(child) else entry, child)
    return kept


def _is_disabled(entry: object, node: Node | None) -> bool:
    return (
        _may_be_disabled(node) and isinstance(entry, Mapping) and cast("Table", entry).get("disabled") is True
    )


def _may_be_disabled(node: Node | None) -> bool:
    said = node.children.get("disabled") if node is not None else None
    return said is not None and said.setting is not None and said.setting.kind is FLAG


def _settled(entry: Any) -> Any:
    """An entry that stays, without the word that let it."""
    if isinstance(entry, Mapping):
        return {name: value for name, value in cast("Table", entry).items() if name != "disabled"}
    return entry


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return MappingProxyType({name: _frozen(item) for name, item in cast("Table", value).items()})
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(item) for item in cast("Sequence[Any]", value))
    return value


def _path(key: str | SettingPath) -> SettingPath:
    return path_of(key) if isinstance(key, str) else key


def _child(value: Any, part: str | int) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[str | int, Any]", value).get(part)
    if isinstance(value, (list, tuple)) and isinstance(part, int):
        entries = cast("Sequence[Any]", value)
        return entries[part] if 0 <= part < len(entries) else None
    return None


def _meant(values: Any, pattern: SettingPath) -> Iterator[SettingPath]:
    """The places that are there and that a pattern means, in which `*` is any name."""
    if not pattern:
        yield ()
        return
    first, rest = pattern[0], pattern[1:]
    names = tuple(cast("Mapping[str, Any]", values)) if first == "*" else (first,)
    for name in names:
        if (child := _child(values, name)) is not None:
            yield from ((name, *below) for below in _meant(child, rest))


def _held(values: Table, path: SettingPath) -> bool:
    value: Any = values
    for part in path:
        value = _child(value, part)
        if value is None:
            return False
    return True


def _entries(values: Table, path: SettingPath) -> list[Table]:
    value: Any = values
    for part in path:
        value = _child(value, part)
    return cast("list[Table]", value) if isinstance(value, list) else []
