"""The settings of a run: tiers merged into one, with the origin of every value. Never changed after loading.

Maps merge by name, lists replace, an entry with `disabled = true` goes; lists of rules and hooks add up, the higher
tier first.

    tiers.section("budget", BudgetSettings)   # the section as its package declares it
    tiers.origin("budget.max_steps")          # ValueOrigin(tier="defaults", …)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar, cast

import msgspec

from bridle.config.origins import SettingsSource, ValueOrigin
from bridle.config.problems import Problem
from bridle.config.setting_table import Node, SettingPath, SettingTable, Table, path_of
from bridle.config.settings_file import SettingsFile
from bridle.config.workspace import WorkspaceFile

T = TypeVar("T")


class WrittenEntry(msgspec.Struct, frozen=True):
    """An entry of a list whose tiers add up, and where it stands."""

    value: Mapping[str, Any]
    origin: ValueOrigin


class Tiers:
    """Merged settings with their origins. Everything it hands out is immutable."""

    def __init__(
        self,
        table: SettingTable,
        sources: Iterable[SettingsSource],
        problems: Iterable[Problem] = (),
        waiting: Iterable[WorkspaceFile] = (),
        named: Iterable[WorkspaceFile] = (),
    ) -> None:
        """`sources` stand low to high; `waiting` are workspace files of which a part waits for the person's word,
        `named` those that count because somebody named them by a path."""
        self.table = table
        self.sources = tuple(sources)
        self.problems = tuple(problems)
        self.waiting = tuple(waiting)
        self.named = tuple(named)
        self._plain = merged(table, _joining(self.sources))
        self._merged = cast("Mapping[str, Any]", _frozen(self._plain))

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
            path: setting.about.awaits
            for setting in self.table.settings
            if setting.about.awaits
            for values in written
            for path in _meant(values, tuple(setting.key.split(".")))
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
            if holds_value(source.values, path):
                return source.origin(path)
        return None

    def section(self, name: str, kind: type[T]) -> T:
        """Return one section as the package that declares it decodes it, the top level for "". Raises `BadConfig`."""
        value: Any = self._plain  # read-only mappings would be decoded by their attributes
        for part in path_of(name) if name else ():
            value = _child(value, part)
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


def merge(table: SettingTable, lower: Mapping[str, Any], upper: Mapping[str, Any], place: str = "") -> Table:
    """What holds when `upper` is laid over `lower`. Pure and associative."""
    result: Table = dict(lower)
    for name, value in upper.items():
        key = f"{place}.{name}" if place else name
        below = result.get(name)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            result[name] = merge(table, cast("Table", below), cast("Table", value), key)
        elif isinstance(below, list) and isinstance(value, list) and key in table.joined:
            result[name] = [*cast("list[Any]", value), *cast("list[Any]", below)]
        else:
            result[name] = value
    return result


def merged(table: SettingTable, tables: Iterable[Mapping[str, Any]]) -> Table:
    """All tables, low to high, and then without the entries that are disabled.

    Disabling is an ordinary key until the end: a tier above may set it back to false.
    """
    result: Table = {}
    for one in tables:
        result = merge(table, result, one)
    return _enabled(result, table.tree)


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
    return said is not None and said.setting is not None and said.setting.kind.accepts(True)


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


def holds_value(values: Mapping[str, Any], path: SettingPath) -> bool:
    """Return whether these values say something at a place."""
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
