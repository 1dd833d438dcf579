"""The plugins a person has listed: found among what is installed, registered, and checked. All of them or none."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint, EntryPoints, distributions
from importlib.util import find_spec
from typing import Any, cast

import msgspec

from bridle.agents.definition import AgentDefinition
from bridle.base.secrets.redact import redact
from bridle.base.text.phrases import counted
from bridle.base.text.spelling import nearest
from bridle.base.text.terminal_text import visible, visible_line
from bridle.config.origins import ValueOrigin
from bridle.config.problems import Problem, Severity, shown, written
from bridle.config.setting_table import key_of, path_of
from bridle.config.tiers import Tiers
from bridle.engine.features import Feature, join
from bridle.engine.setting_fields import about, kind_of
from bridle.plugin.registrar import AddedRule, MakeTransport, Plugin, Registrar
from bridle.protocol.errors import BridleError

GROUP = "bridle.plugins"
"""The group of entry points that name plugins."""
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_MAX_NAME = 24
_SHOWN_CHARACTERS = 200
RESERVED = {
    "agents", "alias", "bridle", "budget", "builtin", "calls", "commands", "compaction", "context",
    "credentials", "delegate_ledger", "enabled", "explain", "fallback", "git", "goal", "help", "hooks",
    "instructions", "lsp", "mcp", "memory", "models", "operations", "permissions", "plugins", "profile",
    "profiles", "programmatic", "project", "prompt_files", "queue", "raw_dumps", "repo_map", "roles", "run",
    "sandbox", "sessions", "settings", "skills", "tool_modules", "tools", "transcript", "trust", "undo", "user",
    "web",
}  # fmt: skip
"""Namespaces of our own."""


class LoadedPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin as it registered for one session. `version` is that of its package; empty where it was brought along.

    `where` says who wants it; `hooks` and `providers` are as settings would have them, `settings` the keys it reads.
    """

    name: str
    version: str
    where: str
    feature: Feature
    rules: tuple[AddedRule, ...]
    hooks: tuple[dict[str, Any], ...]
    providers: Mapping[str, Mapping[str, Any]]
    agents: tuple[AgentDefinition, ...]
    transport: MakeTransport | None
    settings: tuple[str, ...]
    warnings: tuple[Problem, ...]

    def adds(self) -> str:
        """What it adds, counted: `2 tools, 1 slash command`."""
        feature = self.feature
        parts = (
            (len(feature.tools), "tool"),
            (len(feature.sources), "tool source"),
            (len(feature.request_layers) + len(feature.tool_layers), "layer"),
            (len(feature.slash), "slash command"),
            (len(feature.queries), "query verb"),
            (len(feature.commands), "command verb"),
            (len(feature.services), "service"),
            (len(feature.listeners), "listener"),
            (len(self.rules), "rule"),
            (len(self.hooks), "hook"),
            (len(self.providers), "provider"),
            (len(self.agents), "agent"),
            (int(self.transport is not None), "transport"),
        )
        return ", ".join(counted(number, noun) for number, noun in parts if number) or "nothing"


class _Found(msgspec.Struct, frozen=True):
    """A plugin before it has registered, and where somebody says that it is to be used."""

    plugin: Plugin
    version: str
    where: str

    def bad(self, name: str, problem: str) -> BridleError:
        return bad_plugin(self.where, name, problem)


def load_plugins(tiers: Tiers | None, brought: Sequence[Plugin] = ()) -> tuple[LoadedPlugin, ...]:
    """The plugins that `plugins.enabled` lists, in that order, and those an embedder brings.

    Raises `BadPlugin`, `BadConfig` or `FeatureConflict` for the first that cannot be used; none of them is then.
    """
    found = [*_listed(tiers), *(_Found(plugin, "", "brought along") for plugin in brought)]
    loaded: list[LoadedPlugin] = []
    for each in found:
        one = _registered(each, tiers)
        if any(one.name == other.name for other in loaded):
            raise each.bad(one.name, "another plugin has that name")
        loaded.append(one)
    join((), [one.feature for one in loaded])
    return tuple(loaded)


def idle_sections(tiers: Tiers, loaded: Sequence[str]) -> Iterator[Problem]:
    """Settings of plugins that nobody loads: perhaps a name is misspelled."""
    for name in tiers.get("plugins") or ():
        if name != "enabled" and name not in loaded:
            clause = f'plugins.{shown(name)} is used by nobody: "{shown(name)}" is not in plugins.enabled'
            yield _problem(tiers.origin(("plugins", name)), "warning", f"plugins.{name}", clause)


def as_problem(tiers: Tiers, failure: BridleError) -> Problem:
    """What keeps a plugin from being used, for whoever lists what is wrong with settings."""
    data, origin = failure.data, tiers.origin("plugins.enabled")
    if failure.reason == "BadConfig":
        origin = tiers.origin(path_of(data["key"]))
        return _problem(origin, "error", data["key"], data["problem"])
    problem = _problem(origin, "error", "plugins.enabled", "")
    clause = failure.message.removeprefix(f"{problem.where}: ").removesuffix(".")
    return msgspec.structs.replace(problem, problem=clause)


def offered_plugins() -> dict[str, str]:
    """Every plugin that an installed package offers, with the package and its version. Nothing of one is imported."""
    return {
        offer.name: f"{offer.dist.name} {offer.dist.version}" if offer.dist else "?" for offer in _offered()
    }


def _listed(tiers: Tiers | None) -> Iterator[_Found]:
    names: Sequence[str] = (tiers.get("plugins.enabled") if tiers is not None else None) or ()
    if tiers is None or not names:
        return
    where = _problem(tiers.origin("plugins.enabled"), "error", "plugins.enabled", "").where
    offered = _offered()
    for name in dict.fromkeys(names):
        yield _loaded(where, name, [one for one in offered if one.name == name], sorted(offered.names))


def _offered() -> EntryPoints:
    """What installed packages offer. Python may look into the working folder too; what is there is not installed."""
    path = [entry for entry in sys.path if not _is_working_folder(entry)]
    found = (entry_point for package in distributions(path=path) for entry_point in package.entry_points)
    return EntryPoints(found).select(group=GROUP)


def _is_working_folder(folder: str) -> bool:
    return os.path.realpath(folder) == os.path.realpath("")


def _comes_from_working_folder(offer: EntryPoint) -> bool:
    """Whether the code of a plugin would be what lies in the working folder under its name. Nothing of it runs."""
    try:
        found = find_spec(offer.module.partition(".")[0])
    except (AttributeError, ImportError, ValueError):  # it names no module; importing it will say so
        return False
    places = [] if found is None else [found.origin or "", *(found.submodule_search_locations or ())]
    return any(_is_working_folder(os.path.dirname(place)) for place in places if place)


def _loaded(where: str, name: str, offers: Sequence[EntryPoint], known: Sequence[str]) -> _Found:
    if not offers:
        there = ", ".join(map(shown, known)) or "none"
        problem = f"it is not installed (installed: {there}). Install it, or take it out of plugins.enabled"
        raise bad_plugin(where, name, problem)
    packages = sorted({one.dist.name if one.dist else "?" for one in offers})
    if len({(one.value, one.dist and one.dist.name) for one in offers}) > 1:
        raise bad_plugin(where, name, f"{' and '.join(packages)} both offer it. Uninstall one")
    offer = offers[0]
    if _comes_from_working_folder(offer):
        problem = "its code would come from the working folder, which is no place for packages"
        raise bad_plugin(where, name, f"{problem}. Start Python with -P")
    try:
        given = offer.load()
        plugin = cast("Plugin", given() if isinstance(given, type) else given)
        own_name = plugin.name
    except (Exception, SystemExit) as fault:  # noqa: BLE001  the boundary: it is somebody else's code
        raise bad_plugin(where, name, f"importing it failed ({_words(fault)})") from None
    if own_name != name:
        raise bad_plugin(where, name, f'it calls itself "{shown(str(own_name))}"')
    return _Found(plugin, offer.dist.version if offer.dist else "", where)


def name_problem(name: str) -> str:
    """Why this cannot name a plugin, as a clause; empty where it can."""
    if _NAME.fullmatch(name) is None or len(name) > _MAX_NAME:
        return f"its name is small letters, digits and single underscores, {_MAX_NAME} at most"
    if name in RESERVED or name.startswith("x_"):
        return "the namespace is Bridle's own"
    return ""


def _registered(found: _Found, tiers: Tiers | None) -> LoadedPlugin:
    plugin = found.plugin
    name = plugin.name
    if problem := name_problem(name):
        raise found.bad(name, problem)
    settings = _Settings(name, tiers)
    registrar = Registrar(name, settings.decode)
    try:
        plugin.register(registrar)
    except BridleError:
        raise
    except (Exception, SystemExit) as fault:  # noqa: BLE001  the boundary: it is somebody else's code
        raise found.bad(name, f"its register failed ({_words(fault)})") from None
    settings.finish()
    return LoadedPlugin(
        name=name,
        version=found.version,
        where=found.where,
        feature=registrar.feature(),
        rules=tuple(registrar.rules),
        hooks=tuple(registrar.hooks),
        providers=dict(registrar.providers),
        agents=tuple(registrar.agents),
        transport=registrar.transport,
        settings=settings.keys,
        warnings=tuple(settings.warnings),
    )


class _Settings:
    """What `plugins.NAME` says, held against the type the plugin reads it as."""

    def __init__(self, plugin: str, tiers: Tiers | None) -> None:
        self.warnings: list[Problem] = []
        self._plugin = plugin
        self._tiers = tiers
        self._given: Mapping[str, Any] = (tiers.get(("plugins", plugin)) if tiers is not None else None) or {}
        self._known: set[str] = set()
        self._failed: BridleError | None = None

    def decode(self, kind: type[msgspec.Struct]) -> msgspec.Struct:
        fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
        kinds = {key: kind_of(annotation) for key, annotation in fields.items()}
        self._known |= kinds.keys()
        values = {key: value for key, value in self._given.items() if key in kinds}
        for key, value in values.items():
            if (problem := kinds[key].problem(value)) is not None:
                why = (
                    f"is not {wanted}"
                    if (wanted := kinds[key].wanted)
                    else f"cannot be used ({visible(problem)})"
                )
                value_shown = "…" if about(fields[key]).secret else shown(written(value))
                self._fail(key, f"{self._key(key)} = {value_shown} {why}")
        try:
            return msgspec.convert(values, kind)
        except msgspec.ValidationError as problem:
            self._fail(None, f"plugins.{self._plugin} cannot be used ({visible(str(problem))})")
            raise

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(map(self._key, sorted(self._known)))

    def finish(self) -> None:
        """Raises what was wrong, also where the plugin took no notice of it. Notes what nobody read."""
        if self._failed is not None:
            raise self._failed
        for key in self._given:
            if key in self._known:
                continue
            near = nearest(key, self._known)
            hint = f"nearest: {self._key(near)}" if near else f"the plugin has {self._all_keys()}"
            clause = f'there is no setting "{shown(self._key(key))}" ({hint})'
            self.warnings.append(_problem(self._origin(key), "warning", self._key(key), clause))

    def _all_keys(self) -> str:
        return ", ".join(map(self._key, sorted(self._known))) or "none"

    def _fail(self, key: str | None, clause: str) -> None:
        self._failed = _problem(self._origin(key), "error", self._key(key), clause).error()
        raise self._failed

    def _key(self, key: str | None) -> str:
        return key_of(("plugins", self._plugin) if key is None else ("plugins", self._plugin, key))

    def _origin(self, key: str | None) -> ValueOrigin | None:
        if self._tiers is None:
            return None
        path = ("plugins", self._plugin)
        return self._tiers.origin(path if key is None else (*path, key))


def _problem(origin: ValueOrigin | None, severity: Severity, key: str, clause: str) -> Problem:
    return (origin or ValueOrigin(tier="defaults", name="settings")).problem(severity, key, clause)


def bad_plugin(where: str, plugin: str, problem: str) -> BridleError:
    """What is told where a plugin cannot be used, at the place that wants it."""
    return BridleError("BadPlugin", where=where, plugin=shown(plugin), problem=problem)


def _words(fault: BaseException) -> str:
    words = f"{type(fault).__name__}: {fault}".splitlines()[0]
    return visible_line(redact(words[:_SHOWN_CHARACTERS]))
