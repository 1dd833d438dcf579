"""Settings as people and programs read them: every value with its origin, every problem in a sentence. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from bridle.base.secrets.redact import redact
from bridle.base.text.terminal_text import visible
from bridle.config.origins import ValueOrigin
from bridle.config.problems import Problem, written
from bridle.config.setting_table import Node, Setting, SettingPath, SettingTable, key_of, path_of
from bridle.config.tiers import Tiers

HIDDEN = "(hidden)"
_PASSWORD = re.compile(r"(://)[^/\s@]+@")


class SettingRow(msgspec.Struct, frozen=True, kw_only=True):
    """One setting in force. `value` is ready to be shown: secrets are not in it."""

    key: str
    value: Any
    origin: ValueOrigin


def rows(tiers: Tiers) -> list[SettingRow]:
    """Every setting that has a value, in the order of the table; lists of rules entry by entry."""
    return list(_rows(tiers, tiers.table.tree, tiers.values, ()))


def show(tiers: Tiers, *, origin: bool = False) -> list[str]:
    """One line for each setting, `key = value`; with `origin`, where the value comes from behind it."""
    lines = [(f"{row.key} = {_shown(row.value)}", row.origin.shown) for row in rows(tiers)]
    if not origin:
        return [line for line, _origin in lines]
    width = min(max((len(line) for line, _origin in lines), default=0), 60)
    return [f"{line:<{width}}  # {visible(where, newlines=False)}" for line, where in lines]


def shown_value(tiers: Tiers, key: str | SettingPath) -> str | None:
    """One value the way `show` writes it; None if it is not set."""
    value = tiers.get(key)
    if value is None:
        return None
    node = tiers.table.node_at(path_of(key) if isinstance(key, str) else key)
    return _shown(_hidden(node.setting if node else None, value))


def validate(tiers: Tiers) -> list[Problem]:
    """Everything that is wrong, errors first. `msgspec.to_builtins` makes it data for `--json`."""
    return sorted(tiers.problems, key=lambda problem: problem.severity != "error")


def reference(table: SettingTable) -> list[str]:
    """Return the table of settings, one line each, for help."""
    width = max(len(setting.key) for setting in table.settings)
    return [f"{setting.key:<{width}}  {setting.about.help}{_more(setting)}" for setting in table.settings]


def reference_page(table: SettingTable) -> str:
    """Return the table of settings in Markdown, for the docs."""
    lines = ["| key | takes | default | project file | |", "|---|---|---|---|---|"]
    for setting in table.settings:
        rule = setting.workspace
        project = "only tighter" if callable(rule) else {"after ack": "after your consent"}.get(rule, rule)
        default = "" if setting.default in (None, "", (), {}) else f"`{written(setting.default)}`"
        unused = " (not used yet)" if setting.about.awaits else ""
        cells = (f"`{setting.key}`", setting.kind.wanted, default, project, f"{setting.about.help}{unused}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _more(setting: Setting) -> str:
    if setting.about.awaits:
        return " (not used yet)"
    return f" ({', '.join(setting.kind.choices)})" if setting.kind.choices else ""


def _rows(tiers: Tiers, node: Node, values: Mapping[str, Any], place: SettingPath) -> Iterator[SettingRow]:
    names = values if node.named is not None else [name for name in node.children if name in values]
    for name in names:
        path = (*place, name)
        child = node.child(name)
        assert child is not None, "the values are checked"
        if child.listed is not None and child.key in tiers.table.joined:
            for index, entry in enumerate(tiers.written(child.key)):
                yield SettingRow(key=f"{child.key}[{index}]", value=_plain(entry.value), origin=entry.origin)
        elif child.setting is not None:
            where = tiers.origin(path)
            assert where is not None
            yield SettingRow(key=key_of(path), value=_hidden(child.setting, values[name]), origin=where)
        else:
            yield from _rows(tiers, child, cast("Mapping[str, Any]", values[name]), path)


def _hidden(setting: Setting | None, value: Any) -> Any:
    if setting is not None and setting.about.secret:
        return HIDDEN
    if setting is not None and setting.about.private and isinstance(value, Mapping):
        return dict.fromkeys(cast("Mapping[str, Any]", value), HIDDEN)
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in cast("tuple[Any, ...]", value)]
    return _PASSWORD.sub(r"\1…@", redact(value)) if isinstance(value, str) else value


def _shown(value: Any) -> str:
    return visible(value if value == HIDDEN else written(value), newlines=False)
