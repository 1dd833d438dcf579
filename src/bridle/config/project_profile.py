"""A profile of a project: what of it may count once a person agreed to it, and what is said of the rest."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, cast

from bridle.config.folders import PROJECT_FOLDER
from bridle.config.origins import SettingsSource
from bridle.config.problems import Problem, shown
from bridle.config.profiles import PROJECT_CHOICE_NAME, ProfileFile, find_profiles, read_preset
from bridle.config.setting_table import Table
from bridle.config.settings_file import ParsedFile, SettingsFile
from bridle.config.value_check import folded, validated
from bridle.config.workspace import WorkspaceFile, ignored, sifted, workspace_file

_PIN = re.compile(r"[0-9a-fA-F]{64}")
_STARTED = frozenset({"command", "args", "env", "cwd"})
"""What has a say in what a server starts, be it one that the person's own settings name."""


class ProjectProfile:
    """One of them, as it was read. `own` are the settings it may not be looser than."""

    def __init__(
        self, file: ProfileFile, parsed: ParsedFile, own: Mapping[str, Any], *, allow_hooks: bool = False
    ) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._parsed = parsed
        self._own = own
        self._allow_hooks = allow_hooks
        self._names = folded(parsed.values, parsed.lines, file.place.report)
        shown_path = f"{PROJECT_FOLDER}/{os.path.relpath(file.path, file.project)}"
        named = SettingsFile(path=file.path, source=shown_path, foreign=True)
        self.workspace_file: WorkspaceFile = workspace_file(
            named, os.path.dirname(file.project), parsed.data, self._names.values
        )

    @property
    def is_broken(self) -> bool:
        """Whether it cannot be read at all: then there is nothing to agree to."""
        return not self._parsed.data

    def left_out(self, *, is_chosen: bool) -> list[Problem]:
        """What is said where nobody agreed to it. Somebody who chose it is not given another run than they wanted."""
        if self.is_broken:
            unusable = [self._file.place.error("cannot be used")] if is_chosen else []
            return [*self._parsed.problems, *unusable]
        place, path = self._file.place, self.workspace_file.shown
        if is_chosen:
            clause = f"is of this project and not trusted yet. Look at it and agree: bridle trust ack {shown(path)}"
            return [place.error(clause)]
        return [place.report("warning", f"ignored (not trusted yet: bridle trust ack {shown(path)})")]

    def source(self, *, name_it: bool) -> SettingsSource:
        """What it may set. With `name_it` it says itself which profile is in force."""
        place, report = self._file.place, self._file.place.report
        values = self._with_pinned(self._names.values)
        allowed = sifted(values, self._names.lines, self._own, acked=True, allow_hooks=self._allow_hooks)
        kept = validated(allowed.values, allowed.lines, report)
        self.problems += [
            *self._parsed.problems,
            *self._names.problems,
            *ignored(place, allowed),
            *kept.problems,
        ]
        named = {"profile": PROJECT_CHOICE_NAME} if name_it else {}
        return SettingsSource(
            "project", place.source, {**kept.values, **named}, path=place.path, lines=kept.lines
        )

    def _with_pinned(self, values: Table) -> Table:
        """Without the servers that would start a program of which nobody says what it is."""
        servers = values.get("mcp_servers")
        if not isinstance(servers, dict):
            return values
        kept: Table = {}
        for name, server in cast("Table", servers).items():
            table = cast("Table", server) if isinstance(server, dict) else {}
            if not _STARTED.isdisjoint(table) and not _is_pin(table.get("sha256")):
                why = "a profile of a project names the sha256 of what it starts"
                clause = f"ignored mcp_servers.{shown(name)} ({why})"
                line = self._names.lines.get(("mcp_servers", name))
                self.problems.append(self._file.place.report("warning", clause, line, f"mcp_servers.{name}"))
            else:
                kept[name] = server
        return {**values, "mcp_servers": kept}


def project_profile_files(config_folder: str, project: str | None) -> list[WorkspaceFile]:
    """The profiles of a project that can be chosen by name, each as a person agrees to it or not."""
    if project is None:
        return []
    files = [file for file in find_profiles(config_folder, project) if file.scope == "project"]
    found = [ProjectProfile(file, read_preset(file).parsed, {}) for file in files]
    return [one.workspace_file for one in found if not one.is_broken]


def _is_pin(value: object) -> bool:
    return isinstance(value, str) and _PIN.fullmatch(value) is not None
