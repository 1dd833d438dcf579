"""Decide what a settings file of the workspace may set. The author of the workspace wrote it, so it may only tighten.

Each setting declares one of three answers (`About.workspace`):
  always      display settings, rules that deny or ask, and values that are not looser than the user's own
  after ack   what loads or runs something: only once the user agreed to this exact content. Hooks also need
              `--allow-project-hooks`, and each program its own consent before it starts
  never       the default: keys, endpoints, trust, grants, a looser mode or sandbox, a higher budget

A file that the user names by a path has the rights of their own. If it lies where a model can write, naming it is
consent to its content at that time; changed content counts once the user agreed to it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

import msgspec

from bridle.base.fs.files import repository_root
from bridle.base.fs.paths import is_beneath_any
from bridle.config.folders import Folders
from bridle.config.problems import Problem, shown, shown_names, written
from bridle.config.setting_table import LineNumbers, SettingPath, SettingTable, Table, key_of
from bridle.config.settings_file import ParsedFile, SettingsFile

ProjectMaySet: TypeAlias = Literal["always", "after ack", "never"]
SpokenFor: TypeAlias = Literal["", "now", "earlier"]
"""Whether somebody named a file by its path, as settings of their own: in this very run, or some time before."""


AGENTS = "agents"
RULES = "permissions.rules"
HOOKS = "hooks"


class WorkspaceFile(msgspec.Struct, frozen=True, kw_only=True):
    """A settings file of a workspace as it was read: these very bytes are what a person agrees to or not.

    `path` is relative to `root`, the project; `wishes` say in words what waits for that. One that is `spoken_for`
    counts like a person's own settings.
    """

    root: str
    path: str
    shown: str
    data: bytes
    wishes: tuple[str, ...] = ()
    spoken_for: SpokenFor = ""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


class SiftedSettings(msgspec.Struct, frozen=True):
    """What a workspace file may say here, and the names of what it may not, by the reason."""

    values: Table
    lines: LineNumbers
    never: list[str]
    untrusted: list[str]
    unflagged: list[str]


def answer(
    table: SettingTable, path: tuple[str, ...], value: object, own: Mapping[str, Any]
) -> ProjectMaySet:
    """Return whether a workspace file may set this, where `own` are the values without it.

    Permission rules are checked one by one, not here. A value that its setting would not take passes, so that it is
    reported as the mistake it is.
    """
    if path[0] == AGENTS and _at(own, path) and isinstance(value, dict):
        return "never"  # an agent of the user's has no second author
    rule = table.workspace_rule(path)
    if callable(rule):
        return "always" if rule(value, _at(own, path)) else "never"
    return rule


def sifted(
    table: SettingTable,
    values: Table,
    lines: LineNumbers,
    own: Mapping[str, Any],
    *,
    acked: bool = False,
    allow_hooks: bool = False,
) -> SiftedSettings:
    """Folded values of a workspace file, less what it may not set."""
    sieve = _Sieve(table, lines, own, acked, allow_hooks)
    return SiftedSettings(sieve.sift(values, ()), sieve.lines, sieve.never, sieve.untrusted, sieve.unflagged)


def workspace_file(
    table: SettingTable, place: SettingsFile, project: str, data: bytes, values: Table
) -> WorkspaceFile:
    """The file as a person agrees to it or not; `project` is the folder it is about, `values` are folded."""
    root = repository_root(project)
    return WorkspaceFile(
        root=root,
        path=os.path.relpath(place.path, root),
        shown=place.source,
        data=data,
        wishes=wishes(table, values),
    )


def ignored(place: SettingsFile, sifted: SiftedSettings) -> list[Problem]:
    """Everything that was left out, named once."""
    found: list[Problem] = []
    if sifted.never:
        these = "this" if len(sifted.never) == 1 else "these"
        found.append(_ignored(place, sifted.never, f"only your own config may set {these}"))
    if sifted.untrusted:
        found.append(_ignored(place, sifted.untrusted, "not trusted yet"))
    if sifted.unflagged:
        found.append(_ignored(place, sifted.unflagged, "only with --allow-project-hooks"))
    return found


def wishes(table: SettingTable, values: Table) -> tuple[str, ...]:
    """What folded values of a workspace file ask for beyond what they may have at once, each in a few words.

    Total: nothing was validated yet.
    """
    return tuple(_wishes(table, values))


def _wishes(table: SettingTable, values: Table) -> Iterator[str]:
    for rule in filter(_allows, _entries(_at(values, ("permissions", "rules")))):
        limit = rule.get("command") or rule.get("path") or rule.get("program")
        tool = shown(str(rule.get("tool", "?")))
        yield f"allow {tool}({shown(str(limit))})" if limit else f"allow {tool}"
    allowed = values.get("allowed_tools")
    tools = cast("list[object]", allowed) if isinstance(allowed, list) else []
    yield from (f"allow {shown(str(tool))}" for tool in tools)
    hooks, servers = _entries(values.get("hooks")), values.get("mcp_servers")
    for hook in hooks:
        yield f"run {_command(hook.get('command') or hook.get('script'))} on {shown(str(hook.get('event', '?')))}"
    named = cast("Table", servers) if isinstance(servers, dict) else {}
    for name, server in named.items():
        written_server = cast("Table", server) if isinstance(server, dict) else {}
        address = written_server.get("url")
        does = f"connect to {shown(str(address))}" if address else f"start {_launch(written_server)}"
        yield f"{does} (server {shown(name)})"
    agents = values.get(AGENTS)
    added = [name for name in cast("Table", agents) if name != "folders"] if isinstance(agents, dict) else []
    yield from (f"add the agent {shown(name)}" for name in added)
    told = {"allowed_tools": tools, "hooks": hooks, "mcp_servers": named, AGENTS: added}
    for name, node in table.tree.children.items():
        if node.workspace == "after ack" and name in values and not told.get(name):
            yield f"set {name} = {shown(written(values[name]))}"


def _entries(value: object) -> list[Table]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Table", item) for item in items if isinstance(item, dict)]


def _launch(server: Table) -> str:
    command, args = server.get("command"), server.get("args")
    words = cast("list[object]", command) if isinstance(command, list) else [command]
    return _command([*words, *(cast("list[object]", args) if isinstance(args, list) else ())])


def _command(value: object) -> str:
    words = cast("list[object]", value) if isinstance(value, list) else [value]
    return shown(" ".join(map(str, words)))


class _Sieve:
    def __init__(
        self, table: SettingTable, lines: LineNumbers, own: Mapping[str, Any], acked: bool, allow_hooks: bool
    ) -> None:
        self._table = table
        self.lines = dict(lines)
        self.never: list[str] = []
        self.untrusted: list[str] = []
        self.unflagged: list[str] = []
        self._own = own
        self._acked = acked
        self._allow_hooks = allow_hooks

    def sift(self, values: Table, place: tuple[str, ...]) -> Table:
        kept: Table = {}
        for name, value in values.items():
            path = (*place, name)
            if key_of(path) == RULES and isinstance(value, list):
                if rules := self._rules(cast("list[Any]", value), path):
                    kept[name] = rules
            elif isinstance(value, dict) and (path == (AGENTS,) or not self._is_judged_whole(path)):
                if inner := self.sift(cast("Table", value), path):
                    kept[name] = inner
            elif self._passes(path, cast("object", value)):
                kept[name] = value
        return kept

    def _is_judged_whole(self, path: tuple[str, ...]) -> bool:
        return self._table.workspace_rule(path[:1]) == "after ack"

    def _passes(self, path: tuple[str, ...], value: object) -> bool:
        match answer(self._table, path, value, self._own):
            case "always":
                return True
            case "after ack":
                if not self._acked:
                    self.untrusted.append(key_of(path))
                elif path[0] == HOOKS and not self._allow_hooks:
                    self.unflagged.append(HOOKS)
                    return False
                return self._acked
            case "never":
                compared = callable(self._table.workspace_rule(path))
                self.never.append(f"{key_of(path)} = {written(value)}" if compared else key_of(path))
                return False

    def _rules(self, rules: list[Any], path: SettingPath) -> list[Any]:
        """Rules that only tighten, with their lines; the rest waits for trust."""
        if self._acked:
            return rules
        kept = [(index, rule) for index, rule in enumerate(rules) if not _allows(rule)]
        if len(kept) < len(rules):
            self.untrusted.append("allow rules")
            self._move_lines({index: position for position, (index, _rule) in enumerate(kept)}, path)
        return [rule for _index, rule in kept]

    def _move_lines(self, positions: Mapping[int, int], path: SettingPath) -> None:
        depth = len(path)
        entries = {
            place: line for place, line in self.lines.items() if place[:depth] == path and place != path
        }
        for place in entries:
            del self.lines[place]
        for place, line in entries.items():
            position = positions.get(cast("int", place[depth]))
            if position is not None:
                self.lines[(*path, position, *place[depth + 1 :])] = line


def _allows(rule: object) -> bool:
    """Whether a rule loosens something. What is no rule, or has no such verdict, is reported as that later."""
    return isinstance(rule, dict) and cast("Table", rule).get("verdict") == "allow"


def _at(values: Mapping[str, Any], path: tuple[str, ...]) -> object:
    value: object = values
    for part in path:
        value = cast("Table", value).get(part) if isinstance(value, Mapping) else None
    return value


def _ignored(place: SettingsFile, names: list[str], reason: str) -> Problem:
    return place.report("warning", f"ignored {shown_names(names)} ({reason})")


# To name one is a word on what it says then. What it says later, after something could have changed it, is
# nobody's word: it counts once a person agreed to that very content. A file outside the session's folders is
# as much theirs as their `config.toml`.


class NamedFiles:
    """What decides about those of one run."""

    def __init__(
        self, *, where: Folders, cwd: str, add_dirs: Sequence[str], is_acked: Callable[[WorkspaceFile], bool]
    ) -> None:
        self._own = tuple(map(os.path.realpath, where.all))
        self._cwd = cwd
        self._add_dirs = add_dirs
        self._is_acked = is_acked

    def judge(
        self,
        place: SettingsFile,
        parsed: ParsedFile,
        spoken_for: SpokenFor,
        *,
        used: list[WorkspaceFile],
        waiting: list[WorkspaceFile],
    ) -> Problem | None:
        """Why a file does not count that lies where a model can write; None where it counts. It is added to one of the
        two lists."""
        if not parsed.data or not self._can_be_written(place.path):
            return None
        file = named_file(place.path, parsed.data, spoken_for)
        if self._is_acked(file):
            used.append(file)
            return None
        waiting.append(file)
        clause = (
            "you have not agreed to what it says now, and it lies where a model can write. "
            f"Look at it and agree: bridle trust ack {shown(os.path.relpath(place.path, self._cwd))}"
        )
        return Problem(
            severity="error", source=place.source, path=place.path, problem=clause, reason="SettingsNotAgreed"
        )

    def _can_be_written(self, path: str) -> bool:
        """Whether its name, or what the name leads to, is in a folder of the session and not in Bridle's own."""
        folders = (repository_root(os.path.realpath(self._cwd)), *map(os.path.realpath, self._add_dirs))
        return any(
            is_beneath_any(one, folders) and not is_beneath_any(one, self._own)
            for one in (_named_place(path), os.path.realpath(path))
        )


def named_file(path: str, data: bytes, spoken_for: SpokenFor) -> WorkspaceFile:
    """The file as a person agrees to it or not, by its place in the repository it lies in."""
    place = _named_place(path)
    root = repository_root(os.path.dirname(place))
    shown_path = os.path.relpath(place, root)
    return WorkspaceFile(root=root, path=shown_path, shown=shown_path, data=data, spoken_for=spoken_for)


def _named_place(path: str) -> str:
    """The path without links on the way to the file: what it is itself decides its content."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)
