"""Plugins in a session: its settings with the rules and hooks they add, and the features they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from bridle.config.origins import ValueOrigin
from bridle.config.tiers import WrittenEntry
from bridle.plugin.loading import LoadedPlugin, bad_plugin, idle_sections, load_plugins
from bridle.safety.rules import Rule

if TYPE_CHECKING:
    from bridle.app.settings import SessionSettings
    from bridle.plugin.contract import Plugin


def session_plugins(
    settings: SessionSettings, brought: Sequence[Plugin] = ()
) -> tuple[SessionSettings, tuple[LoadedPlugin, ...]]:
    """The plugins of a session, and its settings with their rules, their hooks and what is to be said of them.

    Raises `BridleError` where one cannot be used: then no session begins.
    """
    tiers = settings.plugin_tiers
    loaded = load_plugins(tiers, brought)
    idle = () if tiers is None else idle_sections(tiers, [one.name for one in loaded])
    said = (*(warning for one in loaded for warning in one.warnings), *idle)
    settings = msgspec.structs.replace(
        settings,
        rules=(*settings.rules, *(rule for one in loaded for rule in _rules(one))),
        hooks=msgspec.structs.replace(
            settings.hooks,
            written=(*settings.hooks.written, *(hook for one in loaded for hook in _hooks(one))),
        ),
        warnings=(*settings.warnings, *(warning.text for warning in said)),
    )
    return settings, loaded


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
        from bridle.safety.hooks.definitions import BadHook, hook_from

        try:
            hook_from(value, scope="user")
        except BadHook as bad:
            raise bad_plugin(
                plugin.where, plugin.name, f"one of its hooks means nothing: {bad.problem}"
            ) from None
        yield WrittenEntry(value, ValueOrigin(tier="user", name=f"plugin {plugin.name}"))
