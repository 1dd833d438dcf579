"""Sources of settings besides files: the environment and the command line. And what a source is.

Every variable and every option is a source of its own, so that the origin of a value can be named exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from bridle.base.text.spelling import nearest
from bridle.config.problems import Problem, Severity, shown
from bridle.config.setting_table import (
    RETIRED,
    LineNumbers,
    Node,
    Setting,
    SettingPath,
    SettingTable,
    Table,
    key_of,
    path_of,
)
from bridle.config.settings_file import SettingsTier
from bridle.config.value_check import (
    Report,
    folded,
    line_of,
    retired_clause,
    unknown_clause,
    validated,
    wrong_value,
)
from bridle.protocol.errors import BridleError

VARIABLES: Mapping[str, str] = {
    "BRIDLE_MODEL": "model",
    "BRIDLE_API_KEY": "api_key",
    "BRIDLE_MODE": "mode",
    "BRIDLE_PROFILE": "profile",
    "BRIDLE_SANDBOX": "sandbox.mode",
    "BRIDLE_MAIN_MAX_CONTEXT_TOKENS": "context.max_tokens",
    "BRIDLE_MAIN_COMPACT_AT_RATIO": "context.compact_at",
    "BRIDLE_MAIN_SUMMARY_TARGET_TOKENS": "context.summary_tokens",
    "BRIDLE_MAIN_KEEP_RAW_DELEGATE_RESULTS": "context.delegates.kept_raw",
    "BRIDLE_MAIN_MAX_DELEGATE_RESULT_TOKENS": "context.delegates.result_tokens",
    "BRIDLE_SUB_MAX_CONTEXT_TOKENS": "context.child.max_tokens",
    "BRIDLE_SUB_COMPACT_AT_RATIO": "context.child.compact_at",
    "BRIDLE_SUB_SUMMARY_TARGET_TOKENS": "context.child.summary_tokens",
    "BRIDLE_SUB_RECENT_TURNS": "context.child.recent_turns",
    "BRIDLE_SUB_MAX_HANDOFF_TOKENS": "context.child.handoff_tokens",
    "BRIDLE_SUB_MAX_DELEGATE_CONTEXT_TOKENS": "context.child.delegate_context_tokens",
    "BRIDLE_SUB_MAX_RESULT_TOKENS_TO_MAIN": "context.child.result_tokens",
    "BRIDLE_AGENT": "agent",
    "BRIDLE_AGENT_MODE": "agent_mode",
}
"""The variables that are settings."""

OTHER_VARIABLES = (
    "BRIDLE_HOME", "BRIDLE_CONFIG", "BRIDLE_NO_ATTACH", "BRIDLE_URL", "BRIDLE_TOKEN_FILE", "BRIDLE_MACHINE_KEY",
    "BRIDLE_PASSPHRASE", "BRIDLE_LOG", "BRIDLE_PLAIN", "BRIDLE_APPROVED_LOCK", "BRIDLE_HUB_TASK", "BRIDLE_HUB_RUN",
    "BRIDLE_HUB_AGENT", "BRIDLE_HOOK_EVENT", "BRIDLE_SESSION_ID", "BRIDLE_TOOL_NAME", "BRIDLE_TOOL_INPUT",
    "BRIDLE_TOOL_OUTPUT",
)  # fmt: skip
"""The variables that mean something else; the last five are what a hook is told, and so is a Bridle that it starts."""


BUNDLE = "bundle "
"""What the name of a source begins with that is an installed bundle's."""
CHOSEN_HERE = "chosen for this project"
"""What people read of a value that they chose for one project alone."""


class ValueOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a value comes from. `name` is how people call the place: a file, a variable, an option."""

    tier: SettingsTier
    name: str
    path: str | None = None
    line: int | None = None

    @property
    def shown(self) -> str:
        """`user config, line 12`, `BRIDLE_MODE`, `default`."""
        named = self.name.startswith(("profile ", BUNDLE, CHOSEN_HERE))
        own_file = self.tier in {"user", "project", "local"} and not named
        place = f"{self.tier} config" if own_file else self.name
        return place if self.line is None else f"{place}, line {self.line}"

    def problem(self, severity: Severity, key: str, clause: str) -> Problem:
        """Return a problem with the value from here."""
        return Problem(
            severity=severity, source=self.name, path=self.path, line=self.line, key=key, problem=clause
        )


class BadSetting(msgspec.Struct, frozen=True):
    """A setting that means nothing, where it stands and why, as a clause."""

    key: str
    origin: ValueOrigin
    clause: str

    @property
    def problem(self) -> Problem:
        return self.origin.problem("error", self.key, f"{self.key}: {self.clause}")

    def error(self) -> BridleError:
        return BridleError("BadConfig", where=self.origin.shown, problem=f"{self.key}: {self.clause}")


class SettingsSource:
    """Checked values under our names, from one place. Nobody changes them."""

    def __init__(
        self,
        tier: SettingsTier,
        name: str,
        values: Table,
        *,
        path: str | None = None,
        lines: LineNumbers | None = None,
    ) -> None:
        self.tier: SettingsTier = tier
        self.name = name
        self.path = path
        self.values = values
        self._lines = lines or {}

    def origin(self, path: SettingPath) -> ValueOrigin:
        return ValueOrigin(tier=self.tier, name=self.name, path=self.path, line=line_of(self._lines, path))

    def __repr__(self) -> str:  # without values: there may be keys among them
        return f"SettingsSource({self.tier!r}, {self.name!r})"


def bundle_folders(sources: Iterable[SettingsSource]) -> tuple[str, ...]:
    """Where the bundles lie that are among these sources."""
    return tuple(one.path for one in sources if one.name.startswith(BUNDLE) and one.path is not None)


class GivenOption(msgspec.Struct, frozen=True):
    """A value given with an option of its own, like `--mode`."""

    name: str
    key: str
    value: Any


class GivenSettings(msgspec.Struct, frozen=True):
    sources: list[SettingsSource]
    problems: list[Problem]


def environment_sources(table: SettingTable, env: Mapping[str, str]) -> GivenSettings:
    """The settings among the variables; an empty one counts as unset. An unknown `BRIDLE_` variable is named."""
    given = GivenSettings([], [])
    for name in sorted(env):
        if not name.startswith("BRIDLE_") or not env[name]:
            continue
        if name in VARIABLES:
            path = path_of(VARIABLES[name])
            _add(table, given, "environment", name, path, _typed(table, env[name], path))
        elif name not in OTHER_VARIABLES:
            close = nearest(name, (*VARIABLES, *OTHER_VARIABLES))
            clause = "is not a variable Bridle knows" + (f" (nearest: {close})" if close else "")
            given.problems.append(Problem(severity="warning", source=shown(name), problem=clause))
    return given


def flag_sources(table: SettingTable, sets: Sequence[str], options: Iterable[GivenOption]) -> GivenSettings:
    """The settings of the command line: `--set key=value`, then options of their own, which are the plainer words."""
    given = GivenSettings([], [])
    for text in sets:
        _add_set(table, given, text)
    for option in options:
        _add(table, given, "flags", option.name, path_of(option.key), option.value)
    return given


class NamedSetting(msgspec.Struct, frozen=True):
    """One setting named by a person: where it stands, and its row in the table."""

    path: tuple[str, ...]
    setting: Setting | None


def settable(table: SettingTable, key: str) -> NamedSetting:
    """The place a dotted key names, under our names. Raises ValueError with a clause that says what is wrong.

    A list of tables may be named as a whole; it has no row of its own.
    """
    try:
        parts = path_of(key)
    except ValueError:
        raise ValueError(f'"{shown(key)}" is not a key; write it as in budget.max_steps') from None
    if key in RETIRED:
        raise ValueError(retired_clause(key))
    node: Node = table.tree
    path: tuple[str, ...] = ()
    for part in parts:
        if node.setting is not None and node.setting.kind.wanted.startswith("a table"):
            return NamedSetting((*path, *parts[len(path) :]), None)
        name = node.canonical(part)
        if name is None or node.listed is not None:
            raise ValueError(unknown_clause(table, node, (*path, part)))
        path = (*path, name)
        child = node.child(name)
        assert child is not None, "the name is canonical"
        node = child
    if node.setting is None and node.listed is None:
        names = ", ".join(f"{key}.{child}" for child in node.children if child != "*") or f"{key}.NAME"
        raise ValueError(f"{shown(key)} is a section; name one of its settings ({names})")
    return NamedSetting(path, node.setting)


def value_of(text: str, setting: Setting | None) -> Any:
    """The value a person typed: TOML where it parses, else the text itself.

    What parses as something else but is wanted as text (a model called `5`) stays text.
    """
    import tomllib

    try:
        value: Any = tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except (ValueError, RecursionError):
        value = text
    if setting is not None and not setting.kind.accepts(value) and setting.kind.accepts(text):
        return text
    return value


def _typed(table: SettingTable, text: str, path: tuple[str, ...]) -> Any:
    """What a variable holds: its text where the setting takes that, else the number or flag it spells."""
    node = table.node_at(path)
    setting = None if node is None else node.setting
    return text if setting is None or setting.kind.accepts(text) else value_of(text, setting)


def nested(path: Sequence[str], value: Any) -> Table:
    for name in reversed(path):
        value = {name: value}
    return value


def checked_value(
    table: SettingTable, path: tuple[str, ...], value: Any, setting: Setting | None
) -> list[Problem]:
    """What is wrong with a value for a setting, as problems without a place; empty if nothing is."""
    if setting is not None:
        if setting.kind.accepts(value):
            return []
        return [Problem(severity="error", source="", problem=wrong_value(setting, value, path))]
    return _check(table, nested(path, value), _reporter("")).problems


def _add_set(table: SettingTable, given: GivenSettings, text: str) -> None:
    key, equals, value = text.partition("=")
    key, value = key.strip(), value.strip()
    if not equals:
        given.problems.append(_wrong("--set", f'"{shown(text)}" is not key=value'))
        return
    if key in RETIRED:
        given.problems.append(Problem(severity="warning", source="--set", problem=retired_clause(key)))
        return
    try:
        named = settable(table, key)
    except ValueError as problem:
        given.problems.append(_wrong("--set", str(problem)))
        return
    if named.setting is not None and named.setting.about.secret:
        clause = f"{key_of(named.path)} cannot be given on the command line, where others can read it"
        given.problems.append(_wrong("--set", clause))
        return
    _add(table, given, "flags", "--set", named.path, value_of(value, named.setting))


def _add(
    table: SettingTable,
    given: GivenSettings,
    tier: SettingsTier,
    name: str,
    path: tuple[str, ...],
    value: Any,
) -> None:
    checked = _check(table, nested(path, value), _reporter(name))
    given.problems.extend(checked.problems)
    if not checked.problems:
        given.sources.append(SettingsSource(tier, name, checked.values))


class _CheckedTable(msgspec.Struct, frozen=True):
    values: Table
    problems: list[Problem]


def _check(table: SettingTable, values: Table, report: Report) -> _CheckedTable:
    names = folded(table, values, {}, report, unknown="error")
    kept = validated(table, names.values, {}, report, in_file=False)
    return _CheckedTable(kept.values, [*names.problems, *kept.problems])


def _reporter(source: str) -> Report:
    def report(severity: Severity, problem: str, _line: int | None, key: str) -> Problem:
        return Problem(severity=severity, source=source, problem=problem, key=key)

    return report


def _wrong(source: str, problem: str) -> Problem:
    return Problem(severity="error", source=source, problem=problem)
