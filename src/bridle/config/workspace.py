"""What a file inside a workspace may set. Whoever wrote the workspace wrote it, so it may tighten and decorate.

Three answers, and the default is the hardest:
  always      display settings, rules that deny or ask, and whatever is nowhere looser than the person's own choice
  after ack   what loads or runs something: only once the person has agreed to this very content
  never       everything else, above all keys, endpoints, trust, grants, a looser mode or sandbox, a higher budget
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from bridle.config.lines import Lines
from bridle.config.problems import Problem, shown_names, written
from bridle.config.reading import Place
from bridle.config.schema import Path, Table, key_of

Answer: TypeAlias = Literal["always", "after ack", "never"]

FOLDER = ".bridle"

ALWAYS = ("ui",)
AFTER_ACK = ("model", "fallback_model", "effort", "instructions", "context", "hooks", "mcp_servers")

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
    "sandbox.network": {"inherit": ("inherit", "deny"), "deny": ("deny",)},
    "sandbox.required": {False: (False, True), True: (True,)},
    "permissions.persist": {True: (True, False), False: (False,)},
    "paths": {
        "off": ("off", "workspace", "allowlist"),
        "workspace": ("workspace",),
        "allowlist": ("allowlist",),
    },
}
"""For each value in force, those that allow nothing it does not allow. `strict` and `safe` differ both ways."""

AT_MOST = ("budget.usd_per_session", "budget.max_steps")
RULES = "permissions.rules"


class Sifted(NamedTuple):
    """What a workspace file may say here, and the names of what it may not, by the reason."""

    values: Table
    lines: Lines
    never: list[str]
    untrusted: list[str]


def answer(path: tuple[str, ...], value: object, own: Mapping[str, Any]) -> Answer:
    """May a workspace file set this, where `own` is what holds without it? Rules are looked at one by one.

    A value that its setting would not take passes here, so that it is reported as the mistake it is.
    """
    key = key_of(path)
    if path[0] in ALWAYS:
        return "always"
    if path[0] in AFTER_ACK:
        return "after ack"
    if key in NOWHERE_LOOSER:
        table = NOWHERE_LOOSER[key]
        in_force = table.get(_at(own, path), ())
        return "always" if value in in_force or not _is_choice(value, table) else "never"
    if key in AT_MOST:
        most = _at(own, path)
        if most is None or not isinstance(value, (int, float)) or isinstance(value, bool):
            return "always"
        return "always" if value <= cast("float", most) else "never"
    return "never"


def sifted(values: Table, lines: Lines, own: Mapping[str, Any], *, acked: bool = False) -> Sifted:
    """Folded values of a workspace file, less what it may not set."""
    sieve = _Sieve(lines, own, acked)
    return Sifted(sieve.table(values, ()), sieve.lines, sieve.never, sieve.untrusted)


def ignored(place: Place, sifted: Sifted) -> list[Problem]:
    """Everything that was left out, named once."""
    found: list[Problem] = []
    if sifted.never:
        these = "this" if len(sifted.never) == 1 else "these"
        found.append(_ignored(place, sifted.never, f"only your own config may set {these}"))
    if sifted.untrusted:
        found.append(_ignored(place, sifted.untrusted, "not trusted yet"))
    return found


def project_folder(cwd: str) -> str | None:
    """The nearest `.bridle` from `cwd` up to the root of its repository, resolved; without a repository only `cwd`'s.

    A folder above the repository belongs to somebody else's decisions, so nobody looks there.
    """
    folder = os.path.realpath(cwd)
    root = repository_root(folder) or folder
    while True:
        if os.path.lexists(os.path.join(folder, FOLDER)):
            return os.path.join(folder, FOLDER)
        if folder == root:
            return None
        folder = os.path.dirname(folder)


def repository_root(folder: str) -> str | None:
    """The nearest folder at or above a resolved one that has `.git` in it."""
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder


class _Sieve:
    def __init__(self, lines: Lines, own: Mapping[str, Any], acked: bool) -> None:
        self.lines = dict(lines)
        self.never: list[str] = []
        self.untrusted: list[str] = []
        self._own = own
        self._acked = acked

    def table(self, values: Table, place: tuple[str, ...]) -> Table:
        kept: Table = {}
        for name, value in values.items():
            path = (*place, name)
            if key_of(path) == RULES and isinstance(value, list):
                if rules := self._rules(cast("list[Any]", value), path):
                    kept[name] = rules
            elif isinstance(value, dict) and path[0] not in AFTER_ACK:
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
                return self._acked
            case "never":
                compared = key_of(path) in NOWHERE_LOOSER or key_of(path) in AT_MOST
                self.never.append(f"{key_of(path)} = {written(value)}" if compared else key_of(path))
                return False

    def _rules(self, rules: list[Any], path: Path) -> list[Any]:
        """Rules that only tighten, with their lines; the rest waits for trust."""
        if self._acked:
            return rules
        kept = [(index, rule) for index, rule in enumerate(rules) if not _allows(rule)]
        if len(kept) < len(rules):
            self.untrusted.append("allow rules")
            self._move_lines({index: position for position, (index, _rule) in enumerate(kept)}, path)
        return [rule for _index, rule in kept]

    def _move_lines(self, positions: Mapping[int, int], path: Path) -> None:
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


def _is_choice(value: object, table: Mapping[object, object]) -> bool:
    return isinstance(value, (str, bool)) and value in table


def _at(values: Mapping[str, Any], path: tuple[str, ...]) -> object:
    value: object = values
    for part in path:
        value = cast("Table", value).get(part) if isinstance(value, Mapping) else None
    return value


def _ignored(place: Place, names: list[str], reason: str) -> Problem:
    return place.report("warning", f"ignored {shown_names(names)} ({reason})")
