"""The list of rules in the person's own settings, with one more in front."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from bridle.config.folders import Folders
from bridle.config.settings_writer import set_value, user_file
from bridle.config.tiers import Tiers
from bridle.protocol.errors import BridleError


def put_rule_first(where: Folders, tiers: Tiers, rule: Mapping[str, str]) -> str:
    """Puts a rule before all others, unless it is there; returns the file it stands in. Raises `FileUnwritable`."""
    mine = _user_rules(tiers)
    new = [rule] if rule not in mine else []
    try:
        return set_value(where, "permissions.rules", _toml([*new, *mine])).path
    except OSError as problem:
        raise BridleError("FileUnwritable", path=user_file(where), problem=problem.strerror) from None


def _user_rules(tiers: Tiers) -> list[dict[str, Any]]:
    """The rules of the person's own file, as they stand there."""
    own: dict[str, Any] = next(
        (source.values for source in tiers.sources if source.tier == "user"), dict[str, Any]()
    )
    return [dict(rule) for rule in own.get("permissions", {}).get("rules", [])]


def _toml(rules: Iterable[Mapping[str, Any]]) -> str:
    """A list of tables on one line; the strings of JSON are strings of TOML."""
    tables = (
        ", ".join(f"{name} = {msgspec.json.encode(value).decode()}" for name, value in rule.items())
        for rule in rules
    )
    return f"[{', '.join(f'{{{table}}}' for table in tables)}]"
