"""Plugins in a session: its settings with what they add, and the features they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from bridle.plugin.loading import LoadedPlugin, idle_sections, load_plugins
from bridle.safety.rules import Rule

if TYPE_CHECKING:
    from bridle.app.settings import SessionSettings
    from bridle.plugin.contract import Plugin


def session_plugins(
    settings: SessionSettings, brought: Sequence[Plugin] = ()
) -> tuple[SessionSettings, tuple[LoadedPlugin, ...]]:
    """The plugins of a session, and its settings with their rules and with what is to be said of them.

    Raises `BridleError` where one cannot be used: then no session begins.
    """
    tiers = settings.plugin_tiers
    loaded = load_plugins(tiers, brought)
    idle = () if tiers is None else idle_sections(tiers, [one.name for one in loaded])
    said = (*(warning for one in loaded for warning in one.warnings), *idle)
    settings = msgspec.structs.replace(
        settings,
        rules=(*settings.rules, *(rule for one in loaded for rule in _rules(one))),
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
