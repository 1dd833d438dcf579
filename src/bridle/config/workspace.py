"""Settings a file of a workspace may make. Whoever wrote the workspace wrote it, so it may tighten and decorate.

Three answers, and the default is the hardest:
  always      display settings, rules that deny or ask, and whatever is nowhere looser than the person's own choice
  after ack   what loads or runs something: only once the person has agreed to this very content. Hooks also need
              `--allow-project-hooks`, and each program its own consent before it starts
  never       everything else, above all keys, endpoints, trust, grants, a looser mode or sandbox, a higher budget
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias, cast

import msgspec

from bridle.base.fs.files import repository_root
from bridle.base.net.hosts import all_covered, host_rule
from bridle.config.problems import Problem, shown, shown_names, written
from bridle.config.setting_table import LineNumbers, SettingPath, Table, key_of
from bridle.config.settings_file import SettingsFile

ProjectMaySet: TypeAlias = Literal["always", "after ack", "never"]
SpokenFor: TypeAlias = Literal["", "now", "earlier"]
"""Whether somebody named a file by its path, as settings of their own: in this very run, or some time before."""


ALWAYS = ("ui", "disallowed_tools")
AFTER_ACK = (
    "allowed_tools",
    "model",
    "fallback_model",
    "effort",
    "instructions",
    "context",
    "hooks",
    "mcp_servers",
    "skills",
    "agent",
    "agent_mode",
    "agents",
)
AGENTS = "agents"

NOWHERE_LOOSER: Mapping[str, Mapping[object, tuple[object, ...]]] = {
    "mode": {
        "strict": ("strict",),
        "default": ("strict", "default", "safe", "plan"),
        "safe": ("safe",),
        "auto": ("strict", "default", "safe", "auto", "plan"),
        "yolo": ("strict", "default", "safe", "auto", "yolo", "plan"),
        "plan": ("safe", "plan"),
    },
    "sandbox.mode": {
        "off": ("off", "auto", "workspace-write", "read-only"),
        "auto": ("auto", "workspace-write", "read-only"),
        "workspace-write": ("workspace-write", "read-only"),
        "read-only": ("read-only",),
    },
    "sandbox.network": {
        "inherit": ("inherit", "filtered", "deny"),
        "filtered": ("filtered", "deny"),
        "deny": ("deny",),
    },
    "sandbox.required": {False: (False, True), True: (True,)},
    "permissions.persist": {True: (True, False), False: (False,)},
    "delegation.invocation": {
        "allow": ("allow", "ask", "deny"),
        "ask": ("ask", "deny"),
        "deny": ("deny",),
    },
    "paths": {
        "off": ("off", "workspace", "allowlist"),
        "workspace": ("workspace",),
        "allowlist": ("allowlist",),
    },
}
"""For each value in force, those that allow nothing it does not allow. `strict` and `safe` differ both ways."""

AT_MOST = (
    "budget.usd_per_session",
    "budget.max_steps",
    "goal.rounds",
    "delegation.max_depth",
    "delegation.max_steps",
    "delegation.parallel",
    "delegation.catalog_tokens",
    "sandbox.max_file_mib",
    "sandbox.max_processes",
    "sandbox.max_memory_mib",
)
COVERED_HOSTS = "sandbox.hosts"
FEWER = "tools.packs"
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


def answer(path: tuple[str, ...], value: object, own: Mapping[str, Any]) -> ProjectMaySet:
    """May a workspace file set this, where `own` is what holds without it? Rules are looked at one by one.

    A value that its setting would not take passes here, so that it is reported as the mistake it is.
    """
    key = key_of(path)
    if path[0] in ALWAYS:
        return "always"
    if path[0] == AGENTS and _at(own, path) and isinstance(value, dict):
        return "never"  # an agent of the person's has no second author
    if path[0] in AFTER_ACK:
        return "after ack"
    if key in NOWHERE_LOOSER:
        table = NOWHERE_LOOSER[key]
        in_force = table.get(_at(own, path), ())
        return "always" if value in in_force or not _is_choice(value, table) else "never"
    if key == FEWER:
        return "always" if _are_fewer(value, _at(own, path)) else "never"
    if key == COVERED_HOSTS:
        return "always" if _are_covered(value, _at(own, path)) else "never"
    if key in AT_MOST:
        most = _at(own, path)
        if most is None or not isinstance(value, (int, float)) or isinstance(value, bool):
            return "always"
        return "always" if value <= cast("float", most) else "never"
    return "never"


def sifted(
    values: Table,
    lines: LineNumbers,
    own: Mapping[str, Any],
    *,
    acked: bool = False,
    allow_hooks: bool = False,
) -> SiftedSettings:
    """Folded values of a workspace file, less what it may not set."""
    sieve = _Sieve(lines, own, acked, allow_hooks)
    return SiftedSettings(sieve.table(values, ()), sieve.lines, sieve.never, sieve.untrusted, sieve.unflagged)


def workspace_file(place: SettingsFile, project: str, data: bytes, values: Table) -> WorkspaceFile:
    """The file as a person agrees to it or not; `project` is the folder it is about, `values` are folded."""
    root = repository_root(project)
    return WorkspaceFile(
        root=root,
        path=os.path.relpath(place.path, root),
        shown=place.source,
        data=data,
        wishes=wishes(values),
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


def wishes(values: Table) -> tuple[str, ...]:
    """What folded values of a workspace file ask for beyond what they may have at once, each in a few words.

    Total: nothing was validated yet.
    """
    return tuple(_wishes(values))


def _wishes(values: Table) -> Iterator[str]:
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
        table = cast("Table", server) if isinstance(server, dict) else {}
        address = table.get("url")
        does = f"connect to {shown(str(address))}" if address else f"start {_launch(table)}"
        yield f"{does} (server {shown(name)})"
    agents = values.get(AGENTS)
    added = [name for name in cast("Table", agents) if name != "folders"] if isinstance(agents, dict) else []
    yield from (f"add the agent {shown(name)}" for name in added)
    told = {"allowed_tools": tools, "hooks": hooks, "mcp_servers": named, AGENTS: added}
    for name in AFTER_ACK:
        if name in values and not told.get(name):
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
    def __init__(self, lines: LineNumbers, own: Mapping[str, Any], acked: bool, allow_hooks: bool) -> None:
        self.lines = dict(lines)
        self.never: list[str] = []
        self.untrusted: list[str] = []
        self.unflagged: list[str] = []
        self._own = own
        self._acked = acked
        self._allow_hooks = allow_hooks

    def table(self, values: Table, place: tuple[str, ...]) -> Table:
        kept: Table = {}
        for name, value in values.items():
            path = (*place, name)
            if key_of(path) == RULES and isinstance(value, list):
                if rules := self._rules(cast("list[Any]", value), path):
                    kept[name] = rules
            elif isinstance(value, dict) and (path[0] not in AFTER_ACK or path == (AGENTS,)):
                if inner := self.table(cast("Table", value), path):
                    kept[name] = inner
            elif self._passes(path, cast("object", value)):
                kept[name] = value
        return kept

    def _passes(self, path: tuple[str, ...], value: object) -> bool:
        match answer(path, value, self._own):
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
                compared = key_of(path) in (*NOWHERE_LOOSER, *AT_MOST, COVERED_HOSTS, FEWER)
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


def _are_covered(value: object, own: object) -> bool:
    """Whether hosts are among those of the person. What are no hosts passes, to be reported as that."""
    try:
        wanted = [host_rule(text) for text in cast("list[str]", value)]
    except (ValueError, TypeError, AttributeError):
        return True
    try:
        return all_covered(wanted, map(host_rule, cast("list[str]", own or ())))
    except (ValueError, TypeError, AttributeError):
        return False


def _are_fewer(value: object, own: object) -> bool:
    """Whether these are among those of the person, who has all without a list. What are no texts is reported later."""
    if own is None or not isinstance(value, list):
        return True
    return all(one in cast("list[object]", own) for one in cast("list[object]", value))


def _is_choice(value: object, table: Mapping[object, object]) -> bool:
    return isinstance(value, (str, bool)) and value in table


def _at(values: Mapping[str, Any], path: tuple[str, ...]) -> object:
    value: object = values
    for part in path:
        value = cast("Table", value).get(part) if isinstance(value, Mapping) else None
    return value


def _ignored(place: SettingsFile, names: list[str], reason: str) -> Problem:
    return place.report("warning", f"ignored {shown_names(names)} ({reason})")
