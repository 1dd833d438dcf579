"""The words of a profile file as settings: its header checked, the names of other harnesses under ours. Pure.

A profile may use our own settings, and beside them the short form that lists servers and names packs:

    default_model = "work:large"             model
    prompt_header = "…"                      instructions
    context_sources = ["AGENTS.md"]          context.sources
    skill_packs = ["team/skills"]            skills.folders
    tool_packs = ["read", "web"]             tools.packs
    mcp_servers = [{ name, cmd, args, … }]   mcp_servers.NAME
    permissions = "rules/team.toml"          the settings of permissions that stand in that file
    allow_project_hooks = true               hook_defaults.allow_project
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from bridle.config.problems import Problem, shown
from bridle.config.setting_table import LineNumbers, SettingPath, Table
from bridle.config.settings_file import ParsedFile, ProfileScope, SettingsFile

SCHEMA_VERSION = 1
HEADER = ("schema_version", "name", "about")
"""Keys of a profile that are about the profile and not settings."""
MOVED: Mapping[str, SettingPath] = {
    "context_sources": ("context", "sources"),
    "skill_packs": ("skills", "folders"),
    "tool_packs": ("tools", "packs"),
    "allow_project_hooks": ("hook_defaults", "allow_project"),
}
"""Keys of the short form that stand elsewhere among our settings."""
IN_PERMISSIONS = ("mode", "permissions", "allowed_tools", "disallowed_tools")
"""What a file of permissions may set."""
_SERVERS = "mcp_servers"


class WrittenProfile(msgspec.Struct, frozen=True):
    """What a profile says under the names of our settings, and the file it names for its permissions."""

    parsed: ParsedFile
    permissions: SettingsFile | None = None


def as_settings(place: SettingsFile, parsed: ParsedFile, *, scope: ProfileScope) -> WrittenProfile:
    """The settings of a profile. One of a version we do not know means nothing to us: it says so and sets nothing."""
    version = parsed.values.get("schema_version", SCHEMA_VERSION)
    if type(version) is not int or not 0 < version <= SCHEMA_VERSION:
        line = parsed.lines.get(("schema_version",))
        clause = (
            f"schema_version = {shown(str(version))} is not one this Bridle knows (up to {SCHEMA_VERSION})"
        )
        return WrittenProfile(ParsedFile({}, {}, [*parsed.problems, place.error(clause, line)], parsed.data))
    form = _Form(place, parsed)
    form.move()
    form.name_servers()
    file = form.permissions_file(scope)
    return WrittenProfile(ParsedFile(form.values, form.lines, form.problems, parsed.data), file)


class _Form:
    def __init__(self, place: SettingsFile, parsed: ParsedFile) -> None:
        self.values: Table = {key: value for key, value in parsed.values.items() if key not in HEADER}
        self.lines: LineNumbers = dict(parsed.lines)
        self.problems: list[Problem] = list(parsed.problems)
        self._place = place

    def move(self) -> None:
        for key, path in MOVED.items():
            if key not in self.values:
                continue
            section, name = cast("tuple[str, str]", path)
            value, line = self.values.pop(key), self.lines.get((key,))
            below = self.values.setdefault(section, {})
            if not isinstance(below, dict) or name in below:
                clause = f"{key} and {section}.{name} are one setting; write one of them"
                self.problems.append(self._place.error(clause, line))
                continue
            self.values[section] = {**cast("Table", below), name: value}
            self._move_lines((key,), path)

    def name_servers(self) -> None:
        """A list of servers as the table of servers that settings have."""
        listed = self.values.get(_SERVERS)
        if not isinstance(listed, list):
            return
        named: Table = {}
        for at, entry in enumerate(cast("list[object]", listed)):
            table = cast("Table", entry) if isinstance(entry, dict) else {}
            name, line = table.get("name"), self.lines.get((_SERVERS, at))
            if not isinstance(name, str) or not name:
                clause = f"server {at + 1} of {_SERVERS} has no name"
                self.problems.append(self._place.error(clause, line))
            elif name in named:
                clause = f'there are two servers "{shown(name)}"'
                self.problems.append(self._place.error(clause, line))
            else:
                named[name] = dict(self._server(table))
                for key in table:
                    self._move_lines(
                        (_SERVERS, at, key), (_SERVERS, name, "command" if key == "cmd" else key)
                    )
                if line is not None:
                    self.lines[(_SERVERS, name)] = line
        self.values[_SERVERS] = named

    def _server(self, table: Table) -> Iterator[tuple[str, Any]]:
        for key, value in table.items():
            if key == "cmd":  # one program, whatever stands in its path
                yield "command", [value] if isinstance(value, str) else value
            elif key != "name":
                yield key, value

    def permissions_file(self, scope: ProfileScope) -> SettingsFile | None:
        """The file that is named in place of permissions. A project has all it wants in the file people agree to."""
        named = self.values.get("permissions")
        if not isinstance(named, str):
            return None
        del self.values["permissions"]
        line = self.lines.get(("permissions",))
        if scope == "project":
            clause = (
                "ignored permissions (a profile of a project has its rules in itself: [[permissions.rules]])"
            )
            self.problems.append(self._place.report("warning", clause, line, "permissions"))
            return None
        path = os.path.join(os.path.dirname(self._place.path), os.path.expanduser(named))
        if not os.path.lexists(path):
            clause = f'permissions names "{shown(named)}", which is not there'
            self.problems.append(self._place.error(clause, line))
            return None
        return SettingsFile(path=os.path.abspath(path), source=f"{self._place.source}: {shown(named)}")

    def _move_lines(self, source: SettingPath, to: SettingPath) -> None:
        depth = len(source)
        for path in [path for path in self.lines if path[:depth] == source]:
            self.lines[(*to, *path[depth:])] = self.lines.pop(path)


def only_permissions(place: SettingsFile, parsed: ParsedFile) -> ParsedFile:
    """What a file of permissions says, less whatever else stands in it, which is named."""
    others = [key for key in parsed.values if key not in (*IN_PERMISSIONS, *HEADER)]
    values = {key: value for key, value in parsed.values.items() if key in IN_PERMISSIONS}
    problems = [
        place.report(
            "warning",
            f"ignored {shown(key)} (a file of permissions sets {', '.join(IN_PERMISSIONS)})",
            parsed.lines.get((key,)),
            key,
        )
        for key in others
    ]
    return ParsedFile(values, parsed.lines, [*parsed.problems, *problems], parsed.data)
