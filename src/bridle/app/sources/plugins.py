"""Load plugins into a session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from bridle.agents.agent_settings import AgentSettings
from bridle.app.user.setting_sections import TABLE
from bridle.app.user.settings import SessionSettings
from bridle.config import value_check
from bridle.config.bundles import bundle_name
from bridle.config.origins import ValueOrigin
from bridle.config.settings_file import SettingsFile
from bridle.config.tiers import Tiers, WrittenEntry
from bridle.engine.features import Feature
from bridle.plugin.loading import LoadedPlugin, bad_plugin, idle_sections, load_plugins
from bridle.plugin.registrar import Plugin
from bridle.providers.presets import preset
from bridle.safety.hooks.definitions import BadHook, hook_from
from bridle.safety.rules import Rule


def session_plugins(
    settings: SessionSettings, brought: Sequence[Plugin] = ()
) -> tuple[SessionSettings, tuple[LoadedPlugin, ...]]:
    """The plugins of a session, and its settings with their rules, their hooks and what is to be said of them.

    Raises `BridleError` where one cannot be used: then no session begins.
    """
    tiers = settings.plugin_tiers
    loaded = load_plugins(tiers, brought)
    _refuse_names_of_bundles(settings, loaded)
    idle = () if tiers is None else idle_sections(tiers, [one.name for one in loaded])
    said = (*(warning for one in loaded for warning in one.warnings), *idle)
    settings = msgspec.structs.replace(
        settings,
        rules=(*settings.rules, *(rule for one in loaded for rule in _rules(one))),
        hooks=msgspec.structs.replace(
            settings.hooks,
            written=(*settings.hooks.written, *(hook for one in loaded for hook in _hooks(one))),
        ),
        providers=_with_providers(settings.providers, loaded),
        agents=_with_agents(settings.agents, loaded),
        warnings=(*settings.warnings, *(warning.text for warning in said)),
    )
    return settings, loaded


def _with_agents(written: AgentSettings | None, loaded: Sequence[LoadedPlugin]) -> AgentSettings | None:
    more = tuple(agent for one in loaded for agent in one.agents)
    if not more:
        return written
    said = written or AgentSettings()
    return msgspec.structs.replace(said, definitions=(*said.definitions, *more))


def _refuse_names_of_bundles(settings: SessionSettings, loaded: Sequence[LoadedPlugin]) -> None:
    """A namespace has one owner."""
    if not settings.bundles or not loaded:
        return
    bundles = frozenset(map(bundle_name, settings.bundles))
    for one in loaded:
        if one.name in bundles:
            problem = f'a bundle has the namespace "{one.name}" already (bridle plugins remove {one.name})'
            raise bad_plugin(one.where, one.name, problem)


def provider_sections(tiers: Tiers) -> Mapping[str, Mapping[str, Any]]:
    """The endpoints of these settings and of the plugins they list. Raises as `load_plugins` does."""
    written: Mapping[str, Mapping[str, Any]] = tiers.get("providers") or {}
    return _with_providers(written, load_plugins(tiers)) if tiers.get("plugins.enabled") else written


def _with_providers(
    written: Mapping[str, Mapping[str, Any]], loaded: Sequence[LoadedPlugin]
) -> Mapping[str, Mapping[str, Any]]:
    """The endpoints of the session. What a person wrote of one goes before what a plugin says of it."""
    theirs: dict[str, Mapping[str, Any]] = {}
    for plugin in loaded:
        for name, given in plugin.providers.items():
            if preset(name) is not None:
                raise bad_plugin(plugin.where, plugin.name, f'there is a provider "{name}" of Bridle already')
            report = SettingsFile(path=plugin.name, source=f"plugin {plugin.name}").report
            checked = value_check.validated(TABLE, {"providers": {name: dict(given)}}, {}, report)
            if checked.problems:
                raise bad_plugin(plugin.where, plugin.name, checked.problems[0].problem)
            theirs[name] = {**given, **written.get(name, {})}
    return {**written, **theirs}


def within_packs(features: Sequence[Feature], packs: Sequence[str] | None) -> tuple[Feature, ...]:
    """The plugins, without the tools of those that `tools.packs` does not name; what else they add is there."""
    if packs is None:
        return tuple(features)
    return tuple(
        feature if feature.name in packs else msgspec.structs.replace(feature, tools=(), sources=())
        for feature in features
    )


def _rules(plugin: LoadedPlugin) -> list[Rule]:
    return [
        Rule(
            rule.tool,
            rule.verdict,
            path=rule.path,
            command=rule.command,
            reason=rule.reason,
            tier="user",
            origin=f"plugin {plugin.name}",
        )
        for rule in plugin.rules
    ]


def _hooks(plugin: LoadedPlugin) -> Iterator[WrittenEntry]:
    for value in plugin.hooks:
        try:
            hook_from(value, scope="user")
        except BadHook as bad:
            raise bad_plugin(
                plugin.where, plugin.name, f"one of its hooks means nothing: {bad.problem}"
            ) from None
        yield WrittenEntry(value, ValueOrigin(tier="user", name=f"plugin {plugin.name}"))
