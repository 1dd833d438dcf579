"""Values as somebody wrote them, brought to our names and held against the table of settings. Pure.

Two steps, because a workspace file is looked at between them: `folded` gives every known key its one name and reports
the others, `validated` drops every value that is not what its setting takes and reports that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec

from bridle.base.text.spelling import folded_name, nearest
from bridle.config.problems import SHOWN_NAMES, Problem, Severity, shown, written
from bridle.config.setting_table import (
    RETIRED,
    LineNumbers,
    Node,
    Setting,
    SettingPath,
    SettingTable,
    Table,
    key_of,
)

Report = Callable[[Severity, str, int | None, str], Problem]
"""Makes a problem of a severity, a clause, a line and a key; whoever read the values knows where they stand."""


_OTHER_MODES = ("single-agent", "multi-agent")


class CheckedSettings(msgspec.Struct, frozen=True):
    """Values under our names, the line of each by its path, and what is to be said about the rest."""

    values: Table
    lines: LineNumbers
    problems: list[Problem]


def folded(
    table: SettingTable, values: Table, lines: LineNumbers, report: Report, *, unknown: Severity = "warning"
) -> CheckedSettings:
    """Every known key under its one name. An unknown key is left out, and named with the nearest known one."""
    folding = _Folding(table, lines, report, unknown)
    found = folding.table(table.tree, values, (), ())
    if (
        found.get("mode") in _OTHER_MODES
    ):  # the other meaning this word has elsewhere; agent_mode goes before it
        found.setdefault("agent_mode", found.pop("mode"))
        if (line := folding.found.get(("mode",))) is not None:
            folding.found.setdefault(("agent_mode",), line)
    return CheckedSettings(found, folding.found, folding.problems())


def validated(
    table: SettingTable, values: Table, lines: LineNumbers, report: Report, *, in_file: bool = True
) -> CheckedSettings:
    """What the settings take, of folded values. Every value that is dropped is an error."""
    checking = _Checking(lines, report, in_file=in_file)
    kept = checking.section(table.tree, values, ())
    checking.contradictions(kept)
    return CheckedSettings(kept, lines, checking.problems)


class _Folding:
    def __init__(self, table: SettingTable, lines: LineNumbers, report: Report, unknown: Severity) -> None:
        self.found: LineNumbers = {}
        self._table = table
        self._lines = lines
        self._report = report
        self._severity: Severity = unknown
        self._unknown: list[Problem] = []
        self._retired: list[Problem] = []
        self._twice: list[Problem] = []

    def problems(self) -> list[Problem]:
        """A file full of unknown keys is probably no settings file: some of them say enough."""
        rest = len(self._unknown) - SHOWN_NAMES
        listed = self._unknown[:SHOWN_NAMES]
        if rest > 0:
            listed.append(self._report(self._severity, f"there are {rest} more unknown settings", None, ""))
        return [*listed, *self._retired, *self._twice]

    def table(
        self, node: Node, values: Mapping[str, Any], place: SettingPath, written_place: SettingPath
    ) -> Table:
        table: Table = {}
        for spelled, value in values.items():
            name = node.canonical(spelled)
            if name is None:
                self._note_unknown(node, (*place, spelled), (*written_place, spelled))
                continue
            if value is None:  # JSON's way of saying nothing
                continue
            path = (*place, name)
            line = self._lines.get((*written_place, spelled))
            if name in table:
                self._twice.append(
                    self._report("error", f"{key_of(path)} is written twice", line, key_of(path))
                )
                continue
            if line is not None:
                self.found[path] = line
            child = node.child(name)
            assert child is not None, "the name is canonical"
            table[name] = self._value(child, value, path, (*written_place, spelled))
        return table

    def _value(self, node: Node, value: object, path: SettingPath, written_path: SettingPath) -> Any:
        if isinstance(value, list) and node.listed is not None:
            return self._list(node.listed, cast("list[Any]", value), path, written_path)
        if not isinstance(value, dict):
            return cast("object", value)
        table = cast("Table", value)
        if node.setting is None:
            return self.table(node, table, path, written_path) if node.listed is None else table
        return (
            {folded_name(name): item for name, item in table.items()} if node.setting.about.folds else table
        )

    def _list(self, node: Node, values: list[Any], path: SettingPath, written_path: SettingPath) -> list[Any]:
        entries: list[Any] = []
        for index, value in enumerate(values):
            line = self._lines.get((*written_path, index))
            if line is not None:
                self.found[(*path, index)] = line
            entries.append(self._value(node, value, (*path, index), (*written_path, index)))
        return entries

    def _note_unknown(self, node: Node, path: SettingPath, written_path: SettingPath) -> None:
        if key_of(path) in RETIRED:
            key = key_of(path)
            self._retired.append(
                self._report("warning", retired_clause(key), self._lines.get(written_path), key)
            )
            return
        if len(self._unknown) >= SHOWN_NAMES:  # only counted; looking for names costs time
            self._unknown.append(self._unknown[0])
            return
        clause = unknown_clause(self._table, node, path)
        self._unknown.append(
            self._report(self._severity, clause, self._lines.get(written_path), key_of(path))
        )


def retired_clause(key: str) -> str:
    """Return the notice for a setting that was removed."""
    return f"{key} no longer does anything; remove it"


def unknown_clause(table: SettingTable, node: Node, path: SettingPath) -> str:
    """Says that a key does not exist, and which one was probably meant: a neighbour, or any other."""
    *place, name = path
    close = nearest(folded_name(str(name)), [child for child in node.children if child not in {"*", "[]"}])
    if close is not None:
        close = key_of((*place, close))
    else:
        close = nearest(key_of(path), [setting.key for setting in table.settings])
    hint = f"nearest: {close}" if close else "all of them: bridle help settings"
    return f'there is no setting "{shown(key_of(path))}" ({hint})'


class _Checking:
    def __init__(self, lines: LineNumbers, report: Report, *, in_file: bool) -> None:
        self.problems: list[Problem] = []
        self._in_file = in_file
        self._lines = lines
        self._report = report

    def section(self, node: Node, values: Table, path: SettingPath) -> Table:
        kept: Table = {}
        for name, value in values.items():
            child, place = node.child(name), (*path, name)
            assert child is not None, "the values are folded"
            if child.setting is not None:
                if self._takes(child.setting, value, place):
                    kept[name] = value
            elif child.listed is not None:
                if self._is_of(list, value, place, f"a list of tables ([[{child.key}]])"):
                    kept[name] = self._entries(child.listed, value, place)
            elif self._is_of(dict, value, place, f"a section ([{key_of(place)}])"):
                kept[name] = self.section(child, value, place)
        return kept

    def contradictions(self, kept: Table) -> None:
        """A tool in both lists of one file: whatever was meant, one of the two is a slip."""
        allowed, disallowed = kept.get("allowed_tools", ()), kept.get("disallowed_tools", ())
        for tool in dict.fromkeys(tool for tool in allowed if tool in disallowed):
            self._error(f"{shown(tool)} is in allowed_tools and in disallowed_tools", ("allowed_tools",))

    def _entries(self, node: Node, values: Iterable[object], path: SettingPath) -> list[Table]:
        kept: list[Table] = []
        for index, value in enumerate(values):
            place = (*path, index)
            if not self._is_of(dict, value, place, f"a table ([[{key_of(path)}]])"):
                continue
            entry = self.section(node, cast("Table", value), place)
            missing = _missing(node, cast("Table", value))
            if missing:
                self._error(f"{key_of(place)} has no {' and no '.join(missing)}", place)
            if not _missing(node, entry):
                kept.append(entry)
        return kept

    def _takes(self, setting: Setting, value: object, path: SettingPath) -> bool:
        if setting.about.instead and self._in_file:
            self._error(f"{key_of(path)} is never read from a settings file; {setting.about.instead}", path)
            return False
        if setting.kind.accepts(value):
            return True
        self._error(wrong_value(setting, value, path), path)
        return False

    def _is_of(self, kind: type, value: object, path: SettingPath, wanted: str) -> bool:
        if isinstance(value, kind):
            return True
        self._error(f"{shown(key_of(path))} = {shown(written(value))} is not {wanted}", path)
        return False

    def _error(self, clause: str, path: SettingPath) -> None:
        self.problems.append(self._report("error", clause, line_of(self._lines, path), key_of(path)))


def wrong_value(setting: Setting, value: object, path: SettingPath) -> str:
    """`mode = "yollo" is not a mode (strict, default, …)`, without the value where it may be a secret."""
    about = setting.about
    value_shown = "…" if about.secret or about.private else shown(written(value))
    return f"{shown(key_of(path))} = {value_shown} is not {setting.kind.wanted}"


def line_of(lines: LineNumbers, path: SettingPath) -> int | None:
    """The line of a value, or of the nearest thing around it."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path)


def _missing(node: Node, entry: Table) -> list[str]:
    """The required names an entry has not, nor what may stand in their place."""
    return [
        name
        for name, child in node.children.items()
        if child.setting and child.setting.required and not {name, child.setting.about.or_key} & entry.keys()
    ]
